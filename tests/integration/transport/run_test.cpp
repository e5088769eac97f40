#include <signal.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <thread>

#include "integration/transport/sshd.hpp"
#include "run/probe_hosts_over.hpp"
#include "support/catch.hpp"

using namespace trueup;
using namespace trueup::test;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

Probe probe(const std::string& id, const std::string& script, ProbeLevel level = ProbeLevel::host) {
  Probe probe;
  probe.id = probe.into = id;
  probe.script = script + "\n";
  probe.level = level;
  probe.limit = 30s;
  return probe;
}

Host local_host(const std::string& name = "here") {
  Host host;
  host.name = host.address = name;
  host.transport = TransportKind::local;
  return host;
}

Host ssh_host(const Sshd& sshd) {
  Host host;
  host.name = "there";
  host.address = "127.0.0.1";
  host.port = sshd.port();
  host.user = sshd.user();
  host.keys = {sshd.key()};
  host.known_hosts = {sshd.known_hosts()};
  return host;
}

bool can_run() {
  const auto why = why_no_sshd();
  if (!why.empty()) std::cout << "skipped: " << why << std::endl;
  return why.empty();
}

// Whether the process is still there after it had time to go. A zombie is gone.
bool stays(pid_t pid) {
  for (int i = 0; i < 2000; ++i) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    if (!(stat >> number >> name >> state) || state == "Z") return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

// A transport without a network: hangs, or refuses, and counts how many are at it.
class FakeTransport final : public Transport {
 public:
  explicit FakeTransport(bool hangs) : hangs_(hangs) {}

  Awaitable<Result<std::unique_ptr<Session>>> connect(const Host& host, Watch& watch) override {
    most_at_once = std::max(most_at_once, ++at_once_);
    watch.begin("knocking", 1h);
    asio::steady_timer timer(co_await asio::this_coro::executor, hangs_ ? 1h : 1ms);
    constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);
    co_await timer.async_wait(use_tuple);
    --at_once_;
    if (watch.over()) co_return fail(*watch.over());
    co_return fail(ErrorKind::unreachable, "nobody at " + host.name);
  }

  int most_at_once = 0;

 private:
  const bool hangs_;
  int at_once_ = 0;
};

// A host that never stops talking, and never keeps a reader waiting.
class FloodingTransport final : public Transport {
 public:
  explicit FloodingTransport(std::size_t bytes_a_read) : bytes_(bytes_a_read) {}

  Awaitable<Result<std::unique_ptr<Session>>> connect(const Host&, Watch&) override {
    co_return std::make_unique<Flood>(bytes_);
  }

 private:
  struct Talk final : Channel {
    explicit Talk(std::size_t bytes) : bytes_(bytes) {}
    Awaitable<Result<void>> write(std::string) override { co_return Result<void>(); }
    Awaitable<Result<Chunk>> read() override { co_return Chunk{std::string(bytes_, 'x'), {}, false}; }
    Awaitable<void> close() override { co_return; }
    std::optional<int> exit_status() const override { return std::nullopt; }
    const std::size_t bytes_;
  };
  struct Flood final : Session {
    explicit Flood(std::size_t bytes) : bytes_(bytes) {}
    const std::string& login() const override { return login_; }
    Awaitable<Result<std::unique_ptr<Channel>>> exec(std::string, std::string) override {
      co_return std::make_unique<Talk>(bytes_);
    }
    Awaitable<void> close() override { co_return; }
    const std::size_t bytes_;
    const std::string login_ = "root";
  };

  const std::size_t bytes_;
};

std::vector<Host> many_hosts(int count) {
  std::vector<Host> hosts;
  for (int i = 0; i < count; ++i) hosts.push_back(local_host("host" + std::to_string(i)));
  return hosts;
}

}  // namespace

