#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "trueup/transport.hpp"

namespace trueup::ssh {

struct AgentKey {
  std::string key;  ///< public key in wire format
  std::string comment;
};

/// A connection to ssh-agent (draft-miller-ssh-agent, OpenSSH's PROTOCOL.agent). Our own and not libssh2's, whose agent
/// calls block: an agent that waits for a person must not hold up the other hosts.
class Agent {
 public:
  /// `watch` outlives the agent. Errors: io, or why the watch is over.
  static Awaitable<Result<Agent>> connect(std::string socket_path, Watch& watch);

  Awaitable<Result<std::vector<AgentKey>>> keys();
  /// The raw signature of `data` by the key whose wire format is `key`, in the algorithm that `data` (RFC 4252 section
  /// 7) names.
  Awaitable<Result<std::string>> sign(std::string key, std::string data);

 private:
  Agent(boost::asio::local::stream_protocol::socket socket, Watch& watch)
      : socket_(std::move(socket)), watch_(&watch) {}
  Awaitable<Result<std::string>> ask(std::string request);

  boost::asio::local::stream_protocol::socket socket_;
  Watch* watch_;
};

/// Which signature algorithm a publickey request wants; pure. Empty: `data` is none.
std::string signature_algorithm(std::string_view data);
/// Reads an agent's answer to "list keys"; pure.
Result<std::vector<AgentKey>> parse_agent_keys(std::string_view answer);
/// Reads an agent's answer to "sign": the raw signature, if it is of `algorithm`; pure.
Result<std::string> parse_agent_signature(std::string_view answer, std::string_view algorithm);

}  // namespace trueup::ssh
