#include "run/apply.hpp"

#include <fmt/format.h>

#include <deque>
#include <fstream>
#include <mutex>
#include <set>

#include "base/text.hpp"
#include "probe/scripts.hpp"
#include "support/bundle_process.hpp"
#include "support/catch.hpp"

// Plans applied to hosts that are directories here: the scripts are the real ones, run by /bin/sh, only the way to them
// is short.

using namespace trueup;
using namespace trueup::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// Writes `text` into the file `path`.
class WriteKind : public ActionKind {
 public:
  std::string_view name() const override { return "write"; }
  std::span<const ParamSpec> params() const override { return {}; }
  Result<void> check(const Params&) const override { return {}; }
  std::string object(const Params& params) const override { return "path " + path(params); }
  std::string path(const Params& params) const override { return params.at("path").get<std::string>(); }
  int rank(const Params&) const override { return 0; }
  Script inspect(const Params& params) const override {
    return {fmt::format("echo content=$(cat {})\n", path(params))};
  }
  Result<Difference> diff(const Params& params, const Inspected& inspected) const override {
    Difference change;
    change.data = inspected.substr(inspected.find('=') + 1);
    change.needed = change.data != params.at("text").get<std::string>() + "\n";
    return change;
  }
  Script apply(const Params& params, const Difference&) const override {
    const auto text = params.at("text").get<std::string>();
    return {text == "broken" ? "echo it is broken >&2; exit 1" : fmt::format("echo {} >{}\n", text, path(params))};
  }
  Script verify(const Params& params, const Difference&) const override {
    return {fmt::format("[ \"$(cat {})\" = {} ]\n", path(params), params.at("text").get<std::string>())};
  }
  Script undo(const Params& params, const Difference& change) const override {
    return {fmt::format("echo {} >{}\n", trim(change.data.get<std::string>()), path(params))};
  }
};

const ActionKind* find_kind(std::string_view name) {
  static const WriteKind kWrite;
  return name == "write" ? &kWrite : nullptr;
}

/// Some hosts, each a directory with the file `x` that holds `old`.
class Fleet {
 public:
  explicit Fleet(std::size_t count) {
    char name[] = "/tmp/trueup-fleet-XXXXXX";
    path_ = mkdtemp(name);
    for (std::size_t i = 0; i < count; ++i) {
      Host host;
      host.name = host.address = fmt::format("n{}", i);
      fs::create_directory(path_ / host.name);
      std::ofstream(path_ / host.name / "x") << "old\n";
      hosts.push_back(host);
      plans.push_back(plan(host.name, "new"));
    }
    tools.call = [this](const auto& some, const auto& first, const auto& on_answer) {
      return call(some, first, on_answer);
    };
    tools.nonce = [this] { return fmt::format("{:08x}{:08x}", getpid(), ++nonces_); };
    tools.say = [this](std::size_t host, std::string_view line) {
      said.push_back(fmt::format("{}: {}", hosts[host].name, line));
    };
    tools.audit = std::make_shared<const ProbeLoad>(Playbook{});
    tools.assess = [this](std::size_t host, HostProbing, HostReport& report) {
      audited.insert(hosts[host].name);
      report.assessment.findings = found[hosts[host].name];
      return std::nullopt;
    };
    settings.run = "run-1";
    settings.plan = "plan-1";
    settings.by = "ann@desk";
    settings.find_action = find_kind;
    settings.run_library = std::string(kProbeLibrary);
  }
  ~Fleet() { fs::remove_all(path_); }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  HostPlan plan(const std::string& host, const std::string& text) const {
    HostPlan made;
    made.name = host;
    made.cures = {{"a.b", "", Severity::error}};
    PlanStep step;
    step.kind = "write";
    step.params = nlohmann::json{{"path", (path_ / host / "x").string()}, {"text", text}}.dump();
    step.inspected = "content=old\n";
    made.steps = {step};
    return made;
  }
  std::string file(std::size_t host) const { return slurp(path_ / hosts[host].name / "x"); }
  void write(std::size_t host, const std::string& text) const { std::ofstream(path_ / hosts[host].name / "x") << text; }

