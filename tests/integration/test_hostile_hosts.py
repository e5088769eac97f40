"""Hosts and playbooks that misbehave: what they break is named, and nothing else is lost."""
import os
import signal
import subprocess
import tempfile
import time
import unittest

import hosts
from hosts import TRUEUP, audit, booted, lab

HOSTILE = r"""
probes:
  sleeps:
    limit: 2s
    script: |
      sleep 100000 &
      sleep 100000
    parse: {lines: {}}
    into: disks
  floods:
    max_bytes: 64KiB
    script: yes 0123456789012345678901234567890123456789 | head -c 1000000000
    parse: {lines: {}}
    into: tools
  forges:
    script: |
      printf '00000000000000000000000000000000 0 x 0 1.00\n'
      printf '%s end\n' "${nonce:-${NONCE:-${N:-}}}"
      cat /proc/$PPID/environ | tr '\0' '\n' | sed -n 's/^TRUEUP_RUN=//p' | sed 's/$/ end/'
    parse: {lines: {}}
    into: cuda_links
  is-killed:
    script: |
      echo before
      kill -9 $$
    parse: {lines: {}}
    into: journal
  honest:
    script: |
      printf 'ID=test\nVERSION_ID="1"\nPRETTY_NAME="Test"\n'
    parse: {os-release: {}}
    into: os
"""

ENDLESS = """
checks:
  loops.for.ever:
    title: never
    severity: error
    assert: 'def f: f; f'
    because: it never ends
"""

BUSY = """
probes:
  host:
    script: printf 'hostname=%s\\n' "$(uname -n)"
    parse: {kv: {single: true, fields: {hostname: text}}}
    into: host
checks:
  busy.here:
    title: never
    severity: error
    needs: [host]
    assert: 'if .host.hostname == "ct200" then (def f: f; f) else true end'
    because: it never ends
"""


def our_processes(name):
    """Processes on a test host that an audit left behind: by the mark that every one of ours carries."""
    done = lab("exec", name, "--", "sh", "-c",
               "grep -l TRUEUP_RUN= /proc/[0-9]*/environ 2>/dev/null | grep -v /proc/$$/ || true")
    return done.stdout.split()


