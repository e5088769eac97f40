#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "trueup/report.hpp"

namespace trueup {
namespace {

PlanStep step(std::string kind, std::string current, std::string wanted) {
  PlanStep made;
  made.kind = std::move(kind);
  made.params = R"({"a":1})";
  made.fix = "flashinfer.newer-toolkit";
  made.cures = {"flashinfer.arch-set-empty@sglang.service"};
  made.current = std::move(current);
  made.wanted = std::move(wanted);
  return made;
}

HostPlan incident(std::string name) {
  HostPlan host;
  host.name = std::move(name);
  host.cures = {{"flashinfer.arch-set-empty@sglang.service", "FlashInfer can compile for no GPU", Severity::error},
                {"service.failed@sglang.service", "sglang.service failed", Severity::error}};
  auto toolkit = step("cuda_toolkit", "no CUDA 13.0", "CUDA 13.0 beside 12.8, which stays the default");
  toolkit.download_bytes = 2'000'000'000;
  toolkit.disk_bytes = 4'000'000'000;
  auto pin = step("systemd_override", "CUDA_HOME not set", "CUDA_HOME=/usr/local/cuda-13.0");
  pin.diff =
      "--- /dev/null\n+++ /etc/systemd/system/sglang.service.d/zz-trueup.conf\n@@ -0,0 +1,2 "
      "@@\n+[Service]\n+Environment=CUDA_HOME=/usr/local/cuda-13.0\n";
  auto restart = step("service", "sglang.service was stopped", "sglang.service is up");
  restart.restarts = {"sglang.service"};
  restart.irreversible = "requests that are under way are lost";
  host.steps = {toolkit, pin, restart};
  return host;
}

Plan plan_of(std::vector<HostPlan> hosts) {
  Plan plan;
  plan.id = "id";
  plan.expires = std::chrono::sys_seconds(std::chrono::seconds(1'800'000'000));
  plan.hosts = std::move(hosts);
  return plan;
}

std::size_t count_of(std::string_view part, std::string_view text) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

RunReport report_of(const Plan& plan) {
  RunReport report;
  for (const auto& host : plan.hosts) {
    HostReport made;
    made.name = host.name;
    report.hosts.push_back(std::move(made));
  }
  return report;
}

Finding failing(std::string check, std::string about) {
  Finding finding;
  finding.check = std::move(check);
  finding.about = std::move(about);
  return finding;
}

}  // namespace

TEST_CASE("a plan for one host says all that an operator has to know", "[unit][report][plan]") {
  CHECK(render_plan(plan_of({incident("ct200")}), "p.json", {}) ==
        R"(plan         ct200: 3 steps
  cures      - FlashInfer can compile for no GPU (flashinfer.arch-set-empty), by fix
               flashinfer.newer-toolkit
             - sglang.service failed (service.failed), which goes with it
   1         cuda_toolkit: no CUDA 13.0 → CUDA 13.0 beside 12.8, which stays the default
   2         systemd_override: CUDA_HOME not set → CUDA_HOME=/usr/local/cuda-13.0
               --- /dev/null
               +++ /etc/systemd/system/sglang.service.d/zz-trueup.conf
               @@ -0,0 +1,2 @@
               +[Service]
               +Environment=CUDA_HOME=/usr/local/cuda-13.0
   3         service: sglang.service was stopped → sglang.service is up
             cannot be undone: requests that are under way are lost
  costs      1.9 GiB to download, 3.7 GiB of disk
  down       sglang.service, from its stop until it is ready again: a large model loads for minutes
  afterwards nothing is left, as far as the facts can tell

1 host · 3 steps on 1 host · 1.9 GiB to download in all
nothing was changed yet: trueup apply p.json (good until 2027-01-15 08:00 UTC)
)");
}

TEST_CASE("equal plans of many hosts are one block, and every host stands somewhere", "[unit][report][plan]") {
  std::vector<HostPlan> hosts;
  for (int i = 100; i < 200; ++i) hosts.push_back(incident("gpu" + std::to_string(i)));
  hosts[50].steps[0].inspected = "another text that people do not read";
  hosts[99].remaining = {{"driver.reset@", "a GPU wants a reset", Severity::error}};
  HostPlan refused, idle, known;
  refused.name = "web1", refused.refused = "we are ops there";
  idle.name = "idle1";
  known.name = "odd1", known.left_out = {{{"a.b", "A thing", Severity::error}, "no fix is known"}};
  hosts.insert(hosts.end(), {refused, idle, known});
  const auto text = render_plan(plan_of(hosts), "", {});
  CHECK(count_of("cuda_toolkit:", text) == 2);
  CHECK_THAT(text, ContainsSubstring("99 hosts: gpu[100-198]: 3 steps"));
  CHECK_THAT(text, ContainsSubstring("gpu199: 3 steps"));
  CHECK_THAT(text, ContainsSubstring("- still there: a GPU wants a reset (driver.reset)"));
  CHECK_THAT(text, ContainsSubstring("refused      web1\n  why        we are ops there"));
  CHECK_THAT(text, ContainsSubstring("no steps     odd1\n  left out   - A thing (a.b): no fix is known"));
  CHECK_THAT(text, ContainsSubstring("idle1: nothing to do"));
  CHECK_THAT(text,
             ContainsSubstring(
                 "103 hosts · 300 steps on 100 hosts · 186.3 GiB to download in all · 1 refused · 1 finding left out"));
  CHECK_THAT(text, ContainsSubstring("nothing saved: -o FILE"));
}

TEST_CASE("a plan shows what the controller runs around the steps", "[unit][report][plan]") {
  auto host = incident("ct200");
  host.before_host = {"/usr/bin/scontrol", "update", "State=DRAIN; now"};
  host.after_host = {"/usr/bin/undrain"};
  const auto text = render_plan(plan_of({host}), "", {});
  const auto before =
      text.find("  before     /usr/bin/scontrol update 'State=DRAIN; now' (run here, by this controller)\n");
  const auto after = text.find("  after      /usr/bin/undrain (run here, by this controller)\n");
  CHECK(before < text.find("cuda_toolkit:"));
  CHECK(text.find("service: sglang") < after);
  CHECK(after != text.npos);
}

TEST_CASE("a plan says what another host does first", "[unit][report][plan]") {
  auto host = incident("gpu2");
  host.shared = {{"cache", "/home/ml/.cache", "nas:/home/ml/.cache", "gpu1"}};
  CHECK_THAT(render_plan(plan_of({host}), "", {}),
             ContainsSubstring(
                 "  shared     - cache /home/ml/.cache is nas:/home/ml/.cache, of which gpu1 takes care first\n"));
  host.steps.clear();
  CHECK_THAT(render_plan(plan_of({host}), "", {}), ContainsSubstring("plan         gpu2: 0 steps\n"));
}

TEST_CASE("a host that was not looked at has a plan that says so, and does not count as in order",
          "[unit][report][plan]") {
  HostPlan gone;
  gone.name = "gone1", gone.unreached = "connecting: refused", gone.hint = "is sshd running?";
  CHECK(render_plan(plan_of({gone}), "", {}) ==
        "unreached    gone1\n  why        connecting: refused\n  do         is sshd running?\n\n1 host · 1 not "
        "reached\n");
  HostPlan idle, cut;
  idle.name = "idle1";
  cut.name = "cut1", cut.incomplete = "the connection was cut";
  CHECK_THAT(render_plan(plan_of({gone, cut, idle}), "", {}),
             ContainsSubstring("incomplete   cut1\n  why        the connection was cut\n"));
  CHECK_THAT(render_plan(plan_of({gone, cut, idle}), "", {}),
             ContainsSubstring("3 hosts · nothing to do · 1 not reached · 1 incomplete"));
  CHECK_THAT(render_plan(plan_of({gone, idle}), "", {}), ContainsSubstring("2 hosts · nothing to do · 1 not reached"));
}

TEST_CASE("a plan obeys no host: what came from there is shown escaped", "[unit][report][plan]") {
  auto host = incident("ct200");
  const std::string bad = "\x1b[2J\u202e";
  host.refused = host.incomplete = host.hint = bad;
  host.before_host = host.after_host = {bad};
  host.shared = {{bad, bad, bad, bad}};
  for (auto& each : host.cures) each.title += bad;
  for (auto& each : host.steps) {
    each.kind += bad, each.current += bad, each.wanted += bad, each.irreversible += bad, each.diff += bad;
    each.fix += bad;
    each.restarts.push_back(bad);
  }
  host.left_out = {{{"x" + bad, bad, Severity::error}, bad}};
  host.remaining = {{"x" + bad, bad, Severity::error}};
  const auto text = render_plan(plan_of({host}), bad, {});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\u202e") == std::string::npos);
  const auto json = render_plan_json(plan_of({host}));
  CHECK(std::all_of(json.begin(), json.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

TEST_CASE("facts of a file foretell nothing", "[unit][report][plan]") {
  auto host = incident("ct200");
  host.unverified = "facts.json";
  CHECK_THAT(render_plan(plan_of({host}), "", {}),
             ContainsSubstring("its facts come from facts.json: nothing was inspected, and nothing can be foretold"));
}

TEST_CASE("the exit status of a plan", "[unit][report][plan]") {
  const auto idle = plan_of({HostPlan{}});
  CHECK(exit_status(report_of(idle), idle, true) == 0);
  const auto plan = plan_of({incident("ct200")});
  auto report = report_of(plan);
  CHECK(exit_status(report, plan, false) == 0);
  CHECK(exit_status(report, plan, true) == 5);
  report.hosts[0].assessment.findings = {failing("flashinfer.arch-set-empty", "sglang.service"),
                                         failing("service.failed", "sglang.service")};
  CHECK(exit_status(report, plan, true) == 5);
  report.hosts[0].assessment.findings.push_back(failing("other", ""));
  CHECK(exit_status(report, plan, true) == 3);  // cured by no step
  report.hosts[0].assessment.findings.back().severity = Severity::warning;
  CHECK(exit_status(report, plan, true) == 5);
  report.hosts[0].assessment.not_evaluated = {{"c", "", "why"}};
  CHECK(exit_status(report, plan, true) == 4);
  report.stopped = Error{ErrorKind::interrupted, "interrupted", {}, {}, {}};
  CHECK(exit_status(report, plan, true) == 130);
}

}  // namespace trueup
