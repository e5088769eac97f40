#!/bin/sh
# trueup audit -i exec:examples/ansible/program.sh
echo '{"inference": {"hosts": ["gpu001", "gpu002"]}, "_meta": {"hostvars": {}}}'
