#include "run/check_worker.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "check/check_set.hpp"
#include "check/gather.hpp"

// To the worker:   length '\n' facts (JSON text)
// From the worker: lines. First one `error` line (JSON) for each mistake, then `ready` or `failed`. For each host: `N
// JSON` for each result of check N, at last `done`, or `failed WHY`. Which check is at work stands in memory that both
// see: a message for each would cost more than most checks do.

namespace trueup {
namespace {

constexpr int kLine = 3;  // the worker's end, the only file it has beside /dev/null
constexpr std::string_view kReady = "ready";
constexpr std::string_view kDone = "done";
constexpr std::string_view kFailed = "failed";
constexpr int kMostLostInARow = 3;  // processes: so it goes where a check is at fault
constexpr int kMostLost = 20;       // in all: hosts that do it on purpose cost the limit each

nlohmann::json to_json(const Error& error) {
  const auto at = error.at.value_or(SourcePos{});
  return {{"message", error.message}, {"file", at.file}, {"line", at.line}, {"column", at.column}};
}

Error error_from(const nlohmann::json& json) {
  return {ErrorKind::malformed, json.value("message", ""),
          SourcePos{json.value("file", ""), json.value("line", 0), json.value("column", 0)}, {}, {}};
}

std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// --- The worker's side
// ------------------------------------------------------------------------------------------------

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}
  void line(std::string_view text) {
    constexpr std::size_t kMostHeldBack = 64 * 1024;  // the other side counts, and stops whoever says too much
    (buffer_ += text) += '\n';
    if (buffer_.size() > kMostHeldBack) flush();
  }
  void flush() {
    for (std::string_view rest = buffer_; !rest.empty();) {
      const auto written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) ::_exit(0);  // nobody listens any more
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    buffer_.clear();
  }

 private:
  int fd_;
  std::string buffer_ = {};
};