  /// The plan counts as applied there.
  void mark_used(const std::string& host, const std::string& plan) const {
    const auto used = path_ / host / "state" / "used";
    fs::create_directories(used);
    fs::permissions(used.parent_path(), fs::perms::owner_all);
    std::ofstream(used / plan) << "run-9\n";
  }
  /// This very process works there, on that run.
  void hold(const std::string& host, const std::string& run) const {
    const auto stat = slurp("/proc/self/stat");
    const auto words = split(std::string_view(stat).substr(stat.rfind(')') + 2), ' ');
    lock(host, run, words[19]);
  }
  /// Nobody works there any more, on a run that did not end.
  void leave_behind(const std::string& host, const std::string& run) const {
    lock(host, run, "1");
    const auto directory = path_ / host / "state" / "runs" / run;
    fs::create_directories(directory);
    for (const auto* name : {"about", "steps", "journal"}) std::ofstream(directory / name) << "";
  }

  WorkReport apply() {
    std::vector<const HostPlan*> pointers;
    for (const auto& plan : plans) pointers.push_back(&plan);
    return apply_plan(hosts, pointers, settings, tools);
  }
  std::vector<WorkOutcome> outcomes(const WorkReport& report) const {
    std::vector<WorkOutcome> all;
    for (const auto& host : report.hosts) all.push_back(host.outcome);
    return all;
  }

  std::vector<Host> hosts;
  std::vector<HostPlan> plans;
  WorkTools tools;
  ApplySettings settings;
  std::map<std::string, std::vector<Finding>> found;  ///< by the closing audit
  std::set<std::string> audited, unreachable;
  std::vector<std::string> said;
  std::optional<Error> stop_next;  ///< the next call to hosts ends with this before any is reached

 private:
  void lock(const std::string& host, const std::string& run, std::string_view start) const {
    mark_used(host, "another");
    const auto boot = slurp("/proc/sys/kernel/random/boot_id");
    std::ofstream(path_ / host / "state" / "lock")
        << fmt::format("run={} boot={} pid={} start={} by=ann@desk since=1\n", run, trim(boot), getpid(), start);
  }

  std::optional<Error> call(const std::vector<Host>& some, const std::vector<Call>& first, const OnAnswer& on_answer) {
    if (stop_next) return std::exchange(stop_next, {});
    std::deque<std::pair<std::size_t, Call>> waiting;
    for (std::size_t i = 0; i < some.size(); ++i) waiting.emplace_back(i, first[i]);
    while (!waiting.empty()) {
      const auto [host, call] = waiting.front();
      waiting.pop_front();
      HostProbing probing;
      probing.host = host;
      if (unreachable.count(some[host].name) > 0)
        probing.error = Error{ErrorKind::unreachable, "no route", {}, {"connecting"}, {}};
      else if (!call.load->together.empty())
        probing.outputs = ask(some[host].name, call.load->together);
      const auto next = on_answer(std::move(probing));
      if (!next) return next.error();
      if (*next) waiting.emplace_back(host, **next);
    }
    return std::nullopt;
  }

  std::vector<ProbeOutput> ask(const std::string& host, const std::vector<Probe>& probes) {
    BundleOptions options;
    options.nonce = "00112233445566778899aabbccddeeff";
    options.tag = fmt::format("{:08x}{:08x}", getpid(), ++nonces_);
    auto bundle = make_bundle(probes, {}, ProbeLevel::host, options);
    bundle.script = replace_all(bundle.script, kHostState, (path_ / host / "state").string());
    BundleProcess process({"sh", {"/bin/sh", "-c"}, "/bin/sh", "/usr/sbin:/usr/bin:/sbin:/bin"}, bundle);
    FrameReader reader(probes, options.nonce);
    process.read_until(reader, [&] { return reader.is_finished(); });
    CHECK(process.wait_for_end());
    return reader.take("the bundle ended");
  }

  fs::path path_;
  int nonces_ = 0;
};

using enum WorkOutcome;
using Outcomes = std::vector<WorkOutcome>;

}  // namespace

