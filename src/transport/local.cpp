#include "transport/local.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "transport/spawn.hpp"

namespace trueup {
namespace {

namespace asio = boost::asio;
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

class LocalChannel final : public Channel {
 public:
  LocalChannel(Watch& watch, asio::posix::stream_descriptor any, pid_t pid, Descriptor in, Descriptor out,
               Descriptor err)
      : watch_(watch), any_(std::move(any)), pid_(pid), in_(std::move(in)), out_(std::move(out)), err_(std::move(err)) {
    for (const auto* fd : {&in_, &out_, &err_}) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    listen(EPOLL_CTL_ADD, out_, EPOLLIN);
    listen(EPOLL_CTL_ADD, err_, EPOLLIN);
  }
  ~LocalChannel() override {
    if (!has_ended()) std::thread([pid = pid_] { ::waitpid(pid, nullptr, 0); }).detach();
  }

  Awaitable<Result<void>> write(std::string bytes) override {
    std::string_view rest = bytes;
    bool listening = false;
    while (!rest.empty()) {
      const auto count = ::write(in_.get(), rest.data(), rest.size());
      if (count >= 0) {
        rest.remove_prefix(static_cast<std::size_t>(count));
        continue;
      }
      if (errno != EAGAIN) break;  // nobody reads any more: read() tells
      if (!std::exchange(listening, true)) listen(EPOLL_CTL_ADD, in_, EPOLLOUT);
      // A shell that is busy writing reads no further before somebody reads that.
      drain();
      auto ready = co_await wait();
      if (!ready) co_return fail(ready.error());
    }
    if (listening) listen(EPOLL_CTL_DEL, in_, 0);
    co_return Result<void>();
  }

  Awaitable<Result<Chunk>> read() override {
    for (;;) {
      drain();
      pending_.ended = !out_.is_open() && !err_.is_open();
      if (pending_.ended || !pending_.output.empty() || !pending_.errors.empty())
        co_return std::exchange(pending_, Chunk());
      auto ready = co_await wait();
      if (!ready) co_return fail(ready.error());
    }
  }

  Awaitable<void> close() override {
    in_.reset();
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (auto pause = std::chrono::milliseconds(1); !has_ended();
         pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
      // No kill: the bundle's scheduler, which alone can end its probes, does so once its standard input is closed.
      if (watch_.over()) co_return;
      timer.expires_after(pause);
      co_await timer.async_wait(use_tuple);
    }
  }

  std::optional<int> exit_status() const override { return status_; }

 private:
  // All three pipes are waited for in one place: an epoll set within the loop's own.
  void listen(int operation, const Descriptor& fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    ::epoll_ctl(any_.native_handle(), operation, fd.get(), &event);
  }

  Awaitable<Result<void>> wait() {
    if (watch_.over()) co_return fail(*watch_.over());
    const auto [error] = co_await any_.async_wait(asio::posix::stream_descriptor::wait_read, use_tuple);
    if (watch_.over()) co_return fail(*watch_.over());
    if (error) co_return fail(ErrorKind::io, fmt::format("cannot wait for the shell: {}", error.message()));
    co_return Result<void>();
  }

  void drain() {
    take(out_, pending_.output);
    take(err_, pending_.errors);
  }

  void take(Descriptor& fd, std::string& into) {
    constexpr std::size_t kMaxPendingBytes = 4 * 1024 * 1024;
    std::array<char, 64 * 1024> buffer;
    while (fd.is_open() && into.size() < kMaxPendingBytes) {
      const auto count = ::read(fd.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0)
        fd.reset();
      else
        into.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }

  bool has_ended() {
    int status = 0;
    if (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) != 0) {
      pid_ = -1;
      if (WIFEXITED(status)) status_ = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) status_ = 128 + WTERMSIG(status);
    }
    return pid_ < 0;
  }

  Watch& watch_;
  asio::posix::stream_descriptor any_;
  pid_t pid_;
  Descriptor in_, out_, err_;
  Chunk pending_;
  std::optional<int> status_;
};

class LocalSession final : public Session {
 public:
  LocalSession(Watch& watch, std::string login) : watch_(watch), login_(std::move(login)) {}

  const std::string& login() const override { return login_; }

  Awaitable<Result<std::unique_ptr<Channel>>> exec(std::string command, std::string input) override {
    auto in = make_pipe(), out = make_pipe(), err = make_pipe();
    for (const auto* pipe : {&in, &out, &err})
      if (!*pipe) co_return fail(pipe->error());
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) co_return fail(ErrorKind::io, fmt::format("cannot make an epoll set: {}", system_text(errno)));
    asio::posix::stream_descriptor any(co_await asio::this_coro::executor, epoll);
    const auto pid = spawn_shell("/bin/sh", std::move(command), in->reading, out->writing, err->writing);
    if (!pid) co_return fail(pid.error());
    auto channel = std::make_unique<LocalChannel>(watch_, std::move(any), *pid, std::move(in->writing),
                                                  std::move(out->reading), std::move(err->reading));
    const auto written = co_await channel->write(std::move(input));
    if (!written) co_return fail(written.error());
    co_return channel;
  }

  Awaitable<void> close() override { co_return; }

 private:
  Watch& watch_;
  const std::string login_;
};

}  // namespace

LocalTransport::LocalTransport() : sigpipe_before_(::signal(SIGPIPE, SIG_IGN)) {}

LocalTransport::~LocalTransport() { ::signal(SIGPIPE, sigpipe_before_); }

Awaitable<Result<std::unique_ptr<Session>>> LocalTransport::connect(const Host&, Watch& watch) {
  const auto* const account = ::getpwuid(::geteuid());
  co_return std::make_unique<LocalSession>(
      watch, account == nullptr ? fmt::format("uid {}", ::geteuid()) : std::string(account->pw_name));
}

}  // namespace trueup
