#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "derive/what_if.hpp"
#include "support/catch.hpp"
#include "trueup/derived.hpp"
#include "unit/derive/derive_cases.hpp"

namespace trueup {
namespace {

using nlohmann::json;

const Knowledge& knowledge() {
  static const auto kKnowledge = test::shipped_knowledge();
  return kKnowledge;
}

Resolution judged(const json& facts, const std::string& library, const std::vector<DeclaredConsumer>& declared = {}) {
  const auto environment = environment_from_json(facts).value();
  auto derived = derive(environment, declared, knowledge());
  judge_alternatives(environment, declared, knowledge(), derived);
  for (auto& resolution : derived.resolutions)
    if (resolution.library == library && resolution.outcome == Outcome::broken) return resolution;
  throw std::runtime_error("nothing broken for " + library);
}

std::string lines(const Resolution& resolution) {
  std::string text;
  for (const auto& each : resolution.alternatives)
    text += fmt::format("{} {}: {}\n", static_cast<int>(each.verdict), each.change, each.why);
  return text;
}

const Alternative* find(const Resolution& resolution, std::string_view part) {
  for (const auto& each : resolution.alternatives)
    if (each.change.find(part) != std::string::npos) return &each;
  return nullptr;
}

}  // namespace

TEST_CASE("the incident's alternatives are judged as careful operators judge them", "[unit][derive][alternatives]") {
  const auto fault = judged(test::derive_case("ct200").facts, "flashinfer");
  INFO(lines(fault));
  REQUIRE_FALSE(fault.alternatives.empty());
  const auto verdict = [&](std::string_view part) {
    const auto* found = find(fault, part);
    INFO(part);
    REQUIRE(found != nullptr);
    return found->verdict;
  };
  // One cure: the toolkit that torch was built for, pinned for this unit alone.
  CHECK(fault.alternatives.front().verdict == Judgement::proper);
  CHECK(fault.alternatives.front().change ==
        "CUDA 13.0 installed beside, CUDA_HOME=/usr/local/cuda-13.0 in sglang-k26.service");
  CHECK_THAT(fault.alternatives.front().why, ContainsSubstring("builds for 120f"));
  CHECK(verdict("CUDA 12.9 installed beside") == Judgement::stop_gap);  // passes the gate; torch is of another major
  CHECK_THAT(find(fault, "CUDA 12.9")->why, ContainsSubstring("torch is built for CUDA 13.0"));
  CHECK(verdict("FLASHINFER_CUDA_ARCH_LIST=\"12.0a\"") == Judgement::stop_gap);
  CHECK(verdict("FLASHINFER_CUDA_ARCH_LIST=\"12.0\"") == Judgement::rejected);
  CHECK(verdict("FLASHINFER_CUDA_ARCH_LIST=\"12.0f\"") == Judgement::rejected);
  CHECK_THAT(find(fault, "\"12.0f\"")->why, ContainsSubstring("compute_120f"));
  CHECK(verdict("gate patched out") == Judgement::rejected);
  CHECK(verdict("/usr/local/cuda pointed to /usr/local/cuda-13.0") == Judgement::stop_gap);
  CHECK(verdict("/root/.cache/flashinfer removed") == Judgement::rejected);
  CHECK_THAT(find(fault, ".cache/flashinfer removed")->why, ContainsSubstring("changes nothing"));
  CHECK(std::is_sorted(fault.alternatives.begin(), fault.alternatives.end(),
                       [](const Alternative& a, const Alternative& b) { return a.verdict > b.verdict; }));
}

TEST_CASE("alternatives say what a fix would have to do", "[unit][derive][alternatives]") {
  auto facts = test::derive_case("ct200").facts;
  const auto fault = judged(facts, "flashinfer");
  INFO(lines(fault));
  const auto& best = fault.alternatives.front();
  CHECK(best.cuda == "13.0");
  CHECK(best.toolkit == "/usr/local/cuda-13.0");
  CHECK(best.set == Variables{{"CUDA_HOME", "/usr/local/cuda-13.0"}});
  CHECK(best.unset.empty());
  CHECK(find(fault, "FLASHINFER_CUDA_ARCH_LIST=\"12.0a\"")->set == Variables{{"FLASHINFER_CUDA_ARCH_LIST", "12.0a"}});
  CHECK(find(fault, ".cache/flashinfer removed")->caches == std::vector<std::string>{"/root/.cache/flashinfer"});
  for (const auto* part : {"gate patched out", "/usr/local/cuda pointed to"}) {  // no action does these
    const auto* each = find(fault, part);
    CHECK((each->cuda.empty() && each->toolkit.empty() && each->set.empty() && each->caches.empty()));
  }

  // It is there already: nothing is to be installed.
  auto toolkit = facts["toolkits"][0];
  toolkit["path"] = "/usr/local/cuda-13.0";
  toolkit["version"] = "13.0";
  toolkit["reached_by"] = json::array();
  facts["toolkits"].push_back(toolkit);
  const auto pinned = judged(facts, "flashinfer").alternatives.front();
  CHECK(pinned.change == "CUDA_HOME=/usr/local/cuda-13.0 in sglang-k26.service");
  CHECK(pinned.cuda.empty());
  CHECK(pinned.toolkit == "/usr/local/cuda-13.0");
  CHECK(pinned.set.size() == 1);

  // Somebody's process names it, or it cannot be trusted: it is judged, and no fix leads the service there.
  for (const auto* path : {"/home/mallory/cuda", "/usr/local/cuda-13.0"}) {
    auto& last = facts["toolkits"].back();
    last["path"] = path;
    last["kind"] = std::string_view(path).starts_with("/home") ? "named" : "local";
    last["unknown"] = last["kind"] == "named" ? json::object() : json{{"version", "not trusted to run as root"}};
    for (const auto& each : judged(facts, "flashinfer").alternatives) {
      CHECK(each.toolkit != "/home/mallory/cuda");
      for (const auto& [name, value] : each.set) CHECK(value.find("mallory") == std::string::npos);
    }
  }
}

TEST_CASE("moving the default link is rejected where others build with it", "[unit][derive][alternatives]") {
  auto facts = test::derive_case("ct200").facts;
  auto other = facts["services"][0];
  other["unit"] = "trainer.service";
  facts["services"].push_back(other);
  const auto fault = judged(facts, "flashinfer");
  INFO(lines(fault));
  const auto* moved = find(fault, "/usr/local/cuda pointed to");
  REQUIRE(moved != nullptr);
  CHECK(moved->verdict == Judgement::rejected);
  CHECK_THAT(moved->why, ContainsSubstring("trainer.service"));
}

TEST_CASE("the next start is foretold from the unit, not from the process that runs", "[unit][derive][alternatives]") {
  const auto stopped = judged(test::derive_case("ct200").facts, "flashinfer");
  CHECK_THAT(stopped.next_start, ContainsSubstring("meets the same"));

  auto facts = test::derive_case("ct200").facts;
  auto& service = facts["services"][0];
  service["main_pid"] = 4711;
  service["process_env"] = service["unit_env"];
  service["unit_env"]["FLASHINFER_CUDA_ARCH_LIST"] = "12.0a";
  const auto running = judged(facts, "flashinfer");
  CHECK_THAT(running.next_start,
             ContainsSubstring("starts with other variables (FLASHINFER_CUDA_ARCH_LIST = 12.0a, now "
                               "not set) and works, with a catch"));
}

TEST_CASE("a pin reaches processes and declared consumers as well", "[unit][derive][what_if]") {
  auto environment = environment_from_json(test::derive_case("h100").facts).value();
  GpuProcess process;
  process.pid = 7;
  environment.processes = std::vector{process};
  const Change pin = SetVariable{"process 7", "CUDA_HOME", "/opt/cuda"};
  CHECK(with_change(environment, pin).processes->front().env.at("CUDA_HOME") == "/opt/cuda");
  const std::vector<DeclaredConsumer> declared = {{"a", "/venv", "", {}}, {"b", "/venv", "", {{"X", "1"}}}};
  const auto changed = with_change(declared, SetVariable{"declared b", "X", {}});
  CHECK(changed[0] == declared[0]);
  CHECK(changed[1].env.empty());
}

TEST_CASE("every broken recorded host gets alternatives that are judged and explained",
          "[property][derive][alternatives]") {
  for (const auto& path : test::cases_in("derive", ".json")) {
    const auto c = test::derive_case(path.stem().string());
    const auto environment = environment_from_json(c.facts).value();
    auto derived = derive(environment, c.declared, knowledge());
    judge_alternatives(environment, c.declared, knowledge(), derived);
    for (const auto& resolution : derived.resolutions) {
      INFO(c.name << ", " << resolution.consumer << ", " << resolution.library << ": " << resolution.reason << ": "
                  << resolution.explanation << "\n"
                  << lines(resolution));
      if (resolution.outcome != Outcome::broken || !resolution.claimed) CHECK(resolution.alternatives.empty());
      for (const auto& each : resolution.alternatives) {
        CHECK_FALSE(each.change.empty());
        CHECK_FALSE(each.why.empty());
      }
    }
  }
}

TEST_CASE("a driver that is too old has a cure, and pins are none for a wheel", "[unit][derive][alternatives]") {
  const auto torch = judged(test::derive_case("driver570-cuda13").facts, "torch");
  INFO(lines(torch));
  REQUIRE(find(torch, "driver 580.65.06 or newer") != nullptr);
  CHECK(find(torch, "driver 580.65.06 or newer")->verdict == Judgement::proper);
}

}  // namespace trueup
