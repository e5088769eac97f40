#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "trueup/derived.hpp"
#include "unit/derive/derive_cases.hpp"

namespace trueup {
namespace {

using nlohmann::json;

/// The outcome of a library and its `history`, in lines.
std::string history(const json& facts, const std::string& library) {
  static const auto kKnowledge = test::shipped_knowledge();
  const auto environment = environment_from_json(facts);
  if (!environment) throw std::runtime_error(to_string(environment.error()));
  const auto derived = derived_to_json(derive(*environment, {}, kKnowledge));
  for (const auto& each : derived.at("resolutions"))
    if (each.at("library") == library)
      return each.at("outcome").get<std::string>() + "\n" +
             join(each.at("history").get<std::vector<std::string>>(), "\n");
  throw std::runtime_error("no resolution for " + library);
}

/// The host of the incident, where nothing can be compiled: the toolkit is gone.
json without_toolkit() {
  auto facts = test::derive_case("ct200").facts;
  facts["toolkits"] = json::array();
  facts["cuda_links"] = json::array();
  facts["caches"] = json::array();
  for (const auto* name : {"deep-gemm", "apache-tvm-ffi", "tilelang"})
    facts["python_envs"][0]["packages"].push_back({{"name", name},
                                                   {"version", name == std::string_view("deep-gemm")  ? "2.8.0"
                                                               : name == std::string_view("tilelang") ? "0.1.10"
                                                                                                      : "0.1.5"},
                                                   {"installed", 1793500000}});
  return facts;
}

}  // namespace

TEST_CASE("every library tells what other releases, toolkits and environments built", "[unit][derive][history]") {
  struct {
    const char* library;
    json cache;
    const char* says;
  } const cases[] = {
      {"torch_extensions",
       {{"kind", "torch_extensions"},
        {"path", "/root/.cache/torch_extensions/py310_cu128/ops"},
        {"op", "ops"},
        {"built", true},
        {"cuda_home", "/usr/local/cuda-12.8"},
        {"modified", 1795136000}},
       "torch built 1 module as py310_cu128 with the toolkit /usr/local/cuda-12.8 in /root/.cache/torch_extensions, "
       "the last on "
       "2026-11-20"},
      {"sglang",
       {{"kind", "tvm_ffi"},
        {"path", "/root/.cache/tvm-ffi/sgl_kernel_jit_norm_01"},
        {"op", "sgl_kernel_jit_norm_01"},
        {"built", true},
        {"cuda_home", "/opt/cuda"},
        {"python_env", "/opt/old"},
        {"modified", 1795136000}},
       "SGLang built 1 module with the toolkit /opt/cuda from /opt/old in /root/.cache/tvm-ffi"},
      {"tvm_ffi",
       {{"kind", "tvm_ffi"},
        {"path", "/root/.cache/tvm-ffi/mine_01"},
        {"op", "mine_01"},
        {"built", true},
        {"cuda_home", "/opt/cuda"}},
       "tvm-ffi built 1 module with the toolkit /opt/cuda in /root/.cache/tvm-ffi"},
      {"deep_gemm",
       {{"kind", "deep_gemm"}, {"path", "/root/.deep_gemm"}, {"built_by", {"12.8", "12.9"}}},
       "DeepGEMM built kernels with CUDA 12.8, 12.9 in /root/.deep_gemm"},
      {"tilelang",
       {{"kind", "tilelang"}, {"path", "/root/.tilelang/cache/0.1.9"}, {"version", "0.1.9"}, {"modified", 1795136000}},
       "tilelang 0.1.9 built kernels in /root/.tilelang/cache, the last on 2026-11-20"},
  };
  for (const auto& each : cases) {
    CAPTURE(each.library);
    auto facts = without_toolkit();
    CHECK_THAT(history(facts, each.library), !ContainsSubstring(" built "));
    facts["caches"].push_back(each.cache);
    const auto told = history(facts, each.library);
    CHECK_THAT(told, ContainsSubstring(each.says));
    CHECK_THAT(told, ContainsSubstring("torch 2.9.1+cu130 was installed on 2026-10-31"));
    // What one library built is no story of another.
    for (const auto& other : cases)
      if (other.library != std::string_view(each.library))
        CHECK_THAT(history(facts, other.library), !ContainsSubstring(" built "));
    auto elsewhere = without_toolkit();
    elsewhere["caches"].push_back(each.cache);
    elsewhere["caches"][0]["path"] = "/home/somebody" + each.cache["path"].get<std::string>();
    CHECK_THAT(history(elsewhere, each.library), !ContainsSubstring(" built "));
  }
}

TEST_CASE("modules that are as they would be built now tell nothing", "[unit][derive][history]") {
  auto facts = test::derive_case("ct200").facts;
  auto& module = facts["caches"][1];
  module["version"] = "0.6.12";
  module["path"] = "/root/.cache/flashinfer/0.6.12/120a/cached_ops/sampling";
  CHECK_THAT(history(facts, "flashinfer"), !ContainsSubstring(" built "));
  module["cuda_home"] = "/usr/local/cuda-12.8";  // the same under another name
  CHECK_THAT(history(facts, "flashinfer"), !ContainsSubstring(" built "));
  module["cuda_home"] = "/usr/local/cuda-13.0";
  CHECK_THAT(history(facts, "flashinfer"), ContainsSubstring("built 1 module with the toolkit /usr/local/cuda-13.0"));
}

TEST_CASE("a link that was moved after the packages or the modules came is told", "[unit][derive][history]") {
  auto facts = test::derive_case("ct200").facts;
  CHECK_THAT(history(facts, "flashinfer"), !ContainsSubstring("was pointed to"));
  facts["cuda_links"][0]["changed"] = 1795800000;
  CHECK_THAT(history(facts, "flashinfer"),
             ContainsSubstring("/usr/local/cuda was pointed to cuda-12.8 on 2026-11-27, after the packages came"));
  for (auto& package : facts["python_envs"][0]["packages"]) package["installed"] = 0;
  CHECK_THAT(history(facts, "flashinfer"), ContainsSubstring("after the modules came"));
  // Not for a library that another root serves.
  facts["services"][0]["unit_env"]["CUDA_HOME"] = "/usr/local/cuda-12.8";
  CHECK_THAT(history(facts, "flashinfer"), !ContainsSubstring("was pointed to"));
}

TEST_CASE("a library that works has no story", "[unit][derive][history]") {
  const auto told = history(test::derive_case("ct201-pinned-130").facts, "flashinfer");
  CHECK(told == "ok\n");
}

}  // namespace trueup
