#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "trueup/derived.hpp"
#include "unit/derive/derive_cases.hpp"

// Verdicts on caches: for each kind of fault one that has it, and look-alikes that have not.

namespace trueup {
namespace {

using nlohmann::json;

// On that host 8 x 9.0, driver 580.95.05, /usr/local/cuda -> 12.8 since 2026-05, Python 3.12 with torch 2.9.1+cu130,
// SGLang 0.5.9 and Triton 3.5.1 of 2026-10-31, in a service of root's that runs.
constexpr std::int64_t kPackages = 1793408000;
constexpr std::int64_t kNow = 1796000000;

json host() {
  auto facts = test::derive_case("h100").facts;
  facts["caches"] = json::array();
  return facts;
}

json& packages(json& facts) { return facts["python_envs"][0]["packages"]; }
json& env(json& facts) { return facts["services"][0]["process_env"]; }

void add_package(json& facts, const char* name, const char* version) {
  packages(facts).push_back({{"name", name}, {"version", version}, {"installed", kPackages}});
}

void move_link(json& facts, std::int64_t time) {
  facts["cuda_links"][0]["path"] = "/usr/local/cuda";
  facts["cuda_links"][0]["changed"] = time;
}

json cache(const char* kind, const char* path, const json& more = {}) {
  json record = {{"kind", kind}, {"path", path}, {"owner", "root"}, {"modified", kNow - 1000}};
  if (!more.is_null()) record.update(more);
  return record;
}

/// `RULE outcome` of each verdict on `caches`.
std::vector<std::string> rules(json facts, const std::vector<json>& caches) {
  facts["caches"] = caches;
  static const auto kKnowledge = test::shipped_knowledge();
  const auto environment = environment_from_json(facts);
  if (!environment) throw std::runtime_error(to_string(environment.error()));
  std::vector<std::string> found;
  const auto derived = derived_to_json(derive(*environment, {}, kKnowledge));
  for (const auto& verdict : derived.at("caches")) {
    CHECK_FALSE(verdict.at("explanation").get<std::string>().empty());
    found.push_back(verdict.at("rule").get<std::string>() + " " + verdict.at("outcome").get<std::string>());
  }
  return found;
}

using Rules = std::vector<std::string>;

json module(const char* kind, const char* path, json more = {}) {
  json record = {{"op", std::string(path).substr(std::string_view(path).rfind('/') + 1)}, {"built", true}};
  if (!more.is_null()) record.update(more);
  return cache(kind, path, record);
}

}  // namespace

TEST_CASE("what keys hold cannot be stale, and what is older than its package is a leftover", "[unit][derive][caches]") {
  auto facts = host();
  add_package(facts, "vllm", "0.14.1");
  add_package(facts, "deep-gemm", "2.1.1");
  const std::pair<const char*, const char*> places[] = {{"triton", "/root/.triton/cache"},
                                                        {"inductor", "/tmp/torchinductor_root"},
                                                        {"vllm", "/root/.cache/vllm/torch_compile_cache"},
                                                        {"deep_gemm", "/root/.deep_gemm"},
                                                        {"deep_gemm", "/root/.cache/deep_gemm"},
                                                        {"compute", "/root/.nv/ComputeCache"}};
  for (const auto& [kind, path] : places) {
    CAPTURE(kind, path);
    const auto keyed = Rules{fmt::format("cache.{}.keyed ok", kind)};
    CHECK(rules(facts, {cache(kind, path)}) == keyed);
    CHECK(rules(facts, {cache(kind, path, {{"modified", 0}})}) == keyed);  // its age is not known
    const auto old = rules(facts, {cache(kind, path, {{"modified", kPackages - 1}})});
    CHECK(old == (std::string_view(kind) == "compute" ? keyed : Rules{fmt::format("cache.{}.leftover ok", kind)}));
    CHECK(rules(facts, {cache(kind, "/home/nobody/elsewhere")}).empty());
  }
  // Another consumer of the same account came earlier: it may read what the first does not.
  auto other = facts["python_envs"][0];
  other["path"] = "/opt/other";
  for (auto& package : other["packages"]) package["installed"] = kPackages - 1000;
  facts["python_envs"].push_back(other);
  facts["services"].push_back(facts["services"][0]);
  facts["services"][1]["unit"] = "other.service";
  facts["services"][1]["python_env"] = "/opt/other";
  CHECK(rules(facts, {cache("triton", "/root/.triton/cache", {{"modified", kPackages - 1}})}) ==
        Rules{"cache.triton.keyed ok"});
}

TEST_CASE("kernels that the driver does not load are told by the assembler that they name", "[unit][derive][caches]") {
  const auto kernels = cache("triton", "/root/.triton/cache", {{"built_by", {"12.8", "13.0"}}});
  auto facts = host();
  CHECK(rules(facts, {kernels}) == Rules{"cache.triton.keyed ok"});
  facts["driver"]["loaded"] = "570.133.20";
  CHECK(rules(facts, {kernels}) == Rules{"cache.triton.keyed ok", "cache.any.newer_than_driver ok"});
  facts["python_envs"][0]["ptxas"]["ptxas"] = "13.0.88";
  CHECK(rules(facts, {kernels}) == Rules{"cache.triton.keyed ok", "cache.any.newer_than_driver risk"});
  CHECK(rules(facts, {cache("triton", "/root/.triton/cache", {{"built_by", {"12.8"}}})}) ==
        Rules{"cache.triton.keyed ok"});
  facts["driver"] = nullptr;
  facts["unknown"]["driver"] = "no permission";
  CHECK(rules(facts, {kernels}) == Rules{"cache.triton.keyed ok"});
}

TEST_CASE("a link that moved is not seen by ninja, as long as it is what names the toolkit", "[unit][derive][caches]") {
  const std::pair<json, const char*> modules[] = {
      {module("torch_extensions", "/root/.cache/torch_extensions/py312_cu130/ops", {{"cuda_home", "/usr/local/cuda"}}),
       "cache.torch.symlink_drift risk"},
      {module("tvm_ffi", "/root/.cache/tvm-ffi/mine_0123456789abcdef", {{"cuda_home", "/usr/local/cuda"}}),
       "cache.tvm.symlink_drift risk"},
      {module("tvm_ffi", "/root/.cache/tvm-ffi/sgl_kernel_jit_norm_0123", {{"cuda_home", "/usr/local/cuda"}}),
       "cache.sgl.toolkit_unknown risk"}};
  for (const auto& [built, rule] : modules) {
    CAPTURE(rule);
    auto facts = host();
    CHECK(rules(facts, {built}).empty());
    move_link(facts, kNow);
    CHECK(rules(facts, {built}) == Rules{rule});
    auto unbuilt = built;
    unbuilt["built"] = false;
    CHECK(rules(facts, {unbuilt}).empty());
    auto undated = built;
    undated["modified"] = 0;
    CHECK(rules(facts, {undated}).empty());
    // Pinned since: its build file is written anew with another path, and ninja builds.
    env(facts)["CUDA_HOME"] = "/usr/local/cuda-12.8";
    if (std::string_view(rule).find("symlink_drift") != std::string_view::npos) CHECK(rules(facts, {built}).empty());
  }
}

TEST_CASE("a module of another CUDA runtime is told by what it is linked to", "[unit][derive][caches]") {
  for (const auto& [kind, path, rule] :
       {std::tuple{"torch_extensions", "/root/.cache/torch_extensions/py312_cu130/ops",
                   "cache.torch.foreign_cudart risk"},
        std::tuple{"tvm_ffi", "/root/.cache/tvm-ffi/sgl_kernel_jit_norm_0123", "cache.sgl.foreign_cudart risk"}}) {
    CAPTURE(kind);
    CHECK(rules(host(), {module(kind, path, {{"needed", {"libcudart.so.12"}}})}) == Rules{rule});
    CHECK(rules(host(), {module(kind, path, {{"needed", {"libcudart.so.13", "libcuda.so.1"}}})}).empty());
    CHECK(rules(host(), {module(kind, path)}).empty());
  }
  // Plain tvm-ffi builds again what its toolkit would build otherwise.
  CHECK(rules(host(), {module("tvm_ffi", "/root/.cache/tvm-ffi/mine_01", {{"needed", {"libcudart.so.12"}}})}).empty());
}

TEST_CASE("a module of SGLang is loaded as it is, whatever GPU it was built for", "[unit][derive][caches]") {
  const auto built_for = [](const json& targets, const char* name = "sgl_kernel_jit_norm_0123") {
    return module("tvm_ffi", (std::string("/root/.cache/tvm-ffi/") + name).c_str(), {{"targets", targets}});
  };
  CHECK(rules(host(), {built_for({"compute_120a"})}) == Rules{"cache.sgl.foreign_target broken"});
  CHECK(rules(host(), {built_for({"compute_90"})}).empty());
  CHECK(rules(host(), {built_for({"compute_120a", "compute_90a"})}).empty());
  CHECK(rules(host(), {built_for({"compute_999z"})}).empty());  // in no table
  CHECK(rules(host(), {built_for(json::array())}).empty());
  // ninja is asked about modules of plain tvm-ffi.
  CHECK(rules(host(), {built_for({"compute_120a"}, "mine_0123")}).empty());
  // The name tells the target in newer releases: another target is another module.
  auto named = built_for({"compute_120a"}, "sgl_kernel_jit_norm_0123__arch_12.0a__tvmffi_0.1.2");
  named["archs"] = "120a";
  CHECK(rules(host(), {named}) == Rules{"cache.sgl.arch_mismatch ok"});
  named["archs"] = "90";
  CHECK(rules(host(), {named}).empty());
}

TEST_CASE("extensions are of one Python and one CUDA of torch", "[unit][derive][caches]") {
  const auto of = [](const char* tag) {
    return module("torch_extensions", (std::string("/root/.cache/torch_extensions/") + tag + "/ops").c_str());
  };
  for (const auto* tag : {"py312_cu128", "py311_cu130", "py312_cpu", "py312_cu1300"}) {
    CAPTURE(tag);
    CHECK(rules(host(), {of(tag)}) == Rules{"cache.torch.tag_mismatch ok"});
  }
  CHECK(rules(host(), {of("py312_cu130")}).empty());
  auto facts = host();
  facts["python_envs"][0]["torch_cuda"] = nullptr;
  facts["python_envs"][0]["unknown"]["torch_cuda"] = "no permission";
  CHECK(rules(facts, {of("py312_cu128")}).empty());
  // Another consumer of the account has that tag.
  facts = host();
  auto other = facts["python_envs"][0];
  other["path"] = "/opt/other";
  other["torch_cuda"] = "12.8";
  facts["python_envs"].push_back(other);
  facts["services"].push_back(facts["services"][0]);
  facts["services"][1]["unit"] = "other.service";
  facts["services"][1]["python_env"] = "/opt/other";
  CHECK(rules(facts, {of("py312_cu128")}).empty());
}

TEST_CASE("environments that share TORCH_EXTENSIONS_DIR build over each other", "[unit][derive][caches]") {
  auto facts = host();
  env(facts)["TORCH_EXTENSIONS_DIR"] = "/srv/ext";
  const auto built = module("torch_extensions", "/srv/ext/ops", {{"python_env", "/opt/other"}});
  CHECK(rules(facts, {built}).empty());  // whoever built it is gone
  auto other = facts["python_envs"][0];
  other["path"] = "/opt/other";
  facts["python_envs"].push_back(other);
  facts["services"].push_back(facts["services"][0]);
  facts["services"][1]["unit"] = "other.service";
  facts["services"][1]["python_env"] = "/opt/other";
  CHECK(rules(facts, {built}) == Rules{"cache.torch.shared risk"});
  auto mine = built;
  mine["python_env"] = facts["python_envs"][0]["path"];
  CHECK(rules(facts, {mine}) == Rules{"cache.torch.shared risk"});
  facts["services"][1]["process_env"]["TORCH_EXTENSIONS_DIR"] = "/srv/other";
  CHECK(rules(facts, {built}).empty());
  CHECK(rules(facts, {mine}).empty());
}

TEST_CASE("tilelang keeps its releases apart and its toolkits not", "[unit][derive][caches]") {
  auto facts = host();
  add_package(facts, "tilelang", "0.1.10");
  const auto of = [](const char* version) {
    return cache("tilelang", (std::string("/root/.tilelang/cache/") + version).c_str(), {{"version", version}});
  };
  CHECK(rules(facts, {of("0.1.10")}).empty());
  CHECK(rules(facts, {of("0.1.9")}) == Rules{"cache.tilelang.version_mismatch ok"});
  move_link(facts, kNow);
  CHECK(rules(facts, {of("0.1.10")}) == Rules{"cache.tilelang.toolkit_unknown risk"});
  env(facts)["CUDA_HOME"] = "/usr/local/cuda-12.8";  // no link names its toolkit
  CHECK(rules(facts, {of("0.1.10")}).empty());
}

TEST_CASE("the driver's cache is full at its own limit", "[unit][derive][caches]") {
  auto facts = host();
  const auto of = [](std::int64_t size) { return cache("compute", "/root/.nv/ComputeCache", {{"size_bytes", size}}); };
  CHECK(rules(facts, {of(1 << 28)}) == Rules{"cache.compute.keyed ok"});  // which limit the driver has is not known
  env(facts)["CUDA_CACHE_MAXSIZE"] = "268435456";
  CHECK(rules(facts, {of(1 << 28)}) == Rules{"cache.compute.keyed ok", "cache.compute.full risk"});
  CHECK(rules(facts, {of(1 << 27)}) == Rules{"cache.compute.keyed ok"});
  env(facts)["CUDA_CACHE_MAXSIZE"] = "much";
  CHECK(rules(facts, {of(1 << 28)}) == Rules{"cache.compute.keyed ok"});
}

}  // namespace trueup
