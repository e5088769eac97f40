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
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <list>
#include <map>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "probe/bundle.hpp"
#include "probe/frames.hpp"
#include "run/probe_hosts_over.hpp"
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

// The probes of a playbook as they travel: together where one account does it all, else by level.
struct Loads {
  explicit Loads(const Playbook& playbook) {
    for (const auto& probe : playbook.probes) {
      order.push_back(probe.id);
      (probe.level == ProbeLevel::host ? for_host : for_login).push_back(probe);
      together.push_back(probe);
      together.back().level = ProbeLevel::host;
    }
  }
  std::vector<std::string> order;
  std::vector<Probe> together, for_host, for_login;
};

// One host under way.
struct Task {
  Task(std::size_t host_index) : host(host_index) {}

  const std::size_t host;
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
  Run(const std::vector<Host>& hosts, const Playbook& playbook, const ProbingOptions& options,
      const TransportFor& transport_for, const OnHost& on_host,
      const std::function<void(const Progress&)>& on_progress)
      : hosts_(hosts),
        playbook_(playbook),
        options_(options),
        transport_for_(transport_for),
        on_host_(on_host),
        on_progress_(on_progress),
        loads_(playbook),
        signals_(context_, SIGINT, SIGTERM),
        deadline_(context_),
        tick_(context_) {}

  std::optional<Error> run() {
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
    admit();
  }

  // Starts hosts up to the bound; after a stop hands back those that have not begun.
  void admit() {
    for (; stopped_ && next_ < hosts_.size(); ++next_) {
      HostProbing probing;
      probing.host = next_;
      probing.error = with_context(*stopped_, "not begun");
      deliver(std::move(probing));
    }
    while (next_ < hosts_.size() && tasks_.size() < std::max<std::size_t>(1, options_.forks)) {
      auto task = tasks_.emplace(tasks_.end(), next_++);
      const auto done = [this, task](std::exception_ptr thrown, HostProbing probing) {
        tasks_.erase(task);
        if (thrown) std::rethrow_exception(thrown);
        deliver(std::move(probing));
        admit();
      };
      asio::co_spawn(context_, probe(*task), asio::bind_cancellation_slot(task->signal.slot(), done));
    }
    if (tasks_.empty() && next_ == hosts_.size()) {
      signals_.cancel();
      deadline_.cancel();
      tick_.cancel();
    }
  }

  void deliver(HostProbing probing) {
    ++done_;
    if (probing.error) ++failed_;
    if (!on_host_) return;
    if (auto why = on_host_(std::move(probing))) stop(*std::move(why));
  }

  void tick() {
    if (!on_progress_) return;
    tick_.expires_after(kProgressEvery);
    tick_.async_wait([this](const boost::system::error_code& error) {
      if (error || tasks_.empty()) return;
      const auto& slowest = tasks_.front();
      on_progress_({hosts_.size(), done_, failed_, tasks_.size(), hosts_[slowest.host].name, slowest.doing()});
      tick();
    });
  }

  Awaitable<HostProbing> probe(Task& task) {
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto& host = hosts_[task.host];
    Watch watch(co_await asio::this_coro::executor, task.signal, options_.host_timeout);
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
    std::map<std::string, ProbeOutput> by_id;
    std::optional<Escalation> escalation;
    std::optional<Error> error;
    if (host.become == Become::none || session.login() == host.become_user) {
      error = co_await probe_level(session, task, loads_.together, ProbeLevel::host, escalation, by_id);
    } else {
      escalation = Escalation{host.become, session.login(), host.become_user, options_.become_password.has_value(),
                              random_hex(8)};
      error = co_await probe_level(session, task, loads_.for_host, ProbeLevel::host, escalation, by_id);
      escalation.reset();
      // A refused escalation leaves the connection whole; any other error does not.
      if (!loads_.for_login.empty() && (!error || error->kind == ErrorKind::escalation)) {
        auto login_error = co_await probe_level(session, task, loads_.for_login, ProbeLevel::login, escalation, by_id);
        if (!error) error = std::move(login_error);
      }
    }
    for (const auto& id : loads_.order) {
      auto& output = by_id[id];
      output.id = id;
      if (output.status == ProbeStatus::lost && output.detail.empty() && error) output.detail = to_string(*error);
      outputs.push_back(std::move(output));
    }
    co_return error;
  }

