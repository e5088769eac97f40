#include "transport/proxy_command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>
#include <utility>

#include "base/text.hpp"
#include "transport/spawn.hpp"

namespace trueup::ssh {
namespace {

constexpr std::size_t kMostSaid = 4096;

}  // namespace

Result<std::unique_ptr<ProxyCommand>> ProxyCommand::start(std::string command, const std::string& shell,
                                                          Descriptor& socket) {
  auto ends = make_socket_pair();
  if (!ends) return fail(ends.error());
  auto& [ours, its] = *ends;
  auto errors = make_pipe();
  if (!errors) return fail(errors.error());
  // Nobody reads while all goes well: a full pipe must not stop it, so what it says beyond that is lost.
  ::fcntl(errors->writing.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(errors->reading.get(), F_SETFL, O_NONBLOCK);
  const auto pid = spawn_shell(shell, "exec " + std::move(command), its, its, errors->writing);
  if (!pid) return fail(pid.error());
  socket = std::move(ours);
  return std::unique_ptr<ProxyCommand>(new ProxyCommand(*pid, std::move(errors->reading)));
}

ProxyCommand::~ProxyCommand() {
  if (has_ended()) return;
  ::kill(-pid_, SIGKILL);
  std::thread([pid = pid_] { ::waitpid(pid, nullptr, 0); }).detach();
}

bool ProxyCommand::has_ended() {
  siginfo_t info{};
  if (pid_ < 0 || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return pid_ < 0;
  ::kill(-pid_, SIGKILL);  // what it left behind; before the number of its group is free for others
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  end_ = fmt::format("{} {}", info.si_code == CLD_EXITED ? "ended with status" : "was ended by signal", info.si_status);
  return true;
}

std::string ProxyCommand::story() {
  std::array<char, 1024> buffer;
  for (;;) {
    const auto count = ::read(errors_.get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    said_.append(buffer.data(), static_cast<std::size_t>(count));
    if (said_.size() > kMostSaid) said_.erase(0, said_.size() - kMostSaid);
  }
  has_ended();
  const auto said = shorten(printable(trim(said_)), 300);
  if (said.empty()) return end_;
  return end_.empty() ? fmt::format("said: {}", said) : fmt::format("{} and said: {}", end_, said);
}

Awaitable<void> ProxyCommand::settle() { co_await wait_for_end(std::chrono::milliseconds(200), nullptr); }

Awaitable<void> ProxyCommand::close(Watch& watch) {
  if (has_ended()) co_return;
  ::kill(-pid_, SIGHUP);
  co_await wait_for_end(std::chrono::seconds(1), &watch);
}

// A socket tells of its end before the system does.
Awaitable<void> ProxyCommand::wait_for_end(std::chrono::milliseconds limit, const Watch* watch) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  constexpr auto use_tuple = boost::asio::as_tuple(boost::asio::use_awaitable);
  const auto deadline = Watch::Clock::now() + limit;
  for (auto pause = std::chrono::milliseconds(1); !has_ended() && Watch::Clock::now() < deadline;
       pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    if (watch != nullptr && watch->over()) co_return;
    timer.expires_after(pause);
    co_await timer.async_wait(use_tuple);
  }
}

}  // namespace trueup::ssh
