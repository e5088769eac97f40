#include "transport/agent.hpp"

#include <fmt/format.h>
#include <sys/un.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "transport/wire.hpp"

namespace trueup::ssh {
namespace {

namespace asio = boost::asio;
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

constexpr char kRequestIdentities = 11, kIdentitiesAnswer = 12, kSignRequest = 13, kSignResponse = 14;
constexpr std::uint32_t kRsaSha256 = 2, kRsaSha512 = 4;
constexpr std::size_t kMaxAnswerBytes = 256 * 1024;  // ssh-agent's own limit

}  // namespace

// data ::= string(session id) byte(50) string(user) string(service) string("publickey") byte(1) string(algorithm) ...
std::string signature_algorithm(std::string_view data) {
  WireReader reader(data);
  reader.string();
  reader.byte();
  reader.string();
  reader.string();
  reader.string();
  reader.byte();
  return std::string(reader.string().value_or(""));
}

Result<std::vector<AgentKey>> parse_agent_keys(std::string_view answer) {
  WireReader reader(answer);
  if (reader.byte() != kIdentitiesAnswer) return fail(ErrorKind::malformed, "the agent does not list its keys");
  std::vector<AgentKey> keys;
  const auto count = reader.number();
  for (std::uint32_t i = 0; count && i < *count; ++i) {
    const auto key = reader.string();
    const auto comment = reader.string();
    if (!comment) return fail(ErrorKind::malformed, "the agent's list of keys is cut short");
    keys.push_back({std::string(*key), std::string(*comment)});
  }
  return keys;
}

Result<std::string> parse_agent_signature(std::string_view answer, std::string_view algorithm) {
  WireReader reader(answer);
  if (reader.byte() != kSignResponse) return fail(ErrorKind::auth, "the agent refused to sign");
  WireReader signature(reader.string().value_or(""));
  const auto type = signature.string();
  const auto raw = signature.string();
  if (!raw) return fail(ErrorKind::malformed, "the agent's signature is cut short");
  if (*type != algorithm)
    return fail(ErrorKind::auth, fmt::format("the agent signed with {}, not {}", *type, algorithm));
  return std::string(*raw);
}

Awaitable<Result<Agent>> Agent::connect(std::string socket_path, Watch& watch) {
  if (socket_path.size() >= sizeof(sockaddr_un::sun_path))
    co_return fail(ErrorKind::io, fmt::format("the agent's socket path '{}' is too long", socket_path));
  asio::local::stream_protocol::socket socket(co_await asio::this_coro::executor);
  const asio::local::stream_protocol::endpoint endpoint(socket_path);
  const auto [error] = co_await socket.async_connect(endpoint, use_tuple);
  if (watch.over()) co_return fail(*watch.over());
  if (error) co_return fail(ErrorKind::io, fmt::format("no agent at '{}': {}", socket_path, error.message()));
  co_return Agent(std::move(socket), watch);
}

Awaitable<Result<std::string>> Agent::ask(std::string request) {
  const auto message = wire_string(request);
  const auto outgoing = asio::buffer(message);
  if (watch_->over()) co_return fail(*watch_->over());
  const auto [write_error, written] = co_await asio::async_write(socket_, outgoing, use_tuple);
  if (watch_->over()) co_return fail(*watch_->over());
  std::array<char, 4> header;
  const auto incoming_header = asio::buffer(header);
  const auto [header_error, header_size] = co_await asio::async_read(socket_, incoming_header, use_tuple);
  if (watch_->over()) co_return fail(*watch_->over());
  if (write_error || header_error) co_return fail(ErrorKind::io, "the agent hung up");
  const auto size = WireReader(std::string_view(header.data(), header.size())).number().value_or(0);
  if (size > kMaxAnswerBytes) co_return fail(ErrorKind::malformed, "the agent's answer is too long");
  std::string answer(size, '\0');
  const auto incoming = asio::buffer(answer);
  const auto [error, count] = co_await asio::async_read(socket_, incoming, use_tuple);
  if (watch_->over()) co_return fail(*watch_->over());
  if (error) co_return fail(ErrorKind::io, "the agent hung up");
  co_return answer;
}

Awaitable<Result<std::vector<AgentKey>>> Agent::keys() {
  std::string request(1, kRequestIdentities);
  const auto answer = co_await ask(std::move(request));
  if (!answer) co_return fail(answer.error());
  co_return parse_agent_keys(*answer);
}

Awaitable<Result<std::string>> Agent::sign(std::string key, std::string data) {
  const auto algorithm = signature_algorithm(data);
  const auto flags = algorithm == "rsa-sha2-512" ? kRsaSha512 : algorithm == "rsa-sha2-256" ? kRsaSha256 : 0U;
  auto request = std::string(1, kSignRequest) + wire_string(key) + wire_string(data) + wire_number(flags);
  const auto answer = co_await ask(std::move(request));
  if (!answer) co_return fail(answer.error());
  co_return parse_agent_signature(*answer, algorithm);
}

}  // namespace trueup::ssh
