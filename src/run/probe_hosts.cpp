#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <system_error>
#include <utility>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "probe/bundle.hpp"
#include "probe/frames.hpp"
#include "run/probe_hosts_over.hpp"
#include "run/ssh_options.hpp"
#include "transport/escalation.hpp"
#include "transport/local.hpp"
#include "transport/ssh.hpp"

namespace trueup {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Clock = Watch::Clock;

constexpr auto kClosingLimit = 2s;  // for what goes in order: channel and session closed, the shell's end awaited
constexpr auto kProgressEvery = 200ms;

// Those that end a run.
sigset_t answered_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// While a run answers SIGINT and SIGTERM they arrive, also where SignalsHeld made them wait.
class SignalsAnswered {
 public:
  SignalsAnswered() {
    const auto signals = answered_signals();
    pthread_sigmask(SIG_UNBLOCK, &signals, &before_);
  }
  ~SignalsAnswered() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsAnswered(const SignalsAnswered&) = delete;
  SignalsAnswered& operator=(const SignalsAnswered&) = delete;

 private:
  sigset_t before_;
};

// One host under way.
struct Task {
  Task(std::size_t host_index, Call its_call) : host(host_index), call(std::move(its_call)) {}

  const std::size_t host;
  const Call call;
  const Clock::time_point began = Clock::now();
  asio::cancellation_signal signal;  // before whatever waits on it
  Watch* watch = nullptr;            // while its coroutine runs
  FrameReader* reader = nullptr;     // while probes run

  std::string doing() const {
    if (reader != nullptr)
      if (const auto running = reader->running(); !running.empty())
        return fmt::format("probing: {}", join(running, ", "));
    return watch != nullptr ? watch->phase() : std::string();
  }
};

// Lends a place in a Task to something that lives in a coroutine, for as long as that lives.
template <class T>
class Lent {
 public:
  Lent(T*& place, T& lent) : place_(place) { place_ = &lent; }
  ~Lent() { place_ = nullptr; }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

 private:
  T*& place_;
};

class Run {
 public:
  Run(const std::vector<Host>& hosts, const std::vector<Call>& first, const ProbingOptions& options,
      const TransportFor& transport_for, const OnAnswer& on_answer, const OnProgress& on_progress)
      : hosts_(hosts),
        options_(options),
        transport_for_(transport_for),
        on_answer_(on_answer),
        on_progress_(on_progress),
        signals_(context_, SIGINT, SIGTERM),
        deadline_(context_),
        tick_(context_) {
    assert(first.size() == hosts.size());
    for (std::size_t host = 0; host < first.size(); ++host) waiting_.emplace_back(host, first[host]);
  }

  std::optional<Error> run() {
    const SignalsAnswered answered;
    if (options_.deadline) {
      deadline_.expires_after(*options_.deadline);
      deadline_.async_wait([this](const boost::system::error_code& error) {
        if (!error)
          stop({ErrorKind::timeout, fmt::format("the run's deadline of {} passed", duration_text(*options_.deadline))});
      });
    }
    // Under nohup the end of the terminal is to be ignored, and stays so.
    if (std::signal(SIGHUP, SIG_IGN) != SIG_IGN) signals_.add(SIGHUP);
    await_signal();
    admit();
    if (!tasks_.empty()) tick();
    context_.run();
    return stopped_;
  }

