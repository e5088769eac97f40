#include "transport/connection.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <new>
#include <utility>

#include "base/text.hpp"

namespace trueup::ssh {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

Error connect_error(const std::string& name, const tcp::endpoint& endpoint, const boost::system::error_code& error) {
  const auto address = endpoint.address().to_string();
  const auto where =
      fmt::format("{} port {}", address == name ? name : fmt::format("{} ({})", name, address), endpoint.port());
  Error failure{ErrorKind::unreachable, fmt::format("cannot connect to {}: {}", where, error.message())};
  if (error == asio::error::connection_refused) {
    failure.message = fmt::format("{} refused the connection", where);
    failure.hint = "the machine answers but nothing listens there: is sshd running, and is 'port' right?";
  } else if (error == asio::error::host_unreachable || error == asio::error::network_unreachable) {
    failure.hint = "check the address, the route and the VPN";
  }
  return failure;
}

boost::system::error_code bind_to(tcp::socket& socket, const tcp::endpoint& to, const std::string& from) {
  boost::system::error_code error;
  if (from.empty()) return error;
  const auto address = asio::ip::make_address(from, error);
  if (!error) socket.open(to.protocol(), error);
  if (!error) socket.bind({address, 0}, error);
  return error;
}

}  // namespace

Connection::Connection(asio::any_io_executor executor, Watch& watch)
    : socket_(std::move(executor)), handle_(libssh2_session_init()), watch_(watch) {
  if (!handle_) throw std::bad_alloc();
  libssh2_session_set_blocking(handle_.get(), 0);
}

Connection::~Connection() {
  if (socket_.is_open()) ::shutdown(socket_.native_handle(), SHUT_RDWR);
  if (carrier_) carrier_->end_use();
}

void Connection::adopt(Descriptor socket, std::shared_ptr<Carrier> carrier) {
  carrier_ = std::move(carrier);
  if (carrier_) carrier_->begin_use(socket_.get_executor());
  socket_.assign(asio::generic::stream_protocol(AF_UNIX, 0), socket.release());
}

Connection::Parts Connection::release() {
  if (carrier_) carrier_->end_use();
  return {std::move(carrier_), Descriptor(socket_.release()), std::move(handle_)};
}

Awaitable<tl::expected<void, Connection::Failure>> Connection::connect(std::string name,
                                                                       std::vector<tcp::endpoint> endpoints,
                                                                       std::string from,
                                                                       std::chrono::milliseconds limit) {
  const auto deadline = Watch::Clock::now() + limit;
  Failure last{{ErrorKind::unreachable, fmt::format("'{}' has no address", name)}};
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    const auto& endpoint = endpoints[i];
    // An address that swallows packets must leave time for the next one.
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Watch::Clock::now());
    watch_.begin(fmt::format("connecting to {} port {}", endpoint.address().to_string(), endpoint.port()),
                 left / static_cast<int>(endpoints.size() - i));
    boost::system::error_code ignored;
    tcp::socket socket(socket_.get_executor());
    if (const auto bound = bind_to(socket, endpoint, from); bound) {
      last = {{ErrorKind::unreachable, fmt::format("cannot connect from '{}': {}", from, bound.message())}};
      continue;
    }
    const auto [error] = co_await socket.async_connect(endpoint, use_tuple);
    if (watch_.is_final()) co_return tl::unexpected(Failure{*watch_.over()});
    if (watch_.over()) {
      last = {*watch_.over()};
      last.error.hint = "a firewall may drop the packets; check the address, or raise --connect-timeout";
    } else if (error) {
      last = {connect_error(name, endpoint, error),
              error == asio::error::connection_reset ? ConnectFailure::dropped : ConnectFailure::lasting};
    } else {
      socket.set_option(tcp::no_delay(true), ignored);
      socket_ = std::move(socket);
      co_return tl::expected<void, Failure>();
    }
  }
  co_return tl::unexpected(std::move(last));
}

