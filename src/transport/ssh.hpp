#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/bastion.hpp"
#include "transport/connection.hpp"
#include "transport/known_hosts.hpp"
#include "transport/route.hpp"
#include "transport/ssh_config.hpp"
#include "trueup/transport.hpp"

namespace trueup {

struct SshOptions {
  std::string user;          ///< where neither the inventory nor ssh_config names one
  std::string home;          ///< the controller user's: default keys and known_hosts; empty: there are none
  std::string agent_socket;  ///< SSH_AUTH_SOCK; empty: no agent
  std::chrono::milliseconds connect_timeout{10'000};  ///< for each phase up to the login
  bool connect_timeout_wins = false;                  ///< over ssh_config's ConnectTimeout
  std::shared_ptr<const ssh::SshConfig> config = {};  ///< null: no ssh_config
  std::string jump = {};  ///< hops instead of ssh_config's ProxyJump, for hosts and not for bastions
  /// Takes the key of a host of which none is known, and writes it down. Never for a run that changes hosts.
  bool accept_new_host_keys = false;
  std::function<void(const std::string&)> note = {};  ///< for people; null: nobody listens
};

/// What one login needs, inventory and ssh_config together.
struct SshTarget {
  std::string name;  ///< as people call it
  ssh::Route route;
  std::vector<std::string> keys;  ///< private key files
  bool keys_are_default = false;
  std::vector<std::string> known_hosts;
};

/// The inventory's words come before ssh_config's, which is asked for `host.address`. Errors: those of make_route();
/// a ProxyJump that leads back to where it came from.
Result<SshTarget> ssh_target(const Host& host, const SshOptions& options);
/// What ssh_config has that is not done, of `host` and the hosts on the way to it.
std::vector<ssh::ConfigNote> ssh_notes(const Host& host, const SshOptions& options);

/// SSH by libssh2. Host keys are checked strictly, before any credential is sent.
class SshTransport final : public Transport {
 public:
  explicit SshTransport(SshOptions options);
  Awaitable<Result<std::unique_ptr<Session>>> connect(const Host& host, Watch& watch) override;

 private:
  using Reached = tl::expected<std::unique_ptr<ssh::Connection>, ssh::Connection::Failure>;

  Awaitable<Result<std::unique_ptr<ssh::Connection>>> log_in(SshTarget target, Watch& watch);
  Awaitable<Reached> reach(const SshTarget& target, const ssh::KnownKeys& known, std::chrono::milliseconds limit,
                           Watch& watch);
  Awaitable<tl::expected<void, ssh::Connection::Failure>> connect_stream(ssh::Connection& connection,
                                                                         const SshTarget& target,
                                                                         std::chrono::milliseconds limit, Watch& watch);
  Result<void> check_host_key(const SshTarget& target, const std::vector<ssh::KnownHostsFile>& files,
                              const ssh::KnownKeys& known, const std::string& key);
  Result<void> accept_host_key(const SshTarget& target, const std::string& key);
  std::vector<ssh::KnownHostsFile>& known_hosts_of(const SshTarget& target);
  Result<std::shared_ptr<ssh::BastionPool>> pool_for(std::span<const ssh::Hop> hops);

  SshOptions options_;
  /// By their paths: most hosts of a run have the same ones, read once.
  std::map<std::vector<std::string>, std::vector<ssh::KnownHostsFile>> known_hosts_;
  std::map<std::string, std::shared_ptr<ssh::BastionPool>> pools_;  ///< by the hops that lead there
};

}  // namespace trueup
