#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "transport/connection.hpp"

namespace trueup::ssh {

struct Credentials {
  std::string user;
  std::vector<std::string> keys;  ///< private key files
  bool keys_are_default = false;  ///< missing ones are not worth a word
  std::string agent_socket;       ///< empty: no agent
  bool only_these = false;        ///< of the agent's keys those alone that `keys` has too
};

/// Logs in by public key: the agent's keys first, those of `keys` foremost among them, then the key files. Errors:
/// auth, with what was tried, what was not and why, and what the host would accept. Begins phases of its own.
Awaitable<Result<void>> authenticate(Connection& connection, Credentials credentials, std::chrono::milliseconds limit);

}  // namespace trueup::ssh
