#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "transport/known_hosts.hpp"
#include "trueup/transport.hpp"

namespace trueup {

struct SshOptions {
  std::string user;          ///< where the inventory names none
  std::string home;          ///< the controller user's: default keys and known_hosts; empty: there are none
  std::string agent_socket;  ///< SSH_AUTH_SOCK; empty: no agent
  std::chrono::milliseconds connect_timeout{10'000};  ///< for each phase up to the login
};

/// SSH by libssh2. Host keys are checked strictly, before any credential is sent.
class SshTransport final : public Transport {
 public:
  explicit SshTransport(SshOptions options);
  Awaitable<Result<std::unique_ptr<Session>>> connect(const Host& host, Watch& watch) override;

 private:
  SshOptions options_;
  /// By their paths: most hosts of a run have the same ones, read once.
  std::map<std::vector<std::string>, std::vector<ssh::KnownHostsFile>> known_hosts_;
};

}  // namespace trueup