TEST_CASE("a plan is applied once, seen on the host, and rolled back", "[integration][run][apply]") {
  Fleet fleet(2);
  auto report = fleet.apply();
  CHECK(fleet.outcomes(report) == Outcomes{verified, verified});
  CHECK(fleet.file(0) == "new\n");
  CHECK(fleet.audited.size() == 2);
  CHECK(exit_status(report, false) == 0);

  std::optional<Error> stopped;
  const auto runs = look_at_runs(fleet.hosts, {}, fleet.settings, fleet.tools, stopped);
  REQUIRE(runs[0].runs.size() == 1);
  CHECK(runs[0].runs[0].journal.state == RunState::verified);
  CHECK(runs[0].runs[0].cures == std::vector<std::string>{"a.b"});

  // The same plan again, the hosts being as they were.
  fleet.write(0, "old\n");
  fleet.write(1, "old\n");
  fleet.settings.run = "run-2";
  report = fleet.apply();
  CHECK(fleet.outcomes(report) == Outcomes{refused, refused});
  CHECK(report.hosts[0].code == "used");
  CHECK(exit_status(report, false) == 8);

  fleet.write(0, "new\n");
  fleet.write(1, "new\n");
  fleet.settings.run = "run-1";
  report = continue_run(fleet.hosts, {{HostWork::Goal::undo, {}, {}}, {HostWork::Goal::undo, {}, {}}}, fleet.settings,
                        fleet.tools);
  CHECK(fleet.outcomes(report) == Outcomes{put_back, put_back});
  CHECK(exit_status(report, true) == 0);
  CHECK(fleet.file(1) == "old\n");
  const auto pruned = prune_runs(fleet.hosts, {{"run-1"}, {"run-1"}}, fleet.settings, fleet.tools, stopped);
  CHECK(pruned[1].runs == std::map<std::string, std::string>{{"run-1", ""}});
}

TEST_CASE("a host that changed is refused with what changed, and the others go on", "[integration][run][apply]") {
  Fleet fleet(3);
  fleet.write(1, "other\n");
  fleet.unreachable = {"n2"};
  const auto report = fleet.apply();
  CHECK(fleet.outcomes(report) == Outcomes{verified, refused, failed});
  CHECK(report.hosts[1].why.ends_with("changed since the plan was made"));
  CHECK(report.hosts[1].changes == std::vector<std::string>{"- content=old", "+ content=other"});
  CHECK(fleet.file(1) == "other\n");
  CHECK(exit_status(report, false) == 8);
}

// A second apply met what the first had changed by then, and said nothing of the first.
TEST_CASE("whose turn it is is said before what that run has changed", "[integration][run][apply]") {
  Fleet fleet(2);
  fleet.hold("n0", "run-9");
  fleet.write(0, "half\n");
  fleet.leave_behind("n1", "run-8");
  fleet.write(1, "half\n");
  const auto report = fleet.apply();
  CHECK(fleet.outcomes(report) == Outcomes{refused, refused});
  CHECK(report.hosts[0].code == "lock-held");
  CHECK(report.hosts[0].why ==
        fmt::format("run run-9 of ann@desk, since 1970-01-01T00:00:01Z, works here (process {})", getpid()));
  CHECK(report.hosts[1].code == "left-behind");
  CHECK(report.hosts[1].why ==
        "run run-8 of ann@desk, since 1970-01-01T00:00:01Z, was interrupted here: resume or roll back that run first");
  CHECK(exit_status(report, false) == 8);
}

TEST_CASE("a canary that fails leaves the others untouched", "[integration][run][apply]") {
  for (const bool by_audit : {false, true}) {
    CAPTURE(by_audit);
    Fleet fleet(3);
    fleet.settings.policy.canary = 1;
    Finding still;
    still.check = "a.b";
    if (by_audit)
      fleet.found["n0"] = {still};
    else
      fleet.plans[0] = fleet.plan("n0", "broken");
    const auto report = fleet.apply();
    CHECK(fleet.outcomes(report) == Outcomes{put_back, not_begun, not_begun});
    CHECK(report.hosts[0].why ==
          (by_audit ? "all steps are done, but still found: a.b" : "step 1: apply ended with status 1: it is broken"));
    CHECK(report.hosts[1].why == "1 of the canary hosts failed");
    CHECK(fleet.file(0) == "old\n");
    CHECK(fleet.file(1) == "old\n");
    CHECK(exit_status(report, false) == 6);
  }
}

TEST_CASE("hosts that serve together are changed together", "[integration][run][apply]") {
  Fleet fleet(3);
  fleet.settings.policy.groups = {{"pair", {0, 1}, {}, true}};
  fleet.plans[1] = fleet.plan("n1", "broken");
  auto report = fleet.apply();
  CHECK(fleet.outcomes(report) == Outcomes{put_back, put_back, verified});
  CHECK(fleet.file(0) == "old\n");
  CHECK(fleet.file(2) == "new\n");

  Fleet other(3);
  other.settings.policy.groups = {{"pair", {0, 1}, {}, true}};
  other.write(1, "other\n");
  report = other.apply();
  CHECK(other.outcomes(report) == Outcomes{refused, refused, verified});
  CHECK(report.hosts[0].why == "group pair is changed as a whole, and n1 is not begun");
  CHECK(other.file(0) == "old\n");
}

