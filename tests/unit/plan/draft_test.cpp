#include "plan/draft.hpp"

#include <fmt/format.h>

#include "support/catch.hpp"
#include "unit/plan/fake_kinds.hpp"

namespace trueup {
namespace {

using test::effect;
using test::finding;
using test::proposal;
using Texts = std::vector<std::string>;

const ProposedStep kToolkit{"toolkit", R"({"version":"13.0"})"};
const ProposedStep kRestart{"service", R"({"unit":"a.service","state":"restarted"})"};

ProposedStep pin(const std::string& name, const std::string& value) {
  return {"pin", fmt::format(R"({{"unit":"a.service","environment":{{"{}":"{}"}}}})", name, value)};
}

PlanDraft draft(std::vector<Finding> findings, const PlanWishes& wishes = {}) {
  Assessment assessment;
  assessment.findings = std::move(findings);
  return draft_plan(assessment, wishes, test::find_fake);
}

Texts steps(const PlanDraft& draft) {
  Texts lines;
  for (const auto& step : draft.steps) lines.push_back(fmt::format("{} {}", step.kind->name(), step.params.dump()));
  return lines;
}

Texts cures(const PlanDraft& draft) {
  Texts keys;
  for (const auto& each : draft.cures) keys.push_back(each.key);
  return keys;
}

Texts left_out(const PlanDraft& draft) {
  Texts lines;
  for (const auto& each : draft.left_out) lines.push_back(each.finding.key + ": " + each.why);
  return lines;
}

Finding with_severity(Finding finding, Severity severity) {
  finding.severity = severity;
  return finding;
}

}  // namespace

TEST_CASE("steps are put in the order of their ranks, and a restart comes apart", "[unit][plan][draft]") {
  const auto made = draft(
      {finding("c", "a.service", {proposal("f", {kRestart, pin("A", "1"), {"aside", R"({"path":"/c"})"}, kToolkit})})});
  CHECK(steps(made) == Texts{R"(toolkit {"version":"13.0"})",
                             R"(service {"restart":true,"state":"stopped","unit":"a.service"})",
                             R"(pin {"environment":{"A":"1"},"unit":"a.service"})", R"(aside {"path":"/c"})",
                             R"(service {"later":40,"restart":true,"state":"started","unit":"a.service"})"});
  CHECK(cures(made) == Texts{"c@a.service"});
  CHECK(made.steps.front().fix == "f");
  CHECK(made.steps.front().cures == Texts{"c@a.service"});
}

TEST_CASE("what several findings want becomes one step where it agrees", "[unit][plan][draft]") {
  const auto made = draft({finding("c", "", {proposal("f", {kToolkit, pin("A", "1"), kRestart})}),
                           finding("d", "", {proposal("g", {kToolkit, pin("B", "2"), kRestart})})});
  CHECK(steps(made) == Texts{R"(toolkit {"version":"13.0"})",
                             R"(service {"restart":true,"state":"stopped","unit":"a.service"})",
                             R"(pin {"environment":{"A":"1","B":"2"},"unit":"a.service"})",
                             R"(service {"later":40,"restart":true,"state":"started","unit":"a.service"})"});
  CHECK(made.steps[0].cures == Texts{"c", "d"});
  CHECK(made.left_out.empty());
}

TEST_CASE("a fix that contradicts what is planned already is not taken", "[unit][plan][draft]") {
  const auto first = finding("c", "", {proposal("f", {pin("A", "1")})});
  const auto alone = draft({first, finding("d", "", {proposal("g", {kToolkit, pin("A", "2")})})});
  CHECK(steps(alone) == Texts{R"(pin {"environment":{"A":"1"},"unit":"a.service"})"});  // nothing of g is left behind
  CHECK(left_out(alone) == Texts{"d: fix g wants unit a.service otherwise than fix f does for c"});
  // The next fix of the same finding may do.
  const auto other = draft({first, finding("d", "", {proposal("g", {pin("A", "2")}), proposal("h", {kToolkit})})});
  CHECK(steps(other).size() == 2);
  CHECK(cures(other) == Texts{"c", "d"});
}

TEST_CASE("the first fix that fits is taken, and the others say why not", "[unit][plan][draft]") {
  auto no = proposal("f", {kToolkit}), unknown = proposal("g", {kToolkit});
  no.fit = Proposal::Fit::no, no.why = "no room";
  unknown.fit = Proposal::Fit::unknown, unknown.why = "a mystery";
  CHECK(steps(draft({finding("c", "", {no, unknown, proposal("h", {pin("A", "1")})})})).size() == 1);
  CHECK(left_out(draft({finding("c", "", {no, unknown})})) ==
        Texts{"c: fix f does not fit: no room; whether fix g fits cannot be told: a mystery"});
  CHECK(left_out(draft({finding("c", "")})) == Texts{"c: no fix is known"});
  CHECK(left_out(draft({finding("c", "", {proposal("f", {})})})) == Texts{"c: fix f has no step here"});
}

TEST_CASE("parameters that a template made wrong keep a fix from being taken", "[unit][plan][draft]") {
  const auto why = [](ProposedStep step) {
    return left_out(draft({finding("c", "", {proposal("f", {std::move(step)})})}));
  };
  CHECK(why({"toolkitt", "{}"}) == Texts{"c: fix f: there is no action 'toolkitt'"});
  CHECK(why({"toolkit", "{}"}).front().find("'version' is missing") != std::string::npos);
  CHECK(why({"toolkit", R"({"version":13})"}).front().find("expected a text") != std::string::npos);
  CHECK(why({"toolkit", R"({"version":"1\n2"})"}).front().find("control characters") != std::string::npos);
  CHECK(why({"toolkit", R"({"version":"bad"})"}).front().find("'bad' is bad") != std::string::npos);
}

TEST_CASE("roots are cured, and what follows from them with them", "[unit][plan][draft]") {
  const auto fix = proposal("f", {kToolkit});
  const auto made =
      draft({finding("root", "u", {fix}), effect("failed", "u", {"root@u"}), effect("log", "u", {"failed@u"})});
  CHECK(cures(made) == Texts{"root@u", "failed@u", "log@u"});
  CHECK(steps(made).size() == 1);
}

TEST_CASE("a root counts by its own severity, or by what it alone explains", "[unit][plan][draft]") {
  const auto fix = proposal("f", {kToolkit});
  const auto warning = [&](const char* check) { return with_severity(finding(check, "u", {fix}), Severity::warning); };
  CHECK(draft({warning("w")}).steps.empty());
  CHECK(draft({warning("w")}).left_out.empty());
  CHECK(cures(draft({warning("w")}, {.fail_on = Severity::warning})) == Texts{"w@u"});
  CHECK(cures(draft({warning("w"), effect("failed", "u", {"w@u"})})) == Texts{"w@u", "failed@u"});
  // An error explains it too: the warning need not be cured for it.
  CHECK(cures(draft({finding("e", "u", {fix}), warning("w"), effect("failed", "u", {"e@u", "w@u"})})) ==
        Texts{"e@u", "failed@u"});
}

TEST_CASE("the command line narrows a plan, and the plan says so", "[unit][plan][draft]") {
  const std::vector<Finding> findings = {finding("a", "u", {proposal("f", {kToolkit})}), effect("failed", "u", {"a@u"}),
                                         finding("b", "v", {proposal("g", {pin("A", "1")})})};
  const auto only = draft(findings, {.only = {"a"}});
  CHECK(cures(only) == Texts{"a@u", "failed@u"});
  CHECK(left_out(only) == Texts{"b@v: left out by --only"});
  CHECK(cures(draft(findings, {.only = {"failed@u"}})) == Texts{"a@u", "failed@u"});
  CHECK(cures(draft(findings, {.only = {"failed@x"}})).empty());
  const auto without = draft(findings, {.exclude = {"a@u"}});
  CHECK(cures(without) == Texts{"b@v"});
  CHECK(left_out(without) == Texts{"a@u: left out by --exclude"});
  const auto fixed = draft(findings, {.fixes = {"g"}});
  CHECK(cures(fixed) == Texts{"b@v"});
  CHECK(left_out(fixed) == Texts{"a@u: left out by --fix"});
}

TEST_CASE("parameters unite member by member", "[unit][plan][draft]") {
  using nlohmann::json;
  const auto one = [](const char* a, const char* b) { return united(json::parse(a), json::parse(b)); };
  CHECK(one(R"({"a": {"x": 1}, "b": [1]})", R"({"a": {"y": 2}, "b": [1], "c": null})") ==
        json::parse(R"({"a": {"x": 1, "y": 2}, "b": [1], "c": null})"));
  CHECK_FALSE(one(R"({"a": 1})", R"({"a": 2})"));
  CHECK_FALSE(one(R"({"a": [1]})", R"({"a": [1, 2]})"));
  CHECK_FALSE(one(R"({"a": {}})", R"({"a": []})"));
}

}  // namespace trueup
