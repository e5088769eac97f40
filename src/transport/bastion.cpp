#include "transport/bastion.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

#include "base/text.hpp"

namespace trueup::ssh {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

constexpr std::size_t kPiece = 32 * 1024;
constexpr std::size_t kMostConnections = 8;
constexpr auto kPatience = 1s;       // before another connection is made because all others wait
constexpr auto kFailureLasts = 10s;  // before a bastion that failed is tried again
constexpr auto kGoodbye = 500ms;     // for channels to be closed in order once nobody uses any

// libssh2 puts the reason of RFC 4254 section 5.1 into brackets.
Error refused(const std::string& bastion, const std::string& host, std::uint16_t port, const std::string& why) {
  const auto where = fmt::format("{} port {}", host, port);
  if (why.find("administratively prohibited") != why.npos)
    return {ErrorKind::unreachable,
            fmt::format("{} does not forward to {}: administratively prohibited", bastion, where),
            {},
            {},
            "see AllowTcpForwarding, PermitOpen and DisableForwarding in the bastion's sshd_config, and the "
            "restrictions of this key in authorized_keys there"};
  if (why.find("connect failed") != why.npos)
    return {ErrorKind::unreachable,
            fmt::format("{} cannot connect to {}", bastion, where),
            {},
            {},
            "the bastion is reached, the host behind it is not: does the name resolve there, is the host up, is its "
            "'port' right?"};
  return {ErrorKind::unreachable, fmt::format("{} opened no tunnel to {}: {}", bastion, where, why), {}, {}, {}};
}

}  // namespace

Bastion::Bastion(std::string name, Connection::Parts parts, std::function<void()> on_free)
    : name_(std::move(name)),
      below_(std::move(parts.carrier)),
      socket_(std::move(parts.socket)),
      handle_(std::move(parts.handle)),
      on_free_(std::move(on_free)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_.is_open() || !bell_.is_open()) why_broken_ = fmt::format("cannot wait for it: {}", system_text(errno));
  std::uint32_t before = 0;
  listen_to(bell_.get(), EPOLLIN, before);
}

Bastion::~Bastion() {
  // As of a connection: freed without a word to the bastion, and its channels with it.
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void Bastion::ask(TunnelRequest& request, asio::any_io_executor executor) {
  asking_ = &request;
  asked_host_ = request.host;
  asked_port_ = request.port;
  unanswered_ = true;
  request.asked = true;
  request.watch->begin(fmt::format("connecting to {} port {} through {}", request.host, request.port, name_),
                       request.limit);
  start(std::move(executor));
}

void Bastion::begin_use(asio::any_io_executor executor) {
  ++users_;
  start(std::move(executor));
}

void Bastion::end_use() {
  --users_;
  wake();
}

void Bastion::start(asio::any_io_executor executor) {
  if (std::exchange(pumping_, true)) return wake();
  if (below_) below_->begin_use(executor);
  asio::co_spawn(executor, pump(shared_from_this()), asio::detached);
}

void Bastion::forget(const TunnelRequest& request) {
  if (asking_ != &request) return;
  asking_ = nullptr;
  wake();
}

void Bastion::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(bell_.get(), &one, sizeof one);
}

bool Bastion::has_goodbyes() const {
  return unanswered_ ||
         std::any_of(tunnels_.begin(), tunnels_.end(), [](const Tunnel& tunnel) { return !tunnel.socket.is_open(); });
}