TEST_CASE("a host begins when another has done what both see on a server", "[integration][run][apply]") {
  const auto follow = [](Fleet& fleet) {
    fleet.plans[1].shared = {{"cache", "/home/x", "nas:/home/x", "n0"}};
    return fleet.apply();
  };
  Fleet fleet(2);
  fleet.tools.assess = [&](std::size_t host, HostProbing, HostReport&) {
    if (host == 0) CHECK(fleet.file(1) == "old\n");
    return std::nullopt;
  };
  CHECK(fleet.outcomes(follow(fleet)) == Outcomes{verified, verified});

  for (const bool reached : {false, true}) {
    CAPTURE(reached);
    Fleet other(2);
    other.settings.policy.max_fail = 9;
    if (reached)
      other.plans[0] = other.plan("n0", "broken");
    else
      other.unreachable = {"n0"};
    const auto report = follow(other);
    CHECK(other.outcomes(report) == Outcomes{reached ? put_back : failed, refused});
    CHECK(report.hosts[1].code == "shared");
    CHECK(report.hosts[1].why == fmt::format("n0 was to see to nas:/home/x first, /home/x here, and it is: {}",
                                             reached ? "put back" : "failed"));
    CHECK(other.file(1) == "old\n");
  }

  // One that is not in this run was applied before, as far as anybody knows.
  Fleet alone(1);
  alone.plans[0].shared = {{"cache", "/home/x", "nas:/home/x", "n9"}};
  CHECK(alone.outcomes(alone.apply()) == Outcomes{verified});
}

/// Programs of the controller that write down when they were called.
struct Programs {
  explicit Programs(Fleet& fleet) {
    fleet.tools.before_host = [this](std::size_t host) -> Result<bool> {
      const std::lock_guard lock(mutex);
      calls.push_back(fmt::format("before {}", host));
      if (fails.contains(host)) return fail(ErrorKind::malformed, "it would not drain");
      then();
      return true;
    };
    fleet.tools.after_host = [this](std::size_t host, WorkOutcome outcome) -> Result<void> {
      const std::lock_guard lock(mutex);
      calls.push_back(fmt::format("after {} {}", host, to_string(outcome)));
      if (after_fails) return fail(ErrorKind::malformed, "no scheduler");
      return {};
    };
    fleet.tools.how_to_bring_back = [](std::size_t host) { return fmt::format("undrain {}", host); };
  }
  std::vector<std::string> take() {
    std::sort(calls.begin(), calls.end());
    return std::exchange(calls, {});
  }

  std::mutex mutex;
  std::vector<std::string> calls;
  std::set<std::size_t> fails;  ///< hosts that cannot be taken out
  bool after_fails = false;
  std::function<void()> then = [] {};  ///< what happens while a host is taken out
};

using Calls = std::vector<std::string>;

TEST_CASE("programs before and after a host", "[integration][run][apply]") {
  Fleet fleet(3);
  Programs programs(fleet);
  programs.fails = {1};
  fleet.write(2, "other\n");
  const auto report = fleet.apply();
  CHECK(fleet.outcomes(report) == Outcomes{verified, failed, refused});
  CHECK(report.hosts[1].why == "it would not drain");
  CHECK(report.hosts[1].drained ==
        "it may be out of service, since before_host failed; if nobody else wants it so: undrain 1");
  CHECK(fleet.file(1) == "old\n");
  CHECK(programs.take() == Calls{"after 0 verified", "before 0", "before 1"});  // one that is refused is not drained
  CHECK(report.hosts[0].drained.empty());
  CHECK(exit_status(report, false) == 6);
}

// A host was drained, the start of its run was refused, and nobody brought it back.
TEST_CASE("a host that was taken out of service comes back, whatever came in between", "[integration][run][apply]") {
  SECTION("its start is refused") {
    Fleet fleet(1);
    Programs programs(fleet);
    programs.then = [&] { fleet.mark_used("n0", "plan-1"); };
    const auto report = fleet.apply();
    CHECK(fleet.outcomes(report) == Outcomes{refused});
    CHECK(report.hosts[0].code == "used");
    CHECK(programs.take() == Calls{"after 0 refused", "before 0"});
  }
  SECTION("the run is stopped before it") {
    Fleet fleet(1);
    Programs programs(fleet);
    programs.then = [&] { fleet.stop_next = Error{ErrorKind::interrupted, "interrupted", {}, {}, {}}; };
    const auto report = fleet.apply();
    CHECK(fleet.outcomes(report) == Outcomes{not_begun});
    CHECK(programs.take() == Calls{"after 0 not begun", "before 0"});
    CHECK(exit_status(report, false) == 130);
  }
  SECTION("another of its group cannot be taken out") {
    Fleet fleet(2);
    Programs programs(fleet);
    programs.fails = {1};
    fleet.settings.policy.groups = {{"pair", {0, 1}, {}, true}};
    const auto report = fleet.apply();
    CHECK(fleet.outcomes(report) == Outcomes{refused, failed});
    CHECK(programs.take() == Calls{"after 0 refused", "before 0", "before 1"});
  }
}

