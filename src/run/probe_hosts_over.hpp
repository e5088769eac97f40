#pragma once

#include "run/probe_hosts.hpp"
#include "trueup/transport.hpp"

namespace trueup {

/// Which transport reaches a host. The transports outlive the run.
using TransportFor = std::function<Transport&(const Host&)>;

/// probe_hosts() over transports of the caller's choice.
std::optional<Error> probe_hosts_over(const TransportFor& transport_for, const std::vector<Host>& hosts,
                                      const Playbook& playbook, const ProbingOptions& options,
                                      const OnHost& on_host,
                                      const std::function<void(const Progress&)>& on_progress);

}  // namespace trueup
