#include <filesystem>
#include <nlohmann/json.hpp>

#include "check/check_set.hpp"
#include "load/playbook.hpp"
#include "plan/host_plan.hpp"
#include "support/catch.hpp"
#include "support/playbook_text.hpp"
#include "unit/derive/derive_cases.hpp"
#include "unit/plan/fake_kinds.hpp"

// The incident from its facts to its plan, with everything that is shipped but the actions, which are fakes: what they
// see is what the model says.

namespace trueup {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* kFixes = R"(
fixes:
  newer-toolkit:
    title: CUDA {{ $advice.cuda }} for {{ .item.unit }} alone
    when: .item.unit != "" and $advice != null and $advice.cuda != ""
    steps:
      - toolkit: {version: "{{ $advice.cuda }}"}
      - pin: {unit: "{{ .item.unit }}", environment: "{{ $advice.set }}"}
      - aside: {path: "{{ .each }}"}
        for_each: $advice.caches[]
      - service: {unit: "{{ .item.unit }}", state: restarted}
)";

struct Shipped {
  Playbook playbook;
  CheckSet checks;
  Knowledge knowledge;
};

const Shipped& shipped() {
  static const auto kShipped = [] {
    std::map<std::string, std::string> files = {{"the-test's.yaml", kFixes}};
    Texts paths = {"the-test's.yaml"};
    for (const auto& entry : std::filesystem::directory_iterator(TRUEUP_PLAYBOOKS))
      if (entry.path().extension() == ".yaml") {
        paths.push_back(entry.path().filename().string());
        files[paths.back()] = test::read_file(entry.path());
      }
    Errors errors;
    auto playbook = load_playbooks(paths, test::TextFiles(files), errors);
    for (auto& check : playbook.checks) check.fixes.clear();  // what is shipped is for the real actions
    std::erase_if(playbook.fixes, [](const Fix& fix) { return fix.id != "newer-toolkit"; });
    for (auto& check : playbook.checks)
      if (check.id == "flashinfer.arch-set-empty") check.fixes = {"newer-toolkit"};
    auto checks = CheckSet::compile(playbook.checks, playbook.fixes, errors);
    if (!errors.empty()) throw std::runtime_error(to_string(errors.front()));
    return Shipped{std::move(playbook), *std::move(checks), test::shipped_knowledge()};
  }();
  return kShipped;
}

Assessment assess(const Environment& environment) {
  auto derived = derive(environment, {}, shipped().knowledge);
  judge_alternatives(environment, {}, shipped().knowledge, derived);
  auto facts = environment_to_json(environment);
  facts["derived"] = derived_to_json(derived);
  return shipped().checks.assess(facts).value();
}

const Service& service(const Environment& environment) { return environment.services->front(); }

std::string look(const WantedStep& step, const Environment& environment) {
  const auto& kind = step.kind->name();
  if (kind == "toolkit") {
    for (const auto& toolkit : *environment.toolkits)
      if (toolkit.path == "/usr/local/cuda-" + step.params.at("version").get<std::string>()) return "as wanted";
    return "absent";
  }
  if (kind == "pin") {
    for (const auto& [name, value] : step.params.at("environment").items())
      if (!service(environment).unit_env.contains(name) ||
          service(environment).unit_env.at(name) != value.get<std::string>())
        return "not set";
    return "as wanted";
  }
  if (kind == "aside") {
    for (const auto& cache : *environment.caches)
      if (cache.path.starts_with(step.params.at("path").get<std::string>())) return "there";
    return "as wanted";
  }
  return service(environment).state;
}

HostDraft plan(const Environment& environment) {
  const auto draft = draft_plan(assess(environment), {}, test::find_fake);
  std::vector<InspectedStep> inspected;
  for (const auto& step : draft.steps) inspected.push_back({look(step, environment), ""});
  return make_host_plan("ct200", draft, inspected, {environment, shipped().knowledge});
}

}  // namespace

TEST_CASE("the incident is cured by a plan, after which there is nothing to plan", "[unit][plan][property][incident]") {
  auto environment = environment_from_json(test::derive_case("ct200").facts).value();
  (*environment.host).uid = 0;
  const auto made = plan(environment);
  INFO(made.plan.refused);
  for (const auto& each : made.plan.left_out) UNSCOPED_INFO(each.finding.key << ": " << each.why);
  Texts steps;
  for (const auto& step : made.plan.steps) steps.push_back(step.kind + " " + step.params);
  INFO(nlohmann::json(steps).dump(1));
  REQUIRE(steps.size() >= 4);
  CHECK(steps[0] == R"(toolkit {"version":"13.0"})");
  CHECK(steps[1].starts_with("service "));
  CHECK(steps[2] == R"(pin {"environment":{"CUDA_HOME":"/usr/local/cuda-13.0"},"unit":"sglang-k26.service"})");
  CHECK(steps.back().starts_with("service "));
  Texts cures;
  for (const auto& finding : made.plan.cures) cures.push_back(finding.key);
  CHECK(std::find(cures.begin(), cures.end(), "flashinfer.arch-set-empty@sglang-k26.service") != cures.end());
  CHECK(std::find(cures.begin(), cures.end(), "service.failed@sglang-k26.service") != cures.end());

  auto cured = environment;
  for (const auto& change : made.changes) cured = with_change(std::move(cured), change);
  Texts remaining;
  for (const auto& finding : what_remains(assess(environment), assess(cured), made.changes))
    remaining.push_back(finding.key);
  CHECK(remaining == Texts{});
  const auto again = plan(cured);
  CHECK(again.plan.steps.empty());
  CHECK(again.plan.refused.empty());
}

}  // namespace trueup
