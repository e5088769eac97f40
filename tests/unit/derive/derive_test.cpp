#include <nlohmann/json.hpp>

#include "derive/what_if.hpp"
#include "support/catch.hpp"
#include "trueup/derived.hpp"
#include "unit/derive/derive_cases.hpp"

namespace trueup {
namespace {

using nlohmann::json;

Derived derive_facts(const json& facts, const std::vector<DeclaredConsumer>& declared = {}) {
  const auto environment = environment_from_json(facts);
  if (!environment) throw std::runtime_error(to_string(environment.error()));
  static const auto kKnowledge = test::shipped_knowledge();
  return derive(*environment, declared, kKnowledge);
}

Resolution flashinfer_after(const std::vector<Change>& changes, const std::string& name = "ct200") {
  auto environment = environment_from_json(test::derive_case(name).facts).value();
  for (const auto& change : changes) environment = with_change(std::move(environment), change);
  for (auto& resolution : derive(environment, {}, test::shipped_knowledge()).resolutions)
    if (resolution.library == "flashinfer") return resolution;
  throw std::runtime_error("no resolution for flashinfer");
}

Toolkit cuda_130() {
  Toolkit toolkit;
  toolkit.path = "/usr/local/cuda-13.0";
  toolkit.kind = "local";
  toolkit.version = Version::of("13.0");
  toolkit.version_source = "nvcc";
  toolkit.has_nvcc = toolkit.nvcc_executable = true;
  return toolkit;
}

const std::string kUnit = "sglang-k26.service";

}  // namespace

TEST_CASE("derive says of every recorded host what its libraries would do", "[unit][derive]") {
  for (const auto& path : test::cases_in("derive", ".json")) {
    const auto c = test::derive_case(path.stem().string());
    const auto derived = derived_to_json(derive_facts(c.facts, c.declared));
    for (const auto& expected : c.document.at("resolutions")) {
      json candidates = json::array();
      for (const auto& each : derived.at("resolutions"))
        if (each.at("library") == expected.at("library")) candidates.push_back(each);
      INFO(c.name << ": " << c.document.at("what") << "\nexpected " << expected.dump(1) << "\ngot "
                  << candidates.dump(1));
      CHECK(std::any_of(candidates.begin(), candidates.end(),
                        [&](const json& each) { return test::is_part(expected, each); }));
    }
    for (const auto& expected : c.document.value("caches", json::array())) {
      INFO(c.name << ": expected " << expected.dump(1) << "\ngot " << derived.at("caches").dump(1));
      CHECK(std::any_of(derived.at("caches").begin(), derived.at("caches").end(),
                        [&](const json& each) { return test::is_part(expected, each); }));
    }
    if (c.document.at("resolutions").empty() && !c.document.contains("caches")) {
      INFO(c.name);
      CHECK(derived.at("resolutions").empty());
    }
  }
}

TEST_CASE("a service's three environments are compared, as far as they are known", "[unit][derive]") {
  auto facts = test::derive_case("host-sound").facts;
  auto& service = facts["services"][0];
  facts["login"]["variables"] = {{"CUDA_HOME", "/opt/cuda"}, {"HOME", "/root"}};
  service["unit_env"] = {{"CUDA_HOME", "/usr/local/cuda-13.0"}, {"HOME", "/root"}};
  service["process_env"] = {{"CUDA_HOME", "/usr/local/cuda-12.8"}, {"HOME", "/root"}, {"CC", "gcc-12"}};
  const auto names = [&] {
    std::vector<std::string> found;
    const auto derived = derive_facts(facts);
    for (const auto& each : derived.consumers.at(0).differences) found.push_back(each.name);
    return found;
  };
  CHECK(names() == std::vector<std::string>{"CC", "CUDA_HOME"});
  const auto all = derive_facts(facts);
  const auto& moved = all.consumers.at(0).differences.at(1);
  CHECK(moved.login == "/opt/cuda");
  CHECK(moved.unit == "/usr/local/cuda-13.0");
  CHECK(moved.process == "/usr/local/cuda-12.8");
  CHECK_FALSE(all.consumers.at(0).differences.at(0).unit.has_value());

  facts["login"] = nullptr;
  service["process_env"] = nullptr;
  service["unknown"] = {{"unit_env", "no permission"}, {"process_env", "no permission"}};
  CHECK(names().empty());
}

TEST_CASE("a module under one name of the right toolkit is not stale", "[unit][derive][caches]") {
  const auto derived = derive_facts(test::derive_case("baked-toolkit").facts);
  CHECK(std::count_if(derived.caches.begin(), derived.caches.end(),
                      [](const CacheVerdict& verdict) { return verdict.rule == "cache.fi.baked_toolkit"; }) == 1);
}

TEST_CASE("the chain of the incident leads from the GPU to the empty set", "[unit][derive][flashinfer]") {
  const auto resolution = flashinfer_after({});
  const std::vector<std::string> links = {"8 x compute capability 12.0",
                                          "flashinfer-python 0.6.12",
                                          "environment of the unit",
                                          "/usr/local/cuda -> /usr/local/cuda-12.8",
                                          "/usr/local/cuda/bin/nvcc is CUDA 12.8",
                                          "requires CUDA >= 12.9",
                                          "is empty"};
  REQUIRE(resolution.evidence.size() == links.size());
  for (std::size_t i = 0; i < links.size(); ++i) CHECK_THAT(resolution.evidence[i], ContainsSubstring(links[i]));
  CHECK_THAT(resolution.gate_rule, ContainsSubstring("FlashInfer 0.6.8rc1 to 0.7.0.post1"));
  REQUIRE_FALSE(resolution.history.empty());
  CHECK_THAT(resolution.history.front(), ContainsSubstring("FlashInfer 0.6.5 built 1 module for 120a"));
}

TEST_CASE("a program is missing only where every directory on PATH was looked into", "[unit][derive]") {
  auto facts = test::derive_case("ninja-off-path").facts;
  facts["services"][0]["process_env"]["PATH"] = "/srv/bin:/usr/bin";
  const auto derived = derive_facts(facts);
  const auto& flashinfer = derived.resolutions.front();
  CHECK(flashinfer.outcome == Outcome::unknown);
  CHECK_THAT(flashinfer.explanation, ContainsSubstring("/srv/bin on PATH was not looked into"));
}

TEST_CASE("a GPU process whose Python environment could not be found is unknown, not absent", "[unit][derive]") {
  auto facts = test::derive_case("h100").facts;
  facts["processes"] = {{{"pid", 4711}, {"unknown", {{"python_env", "a container: not looked into"}}}}};
  const auto derived = derive_facts(facts);
  const auto found = std::find_if(derived.resolutions.begin(), derived.resolutions.end(), [](const Resolution& each) {
    return each.consumer == "process 4711" && each.library == "flashinfer";
  });
  REQUIRE(found != derived.resolutions.end());
  CHECK(found->outcome == Outcome::unknown);
  CHECK_THAT(found->explanation, ContainsSubstring("a container: not looked into"));
}

TEST_CASE("a unit of a user's own systemd is one consumer, by its name", "[unit][derive]") {
  auto facts = test::derive_case("user-unit").facts;
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& each : derive_facts(facts).consumers)
      if (each.kind != "unclaimed") found.push_back(each.kind + ": " + each.id);
    return found;
  };
  CHECK(names() == std::vector<std::string>{"user_unit: user unit vllm.service of alice"});
  const auto moved_to = [&](const char* cgroup) {
    for (auto& process : facts["processes"]) process["cgroup"] = cgroup;
    return names();
  };
  // What a terminal, a container or a login runs is no part of a unit.
  CHECK(moved_to("/user.slice/user-1000.slice/user@1000.service/app.slice/term.service/vte-spawn-1.scope").size() == 3);
  CHECK(moved_to("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-0123.scope/container").size() == 3);
  CHECK(moved_to("/user.slice/user-1000.slice/session-2.scope").size() == 3);
  CHECK(moved_to("/user.slice/user-1000.slice/user@1000.service/init.scope").size() == 3);
}