  Awaitable<std::optional<Error>> probe_level(Session& session, Task& task, const std::vector<Probe>& probes,
                                              ProbeLevel level, const std::optional<Escalation>& escalation,
                                              std::map<std::string, ProbeOutput>& by_id) {
    auto& watch = *task.watch;
    BundleOptions bundle_options;
    bundle_options.nonce = random_hex(16);
    bundle_options.tag = random_hex(8);
    bundle_options.host_limit = bundle_limit(watch.left());
    const auto bundle = make_bundle(probes, playbook_.signatures, level, bundle_options);
    FrameReader reader(probes, bundle_options.nonce);

    std::unique_ptr<Channel> channel;
    auto error = co_await run_bundle(session, task, probes, bundle, escalation, reader, channel);
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
                                             const Bundle& bundle,
                                             const std::optional<Escalation>& escalation, FrameReader& reader,
                                             std::unique_ptr<Channel>& channel) {
    auto& watch = *task.watch;
    watch.begin("starting a shell", options_.connect_timeout);
    auto command = escalation ? escalated_command(*escalation, bundle.command) : bundle.command;
    auto opened = co_await session.exec(std::move(command));
    if (!opened) co_return opened.error();
    channel = *std::move(opened);
    if (escalation) {
      watch.begin(fmt::format("becoming {}", escalation->to), options_.connect_timeout);
      auto refused = co_await escalate(*channel, *escalation, reader, watch);
      if (refused) co_return refused;
    }

    watch.begin("probing", options_.host_timeout);
    const Lent<FrameReader> lent(task.reader, reader);
    const auto written = co_await channel->write(bundle.script);
    if (!written) co_return written.error();
    std::string errors;
    std::size_t bytes_left = kNoiseBytes + bundle.script.size();
    for (const auto& probe : probes) bytes_left += encoded_bytes(probe);
    while (!reader.is_finished()) {
      const auto chunk = co_await next_chunk(*channel, watch, bytes_left);
      if (!chunk) co_return chunk.error();
      reader.feed(chunk->output);
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
  const Playbook& playbook_;
  const ProbingOptions& options_;
  const TransportFor& transport_for_;
  const OnHost& on_host_;
  const std::function<void(const Progress&)>& on_progress_;
  const Loads loads_;
  std::list<Task> tasks_;  // in the order in which they began; before the loop, whose coroutines refer to them
  asio::io_context context_{1};
  asio::signal_set signals_;
  asio::steady_timer deadline_, tick_;
  std::size_t next_ = 0, done_ = 0, failed_ = 0;
  std::optional<Error> stopped_;
};

}  // namespace

std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  if (::getentropy(raw.data(), raw.size()) != 0) throw std::system_error(errno, std::generic_category(), "getentropy");
  std::string text;
  for (const char byte : raw) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::optional<Error> probe_hosts_over(const TransportFor& transport_for, const std::vector<Host>& hosts,
                                      const Playbook& playbook, const ProbingOptions& options,
                                      const OnHost& on_host,
                                      const std::function<void(const Progress&)>& on_progress) {
  return Run(hosts, playbook, options, transport_for, on_host, on_progress).run();
}

std::optional<Error> probe_hosts(const std::vector<Host>& hosts, const Playbook& playbook,
                                 const ProbingOptions& options, const OnHost& on_host,
                                 const std::function<void(const Progress&)>& on_progress) {
  const char* const agent_socket = std::getenv("SSH_AUTH_SOCK");
  SshTransport ssh(
      {options.default_user, options.home, agent_socket == nullptr ? "" : agent_socket, options.connect_timeout});
  LocalTransport local;
  const TransportFor transport_for = [&](const Host& host) -> Transport& {
    if (host.transport == TransportKind::local) return local;
    return ssh;
  };
  return probe_hosts_over(transport_for, hosts, playbook, options, on_host, on_progress);
}

}  // namespace trueup
