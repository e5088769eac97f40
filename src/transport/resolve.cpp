#include "transport/resolve.hpp"

#include <fmt/format.h>
#include <netdb.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace trueup {
namespace {

namespace asio = boost::asio;
using Endpoints = std::vector<asio::ip::tcp::endpoint>;
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

Result<Endpoints> find_addresses(const std::string& name, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (code != 0) {
    const auto reason = code == EAI_SYSTEM ? std::generic_category().message(errno) : std::string(::gai_strerror(code));
    return fail(Error{ErrorKind::unreachable,
                      fmt::format("'{}' does not resolve: {}", name, reason),
                      {},
                      {},
                      "check the name, or give the host an 'address' in the inventory"});
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  Endpoints endpoints;
  for (const auto* entry = list; entry != nullptr; entry = entry->ai_next) {
    asio::ip::tcp::endpoint endpoint;
    if (entry->ai_addrlen > endpoint.capacity()) continue;
    endpoint.resize(entry->ai_addrlen);
    std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  return endpoints;
}

// What a look-up's thread and its coroutine share. The thread may outlive the coroutine and its loop: it posts to
// `executor` only while that is set, and `wake` is touched on the loop's thread alone.
struct LookUp {
  std::mutex mutex;
  std::optional<asio::any_io_executor> executor;  // empty: nobody waits
  asio::steady_timer* wake = nullptr;
  std::optional<Result<Endpoints>> result;
};

// Begins the wait, and ends it also when the coroutine is destroyed in it.
class Waiting {
 public:
  Waiting(LookUp& look_up, asio::steady_timer& wake) : look_up_(look_up) {
    look_up_.executor = wake.get_executor();
    look_up_.wake = &wake;
  }
  ~Waiting() {
    const std::lock_guard lock(look_up_.mutex);
    look_up_.executor.reset();
    look_up_.wake = nullptr;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  LookUp& look_up_;
};

void run_look_up(const std::shared_ptr<LookUp>& look_up, const std::string& name, std::uint16_t port) {
  auto result = find_addresses(name, port);
  const std::lock_guard lock(look_up->mutex);
  if (!look_up->executor) return;
  look_up->result = std::move(result);
  asio::post(*look_up->executor, [look_up] {
    if (look_up->wake != nullptr) look_up->wake->cancel();
  });
}

}  // namespace

Awaitable<Result<Endpoints>> resolve(std::string name, std::uint16_t port, Watch& watch) {
  boost::system::error_code not_literal;
  const auto literal = asio::ip::make_address(name, not_literal);
  if (!not_literal) co_return Endpoints(1, asio::ip::tcp::endpoint(literal, port));

  asio::steady_timer wake(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
  const auto look_up = std::make_shared<LookUp>();
  const Waiting waiting(*look_up, wake);
  try {
    std::thread(run_look_up, look_up, name, port).detach();
  } catch (const std::system_error& error) {
    co_return fail(ErrorKind::io, fmt::format("cannot look up '{}': {}", name, error.what()));
  }
  co_await wake.async_wait(use_tuple);
  if (watch.over()) {
    auto error = *watch.over();
    if (error.hint.empty() && error.kind == ErrorKind::timeout)
      error.hint =
          "the name server does not answer; check this machine's, or give the host an 'address' in the inventory";
    co_return fail(std::move(error));
  }
  co_return *look_up->result;
}

}  // namespace trueup
