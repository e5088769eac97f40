#include "plan/host_plan.hpp"

#include <fmt/format.h>

#include "support/catch.hpp"
#include "unit/derive/derive_cases.hpp"
#include "unit/plan/fake_kinds.hpp"

namespace trueup {
namespace {

using test::effect;
using test::finding;
using test::proposal;
using Texts = std::vector<std::string>;

const Knowledge& knowledge() {
  static const auto kKnowledge = test::shipped_knowledge();
  return kKnowledge;
}

Environment root_host() {
  Environment environment;
  HostInfo host;
  host.user = "root";
  environment.host = host;
  Driver driver;
  driver.loaded = driver.on_disk = Version::of("580.95.05");
  environment.driver = driver;
  Gpu gpu;
  gpu.compute_cap = Version::of("12.0");
  environment.gpus = std::vector<Gpu>{gpu};
  environment.services = std::vector<Service>{};
  environment.processes = std::vector<GpuProcess>{};
  environment.containers = std::vector<Container>{};
  return environment;
}

PlanDraft draft(std::vector<ProposedStep> steps) {
  Assessment assessment;
  assessment.findings = {finding("c", "a.service", {proposal("f", std::move(steps))}),
                         effect("failed", "a.service", {"c@a.service"})};
  return draft_plan(assessment, {}, test::find_fake);
}

const ProposedStep kToolkit{"toolkit", R"({"version":"13.0"})"};
const ProposedStep kPin{"pin", R"({"unit":"a.service","environment":{"A":"1"}})"};
const ProposedStep kRestart{"service", R"({"unit":"a.service","state":"restarted"})"};

HostDraft plan(const PlanDraft& draft, const std::vector<InspectedStep>& inspected,
               const Environment& environment = root_host()) {
  return make_host_plan("h", draft, inspected, {environment, knowledge()});
}

Texts kinds(const HostPlan& plan) {
  Texts lines;
  for (const auto& step : plan.steps) lines.push_back(step.kind);
  return lines;
}

std::string refusal(const PlanDraft& draft, const Environment& environment) {
  const auto made = plan(draft, std::vector<InspectedStep>(draft.steps.size()), environment);
  CHECK(made.plan.steps.empty() != made.plan.refused.empty());
  CHECK(made.changes.empty() == !made.plan.refused.empty());
  return made.plan.refused;
}

}  // namespace

TEST_CASE("a plan has the steps that are needed, with what was seen", "[unit][plan]") {
  const auto made =
      plan(draft({kToolkit, kPin, kRestart}), {{"as wanted", ""}, {"up", ""}, {"not set\xff", ""}, {"up", ""}}).plan;
  CHECK(made.refused.empty());
  CHECK(kinds(made) == Texts{"service", "pin", "service"});
  CHECK(made.steps[1].inspected == "not set\xef\xbf\xbd");  // as a plan file can hold it
  CHECK(made.steps[1].params == R"({"environment":{"A":"1"},"unit":"a.service"})");
  CHECK(made.steps[1].fix == "f");
  CHECK(made.steps[1].diff == "+Environment\n");
  CHECK(made.steps[0].restarts == Texts{"a.service"});
  REQUIRE(made.cures.size() == 2);
  CHECK(made.cures[1].key == "failed@a.service");
}

TEST_CASE("a restart follows what needs it, and a stop is not for what is down", "[unit][plan]") {
  const auto steps = draft({kPin, kRestart});
  const auto idle = plan(steps, {{"up", ""}, {"as wanted", ""}, {"up", ""}}).plan;
  CHECK(idle.steps.empty());
  CHECK(idle.cures.empty());
  REQUIRE(idle.left_out.size() == 2);
  CHECK(idle.left_out[0].why.find("as it should be already") != std::string::npos);
  CHECK(kinds(plan(steps, {{"as wanted", ""}, {"not set", ""}, {"down", ""}}).plan) == Texts{"pin", "service"});
  // A unit that is only to be started is no restart.
  CHECK(kinds(plan(draft({{"service", R"({"unit":"a.service","state":"started"})"}}), {{"down", ""}}).plan) ==
        Texts{"service"});
}

TEST_CASE("what could not be seen, or must not be done, refuses the whole host", "[unit][plan]") {
  const auto steps = draft({kToolkit, kRestart});
  const auto made = plan(steps, {{"absent", ""}, {"refused", ""}, {"", "cannot tell: systemd does not answer"}}).plan;
  CHECK(made.steps.empty());
  CHECK(made.cures.empty());
  CHECK(made.refused ==
        "service unit a.service: a.service is masked; service unit a.service: cannot tell: systemd does not answer");
  CHECK(made.left_out.size() == 2);
  CHECK(plan(steps, {{"unreadable", ""}, {"up", ""}, {"up", ""}}).plan.refused ==
        "toolkit version 13.0: cannot be read");
  CHECK(plan(steps, {{"absent", ""}}).plan.refused.find("it was not inspected") != std::string::npos);
}

TEST_CASE("guards speak where something is to be done", "[unit][plan][guards]") {
  const auto toolkit = draft({kToolkit}), pin = draft({kPin}), restart = draft({kToolkit, kRestart});
  auto host = root_host();
  CHECK(refusal(restart, host).empty());

  (*host.host).uid = 1000, (*host.host).user = "ops";
  CHECK(refusal(pin, host) ==
        "we are ops there, and only root may change anything: log in as root, or become root (-b)");
  CHECK(plan(pin, {{"as wanted", ""}}, host).plan.refused.empty());  // nothing is to be done
  host.host = Fact<HostInfo>::unknown("lost");
  CHECK(refusal(pin, host) == "who we are there is not known: lost");

  host = root_host();
  (*host.driver).loaded = (*host.driver).on_disk = Version::of("570.10");
  CHECK(refusal(toolkit, host).find("CUDA 13.0 needs driver 580") == 0);
  host.driver = Fact<Driver>::unknown("no permission");
  CHECK(refusal(toolkit, host).find("is not known") != std::string::npos);
  host = root_host();
  (*host.driver).on_disk = Version::of("590.1");
  CHECK(refusal(toolkit, host).empty());  // nothing starts anew
  CHECK(refusal(restart, host).find("reboot first") != std::string::npos);

  host = root_host();
  for (const bool can_drain : {false, true}) {
    const auto made = make_host_plan("h", toolkit, {{"absent", ""}}, {host, knowledge(), can_drain, true});
    CHECK(
        made.plan.refused ==
        (can_drain ? "" : "it is a node of Kubernetes, and the inventory gives no before_host program that drains it"));
  }
}

TEST_CASE("nothing was inspected: all steps stand, and nothing is foretold", "[unit][plan]") {
  auto host = root_host();
  (*host.host).uid = 1000;
  const auto made = plan(draft({kToolkit, kPin, kRestart}), {}, host);
  CHECK(kinds(made.plan) == Texts{"toolkit", "service", "pin", "service"});
  CHECK(made.plan.steps[0].wanted == "version 13.0");  // what it is about, since nothing is known of how it is now
  CHECK(made.plan.refused.empty());
  CHECK(made.changes.empty());
  CHECK(made.plan.cures.size() == 2);
}

TEST_CASE("a restart ends what only followed from what is gone", "[unit][plan][predict]") {
  Assessment today, then;
  today.findings = {
      finding("cause", "u"), effect("failed", "u", {"cause@u"}),          effect("log", "u", {"failed@u"}),
      finding("other", "u"), effect("slow", "u", {"cause@u", "other@u"}), effect("path", "/x", {"cause@u"})};
  then.findings = {finding("failed", "u"), finding("log", "u"),   finding("other", "u"),
                   finding("slow", "u"),   finding("path", "/x"), finding("new", "u")};
  then.findings.push_back(finding("told", "u"));
  then.findings.back().severity = Severity::info;
  const auto keys = [&](const std::vector<Change>& changes) {
    Texts result;
    for (const auto& each : what_remains(today, then, changes)) result.push_back(each.key);
    return result;
  };
  CHECK(keys({Restart{"u"}}) == Texts{"other@u", "slow@u", "path@/x", "new@u"});
  CHECK(keys({}) == Texts{"failed@u", "log@u", "other@u", "slow@u", "path@/x", "new@u"});
  CHECK(keys({Restart{"v"}}).size() == 6);
  // That a check cannot be evaluated any more is no cure.
  then.not_evaluated = {{"cause", "u", "why"}, {"path", "", "why"}};
  CHECK(keys({Restart{"u"}}) == Texts{"failed@u", "log@u", "other@u", "slow@u", "path@/x", "new@u", "cause@u"});
}

TEST_CASE("what the steps cure besides is not left out", "[unit][plan][predict]") {
  Assessment today, then;
  today.findings = {finding("a", "u"), finding("b", "v"), finding("c", "w"), finding("i", "")};
  today.findings.back().severity = Severity::info;
  then.findings = {finding("c", "w")};
  HostPlan made;
  made.cures = {planned(today.findings[0])};
  made.left_out = {{planned(today.findings[1]), "no fix is known"}, {planned(today.findings[2]), "no fix is known"}};
  foretell(made, today, then, {});
  REQUIRE(made.cures.size() == 2);
  CHECK(made.cures[1].key == "b@v");
  REQUIRE(made.left_out.size() == 1);
  CHECK(made.left_out[0].finding.key == "c@w");
  CHECK(made.remaining == std::vector{planned(today.findings[2])});
}

}  // namespace trueup