 private:
  void await_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      const Error why{ErrorKind::interrupted, "interrupted"};
      if (stopped_)
        for (auto& task : tasks_)
          if (task.watch != nullptr) task.watch->hurry(why);
      stop(why);
      await_signal();
    });
  }

  void stop(Error why) {
    if (stopped_) return;
    stopped_ = why;
    for (auto& task : tasks_)
      if (task.watch != nullptr) task.watch->stop(why);
    for (auto& pause : pauses_) pause.cancel();
    admit();
  }

  // Asks hosts up to the bound; after a stop hands back those that have not begun.
  void admit() {
    while (stopped_ && !waiting_.empty()) {
      HostProbing probing;
      probing.host = waiting_.front().first;
      probing.error = with_context(*stopped_, "not begun");
      waiting_.pop_front();
      deliver(std::move(probing));
    }
    while (!waiting_.empty() && tasks_.size() < std::max<std::size_t>(1, options_.forks)) {
      auto [host, call] = std::move(waiting_.front());
      waiting_.pop_front();
      auto task = tasks_.emplace(tasks_.end(), host, std::move(call));
      const auto done = [this, task](std::exception_ptr thrown, HostProbing probing) {
        tasks_.erase(task);
        if (thrown) std::rethrow_exception(thrown);
        deliver(std::move(probing));
        admit();
      };
      asio::co_spawn(context_, probe(*task), asio::bind_cancellation_slot(task->signal.slot(), done));
    }
    if (tasks_.empty() && waiting_.empty() && pauses_.empty()) {
      signals_.cancel();
      deadline_.cancel();
      tick_.cancel();
    }
  }

  void deliver(HostProbing probing) {
    const auto host = probing.host;
    const bool failed = probing.error.has_value();
    auto next = on_answer_ ? on_answer_(std::move(probing)) : std::optional<Call>();
    if (next && *next && !stopped_) {
      call_again(host, **std::move(next));
      return;
    }
    ++done_;
    if (failed) ++failed_;
    if (!next) stop(std::move(next.error()));
  }

  void call_again(std::size_t host, Call call) {
    if (call.pause <= 0ms) {
      waiting_.emplace_back(host, std::move(call));
      return;
    }
    const auto pause = pauses_.emplace(pauses_.end(), context_);
    pause->expires_after(call.pause);
    pause->async_wait([this, pause, host, call = std::move(call)](const boost::system::error_code&) {
      pauses_.erase(pause);
      waiting_.emplace_back(host, call);
      admit();
    });
  }

  void tick() {
    if (!on_progress_) return;
    tick_.expires_after(kProgressEvery);
    tick_.async_wait([this](const boost::system::error_code& error) {
      if (error || (tasks_.empty() && waiting_.empty() && pauses_.empty())) return;
      Progress now{hosts_.size(), done_, failed_, tasks_.size() + pauses_.size(), "", ""};
      if (!tasks_.empty()) {
        now.slowest_host = hosts_[tasks_.front().host].name;
        now.slowest_doing = tasks_.front().doing();
      }
      on_progress_(now);
      tick();
    });
  }

  Awaitable<HostProbing> probe(Task& task) {
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto& host = hosts_[task.host];
    Watch watch(co_await asio::this_coro::executor, task.signal,
                task.call.host_timeout.value_or(options_.host_timeout));
    const Lent<Watch> lent(task.watch, watch);
    if (stopped_) watch.stop(*stopped_);

    HostProbing probing;
    probing.host = task.host;
    auto session = co_await transport_for_(host).connect(host, watch);
    if (session) {
      probing.error = co_await probe_over(**session, task, probing.outputs);
      watch.begin_closing(kClosingLimit);
      co_await (*session)->close();
    } else {
      probing.error = with_context(std::move(session.error()), watch.phase());
    }
    if (probing.error) probing.error->context.push_back(fmt::format("on host {}", host.name));
    probing.duration = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - task.began);
    co_return probing;
  }

  // All probes of one host, level by level, over one session. Outputs come in the playbook's order, lost ones included.
  Awaitable<std::optional<Error>> probe_over(Session& session, Task& task, std::vector<ProbeOutput>& outputs) {
    const auto& host = hosts_[task.host];
    const auto& load = *task.call.load;
    std::map<std::string, ProbeOutput> by_id;
    std::optional<Escalation> escalation;
    std::optional<Error> error;
    if (host.become == Become::none || session.login() == host.become_user) {
      error = co_await probe_level(session, task, load.together, escalation, by_id);
    } else {
      escalation = Escalation{host.become, session.login(), host.become_user, options_.become_password.has_value(),
                              random_hex(8)};
      error = co_await probe_level(session, task, load.for_host, escalation, by_id);
      escalation.reset();
      // A refused escalation leaves the connection whole; any other error does not.
      if (!load.for_login.empty() && (!error || error->kind == ErrorKind::escalation)) {
        auto login_error = co_await probe_level(session, task, load.for_login, escalation, by_id);
        if (!error) error = std::move(login_error);
      }
    }
    for (const auto& id : load.order) {
      auto& output = by_id[id];
      output.id = id;
      if (output.status == ProbeStatus::lost && output.detail.empty() && error) output.detail = to_string(*error);
      outputs.push_back(std::move(output));
    }
    co_return error;
  }

  Awaitable<std::optional<Error>> probe_level(Session& session, Task& task, const std::vector<Probe>& probes,
                                              const std::optional<Escalation>& escalation,
                                              std::map<std::string, ProbeOutput>& by_id) {
    auto& watch = *task.watch;
    BundleOptions bundle_options;
    bundle_options.nonce = random_hex(16);
    bundle_options.tag = random_hex(8);
    bundle_options.host_limit = bundle_limit(watch.left());
    const auto& bundle = task.call.load->bundle_of(probes);
    FrameReader reader(probes, bundle_options.nonce);

    std::unique_ptr<Channel> channel;
    auto error = co_await run_bundle(session, task, probes, bundle, bundle_options, escalation, reader, channel);
    std::string why_lost;
    if (error) {
      *error = with_context(std::move(*error), watch.phase());
      why_lost = to_string(*error);
      if (const auto running = reader.running(); !running.empty())
        error->message += fmt::format("; still running: {}", join(running, ", "));
    }
    for (auto& output : reader.take(why_lost)) by_id.insert_or_assign(output.id, output);
    if (channel) {
      if (watch.is_final())
        watch.begin_closing(kClosingLimit);
      else
        watch.begin("closing the shell", kClosingLimit);
      co_await channel->close();
    }
    co_return error;
  }

  // The bundle ends itself a little before we would end it, so that its results still come.
  static std::chrono::seconds bundle_limit(std::chrono::milliseconds left) {
    return std::max(1s, std::chrono::duration_cast<std::chrono::seconds>(left) - 2s);
  }

  // Lets the loop turn before each read, for a host that never stops talking; `bytes_left` bounds what all reads give.
  static Awaitable<Result<Channel::Chunk>> next_chunk(Channel& channel, const Watch& watch, std::size_t& bytes_left) {
    co_await asio::post(co_await asio::this_coro::executor, asio::as_tuple(asio::use_awaitable));
    if (watch.over()) co_return fail(*watch.over());
    auto chunk = co_await channel.read();
    if (!chunk) co_return chunk;
    const auto bytes = chunk->output.size() + chunk->errors.size();
    if (bytes > bytes_left)
      co_return fail(ErrorKind::limit, "the host sends more than all its probes together may");
    bytes_left -= bytes;
    co_return chunk;
  }

  // Of a probe's output on the wire, at most: base64 with line ends, and the frames' own lines.
  static std::size_t encoded_bytes(const Probe& probe) { return probe.max_bytes / 2 * 3 + 128 * 1024; }

  Awaitable<std::optional<Error>> run_bundle(Session& session, Task& task, const std::vector<Probe>& probes,
                                             const PackedBundle& bundle, const BundleOptions& bundle_options,
                                             const std::optional<Escalation>& escalation, FrameReader& reader,
                                             std::unique_ptr<Channel>& channel) {
    auto& watch = *task.watch;
    watch.begin("starting a shell", options_.connect_timeout);
    auto command = PackedBundle::command(bundle_options);
    auto input = bundle.input(bundle_options);
    if (escalation) command = escalated_command(*escalation, command);
    std::string at_once;
    if (!escalation) at_once.swap(input);
    auto opened = co_await session.exec(std::move(command), std::move(at_once));
    if (!opened) co_return opened.error();
    channel = *std::move(opened);
    if (escalation) {
      watch.begin(fmt::format("becoming {}", escalation->to), options_.connect_timeout);
      auto refused = co_await escalate(*channel, *escalation, reader, watch);
      if (refused) co_return refused;
    }

    watch.begin("probing", task.call.host_timeout.value_or(options_.host_timeout));
    const Lent<FrameReader> lent(task.reader, reader);
    const auto written = co_await channel->write(std::move(input));
    if (!written) co_return written.error();
    bool is_plain = false;
    std::string errors;
    std::size_t bytes_left = kNoiseBytes;
    for (const auto& probe : probes) bytes_left += encoded_bytes(probe);
    while (!reader.is_finished()) {
      const auto chunk = co_await next_chunk(*channel, watch, bytes_left);
      if (!chunk) co_return chunk.error();
      reader.feed(chunk->output);
      if (reader.wants_plain() && !std::exchange(is_plain, true)) {
        auto plain = bundle.plain(bundle_options);
        const auto also_written = co_await channel->write(std::move(plain));
        if (!also_written) co_return also_written.error();
      }
      errors += chunk->errors;
      if (errors.size() > kErrorsKept) errors.erase(0, errors.size() - kErrorsKept);
      if (chunk->ended && !reader.is_finished()) {
        co_await channel->close();
        co_return shell_ended(channel->exit_status(), errors);
      }
    }
    co_return std::nullopt;
  }

  static Error shell_ended(std::optional<int> exit_status, const std::string& errors) {
    const auto status = exit_status ? fmt::format(" with status {}", *exit_status) : std::string();
    const auto said = shorten(printable(trim(errors)), 300);
    return {ErrorKind::unreachable,
            fmt::format("the shell ended{} before its last probe{}{}", status, said.empty() ? "" : ": ", said),
            {},
            {},
            "something on the host ended it: the account's login shell, a limit, an out-of-memory kill"};
  }

  // Talks to sudo or doas until the shell is ready; what the shell has said by then belongs to the reader.
  Awaitable<std::optional<Error>> escalate(Channel& channel, const Escalation& escalation, FrameReader& reader,
                                           const Watch& watch) {
    EscalationDialogue dialogue(escalation);
    std::size_t bytes_left = kNoiseBytes;
    for (;;) {
      const auto chunk = co_await next_chunk(channel, watch, bytes_left);
      if (!chunk) co_return chunk.error();
      const auto next = dialogue.feed(chunk->output, chunk->errors);
      if (!next) co_return next.error();
      if (*next == EscalationDialogue::Next::ready) break;
      if (chunk->ended) {
        co_await channel.close();
        co_return dialogue.ended(channel.exit_status());
      }
      if (*next == EscalationDialogue::Next::send_password) {
        auto password = fmt::format("{}\n", options_.become_password->reveal());
        const auto written = co_await channel.write(std::move(password));
        if (!written) co_return written.error();
      }
    }
    reader.feed(dialogue.rest());
    co_return std::nullopt;
  }

  static constexpr std::size_t kErrorsKept = 4096;
  static constexpr std::size_t kNoiseBytes = 1024 * 1024;  // banners, warnings on standard error

  const std::vector<Host>& hosts_;
  const ProbingOptions& options_;
  const TransportFor& transport_for_;
  const OnAnswer& on_answer_;
  const OnProgress& on_progress_;
  std::deque<std::pair<std::size_t, Call>> waiting_;
  std::list<Task> tasks_;  // in the order in which they began; before the loop, whose coroutines refer to them
  asio::io_context context_{1};
  asio::signal_set signals_;
  asio::steady_timer deadline_, tick_;
  std::list<asio::steady_timer> pauses_;
  std::size_t done_ = 0, failed_ = 0;
  std::optional<Error> stopped_;
};

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  if (::getentropy(raw.data(), raw.size()) != 0) throw std::system_error(errno, std::generic_category(), "getentropy");
  return hex(raw);
}

