#pragma once

#include "run/probe_hosts.hpp"
#include "trueup/transport.hpp"

namespace trueup {

/// Which transport reaches a host. The transports outlive the run.
using TransportFor = std::function<Transport&(const Host&)>;

/// probe_hosts() and call_hosts() over transports of the caller's choice.
std::optional<Error> probe_hosts_over(const TransportFor& transport_for, const std::vector<Host>& hosts,
                                      const Playbook& playbook, const ProbingOptions& options,
                                      const OnHost& on_host, const OnProgress& on_progress);
std::optional<Error> call_hosts_over(const TransportFor& transport_for, const std::vector<Host>& hosts,
                                     const std::vector<Call>& first, const ProbingOptions& options,
                                     const OnAnswer& on_answer, const OnProgress& on_progress);

}  // namespace trueup