bool read_exactly(int fd, char* into, std::size_t size) {
  while (size > 0) {
    const auto got = ::read(fd, into, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

std::optional<std::string> read_facts(int fd) {
  std::size_t size = 0;
  for (char digit = 0;;) {
    if (!read_exactly(fd, &digit, 1)) return std::nullopt;
    if (digit == '\n') break;
    size = size * 10 + static_cast<std::size_t>(digit - '0');
  }
  std::string facts(size, '\0');
  if (!read_exactly(fd, facts.data(), size)) return std::nullopt;
  return facts;
}

void set_limit(int which, rlim_t value) {
  const rlimit limit{value, value};
  ::setrlimit(static_cast<__rlimit_resource>(which), &limit);
}

void confine(int fd, pid_t parent, std::size_t memory_bytes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  // Ctrl-C reaches the whole group; it is the other side that decides when to stop.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int line = ::fcntl(fd, F_DUPFD, 10);
  // libjq complains and aborts when it has no memory; the other side says it better.
  const int null = ::open("/dev/null", O_RDWR);
  for (const int standard : {0, 1, 2}) ::dup2(null, standard);
  ::dup2(line, kLine);
  ::close_range(kLine + 1, ~0U, 0);
  ::clearenv();
#ifndef __SANITIZE_ADDRESS__  // its shadow memory is larger than any limit
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  set_limit(RLIMIT_AS, pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + memory_bytes);
#else
  (void)memory_bytes;
#endif
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_FSIZE, 0);
#ifndef __SANITIZE_ADDRESS__  // UBSan looks at memory by way of a pipe, and takes what it could not look at for broken
  set_limit(RLIMIT_NOFILE, 0);
#endif
}

// A number in memory that a child of ours shares with us.
class SharedNumber {
 public:
  SharedNumber() : at_(::mmap(nullptr, sizeof(Number), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    ::new (at_) Number(kNone);
  }
  ~SharedNumber() { ::munmap(at_, sizeof(Number)); }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;

  static constexpr auto kNone = std::numeric_limits<std::size_t>::max();
  using Number = std::atomic<std::size_t>;
  static_assert(Number::is_always_lock_free);
  Number& operator*() const { return *static_cast<Number*>(at_); }

 private:
  void* at_;
};

[[noreturn]] void work(int fd, std::atomic<std::size_t>& at_work, const std::vector<Check>& checks,
                       const std::vector<Fix>& fixes) {
  Output output(fd);
  std::vector<Error> errors;
  const auto set = CheckSet::compile(checks, fixes, errors);
  for (const auto& error : errors) output.line(dump(to_json(error)));
  output.line(set ? kReady : kFailed);
  output.flush();
  if (!set) ::_exit(0);
  while (const auto facts = read_facts(fd)) {
    const auto evaluated = set->evaluate(*facts, [&](std::size_t check, std::string_view result) {
      if (result.empty())
        at_work = check;
      else
        output.line(fmt::format("{} {}", check, result));
    });
    output.line(evaluated ? std::string(kDone) : fmt::format("{} {}", kFailed, printable(evaluated.error().message)));
    output.flush();
  }
  ::_exit(0);
}

}  // namespace

// --- Our side
// -----------------------------------------------------------------------------------------------------------

struct CheckWorker::State {
  std::vector<Check> checks;
  std::vector<Fix> fixes;
  Limits limits;
  pid_t pid = -1;
  int fd = -1;
  SharedNumber at_work = {};  // the check that the worker has begun last
  std::string buffer = {};    // received and not yet taken
  int lost = 0;             // processes that had to be ended, or ended themselves
  int lost_in_a_row = 0;    // since the last host that was judged
  std::optional<Error> broken = {};

  ~State() { end(); }

  void end() {
    if (pid >= 0) ::kill(pid, SIGKILL);
    if (pid >= 0) reap();
  }

  int reap() {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
    ::close(std::exchange(fd, -1));
    return status;
  }

  // Why the line closed.
  std::string death() {
    const int status = reap();
    // Without memory libjq aborts or, in 1.6, reads through a null pointer.
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
      return fmt::format("ran out of memory (more than {}) or crashed libjq (signal {})",
                         size_text(limits.memory_bytes), WTERMSIG(status));
    if (WIFSIGNALED(status)) return "was killed";
    return fmt::format("ended with status {}", WEXITSTATUS(status));
  }

  Result<void> launch(std::vector<Error>& errors);

  enum class Wait { line, late, closed };

  // How long an answer may take: of the process's own time, for a machine that is busy with other things is no fault of
  // a check; and of the clock, for a process that does not come to work at all.
  struct Patience {
    std::chrono::nanoseconds cpu_end;
    std::chrono::steady_clock::time_point end;
  };
  // A machine may be as busy as that, and for a while as busy as it likes.
  std::chrono::milliseconds by_the_clock(std::chrono::milliseconds limit) const {
    return std::max(3 * limit, limits.least_by_the_clock);
  }

  Patience patience(std::chrono::milliseconds limit) const {
    return {cpu_time() + limit, std::chrono::steady_clock::now() + by_the_clock(limit)};
  }

  // Of the worker, so far.
  std::chrono::nanoseconds cpu_time() const {
    clockid_t clock{};
    timespec used{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  }

  bool has_used_it_up(const Patience& patience) const { return cpu_time() >= patience.cpu_end; }

  // Until the earlier of both ends.
  std::chrono::milliseconds left(const Patience& patience) const {
    return std::chrono::ceil<std::chrono::milliseconds>(std::min<std::chrono::nanoseconds>(
        patience.cpu_end - cpu_time(), patience.end - std::chrono::steady_clock::now()));
  }

  // The next line, if it comes in time.
  Wait next_line(std::string& line, const Patience& patience) {
    for (std::size_t searched = 0;;) {
      if (const auto end = buffer.find('\n', searched); end != buffer.npos) {
        line = buffer.substr(0, end);
        buffer.erase(0, end + 1);
        return Wait::line;
      }
      searched = buffer.size();
      const auto wait = left(patience).count();
      if (wait <= 0) return Wait::late;
      pollfd wanted{fd, POLLIN, 0};
      const int ready = ::poll(&wanted, 1, static_cast<int>(std::min<long>(wait, 60'000)));
      if (ready <= 0) continue;
      char chunk[65'536];
      const auto got = ::recv(fd, chunk, sizeof chunk, MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return Wait::closed;
      buffer.append(chunk, static_cast<std::size_t>(got));
    }
  }

  bool send(std::string_view text) {
    while (!text.empty()) {
      const auto sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  Error stop(ErrorKind kind, std::string message) {
    end();
    ++lost;
    ++lost_in_a_row;
    broken = Error{kind, std::move(message), {}, {}, {}};
    return *broken;
  }

  Error stop_at(std::size_t check, ErrorKind kind, std::string_view what) {
    auto error = stop(kind, check < checks.size() ? fmt::format("check {}: {}", checks[check].id, what)
                                                  : fmt::format("the checks' process {}", what));
    if (check < checks.size()) error.at = broken->at = checks[check].at;
    return error;
  }
};

CheckWorker::CheckWorker(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckWorker::~CheckWorker() = default;
CheckWorker::CheckWorker(CheckWorker&&) noexcept = default;
CheckWorker& CheckWorker::operator=(CheckWorker&&) noexcept = default;

// Forks, and waits until all checks are compiled.
Result<void> CheckWorker::State::launch(std::vector<Error>& errors) {
  const auto failed = [&](Error error) {
    errors.push_back(error);
    return fail(std::move(error));
  };
  int line[2];
  broken = Error{ErrorKind::io, "the checks' process did not start", {}, {}, {}};  // until it is ready
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) != 0)
    return failed({ErrorKind::io, fmt::format("cannot make a socket pair: {}", std::strerror(errno)), {}, {}, {}});
  const auto parent = ::getpid();
  buffer.clear();
  fd = line[0];
  pid = ::fork();
  if (pid == 0) {
    confine(line[1], parent, limits.memory_bytes);
    try {
      work(kLine, *at_work, checks, fixes);
    } catch (...) {
      ::abort();  // no memory, mostly; nothing here may unwind into the caller's frames
    }
  }
  ::close(line[1]);
  if (pid < 0) {
    ::close(std::exchange(fd, -1));
    return failed({ErrorKind::io, fmt::format("cannot fork: {}", std::strerror(errno)), {}, {}, {}});
  }

  const auto errors_before = errors.size();
  const auto wait = patience(limits.compile);
  for (std::string text;;) {
    const auto got = next_line(text, wait);
    if (got == Wait::late)
      return failed(stop(
          ErrorKind::timeout,
          has_used_it_up(wait)
              ? fmt::format("compiling the checks took longer than {} of processor time", duration_text(limits.compile))
              : fmt::format("compiling the checks was not done after {}: this machine is too busy",
                            duration_text(by_the_clock(limits.compile)))));
    if (got == Wait::closed) return failed(stop(ErrorKind::limit, "compiling the checks: libjq " + death()));
    if (text == kReady) {
      broken.reset();
      return {};
    }
    if (text == kFailed) return fail(errors.at(errors_before));
    errors.push_back(error_from(nlohmann::json::parse(text)));
  }
}

Result<CheckWorker> CheckWorker::start(const std::vector<Check>& checks, const std::vector<Fix>& fixes,
                                       std::vector<Error>& errors, const Limits& limits) {
  auto state = std::make_unique<State>();
  state->checks = checks;
  state->fixes = fixes;
  state->limits = limits;
  if (auto launched = state->launch(errors); !launched) return fail(std::move(launched).error());
  return CheckWorker(std::move(state));
}

bool CheckWorker::is_spent() const {
  return state_->lost_in_a_row >= kMostLostInARow || state_->lost >= kMostLost;
}

Result<Assessment> CheckWorker::assess(const nlohmann::json& facts, std::chrono::milliseconds limit) const {
  if (state_->broken) {
    if (is_spent()) return fail(*state_->broken);
    std::vector<Error> errors;
    if (auto launched = state_->launch(errors); !launched) return fail(std::move(launched).error());
  }
  constexpr auto kNone = SharedNumber::kNone;
  *state_->at_work = kNone;
  const auto text = dump(facts);
  if (!state_->send(fmt::format("{}\n{}", text.size(), text)))
    return fail(state_->stop_at(kNone, ErrorKind::limit, state_->death()));

  Gatherer gatherer(state_->checks);
  const auto stop_there = [&](ErrorKind kind, std::string_view what) {
    return fail(state_->stop_at(*state_->at_work, kind, what));
  };
  std::size_t received = 0;
  const auto wait = state_->patience(limit);
  for (std::string line;;) {
    const auto got = state_->next_line(line, wait);
    if (got == State::Wait::late)
      return stop_there(
          ErrorKind::internal,
          state_->has_used_it_up(wait)
              ? fmt::format("was still at work after the {} of processor time that all checks of a host have; its "
                            "expressions may never end",
                            duration_text(limit))
              : fmt::format("was not done after {}: this machine is too busy",
                            duration_text(state_->by_the_clock(limit))));
    if (got == State::Wait::closed) return stop_there(ErrorKind::internal, state_->death());
    if ((received += line.size()) > state_->limits.answer_bytes)
      return stop_there(ErrorKind::internal, fmt::format("gives more than {}", size_text(state_->limits.answer_bytes)));
    if (line == kDone) {
      state_->lost_in_a_row = 0;
      return gatherer.finish();
    }
    if (line.starts_with(kFailed)) return fail(state_->stop_at(kNone, ErrorKind::malformed, line));
    std::size_t number = 0;
    const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), number);
    const std::string_view rest(end, static_cast<std::size_t>(line.data() + line.size() - end));
    if (problem != std::errc() || number >= state_->checks.size() || rest.empty())
      return stop_there(ErrorKind::malformed, "gave an answer that is none");
    if (const auto added = gatherer.add(number, rest.substr(1)); !added)
      return fail(state_->stop_at(number, ErrorKind::malformed, added.error().message));
  }
}

}  // namespace trueup
