#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "trueup/inventory.hpp"
#include "trueup/result.hpp"

// How a script reaches a host. Implementations: libssh2, and local processes. One thread, so no locks; whoever waits,
// waits under a Watch.

namespace trueup {

template <class T>
using Awaitable = boost::asio::awaitable<T>;

/// Deadlines of one host's coroutine, and the name of what it does now. A coroutine that is spawned with the slot of
/// `signal` and with `throw_if_cancelled(false)` has its pending operation cancelled when the phase's limit or the
/// host's passes, or when somebody calls stop(). So: ask over() before and after each await.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  /// `signal` outlives the watch.
  Watch(boost::asio::any_io_executor executor, boost::asio::cancellation_signal& signal,
        std::chrono::milliseconds host_limit);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Begins the next phase: "authenticating as root". A phase that ran out is forgotten, a host's deadline or stop() is
  /// not.
  void begin(std::string phase, std::chrono::milliseconds limit);
  /// Closing is allowed some time of its own after the end, whatever ended it; only hurry() cuts it short.
  void begin_closing(std::chrono::milliseconds limit);

  /// Nothing more is to be awaited, for the reason given.
  void stop(Error why);
  /// stop(), closing included.
  void hurry(Error why);

  /// Why nothing more may be awaited; empty: go on.
  const std::optional<Error>& over() const;
  /// The host's deadline passed or somebody called stop(): no later phase will run.
  bool is_final() const;
  const std::string& phase() const;
  std::chrono::milliseconds left() const;  ///< of the host's limit; never negative

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the timer's handler, which may run after us
};

/// One command on a host. Destroying it closes its standard input without waiting; the command ends itself at that.
class Channel {
 public:
  struct Chunk {
    std::string output;  ///< standard output since the last read
    std::string errors;  ///< standard error, likewise
    bool ended = false;  ///< both streams are closed; nothing follows
  };

  virtual ~Channel() = default;
  /// Writes all of `bytes` to the command's standard input and leaves that open. Over SSH not more than 1 MiB before
  /// the next read: a command that is busy writing to us takes no more. One that reads no more is no error here: read()
  /// tells.
  virtual Awaitable<Result<void>> write(std::string bytes) = 0;
  /// Waits for the next bytes of either stream, or the end.
  virtual Awaitable<Result<Chunk>> read() = 0;
  /// Closes standard input and everything else in order. Errors do not matter any more.
  virtual Awaitable<void> close() = 0;
  /// Known after the end, if at all.
  virtual std::optional<int> exit_status() const = 0;
};

/// One authenticated way to a host. Channels do not outlive it and are used one after the other.
class Session {
 public:
  virtual ~Session() = default;
  /// The account that commands run as.
  virtual const std::string& login() const = 0;
  /// `command` is for the account's login shell, whichever that is. `input` is written to it as by write(), and sent
  /// along at once: the host's word that the command runs is awaited after that, which spares a round trip.
  virtual Awaitable<Result<std::unique_ptr<Channel>>> exec(std::string command, std::string input = {}) = 0;
  virtual Awaitable<void> close() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Comes back with a session that will run commands, or says in which phase of `watch` it failed and why. `host` and
  /// `watch` outlive the session.
  virtual Awaitable<Result<std::unique_ptr<Session>>> connect(const Host& host, Watch& watch) = 0;
};

}  // namespace trueup