Awaitable<void> Bastion::pump(std::shared_ptr<Bastion> self) {
  const auto executor = co_await asio::this_coro::executor;
  asio::posix::stream_descriptor any(executor, ::dup(self->epoll_.get()));
  asio::steady_timer linger(executor);
  std::optional<Watch::Clock::time_point> unused_since;
  co_await asio::post(executor, use_tuple);  // not within the pool's assign(), which goes over all connections
  while (!self->is_broken()) {
    if (self->work()) {
      co_await asio::post(executor, use_tuple);  // other hosts have their turn
      continue;
    }
    if (self->is_broken()) break;
    if (self->is_used()) {
      unused_since.reset();
    } else {
      // A bastion that does not answer goodbyes must not hold up the end of the run. Tunnels of others that rest as
      // well stay.
      if (!self->has_goodbyes()) break;
      if (!unused_since) unused_since = Watch::Clock::now();
      if (Watch::Clock::now() >= *unused_since + kGoodbye) break;
      linger.expires_at(*unused_since + kGoodbye);
      linger.async_wait([&any](const boost::system::error_code& error) {
        if (!error) any.cancel();
      });
    }
    self->listen();
    const auto [error] = co_await any.async_wait(any.wait_read, use_tuple);
    linger.cancel();
    if (error && error != asio::error::operation_aborted)
      self->break_down(fmt::format("cannot wait for it: {}", error.message()));
    std::uint64_t rings = 0;
    [[maybe_unused]] const auto read = ::read(self->bell_.get(), &rings, sizeof rings);
  }
  if (self->is_broken()) {
    // Their users read an end; the channels go with the session. Not earlier: a step may still hold one.
    self->stuck_ = nullptr;
    self->tunnels_.clear();
  }
  self->pumping_ = false;
  if (self->below_) self->below_->end_use();
}

// One round over everything; false: nothing more can be done before something happens.
bool Bastion::work() {
  bool moved = false;
  // A packet that is half sent goes on before any other call.
  if (stuck_ != nullptr) {
    auto& tunnel = *std::exchange(stuck_, nullptr);
    const auto call = stuck_call_;
    if ((this->*call)(tunnel) == Step::blocked) {
      if (stuck_ == nullptr) stuck_ = &tunnel;
      stuck_call_ = call;
      return false;
    }
    moved = true;
  }
  if (unanswered_) {
    const auto step = open();
    open_stuck_ = step == Step::blocked;
    if (open_stuck_ || is_broken()) return false;
    moved |= step == Step::moved;
  }
  for (auto at = tunnels_.begin(); at != tunnels_.end();) {
    auto& tunnel = *at++;
    for (const auto call : {&Bastion::from_user, &Bastion::from_host, &Bastion::drop}) {
      const auto step = (this->*call)(tunnel);
      if (is_broken()) return false;
      if (step == Step::blocked) {
        stuck_ = &tunnel;
        stuck_call_ = call;
        return false;
      }
      moved |= step == Step::moved;
    }
  }
  std::erase_if(tunnels_, [](const Tunnel& tunnel) { return tunnel.channel == nullptr; });
  return moved;
}

