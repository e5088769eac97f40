#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/secret.hpp"
#include "trueup/inventory.hpp"
#include "trueup/playbook.hpp"
#include "trueup/probing.hpp"

namespace trueup {

struct ProbingOptions {
  std::size_t forks = 50;                         ///< hosts in flight
  std::chrono::milliseconds connect_timeout{10'000};  ///< TCP, handshake and authentication, each
  std::chrono::milliseconds host_timeout{60'000};     ///< everything on one host
  std::optional<std::chrono::milliseconds> deadline;  ///< of the whole run
  std::string default_user;                       ///< where the inventory names none
  std::string home;                               ///< the controller user's, for default keys and known_hosts
  std::optional<Secret> become_password;
};

/// So many bytes of the system's generator, as hex digits: nonces and tags.
std::string random_hex(std::size_t bytes);

/// What came of one host.
struct HostProbing {
  std::size_t host = 0;                 ///< index into the hosts given
  std::optional<Error> error;           ///< not reached or cut off; context names the phase, hint says what to do
  std::vector<ProbeOutput> outputs;     ///< one for each probe, also when cut off; empty when never reached
  std::chrono::milliseconds duration{0};
};

struct Progress {
  std::size_t hosts = 0, done = 0, failed = 0, running = 0;
  std::string slowest_host;             ///< longest in flight
  std::string slowest_doing;            ///< its phase, or the probes it waits for
};

using OnHost = std::function<std::optional<Error>(HostProbing)>;

/// Connects to each host, sends its bundle(s), gathers outputs. Calls `on_host` once per host, on this thread, in the order
/// in which they end, and `on_progress` a few times a second. An error that `on_host` returns stops the run. SIGINT and SIGTERM stop admission, end what runs, and report the
/// rest as interrupted. Returns why the run ended early, if it did.
std::optional<Error> probe_hosts(const std::vector<Host>& hosts, const Playbook& playbook, const ProbingOptions& options,
                                 const OnHost& on_host,
                                 const std::function<void(const Progress&)>& on_progress);

}  // namespace trueup
