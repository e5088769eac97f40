#pragma once

#include "run/probe_hosts.hpp"
#include "transport/ssh.hpp"

namespace trueup {

/// What a run's options say to the transport.
SshOptions ssh_options(const ProbingOptions& options);

}  // namespace trueup