Bastion::Step Bastion::judge(long answer) {
  if (answer == LIBSSH2_ERROR_EAGAIN)
    return (libssh2_session_block_directions(handle_.get()) & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0 ? Step::blocked
                                                                                                   : Step::idle;
  if (answer < 0 && Connection::is_gone(answer)) break_down("the connection was cut");
  return Step::moved;
}

Bastion::Step Bastion::open() {
  auto* const channel =
      libssh2_channel_direct_tcpip_ex(handle_.get(), asked_host_.c_str(), asked_port_, "127.0.0.1", 22);
  if (channel == nullptr) {
    const auto why = libssh2_session_last_errno(handle_.get());
    const auto words = last_error(handle_.get());
    const auto step = judge(why);
    if (why == LIBSSH2_ERROR_EAGAIN || is_broken()) return step;
    unanswered_ = false;
    answer(fail(refused(name_, asked_host_, asked_port_, words)));
    return Step::moved;
  }
  unanswered_ = false;
  auto ends = make_socket_pair(SOCK_NONBLOCK);
  Tunnel tunnel;
  tunnel.channel = channel;
  if (!ends) {
    tunnels_.push_back(std::move(tunnel));
    answer(fail(ends.error()));
    return Step::moved;
  }
  tunnel.socket = std::move(ends->first);
  tunnels_.push_back(std::move(tunnel));
  TunnelEnd end{std::move(ends->second), shared_from_this()};
  answer(std::move(end));  // nobody waits: it is closed, and so the tunnel goes
  return Step::moved;
}

void Bastion::answer(Result<TunnelEnd> answer) {
  if (auto* const request = std::exchange(asking_, nullptr); request != nullptr) {
    request->answer = std::move(answer);
    request->wake->cancel();
  }
  if (!is_broken()) on_free_();
}

Bastion::Step Bastion::from_user(Tunnel& tunnel) {
  if (!tunnel.socket.is_open()) return Step::idle;
  if (tunnel.to_host.empty() && !tunnel.user_ended) {
    std::array<char, kPiece> buffer;
    const auto count = ::recv(tunnel.socket.get(), buffer.data(), buffer.size(), 0);
    if (count > 0)
      tunnel.to_host.assign(buffer.data(), static_cast<std::size_t>(count));
    else if (count == 0 || (errno != EAGAIN && errno != EINTR))
      tunnel.user_ended = true;
  }
  if (tunnel.to_host.empty()) {
    // Whoever closes their end wants nothing more either; the channel is closed by drop().
    if (tunnel.user_ended) tunnel.socket.reset();
    return Step::idle;
  }
  const auto count = libssh2_channel_write_ex(tunnel.channel, 0, tunnel.to_host.data(), tunnel.to_host.size());
  if (count > 0) {
    tunnel.to_host.erase(0, static_cast<std::size_t>(count));
    return Step::moved;
  }
  const auto step = count == 0 ? Step::idle : judge(count);
  if (step == Step::moved) tunnel.socket.reset();  // the host closed the channel
  if (step == Step::idle) {
    // The channel takes nothing now. A user who has gone would be told of again and again.
    pollfd user{tunnel.socket.get(), 0, 0};
    if (::poll(&user, 1, 0) > 0 && (user.revents & POLLHUP) != 0) tunnel.socket.reset();
  }
  return step;
}

Bastion::Step Bastion::from_host(Tunnel& tunnel) {
  if (!tunnel.socket.is_open()) return Step::idle;
  auto moved = Step::idle;
  if (tunnel.to_user.empty() && !tunnel.host_ended) {
    std::array<char, kPiece> buffer;
    const auto count = libssh2_channel_read_ex(tunnel.channel, 0, buffer.data(), buffer.size());
    if (count > 0) {
      tunnel.to_user.assign(buffer.data(), static_cast<std::size_t>(count));
      moved = Step::moved;
    } else if (libssh2_channel_eof(tunnel.channel) == 1) {
      tunnel.host_ended = true;
    } else {
      const auto step = count == 0 ? Step::idle : judge(count);
      if (step == Step::moved) tunnel.socket.reset();
      return step;
    }
  }
  while (!tunnel.to_user.empty()) {
    const auto count = ::send(tunnel.socket.get(), tunnel.to_user.data(), tunnel.to_user.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) tunnel.socket.reset();
    if (count < 0) return moved;
    tunnel.to_user.erase(0, static_cast<std::size_t>(count));
    moved = Step::moved;
  }
  if (tunnel.host_ended) tunnel.socket.reset();
  return moved;
}

Bastion::Step Bastion::drop(Tunnel& tunnel) {
  if (tunnel.socket.is_open() || tunnel.channel == nullptr) return Step::idle;
  const auto answer = libssh2_channel_free(tunnel.channel);
  const auto step = judge(answer);
  if (step == Step::moved) tunnel.channel = nullptr;
  return step;
}

void Bastion::break_down(std::string why) {
  if (is_broken()) return;
  why_broken_ = std::move(why);
  if (below_)
    if (const auto story = below_->story(); !story.empty()) why_broken_ += fmt::format(" ({})", story);
  unanswered_ = false;
  if (asking_ != nullptr) asking_->lost = true;
  answer(fail(ErrorKind::unreachable, fmt::format("{}: {}", name_, why_broken_)));
  on_free_();
}

void Bastion::listen() {
  bool reads = unanswered_;
  for (auto& tunnel : tunnels_) {
    reads |= !tunnel.socket.is_open() || tunnel.to_user.empty();
    if (!tunnel.socket.is_open()) continue;
    std::uint32_t events = 0;
    if (tunnel.to_host.empty() && !tunnel.user_ended) events |= EPOLLIN;
    if (!tunnel.to_user.empty()) events |= EPOLLOUT;
    listen_to(tunnel.socket.get(), events, tunnel.watched);
  }
  std::uint32_t events = reads ? std::uint32_t{EPOLLIN} : 0;
  if (stuck_ != nullptr || open_stuck_) events |= EPOLLOUT;
  listen_to(socket_.get(), events, watched_);
}

void Bastion::listen_to(int fd, std::uint32_t events, std::uint32_t& before) {
  constexpr std::uint32_t kAdded = 1U << 31U;
  if (before == (events | kAdded)) return;
  epoll_event event{};
  event.events = events;
  ::epoll_ctl(epoll_.get(), before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
  before = events | kAdded;
}

Awaitable<Result<TunnelEnd>> BastionPool::tunnel(std::string host, std::uint16_t port, Watch& watch,
                                                 std::chrono::milliseconds limit) {
  executor_ = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor_);
  TunnelRequest request{std::move(host), port, &watch, limit, &timer, false, false, {}};
  watch.begin(fmt::format("jumping through {}", name_), watch.left());
  waiting_.push_back(&request);
  assign();
  std::size_t losses = 0;
  for (;;) {
    // A bastion may have hung up while nothing went through, on each connection; who asks finds out, perhaps at once.
    while (request.lost && losses++ < kMostConnections) {
      request.answer.reset();
      request.asked = request.lost = false;
      waiting_.push_back(&request);
      assign();
    }
    if (request.answer || watch.over()) break;
    if (!request.asked) grow();
    if (request.answer) break;
    timer.expires_after(kPatience);
    co_await timer.async_wait(use_tuple);
  }
  if (request.answer) co_return std::move(*request.answer);
  std::erase(waiting_, &request);
  for (const auto& bastion : bastions_) bastion->forget(request);
  if (waiting_.empty() && attempt_ && attempt_->watch != nullptr) {
    attempt_->given_up = true;
    attempt_->watch->stop(*watch.over());
  }
  co_return fail(*watch.over());
}

// Gives those that wait to connections that are free.
void BastionPool::assign() {
  std::erase_if(bastions_, [](const auto& bastion) { return bastion->is_useless() && bastion.use_count() == 1; });
  for (const auto& bastion : bastions_) {
    if (waiting_.empty()) return;
    if (!bastion->is_free()) continue;
    auto& request = *waiting_.front();
    waiting_.pop_front();
    bastion->ask(request, executor_);
  }
}

void BastionPool::grow() {
  const auto working =
      std::count_if(bastions_.begin(), bastions_.end(), [](const auto& bastion) { return !bastion->is_useless(); });
  if (attempt_ || static_cast<std::size_t>(working) >= kMostConnections) return;
  if (failed_ && Watch::Clock::now() < failed_at_ + kFailureLasts) {
    if (working > 0) return;
    while (!waiting_.empty()) {
      auto& request = *waiting_.front();
      waiting_.pop_front();
      request.answer = fail(*failed_);
      request.wake->cancel();
    }
    return;
  }
  attempt_ = std::make_shared<Attempt>();
  asio::co_spawn(executor_, connect_one(shared_from_this(), attempt_),
                 asio::bind_cancellation_slot(attempt_->signal.slot(), [kept = attempt_](std::exception_ptr thrown) {
                   if (thrown) std::rethrow_exception(thrown);
                 }));
}

Awaitable<void> BastionPool::connect_one(std::shared_ptr<BastionPool> self, std::shared_ptr<Attempt> attempt) {
  co_await asio::this_coro::throw_if_cancelled(false);
  {
    Watch watch(co_await asio::this_coro::executor, attempt->signal, self->limit_);
    attempt->watch = &watch;
    auto connection = co_await self->connect_(watch);
    attempt->watch = nullptr;
    self->attempt_.reset();
    if (connection) {
      self->failed_.reset();
      const auto on_free = [weak = self->weak_from_this()] {
        if (const auto pool = weak.lock()) pool->assign();
      };
      self->bastions_.push_back(std::make_shared<Bastion>(self->name_, (*connection)->release(), on_free));
      self->assign();
      co_return;
    }
    if (!attempt->given_up) {
      self->failed_ = with_context(std::move(connection.error()), watch.phase());
      self->failed_at_ = Watch::Clock::now();
    }
  }
  if (!self->waiting_.empty()) self->grow();
}

}  // namespace trueup::ssh