ProbeLoad::ProbeLoad(const Playbook& playbook) : signatures(playbook.signatures) {
  for (const auto& probe : playbook.probes) {
    order.push_back(probe.id);
    (probe.level == ProbeLevel::host ? for_host : for_login).push_back(probe);
    together.push_back(probe);
    together.back().level = ProbeLevel::host;
  }
}

const PackedBundle& ProbeLoad::bundle_of(const std::vector<Probe>& probes) const {
  auto& bundle = bundles_[&probes == &together ? 0 : &probes == &for_host ? 1 : 2];
  if (!bundle) bundle.emplace(probes, signatures);
  return *bundle;
}

SignalsHeld::SignalsHeld() {
  const auto signals = answered_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
}

SignalsHeld::~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool SignalsHeld::is_pending() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1;
}

std::optional<Error> call_hosts_over(const TransportFor& transport_for, const std::vector<Host>& hosts,
                                     const std::vector<Call>& first, const ProbingOptions& options,
                                     const OnAnswer& on_answer, const OnProgress& on_progress) {
  return Run(hosts, first, options, transport_for, on_answer, on_progress).run();
}

std::optional<Error> probe_hosts_over(const TransportFor& transport_for, const std::vector<Host>& hosts,
                                      const Playbook& playbook, const ProbingOptions& options, const OnHost& on_host,
                                      const OnProgress& on_progress) {
  const Call call{std::make_shared<const ProbeLoad>(playbook), {}, {}};
  const OnAnswer on_answer = [&](HostProbing probing) -> Result<std::optional<Call>> {
    if (on_host)
      if (auto why = on_host(std::move(probing))) return fail(*std::move(why));
    return std::nullopt;
  };
  return call_hosts_over(transport_for, hosts, std::vector<Call>(hosts.size(), call), options, on_answer, on_progress);
}

