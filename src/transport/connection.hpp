#pragma once

#include <libssh2.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/descriptor.hpp"
#include "transport/retry.hpp"
#include "trueup/transport.hpp"

namespace trueup::ssh {

/// What a connection runs through where that is not TCP of our own: a program, a tunnel of a bastion.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// What is to be known of it when the connection fails: "ended with status 1 and said: ...". Empty: nothing.
  virtual std::string story() = 0;
  /// Gives it a moment to come to its end, after which story() may have more to tell.
  virtual Awaitable<void> settle() { co_return; }
  virtual Awaitable<void> close(Watch& watch) = 0;
  /// From now on somebody waits for what it carries, on that event loop; until end_use(), as often as this was called.
  virtual void begin_use(boost::asio::any_io_executor) {}
  virtual void end_use() {}
};

/// libssh2's words for the last failure of a session.
std::string last_error(LIBSSH2_SESSION* session);

/// A stream with a libssh2 session on it, before and after the login. libssh2 works without blocking: a call that
/// answers EAGAIN is made again, unchanged, once the socket is ready, so one operation at a time.
class Connection {
 public:
  Connection(boost::asio::any_io_executor executor, Watch& watch);
  /// Never waits: with its socket shut down libssh2 frees the session without a word to the host.
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  struct Failure {
    Error error;
    ConnectFailure what = ConnectFailure::lasting;
  };
  /// Tries all addresses of `name`, each in a phase of its own and for its share of `limit`. `from`: the address to
  /// bind to; empty: any.
  Awaitable<tl::expected<void, Failure>> connect(std::string name,
                                                 std::vector<boost::asio::ip::tcp::endpoint> endpoints,
                                                 std::string from, std::chrono::milliseconds limit);
  /// Takes a stream that something else made instead; `carrier` is kept for as long as it is used.
  void adopt(Descriptor socket, std::shared_ptr<Carrier> carrier);
  Carrier* carrier() const { return carrier_.get(); }
  /// Ends what the connection runs through; it is of no use afterwards.
  Awaitable<void> close_carrier();
  /// Banner and key exchange; host keys are asked for in the order of `host_key_algorithms(supported)`.
  Awaitable<tl::expected<void, Failure>> handshake();
  std::vector<std::string> supported_host_key_algorithms() const;
  void prefer_host_key_algorithms(std::span<const std::string> algorithms);
  /// The host's key in wire format, after the handshake.
  std::string host_key() const;

  LIBSSH2_SESSION* handle() const { return handle_.get(); }
  Watch& watch() const { return watch_; }

  struct Free {
    void operator()(LIBSSH2_SESSION* session) const { libssh2_session_free(session); }
  };
  using Handle = std::unique_ptr<LIBSSH2_SESSION, Free>;
  /// All of it, without the event loop; this is of no use afterwards.
  struct Parts {
    std::shared_ptr<Carrier> carrier;
    Descriptor socket;
    Handle handle;
  };
  Parts release();

  /// Makes one libssh2 call until it stops answering EAGAIN and gives what it answered then. Errors: the connection is
  /// gone or the watch is over; then the call may be half done.
  template <class Call>
  Awaitable<Result<long>> until_done(Call call) {
    for (;;) {
      if (watch_.over()) co_return fail(*watch_.over());
      const auto answer = static_cast<long>(call());
      if (answer != LIBSSH2_ERROR_EAGAIN) co_return answer;
      auto is_ready = co_await ready();
      if (!is_ready) co_return fail(is_ready.error());
    }
  }
  /// Makes one libssh2 call that asks something of the host until the question is sent, and gives EAGAIN: until_done()
  /// then waits for the answer, and meanwhile other calls may be made that keep their state elsewhere (in the channel).
  /// Gives anything else where the answer is there already, and the call must not be made again.
  template <class Call>
  Awaitable<Result<long>> until_sent(Call call) {
    for (;;) {
      if (watch_.over()) co_return fail(*watch_.over());
      const auto answer = static_cast<long>(call());
      const bool is_sent = (libssh2_session_block_directions(handle_.get()) & LIBSSH2_SESSION_BLOCK_OUTBOUND) == 0;
      if (answer != LIBSSH2_ERROR_EAGAIN || is_sent) co_return answer;
      auto is_ready = co_await ready();
      if (!is_ready) co_return fail(is_ready.error());
    }
  }
  /// Waits until the socket is ready for what the last call lacked.
  Awaitable<Result<void>> ready();

  /// libssh2's words for the last failure.
  std::string last_error() const { return ssh::last_error(handle_.get()); }
  /// The error for a call that failed with `answer`: the connection is gone, or `what` and libssh2's words.
  Error failure(long answer, std::string_view what) const;
  static bool is_gone(long answer);

 private:
  std::string cut() const;

  std::shared_ptr<Carrier> carrier_;
  boost::asio::generic::stream_protocol::socket socket_;  // before the handle, so that the handle goes first
  Handle handle_;
  Watch& watch_;
};

}  // namespace trueup::ssh