TEST_CASE("a host in doubt stays out of service, and the report says how it comes back", "[integration][run][apply]") {
  SECTION("stuck") {
    Fleet fleet(1);
    Programs programs(fleet);
    fleet.settings.keep = true;
    fleet.plans[0] = fleet.plan("n0", "broken");
    auto report = fleet.apply();
    CHECK(fleet.outcomes(report) == Outcomes{stuck});
    CHECK(programs.take() == Calls{"before 0"});
    CHECK(report.hosts[0].drained ==
          "it is still out of service: it may be between old and new; once that is settled: undrain 0");
    // A rollback settles it.
    report = continue_run(fleet.hosts, {{HostWork::Goal::undo, {}, {}}}, fleet.settings, fleet.tools);
    CHECK(fleet.outcomes(report) == Outcomes{put_back});
    CHECK(programs.take() == Calls{"after 0 put back", "before 0"});
    CHECK(report.hosts[0].drained.empty());
  }
  SECTION("another run got there first") {
    Fleet fleet(1);
    Programs programs(fleet);
    programs.then = [&] { fleet.hold("n0", "run-9"); };
    const auto report = fleet.apply();
    CHECK(report.hosts[0].code == "lock-held");
    CHECK(programs.take() == Calls{"before 0"});
    CHECK(report.hosts[0].drained ==
          "it is still out of service: another run works there; once that is settled: undrain 0");
  }
  SECTION("it does not come back") {
    Fleet fleet(1);
    Programs programs(fleet);
    programs.after_fails = true;
    const auto report = fleet.apply();
    CHECK(fleet.outcomes(report) == Outcomes{unverified});
    CHECK(report.hosts[0].drained ==
          "it may still be out of service, since after_host failed: no scheduler; by hand: undrain 0");
  }
}

TEST_CASE("a rollback takes hosts out of service, and brings back those that it did not touch",
          "[integration][run][apply]") {
  Fleet fleet(1);
  Programs programs(fleet);
  CHECK(fleet.outcomes(fleet.apply()) == Outcomes{verified});
  programs.take();
  const Continuation back{HostWork::Goal::undo, {}, {}, false, true};
  fleet.settings.run = "run-0";  // which that host has not
  auto report = continue_run(fleet.hosts, {back}, fleet.settings, fleet.tools);
  CHECK(fleet.outcomes(report) == Outcomes{failed});
  CHECK(programs.take() == Calls{"after 0 failed", "before 0"});
  fleet.settings.run = "run-1";
  programs.fails = {0};
  report = continue_run(fleet.hosts, {back}, fleet.settings, fleet.tools);
  CHECK(report.hosts[0].code == "before_host");
  CHECK(fleet.file(0) == "new\n");
  programs.take();
  // What is only looked at is not taken out.
  report = continue_run(fleet.hosts, {{HostWork::Goal::verify, {}, {}}}, fleet.settings, fleet.tools);
  CHECK(fleet.outcomes(report) == Outcomes{verified});
  CHECK(programs.take() == Calls{"after 0 verified"});
}

TEST_CASE("nothing to do is nothing done", "[integration][run][apply]") {
  Fleet fleet(2);
  fleet.plans[0].steps.clear();
  fleet.plans[1].refused = "not root";
  const auto report = fleet.apply();
  CHECK(fleet.outcomes(report) == Outcomes{unchanged, refused});
  CHECK(fleet.audited.empty());
  CHECK(exit_status(report, false) == 8);
}

TEST_CASE("what changed, line by line", "[unit][run][apply]") {
  CHECK(changed_lines("a=1\nb=2\n", "a=1\nb=2").empty());
  CHECK(changed_lines("a=1\nb=2\n", "a=1\nb=3\nc=\x1b[2J\n") ==
        std::vector<std::string>{"- b=2", "+ b=3", "+ c=\\x1b[2J"});
  CHECK(changed_lines("a=1\nb=2\n", "b=2\na=1\n").size() == 1);
  CHECK(changed_lines("", "").empty());
}
