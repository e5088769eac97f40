#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.hpp"
#include "trueup/transport.hpp"

namespace trueup {

struct Watch::State : std::enable_shared_from_this<State> {
  State(boost::asio::any_io_executor executor, boost::asio::cancellation_signal& to_cancel,
        std::chrono::milliseconds of_host)
      : timer(std::move(executor)), signal(to_cancel), host_limit(of_host), host_deadline(Clock::now() + of_host) {}

  void begin(std::string name, std::chrono::milliseconds phase_limit) {
    phase = std::move(name);
    limit = phase_limit;
    phase_deadline = Clock::now() + limit;
    if (!final) over.reset();
    arm();
  }

  void arm() {
    timer.expires_at(closing ? phase_deadline : std::min(phase_deadline, host_deadline));
    timer.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      if (const auto self = weak.lock(); self && !error) self->check(Clock::now());
    });
  }

  void check(Clock::time_point now) {
    if (over) return;
    if (!closing && now >= host_deadline) {
      end({ErrorKind::timeout, fmt::format("not done within the host's limit of {}", duration_text(host_limit))}, true);
    } else if (now >= phase_deadline) {
      end({ErrorKind::timeout, fmt::format("no answer within {}", duration_text(limit))}, false);
    }
  }

  void end(Error why, bool is_final) {
    over = std::move(why);
    final = is_final;
    signal.emit(boost::asio::cancellation_type::terminal);
  }

  boost::asio::steady_timer timer;
  boost::asio::cancellation_signal& signal;
  const std::chrono::milliseconds host_limit;
  const Clock::time_point host_deadline;
  std::string phase = "waiting to begin";
  std::chrono::milliseconds limit{0};
  Clock::time_point phase_deadline;
  std::optional<Error> over;
  bool final = false, closing = false, hurried = false;
};

Watch::Watch(boost::asio::any_io_executor executor, boost::asio::cancellation_signal& signal,
             std::chrono::milliseconds host_limit)
    : state_(std::make_shared<State>(std::move(executor), signal, host_limit)) {}

Watch::~Watch() { state_->timer.cancel(); }

void Watch::begin(std::string phase, std::chrono::milliseconds limit) { state_->begin(std::move(phase), limit); }

void Watch::begin_closing(std::chrono::milliseconds limit) {
  if (state_->hurried) return;
  state_->closing = true;
  state_->final = false;
  state_->begin("closing", limit);
}

void Watch::stop(Error why) {
  if (!state_->final && !state_->closing) state_->end(std::move(why), true);
}

void Watch::hurry(Error why) {
  state_->hurried = true;
  if (!state_->final) state_->end(std::move(why), true);
}

const std::optional<Error>& Watch::over() const { return state_->over; }

bool Watch::is_final() const { return state_->final; }

const std::string& Watch::phase() const { return state_->phase; }

std::chrono::milliseconds Watch::left() const {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(state_->host_deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

}  // namespace trueup