TEST_CASE("a pin reaches all processes of a user's unit, and how it starts next is not known",
          "[unit][derive][what_if]") {
  const auto environment = environment_from_json(test::derive_case("user-unit").facts).value();
  const auto changed =
      with_change(environment, SetVariable{"user unit vllm.service of alice", "CUDA_HOME", "/usr/local/cuda-13.0"});
  for (const auto& process : *changed.processes) CHECK(process.env.at("CUDA_HOME") == "/usr/local/cuda-13.0");
  auto derived = derive(environment, {}, test::shipped_knowledge());
  judge_alternatives(environment, {}, test::shipped_knowledge(), derived);
  for (const auto& each : derived.resolutions)
    if (each.library == "flashinfer") CHECK_THAT(each.next_start, ContainsSubstring("cannot be foretold"));
}

TEST_CASE("what-if judges the alternatives of the incident", "[unit][derive][what_if]") {
  const auto list = [](const char* value) { return SetVariable{"unit " + kUnit, "FLASHINFER_CUDA_ARCH_LIST", value}; };
  CHECK(flashinfer_after({list("12.0f")}).reason == "target_unknown_to_compiler");
  CHECK(flashinfer_after({list("12.0")}).reason == "arch_list_refused");
  const auto stop_gap = flashinfer_after({list("12.0a")});
  CHECK(stop_gap.outcome == Outcome::risk);
  CHECK(stop_gap.targets == std::vector<std::string>{"120a"});

  CHECK(flashinfer_after({AddToolkit{cuda_130()}}).reason == "arch_set_empty");  // beside is not enough
  const auto proper =
      flashinfer_after({AddToolkit{cuda_130()}, SetVariable{"unit " + kUnit, "CUDA_HOME", "/usr/local/cuda-13.0"}});
  CHECK(proper.outcome == Outcome::ok);
  CHECK(proper.targets == std::vector<std::string>{"120f"});
  CHECK(flashinfer_after({SetVariable{"unit " + kUnit, "CUDA_HOME", "/usr/local/cuda-13.0"}}).outcome ==
        Outcome::broken);  // not installed
}