TEST_CASE("each host's probes come back in the playbook's order, over both transports", "[integration][run]") {
  if (!can_run()) return;
  const Sshd sshd;
  Playbook playbook;
  playbook.probes = {probe("slow", "sleep 0.2; echo slow"), probe("fails", "echo why >&2; exit 4"),
                     probe("login", "echo login", ProbeLevel::login),
                     probe("big", "head -c 500000 /dev/zero | tr '\\0' x")};
  std::map<std::size_t, HostProbing> results;
  const auto stopped = probe_hosts({local_host(), ssh_host(sshd)}, playbook, {},
                                   [&](HostProbing probing) {
                                     results[probing.host] = std::move(probing);
                                     return std::nullopt;
                                   },
                                   {});
  CHECK_FALSE(stopped);
  REQUIRE(results.size() == 2);
  for (const auto& [host, result] : results) {
    CAPTURE(host);
    if (result.error) FAIL(to_string(*result.error));
    REQUIRE(result.outputs.size() == 4);
    CHECK(result.outputs[0].output == "slow\n");
    CHECK(result.outputs[1].status == ProbeStatus::failed);
    CHECK(result.outputs[1].exit_status == 4);
    CHECK(result.outputs[1].errors == "why\n");
    CHECK(result.outputs[2].output == "login\n");
    CHECK(result.outputs[3].output == std::string(500'000, 'x'));
  }
}

TEST_CASE("one channel carries all probes of a host", "[integration][run]") {
  if (!can_run()) return;
  TemporaryDirectory directory;
  const Sshd sshd("ForceCommand echo channel >> " + directory.file("channels") + "; eval \"$SSH_ORIGINAL_COMMAND\"\n");
  Playbook playbook;
  for (int i = 0; i < 20; ++i)
    playbook.probes.push_back(probe("probe" + std::to_string(i), "echo " + std::to_string(i)));
  playbook.probes.push_back(probe("login", "echo login", ProbeLevel::login));
  HostProbing result;
  probe_hosts({ssh_host(sshd)}, playbook, {},
              [&](HostProbing probing) {
                result = std::move(probing);
                return std::nullopt;
              },
              {});
  if (result.error) FAIL(to_string(*result.error));
  CHECK(result.outputs.back().output == "login\n");
  CHECK(read_text(directory.file("channels")) == "channel\n");
}

TEST_CASE("a signal in the middle ends the run and every process of ours", "[integration][run]") {
  if (!can_run()) return;
  const Sshd sshd;
  TemporaryDirectory directory;
  const auto with_ssh = GENERATE(false, true);
  const auto [signal, times] =
      GENERATE(std::pair(SIGINT, 1), std::pair(SIGINT, 2), std::pair(SIGTERM, 1), std::pair(SIGHUP, 1));
  CAPTURE(with_ssh, signal, times);
  const auto pid_file = directory.file("pid");
  Playbook playbook;
  playbook.probes = {probe("quick", "echo quick"), probe("endless", "sleep 1000 & echo $! > " + pid_file + ".new; mv " +
                                                                        pid_file + ".new " + pid_file + "; wait")};
  std::map<std::size_t, HostProbing> results;
  ProbingOptions options;
  options.forks = 1;
  bool sent = false;
  const auto stopped = probe_hosts(
      {with_ssh ? ssh_host(sshd) : local_host(), local_host("later")}, playbook, options,
      [&](HostProbing probing) {
        results[probing.host] = std::move(probing);
        return std::nullopt;
      },
      [&](const Progress& progress) {
        CHECK(progress.running == 1);
        // Once the other probe's end has arrived.
        if (!sent && std::filesystem::exists(pid_file) && progress.slowest_doing == "probing: endless") {
          sent = true;
          for (int i = 0; i < times; ++i) ::raise(signal);
        }
      });
  CHECK(sent);
  REQUIRE(stopped);
  CHECK(stopped->kind == ErrorKind::interrupted);
  REQUIRE(results.size() == 2);
  REQUIRE(results[0].error);
  CHECK(results[0].error->kind == ErrorKind::interrupted);
  CHECK(to_string(*results[0].error) ==
        std::string("on host ") + (with_ssh ? "there" : "here") + ": probing: interrupted; still running: endless");
  CHECK(results[0].outputs[0].output == "quick\n");
  CHECK(results[0].outputs[1].status == ProbeStatus::lost);
  REQUIRE(results[1].error);
  CHECK(to_string(*results[1].error) == "not begun: interrupted");
  CHECK(results[1].outputs.empty());
  CHECK_FALSE(stays(std::stoi(read_text(pid_file))));
}

TEST_CASE("a cut connection gives what had come, and leaves nothing running", "[integration][run]") {
  if (!can_run()) return;
  const Sshd sshd;
  TemporaryDirectory directory;
  const auto pid_file = directory.file("pid");
  Playbook playbook;
  // The last probe ends sshd's process for this session: the nearest ancestor of that name.
  playbook.probes = {
      probe("quick", "echo quick"), probe("endless", "sleep 1000 & echo $! > " + pid_file + "; wait"),
      probe("cut",
            "until [ -s " + pid_file +
                " ]; do sleep 0.1; done; sleep 0.5; p=$$; "
                "while [ \"$p\" -gt 1 ]; do read -r n < /proc/$p/comm; case $n in sshd*) kill -9 $p; exit;; esac; "
                "p=$(ps -o ppid= -p $p | tr -d ' '); done")};
  HostProbing result;
  probe_hosts({ssh_host(sshd)}, playbook, {},
              [&](HostProbing probing) {
                result = std::move(probing);
                return std::nullopt;
              },
              {});
  REQUIRE(result.error);
  CHECK(result.error->kind == ErrorKind::unreachable);
  CHECK_THAT(to_string(*result.error), ContainsSubstring("on host there: probing: the connection was cut"));
  REQUIRE(result.outputs.size() == 3);
  CHECK(result.outputs[0].output == "quick\n");
  CHECK(result.outputs[1].status == ProbeStatus::lost);
  CHECK_FALSE(stays(std::stoi(read_text(pid_file))));
}

TEST_CASE("a host that never stops talking meets a bound of bytes, and the deadlines", "[integration][run]") {
  Playbook playbook;
  playbook.probes = {probe("any", "true")};
  ProbingOptions options;
  HostProbing result;
  const auto run_with = [&](std::size_t bytes_a_read) {
    FloodingTransport flooding(bytes_a_read);
    probe_hosts_over([&](const Host&) -> Transport& { return flooding; }, many_hosts(1), playbook, options,
                     [&](HostProbing probing) {
                       result = std::move(probing);
                       return std::nullopt;
                     },
                     {});
    REQUIRE(result.error);
  };
  run_with(64 * 1024);
  CHECK(result.error->kind == ErrorKind::limit);
  CHECK_THAT(to_string(*result.error), ContainsSubstring("on host host0: probing: the host sends more than"));
  CHECK(result.outputs.front().status == ProbeStatus::lost);

  options.host_timeout = 50ms;
  run_with(0);  // would go on forever
  CHECK(result.error->kind == ErrorKind::timeout);
}

TEST_CASE("a host's limit ends the host alone", "[integration][run]") {
  FakeTransport hanging(true);
  Playbook playbook;
  playbook.probes = {probe("any", "true")};
  ProbingOptions options;
  options.host_timeout = 50ms;
  std::vector<HostProbing> results;
  const auto stopped =
      probe_hosts_over([&](const Host&) -> Transport& { return hanging; }, many_hosts(2), playbook, options,
                       [&](HostProbing probing) {
                         results.push_back(std::move(probing));
                         return std::nullopt;
                       },
                       {});
  CHECK_FALSE(stopped);
  REQUIRE(results.size() == 2);
  CHECK(to_string(*results[0].error) == "on host host0: knocking: not done within the host's limit of 50 ms");
  CHECK(results[0].error->kind == ErrorKind::timeout);
}

TEST_CASE("the run's deadline ends what runs and what has not begun", "[integration][run]") {
  FakeTransport hanging(true);
  ProbingOptions options;
  options.forks = 3;
  options.deadline = 50ms;
  std::vector<HostProbing> results;
  const auto stopped = probe_hosts_over([&](const Host&) -> Transport& { return hanging; }, many_hosts(5), {}, options,
                                        [&](HostProbing probing) {
                                          results.push_back(std::move(probing));
                                          return std::nullopt;
                                        },
                                        {});
  REQUIRE(stopped);
  CHECK(stopped->kind == ErrorKind::timeout);
  CHECK(results.size() == 5);
  CHECK(std::all_of(results.begin(), results.end(), [](const auto& result) { return result.error.has_value(); }));
}

TEST_CASE("two thousand hosts pass through the gate, never more than it lets in", "[integration][run]") {
  FakeTransport refusing(false);
  ProbingOptions options;
  options.forks = 50;
  std::vector<bool> seen(2000);
  probe_hosts_over([&](const Host&) -> Transport& { return refusing; }, many_hosts(2000), {}, options,
                   [&](HostProbing probing) {
                     CHECK_FALSE(seen[probing.host]);
                     seen[probing.host] = true;
                     return std::nullopt;
                   },
                   {});
  CHECK(std::count(seen.begin(), seen.end(), true) == 2000);
  CHECK(refusing.most_at_once == 50);
}

TEST_CASE("an error that the caller returns for a host stops the run, and nothing new begins", "[integration][run]") {
  FakeTransport refusing(false);
  ProbingOptions options;
  options.forks = 1;
  std::vector<HostProbing> results;
  const auto stopped = probe_hosts_over([&](const Host&) -> Transport& { return refusing; }, many_hosts(5), {}, options,
                                        [&](HostProbing probing) -> std::optional<Error> {
                                          results.push_back(std::move(probing));
                                          return Error{ErrorKind::internal, "no more"};
                                        },
                                        {});
  REQUIRE(stopped);
  CHECK(stopped->message == "no more");
  REQUIRE(results.size() == 5);
  CHECK(results[0].error->kind == ErrorKind::unreachable);
  CHECK(results[4].error->kind == ErrorKind::internal);
}

TEST_CASE("a host is asked again as long as the caller wants, with other probes", "[integration][run]") {
  const auto ask = [](const std::string& script, std::chrono::milliseconds pause = {}) {
    Playbook playbook;
    playbook.probes = {probe("said", script)};
    return Call{std::make_shared<const ProbeLoad>(playbook), pause, {}};
  };
  std::vector<std::string> said;
  const auto stopped = call_hosts(
      {local_host("a"), local_host("b")}, {ask("echo one"), ask("echo other")}, {},
      [&](HostProbing probing) -> Result<std::optional<Call>> {
        REQUIRE_FALSE(probing.error);
        said.push_back(probing.outputs.front().output);
        if (said.back() == "one\n") return ask("echo two", 20ms);
        return std::nullopt;
      },
      {});
  CHECK_FALSE(stopped);
  std::sort(said.begin(), said.end());
  CHECK(said == std::vector<std::string>{"one\n", "other\n", "two\n"});
}

TEST_CASE("a stop reaches a host between two calls", "[integration][run]") {
  FakeTransport refusing(false);
  ProbingOptions options;
  options.deadline = 50ms;
  const Call call{std::make_shared<const ProbeLoad>(Playbook{}), {}, {}};
  std::vector<Error> errors;
  const auto stopped =
      call_hosts_over([&](const Host&) -> Transport& { return refusing; }, many_hosts(1), {call}, options,
                      [&](HostProbing probing) -> Result<std::optional<Call>> {
                        errors.push_back(*probing.error);
                        auto again = call;
                        again.pause = 1h;
                        return again;
                      },
                      {});
  REQUIRE(stopped);
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].kind != ErrorKind::timeout);
  CHECK(errors[1].message == stopped->message);
}

TEST_CASE("signals that were held back are answered by the next run", "[integration][run]") {
  FakeTransport hanging(true);
  const SignalsHeld held;
  CHECK_FALSE(SignalsHeld::is_pending());
  raise(SIGINT);
  CHECK(SignalsHeld::is_pending());
  const auto stopped =
      probe_hosts_over([&](const Host&) -> Transport& { return hanging; }, many_hosts(2), {}, {}, {}, {});
  REQUIRE(stopped);
  CHECK(stopped->kind == ErrorKind::interrupted);
  CHECK_FALSE(SignalsHeld::is_pending());
}
