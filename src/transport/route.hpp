#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/ssh_config.hpp"
#include "trueup/result.hpp"

namespace trueup::ssh {

/// Who runs this program and where: what tokens of ssh_config stand for. `environment`: empty for a variable that is
/// not set.
struct LocalSide {
  std::string user;
  std::string home;
  std::string host;  ///< as gethostname(2) says
  unsigned uid = 0;
  std::function<std::optional<std::string>(const std::string&)> environment = {};
};

/// `[user@]host[:port]`, one hop of ProxyJump.
struct Hop {
  std::string host;
  std::optional<std::string> user;
  std::optional<std::uint16_t> port;

  friend bool operator==(const Hop&, const Hop&) = default;
};
/// `ssh -W` would be asked for it in this spelling.
std::string to_string(const Hop& hop);

enum class AddressFamily { any, ipv4, ipv6 };

/// How a host is reached, as far as ssh_config(5) decides it: tokens filled in, paths whole.
struct Route {
  std::string address;  ///< lower case
  std::uint16_t port = 22;
  std::string user;
  std::vector<std::string> keys;  ///< private key files
  bool keys_said = false;         ///< false: the usual ones
  bool identities_only = false;
  std::optional<std::string> agent_socket;  ///< absent: SSH_AUTH_SOCK's; empty: none
  std::optional<std::vector<std::string>> user_known_hosts, global_known_hosts;  ///< absent: the usual ones
  std::string host_key_alias;  ///< the name in known_hosts; empty: address and port
  bool hash_known_hosts = false;
  std::optional<std::chrono::milliseconds> connect_timeout;
  int connection_attempts = 1;
  AddressFamily family = AddressFamily::any;
  std::string bind_address;
  std::string proxy_command;             ///< for the user's shell; empty: none
  std::vector<Hop> jumps;                ///< in the order in which they are passed
  std::map<Keyword, SourcePos> said_at;  ///< what files said, and where

  /// `HostName from ~/.ssh/config:3, Port from ~/.ssh/config:4`; of those that no file said: nothing.
  std::string origins(std::initializer_list<Keyword> keywords) const;
};

/// Fills in tokens, `~` and `${VARIABLE}`. Errors, each with the place: a token that the keyword does not have, a
/// variable that is not set, a name or hop that cannot be one, a host that wants no login by key.
Result<Route> make_route(const HostConfig& config, const LocalSide& local);

/// hops ::= hop (',' hop)*     hop ::= ['ssh://'] [user '@'] host [':' port]
Result<std::vector<Hop>> parse_hops(std::string_view text);

}  // namespace trueup::ssh
