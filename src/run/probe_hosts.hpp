#pragma once

#include <csignal>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/secret.hpp"
#include "probe/bundle.hpp"
#include "trueup/inventory.hpp"
#include "trueup/playbook.hpp"
#include "trueup/probing.hpp"

namespace trueup {

namespace ssh {
class SshConfig;
}

struct ProbingOptions {
  std::size_t forks = 50;                         ///< hosts in flight
  std::chrono::milliseconds connect_timeout{10'000};  ///< TCP, handshake and authentication, each
  std::chrono::milliseconds host_timeout{60'000};     ///< everything on one host
  std::optional<std::chrono::milliseconds> deadline;  ///< of the whole run
  std::string default_user;                       ///< where the inventory names none
  std::string home;                               ///< the controller user's, for default keys and known_hosts
  std::shared_ptr<const ssh::SshConfig> ssh_config;  ///< null: none
  std::string jump;                               ///< hops instead of ssh_config's ProxyJump; empty: its own
  bool connect_timeout_given = false;             ///< connect_timeout outweighs ssh_config's
  bool accept_new_host_keys = false;              ///< only for runs that change nothing
  std::function<void(const std::string&)> note;   ///< told while it runs, for people
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

using OnProgress = std::function<void(const Progress&)>;

using OnHost = std::function<std::optional<Error>(HostProbing)>;

/// Connects to each host, sends its bundle(s), gathers outputs. Calls `on_host` once per host, on this thread, in the
/// order in which they end, and `on_progress` a few times a second. An error that `on_host` returns stops the run.
/// SIGINT and SIGTERM stop admission, end what runs, and report the rest as interrupted. Returns why the run ended
/// early, if it did.
std::optional<Error> probe_hosts(const std::vector<Host>& hosts, const Playbook& playbook,
                                 const ProbingOptions& options, const OnHost& on_host, const OnProgress& on_progress);

/// The probes of a playbook as they travel: together where one account does it all, else by level. Made once for all
/// hosts that get the same.
struct ProbeLoad {
  explicit ProbeLoad(const Playbook& playbook);
  std::vector<std::string> order;
  std::vector<Probe> together, for_host, for_login;
  std::vector<Signature> signatures;
  /// Of one of the three; made when first asked for.
  const PackedBundle& bundle_of(const std::vector<Probe>& probes) const;

 private:
  mutable std::array<std::optional<PackedBundle>, 3> bundles_;
};

/// What one host is asked.
struct Call {
  std::shared_ptr<const ProbeLoad> load;
  std::chrono::milliseconds pause{0};                     ///< before it is asked; holds no place among those in flight
  std::optional<std::chrono::milliseconds> host_timeout;  ///< instead of that of the options
};

/// What a host is asked after it answered; nothing: no more. An error stops the run. After a stop nothing more is
/// asked, whatever is returned.
using OnAnswer = std::function<Result<std::optional<Call>>(HostProbing)>;

/// As probe_hosts(), with one call after another to each host, each a login of its own: `first` holds those that they
/// begin with. A host that is stopped between two calls answers with the error that stopped it.
std::optional<Error> call_hosts(const std::vector<Host>& hosts, const std::vector<Call>& first,
                                const ProbingOptions& options, const OnAnswer& on_answer,
                                const OnProgress& on_progress);

/// SIGINT, SIGTERM and SIGHUP wait while it lives, for the next probe_hosts() or call_hosts() to answer them: between
/// two of these the program has things to put in order.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  /// One waits to be answered.
  static bool is_pending();

 private:
  sigset_t before_;
};

}  // namespace trueup