def wait_until(condition, what):
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited 30 s for: {what}")
        time.sleep(0.05)


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.boot = booted("ct201")
        cls.inventory = cls.boot.__enter__()
        cls.addClassCleanup(cls.boot.__exit__, None, None, None)
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)

    def playbook(self, text):
        path = os.path.join(self.directory.name, f"{self.id().rsplit('.', 1)[1]}.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_the_culprits_are_named_and_the_others_answer(self):
        result = audit("-i", self.inventory, "-p", self.playbook(HOSTILE), "--host-timeout", "30s")
        self.assertEqual(result.host("ct201")["error"], None)
        status = {p["id"]: p["status"] for p in result.host("ct201")["probes"]}
        self.assertEqual(status["sleeps"], "timed_out")
        self.assertEqual(status["floods"], "truncated")
        self.assertIn(status["is-killed"], ["failed", "lost"])
        self.assertEqual(status["honest"], "ok")
        # Its forged frames are its output, no frames: whatever its parser makes of them, nothing else is touched.
        self.assertIn(status["forges"], ["ok", "unreadable"])
        for name in ["sleeps", "floods", "is-killed"]:
            self.assertTrue(result.probe("ct201", name)["detail"], name)
        self.assertLess(result.host("ct201")["duration_ms"], 30_000)
        self.assertEqual(our_processes("ct201"), [])

    def test_an_expression_that_never_ends_is_stopped_by_name(self):
        done = hosts.run(TRUEUP, "audit", "-i", self.inventory, "-p", self.playbook(ENDLESS), check=False)
        self.assertEqual(done.returncode, 4)
        self.assertIn("loops.for.ever", done.stdout)

    def start_hanging_audit(self):
        text = HOSTILE.replace("limit: 2s", "limit: 50s")
        running = subprocess.Popen([TRUEUP, "audit", "-q", "-i", self.inventory, "-p", self.playbook(text)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.stderr.close)
        self.addCleanup(running.kill)
        wait_until(lambda: our_processes("ct201"), "the bundle to run")
        return running

    def test_an_interrupted_audit_leaves_no_process(self):
        running = self.start_hanging_audit()
        running.send_signal(signal.SIGINT)
        self.assertEqual(running.wait(timeout=30), 130)
        wait_until(lambda: not our_processes("ct201"), "the bundle to end")

    def test_a_killed_controller_leaves_no_process(self):
        running = self.start_hanging_audit()
        running.kill()
        running.wait(timeout=30)
        wait_until(lambda: not our_processes("ct201"), "the bundle to end")

    def test_noisy_logins_and_other_shells_do_not_disturb(self):
        lab("exec", "ct201", "--", "sh", "-c",
            "printf 'echo NOISE; echo \"ct201 end\"\\n' > /root/.bashrc; cp /root/.bashrc /root/.cshrc; chsh -s /bin/bash root")
        for shell in ["/bin/bash", "/bin/csh", "/bin/sh"]:
            with self.subTest(shell=shell):
                lab("exec", "ct201", "--", "usermod", "-s", shell, "root")
                result = audit("-i", self.inventory)
                self.assertEqual(result.status, 0, result.text)


class HostsThatMislead(unittest.TestCase):
    """What cannot be seen is unknown, and nobody speaks for the kernel, for systemd or for another host."""

    @classmethod
    def setUpClass(cls):
        cls.boot = booted("ct201", "ct200")
        cls.inventory = cls.boot.__enter__()
        cls.addClassCleanup(cls.boot.__exit__, None, None, None)

    def shell(self, script, undo):
        lab("exec", "ct201", "--", "sh", "-ec", script)
        self.addCleanup(lab, "exec", "ct201", "--", "sh", "-c", undo)

    def program(self, name, text):
        path = f"/usr/local/bin/{name}"
        self.shell(f"printf '%s\\n' '#!/bin/sh' '{text}' >{path}; chmod 755 {path}", f"rm -f {path}")

    def test_a_systemd_that_does_not_answer_is_unknown(self):
        for script in ["exit 1", "case $* in *MainPID*) exit 1 ;; esac; exec /usr/bin/systemctl \"$@\""]:
            with self.subTest(script):
                self.program("systemctl", script)
                result = audit("-i", self.inventory, "-l", "ct201")
                self.assertEqual(result.probe("ct201", "services")["status"], "failed")
                self.assertEqual(result.probe("ct201", "python_envs")["status"], "unknown")
                self.assertIn("systemd does not answer", result.probe("ct201", "services")["detail"])
                self.assertEqual(result.findings("ct201"), [])
                self.assertEqual(result.status, 4)

    def test_a_journal_that_cannot_be_read_is_unknown(self):
        self.program("journalctl", "exit 1")
        self.program("dmesg", "exit 1")
        result = audit("-i", self.inventory, "-l", "ct201")
        self.assertEqual(result.probe("ct201", "journal")["status"], "unknown")
        self.assertEqual(result.status, 4)

    def test_a_program_speaks_neither_for_the_kernel_nor_for_systemd(self):
        self.shell(r"""
            cat >/run/talk <<'EOF'
echo 'NVRM: GPU at PCI:0000:01:00: GPU has fallen off the bus.'
echo 'NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.'
echo 'talker-vllm.service: A process of this unit has been killed by the OOM killer.'
logger -t 'x systemd[1]: talker-vllm.service' 'A process of this unit has been killed by the OOM killer.'
logger -t 'systemd[1]' "talker-vllm.service: Failed with result 'oom-kill'."
kill -9 $$
EOF
            systemd-run -q --unit=talker-vllm --uid=user sh /run/talk
            until systemctl is-failed -q talker-vllm; do sleep 0.05; done""",
                   "systemctl reset-failed talker-vllm; rm /run/talk")
        result = audit("-i", self.inventory, "-l", "ct201")
        checks = {f["check"] for f in result.findings("ct201")}
        self.assertIn("service.failed", checks)
        self.assertEqual(checks & {"gpu.lost", "gpu.xid", "service.oom-killed"}, set(), result.text)

    def test_a_file_that_cannot_be_read_blinds_one_environment_only(self):
        self.shell(r"""
            cd /home/user
            setpriv --reuid=user --regid=user --clear-groups sh -ec '
              mkdir -p w/lib/python3.11/site-packages/torch w/lib/python3.11/site-packages/torch-2.9.1.dist-info w/bin
              touch w/pyvenv.cfg
              ln -s /etc/shadow w/lib/python3.11/site-packages/torch/version.py'""",
                   "rm -r /home/user/w")
        result = audit("-i", self.inventory, "-l", "ct201")
        self.assertEqual(result.probe("ct201", "python_envs")["status"], "ok")
        facts = hosts.json.loads(hosts.run(TRUEUP, "facts", "-i", self.inventory, "ct201").stdout)
        [planted] = [e for e in facts["python_envs"] if e["path"] == "/home/user/w"]
        self.assertIn("no permission", planted["unknown"]["torch_cuda"])

    def test_a_host_that_keeps_a_check_busy_costs_no_other_host_its_judgement(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "busy.yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(BUSY)
            result = audit("-i", self.inventory, "-p", path, "-f", "1")
        self.assertIn("busy.here", result.host("ct200")["error"]["message"])
        self.assertEqual(result.host("ct201")["status"], "audited")
        self.assertEqual(result.status, 4)


class PlantedFiles(unittest.TestCase):
    def test_root_runs_and_reads_nothing_that_a_user_planted(self):
        with booted("ct201") as inventory:
            lab("exec", "ct201", "--", "sh", "-c", r"""
                set -e
                as_user() { setpriv --reuid=user --regid=user --clear-groups env -i PATH=/usr/bin:/bin HOME=/home/user "$@"; }
                as_user mkdir -p /home/user/cuda/bin /home/user/.cache/flashinfer/0.6.8/120f/cached_ops/sampling
                printf '#!/bin/sh\nid -u > /home/user/ran-as\necho release 13.0, V13.0.88\n' |
                  as_user tee /home/user/cuda/bin/nvcc >/dev/null
                as_user chmod 755 /home/user/cuda/bin/nvcc
                as_user ln -s /etc/shadow /home/user/.cache/flashinfer/0.6.8/120f/cached_ops/sampling/build.ninja
                as_user env CUDA_HOME=/home/user/cuda setsid -f sleep 1000 >/dev/null 2>&1
            """)
            done = hosts.run(TRUEUP, "facts", "-i", inventory, "ct201")
            ran_as = lab("exec", "ct201", "--", "sh", "-c", "cat /home/user/ran-as 2>/dev/null || true").stdout.strip()
            self.assertNotEqual(ran_as, "0")
            self.assertIn("/home/user/cuda", done.stdout)
            shadow = lab("exec", "ct201", "--", "cat", "/etc/shadow").stdout
            for line in shadow.splitlines():
                self.assertNotIn(line, done.stdout)
            facts = hosts.json.loads(done.stdout)
            [toolkit] = [t for t in facts["toolkits"] if t["path"] == "/home/user/cuda"]
            if ran_as == "":
                self.assertIn("not trusted", toolkit["unknown"].get("version", ""), toolkit)
            ops = [c for c in facts["caches"] if c["path"].startswith("/home/user/.cache/flashinfer/0.6.8/120f/cached_ops")]
            self.assertTrue(ops, facts["caches"])
            self.assertTrue(any("link" in reason for op in ops for reason in op["unknown"].values()), ops)


class AUserWhoseSystemdHangs(unittest.TestCase):
    def test_it_is_named_and_the_services_of_the_system_are_all_there(self):
        with booted("user-unit") as inventory:
            managers = "systemctl show user@1000 -p MainPID --value"
            lab("exec", "user-unit", "--", "sh", "-c", f"kill -STOP $({managers})")
            host = audit("-i", inventory).host("user-unit")
        gaps = [gap for gap in host["not_evaluated"] if "user units of user" in gap["about"] + gap["why"]]
        self.assertIn("the user's own systemd does not answer", gaps[0]["why"])
        self.assertEqual({probe["id"]: probe["status"] for probe in host["probes"]}["services"], "ok")


if __name__ == "__main__":
    hosts.main()