TEST_CASE("pinning 13.0 cures every recorded SM 12.x host whose only fault is the gate",
          "[property][derive][what_if]") {
  for (const auto& path : test::cases_in("derive", ".json")) {
    const auto name = path.stem().string();
    const auto facts = test::derive_case(name).facts;
    if (facts.at("services").empty()) continue;
    const auto before = derive_facts(facts);
    const auto fault = std::find_if(before.resolutions.begin(), before.resolutions.end(), [](const Resolution& each) {
      return each.library == "flashinfer" && (each.reason == "arch_set_empty" || each.reason == "gpu_dropped_by_gate");
    });
    if (fault == before.resolutions.end()) continue;
    const auto after = flashinfer_after(
        {AddToolkit{cuda_130()}, SetVariable{fault->consumer, "CUDA_HOME", "/usr/local/cuda-13.0"}}, name);
    INFO(name << ": " << after.explanation);
    CHECK(after.outcome == Outcome::ok);
  }
}

TEST_CASE("with_change removes a cache with everything below it, and nothing beside it", "[unit][derive][what_if]") {
  auto environment = environment_from_json(test::derive_case("ct200").facts).value();
  const auto without = with_change(environment, RemoveCache{"/root/.cache/flashinfer/0.6.5"});
  REQUIRE(without.caches->size() == 1);
  CHECK(without.caches->front().version == "0.6.12");
  CHECK(with_change(environment, RemoveCache{"/root/.cache/flashinfer/0.6"}) == environment);
}

TEST_CASE("derive answers with any section unknown, and never calls that ok", "[property][derive]") {
  const auto facts = test::derive_case("ct201-pinned-130").facts;
  for (const auto& section : environment_sections()) {
    auto less = facts;
    less[section] = nullptr;
    less["unknown"][section] = "not looked at";
    const auto derived = derive_facts(less);
    for (const auto& resolution : derived.resolutions) {
      INFO(section << ", " << resolution.library << ": " << resolution.reason << ": " << resolution.explanation);
      CHECK_FALSE(resolution.explanation.empty());
      if (resolution.library == "flashinfer" && (section == "gpus" || section == "toolkits" ||
                                                 section == "python_envs" || section == "tools" || section == "driver"))
        CHECK(resolution.outcome == Outcome::unknown);
    }
  }
}

TEST_CASE("the six CUDA versions keep their names", "[unit][derive]") {
  const auto derived = derive_facts(test::derive_case("ct200").facts);
  const auto& versions = derived.cuda_versions;
  CHECK(versions.at("driver_max") == "13.0 (driver 580.95.05)");
  CHECK(versions.at("toolkits") == "12.8 (/usr/local/cuda-12.8)");
  CHECK(versions.at("toolkit_as_seen") == "12.8 by nvcc (unit sglang-k26.service)");
  CHECK(versions.at("torch_build") == "13.0 (/root/venv_sglang211)");
  CHECK(versions.at("bundled_assemblers") == "ptxas 12.8.93 (/root/venv_sglang211)");
}

}  // namespace trueup