SshOptions ssh_options(const ProbingOptions& options) {
  const char* const agent = std::getenv("SSH_AUTH_SOCK");
  SshOptions ssh{options.default_user, options.home, agent == nullptr ? "" : agent, options.connect_timeout};
  ssh.connect_timeout_wins = options.connect_timeout_given;
  ssh.config = options.ssh_config;
  ssh.jump = options.jump;
  ssh.accept_new_host_keys = options.accept_new_host_keys;
  ssh.note = options.note;
  return ssh;
}

namespace {

// The transports that hosts are reached by.
class Transports {
 public:
  explicit Transports(const ProbingOptions& options) : ssh_(ssh_options(options)) {}
  TransportFor by_host() {
    return [this](const Host& host) -> Transport& {
      if (host.transport == TransportKind::local) return local_;
      return ssh_;
    };
  }

 private:
  SshTransport ssh_;
  LocalTransport local_;
};

}  // namespace

std::optional<Error> probe_hosts(const std::vector<Host>& hosts, const Playbook& playbook,
                                 const ProbingOptions& options, const OnHost& on_host, const OnProgress& on_progress) {
  return probe_hosts_over(Transports(options).by_host(), hosts, playbook, options, on_host, on_progress);
}

std::optional<Error> call_hosts(const std::vector<Host>& hosts, const std::vector<Call>& first,
                                const ProbingOptions& options, const OnAnswer& on_answer,
                                const OnProgress& on_progress) {
  return call_hosts_over(Transports(options).by_host(), hosts, first, options, on_answer, on_progress);
}

}  // namespace trueup
