#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/connection.hpp"
#include "transport/descriptor.hpp"
#include "trueup/transport.hpp"

// Hosts behind a host (ProxyJump): one authenticated connection carries the connections to many. libssh2 does one thing
// at a time on a session, so one coroutine alone, the pump, works on it; each tunnel ends in a pair of sockets, and
// whoever uses one needs not know that it is none of TCP.

namespace trueup::ssh {

/// Our end of a tunnel, and what keeps it.
struct TunnelEnd {
  Descriptor socket;
  std::shared_ptr<Carrier> bastion;
};

/// A tunnel that is wanted. Its coroutine owns it and takes it out of every list before it goes.
struct TunnelRequest {
  std::string host;
  std::uint16_t port = 22;
  Watch* watch = nullptr;
  std::chrono::milliseconds limit{0};  ///< for the answer, from when it is asked for
  boost::asio::steady_timer* wake = nullptr;
  bool asked = false;
  bool lost = false;  ///< the connection went before there was an answer
  std::optional<Result<TunnelEnd>> answer;
};

/// One connection to a bastion. It belongs to no event loop while nothing goes through it.
class Bastion final : public Carrier, public std::enable_shared_from_this<Bastion> {
 public:
  Bastion(std::string name, Connection::Parts parts, std::function<void()> on_free);
  ~Bastion() override;

  /// It can be asked for a tunnel: it works, and is not being asked.
  bool is_free() const { return why_broken_.empty() && asking_ == nullptr && !unanswered_; }
  /// It will never be free again.
  bool is_useless() const { return is_broken() || (unanswered_ && !pumping_); }
  /// Only while is_free().
  void ask(TunnelRequest& request, boost::asio::any_io_executor executor);
  /// Nobody waits for the answer any more.
  void forget(const TunnelRequest& request);

  std::string story() override { return is_broken() ? name_ + ": " + why_broken_ : std::string(); }
  Awaitable<void> close(Watch&) override { co_return; }
  void begin_use(boost::asio::any_io_executor executor) override;
  void end_use() override;

 private:
  struct Tunnel {
    LIBSSH2_CHANNEL* channel = nullptr;
    Descriptor socket;  // closed: the user is gone, the channel is to go
    std::string to_host, to_user;
    bool user_ended = false, end_sent = false, host_ended = false;
    std::uint32_t watched = 0;  // epoll events
  };
  enum class Step { idle, moved, blocked };

  static Awaitable<void> pump(std::shared_ptr<Bastion> self);
  bool is_broken() const { return !why_broken_.empty(); }
  bool is_used() const { return asking_ != nullptr || users_ > 0; }
  bool has_goodbyes() const;
  void start(boost::asio::any_io_executor executor);
  bool work();
  Step open();
  Step from_user(Tunnel& tunnel);
  Step from_host(Tunnel& tunnel);
  Step drop(Tunnel& tunnel);
  Step judge(long answer);
  void answer(Result<TunnelEnd> answer);
  void break_down(std::string why);
  void listen();
  void listen_to(int fd, std::uint32_t events, std::uint32_t& before);
  void wake();

  const std::string name_;
  std::shared_ptr<Carrier> below_;
  Descriptor socket_;
  Connection::Handle handle_;  // after the socket, so that it goes first
  const std::function<void()> on_free_;
  Descriptor epoll_, bell_;
  std::uint32_t watched_ = 0;
  std::list<Tunnel> tunnels_;
  TunnelRequest* asking_ = nullptr;
  std::string asked_host_;
  std::uint16_t asked_port_ = 0;
  int users_ = 0;
  bool unanswered_ = false;  // libssh2 waits for an answer, whoever still wants it
  Tunnel* stuck_ = nullptr;  // its call must be repeated before any other
  Step (Bastion::*stuck_call_)(Tunnel&) = nullptr;
  bool open_stuck_ = false;
  bool pumping_ = false;
  std::string why_broken_;
};

/// The connections to one bastion: one, and more while all of them wait for an answer about a host that does not give
/// any, for libssh2 asks for one tunnel at a time.
class BastionPool : public std::enable_shared_from_this<BastionPool> {
 public:
  using Connect = std::function<Awaitable<Result<std::unique_ptr<Connection>>>(Watch&)>;

  /// `name`: of the bastion, for errors. `connect` makes an authenticated connection; `limit`: for all of that.
  BastionPool(std::string name, Connect connect, std::chrono::milliseconds limit)
      : name_(std::move(name)), connect_(std::move(connect)), limit_(limit) {}

  const std::string& name() const { return name_; }

  /// A stream to `host` as the bastion reaches it; `limit` for the answer. Errors: the bastion's own, with its name as
  /// context, the same for all hosts; unreachable, where the bastion will not or cannot connect.
  Awaitable<Result<TunnelEnd>> tunnel(std::string host, std::uint16_t port, Watch& watch,
                                      std::chrono::milliseconds limit);

 private:
  struct Attempt {
    boost::asio::cancellation_signal signal;
    Watch* watch = nullptr;
    bool given_up = false;  // nobody waits for it
  };
  static Awaitable<void> connect_one(std::shared_ptr<BastionPool> self, std::shared_ptr<Attempt> attempt);
  void assign();
  void grow();

  const std::string name_;
  const Connect connect_;
  const std::chrono::milliseconds limit_;
  boost::asio::any_io_executor executor_;
  std::vector<std::shared_ptr<Bastion>> bastions_;
  std::deque<TunnelRequest*> waiting_;
  std::shared_ptr<Attempt> attempt_;  // while a connection is being made
  std::optional<Error> failed_;       // why the last one could not be made
  Watch::Clock::time_point failed_at_;
};

}  // namespace trueup::ssh