Awaitable<tl::expected<void, Connection::Failure>> Connection::handshake() {
  const auto call = [this] { return libssh2_session_handshake(handle_.get(), socket_.native_handle()); };
  const auto done = co_await until_done(call);
  const char* const banner = libssh2_session_banner_get(handle_.get());
  if (!done) {
    auto why = done.error();
    if (why.kind == ErrorKind::timeout && banner == nullptr) {
      why.message = fmt::format("the connection was accepted, but no SSH banner came: {}", why.message);
      why.hint = "is this the port of an SSH server? A stuck or overloaded sshd also looks like this";
    }
    co_return tl::unexpected(Failure{std::move(why)});
  }
  if (*done == 0) co_return tl::expected<void, Failure>();
  if (is_gone(*done) || *done == LIBSSH2_ERROR_BANNER_RECV) {
    Error error{ErrorKind::unreachable,
                "the host closed the connection before the key exchange was done",
                {},
                {},
                "sshd does so above its MaxStartups or by PerSourcePenalties (see its log), and so does a port that is "
                "no SSH server"};
    co_return tl::unexpected(Failure{std::move(error), ConnectFailure::dropped});
  }
  Error error{ErrorKind::unreachable, fmt::format("the SSH handshake failed: {}", last_error())};
  error.hint = fmt::format("the host says it is '{}'; libssh2 {} may share no algorithm with it",
                           banner == nullptr ? "?" : shorten(printable(banner), 80), libssh2_version(0));
  co_return tl::unexpected(Failure{std::move(error)});
}

std::vector<std::string> Connection::supported_host_key_algorithms() const {
  const char** names = nullptr;
  const int count = libssh2_session_supported_algs(handle_.get(), LIBSSH2_METHOD_HOSTKEY, &names);
  std::vector<std::string> algorithms;
  if (count > 0) algorithms.assign(names, names + count);
  libssh2_free(handle_.get(), static_cast<void*>(names));
  return algorithms;
}

void Connection::prefer_host_key_algorithms(std::span<const std::string> algorithms) {
  libssh2_session_method_pref(handle_.get(), LIBSSH2_METHOD_HOSTKEY, join(algorithms, ",").c_str());
}

std::string Connection::host_key() const {
  std::size_t size = 0;
  int type = 0;
  const char* const key = libssh2_session_hostkey(handle_.get(), &size, &type);
  return key == nullptr ? std::string() : std::string(key, size);
}

Awaitable<Result<void>> Connection::ready() {
  const int blocked = libssh2_session_block_directions(handle_.get());
  const auto event = (blocked & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0 ? socket_.wait_write : socket_.wait_read;
  if (watch_.over()) co_return fail(*watch_.over());
  const auto [error] = co_await socket_.async_wait(event, use_tuple);
  if (watch_.over()) co_return fail(*watch_.over());
  if (error) co_return fail(ErrorKind::unreachable, fmt::format("{}: {}", cut(), error.message()));
  co_return Result<void>();
}

std::string last_error(LIBSSH2_SESSION* session) {
  char* message = nullptr;  // the session's
  libssh2_session_last_error(session, &message, nullptr, 0);
  return message == nullptr || *message == '\0' ? "no reason given" : shorten(printable(message), 200);
}

std::string Connection::cut() const {
  const auto story = carrier_ ? carrier_->story() : std::string();
  return story.empty() ? "the connection was cut" : fmt::format("the connection was cut ({})", story);
}

Awaitable<void> Connection::close_carrier() {
  if (!carrier_) co_return;
  ::shutdown(socket_.native_handle(), SHUT_RDWR);
  co_await carrier_->close(watch_);
}

bool Connection::is_gone(long answer) {
  return answer == LIBSSH2_ERROR_SOCKET_DISCONNECT || answer == LIBSSH2_ERROR_SOCKET_RECV ||
         answer == LIBSSH2_ERROR_SOCKET_SEND || answer == LIBSSH2_ERROR_SOCKET_NONE;
}

Error Connection::failure(long answer, std::string_view what) const {
  if (is_gone(answer))
    return {ErrorKind::unreachable,
            cut(),
            {},
            {},
            "the host or its sshd may have gone down, or something between us; run again to see"};
  return {ErrorKind::unreachable, fmt::format("{}: {}", what, last_error())};
}

}  // namespace trueup::ssh
