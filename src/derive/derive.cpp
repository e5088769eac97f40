#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "derive/caches.hpp"
#include "derive/consumers.hpp"
#include "derive/history.hpp"
#include "derive/resolve.hpp"
#include "derive/shadows.hpp"

namespace trueup {
namespace {

struct Library {
  const char* name;
  std::initializer_list<const char*> packages;  ///< one of them brings it
  Resolution (*resolve)(const Subject&);

  bool is_in(const PythonEnv& python) const {
    return std::any_of(packages.begin(), packages.end(),
                       [&](const char* package) { return python.package(package) != nullptr; });
  }
};

// To add a JIT library: a function in a file of its own, and a row here.
const Library kLibraries[] = {
    {"flashinfer", {"flashinfer-python"}, resolve_flashinfer},
    {"torch_extensions", {"torch"}, resolve_torch_extensions},
    {"triton", {"triton"}, resolve_triton},
    {"sglang", {"sglang"}, resolve_sglang},
    {"deep_gemm", {"deep-gemm", "sgl-deep-gemm"}, resolve_deep_gemm},
    {"tvm_ffi", {"apache-tvm-ffi"}, resolve_tvm_ffi},
    {"tilelang", {"tilelang"}, resolve_tilelang},
    {"vllm", {"vllm"}, resolve_vllm},
    {"torch", {"torch"}, resolve_torch},
};

// Where a consumer's variables or packages could not be read, each library it may have is unknown.
Resolution unread(const Claim& claim, const Library& library) {
  Resolution resolution;
  resolution.consumer = claim.consumer.id;
  resolution.unit = claim.consumer.unit;
  resolution.claimed = claim.consumer.kind != "unclaimed";
  resolution.python_env = claim.consumer.python_env;
  resolution.library = library.name;
  resolution.env_source = claim.consumer.env_source;
  resolution.reason = "consumer_unknown";
  resolution.explanation = claim.unknown;
  return resolution;
}

bool has_gpu(const Environment& environment) {
  return environment.gpus.is_unknown() || !items(environment.gpus).empty();
}

// A toolkit that lies on the host and would do, where the one that the library finds does not.
std::string better_toolkit(const Subject& subject, const Library& library, const Resolution& fault) {
  if (fault.outcome != Outcome::broken || fault.reason == "driver_too_old" || fault.asked_from != "nvcc") return {};
  for (const auto& toolkit : items(subject.host.environment().toolkits)) {
    if (!toolkit.has_nvcc || toolkit.kind == "wheel" || toolkit.path == fault.root_resolved) continue;
    auto consumer = subject.consumer;
    consumer.env["CUDA_HOME"] = toolkit.path;
    if (library.resolve({subject.host, subject.knowledge, consumer, subject.python}).outcome == Outcome::ok)
      return toolkit.path;
  }
  return {};
}

std::string bundled_runtime(const PythonEnv& python) {
  std::vector<std::string> found;
  for (const auto* name :
       {"nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11"})
    if (const auto* package = python.package(name); package != nullptr) found.push_back(package->version);
  return join(found, ", ");
}

// The six things called "CUDA version" on one host, which must not be compared blindly.
std::map<std::string, std::string> cuda_versions(const HostView& host, const Knowledge& knowledge,
                                                 const std::vector<Resolution>& resolutions) {
  std::map<std::string, std::string> versions;
  const auto& environment = host.environment();
  if (const auto driver = host.driver(); driver.unknown.empty())
    if (const auto most = knowledge.driver_max_cuda(driver.value))
      versions["driver_max"] = fmt::format("{} (driver {})", most->text(), driver.value.text());
  std::vector<std::string> toolkits;
  for (const auto& toolkit : items(environment.toolkits))
    toolkits.push_back(fmt::format("{} ({})", toolkit.version ? toolkit.version->text() : "unknown", toolkit.path));
  if (!toolkits.empty()) versions["toolkits"] = join(toolkits, ", ");
  std::vector<std::string> runtimes, assemblers;
  for (const auto& python : items(environment.python_envs)) {
    if (const auto runtime = bundled_runtime(python); !runtime.empty())
      runtimes.push_back(fmt::format("{} ({})", runtime, python.path));
    for (const auto& [file, version] : python.ptxas)
      assemblers.push_back(fmt::format("{} {} ({})", file, version, python.path));
  }
  if (!runtimes.empty()) versions["runtime_libraries"] = join(runtimes, ", ");
  if (!assemblers.empty()) versions["bundled_assemblers"] = join(assemblers, ", ");
  std::vector<std::string> seen, torch;
  for (const auto& resolution : resolutions) {
    if (resolution.library == "flashinfer" && resolution.asked_version)
      seen.push_back(
          fmt::format("{} by {} ({})", resolution.asked_version->text(), resolution.asked_from, resolution.consumer));
    if (resolution.library == "torch" && resolution.torch_cuda)
      torch.push_back(fmt::format("{} ({})", resolution.torch_cuda->text(), resolution.python_env));
  }
  std::sort(torch.begin(), torch.end());
  torch.erase(std::unique(torch.begin(), torch.end()), torch.end());
  if (!seen.empty()) versions["toolkit_as_seen"] = join(seen, ", ");
  if (!torch.empty()) versions["torch_build"] = join(torch, ", ");
  return versions;
}

}  // namespace

Derived derive(const Environment& environment, const std::vector<DeclaredConsumer>& declared,
               const Knowledge& knowledge) {
  Derived derived;
  const HostView host(environment, knowledge);
  const auto claims = find_claims(environment, declared);
  for (const auto& claim : claims) {
    derived.consumers.push_back(claim.consumer);
    if (!has_gpu(environment)) continue;  // nothing to compile for
    for (const auto& library : kLibraries) {
      if (!claim.unknown.empty() || claim.python == nullptr) {
        derived.resolutions.push_back(unread(claim, library));
        continue;
      }
      if (!library.is_in(*claim.python)) continue;
      if (claim.python->torch_cuda == "none" && std::string_view(library.name).starts_with("torch"))
        continue;  // a CPU build
      const Subject subject{host, knowledge, claim.consumer, *claim.python};
      auto resolution = library.resolve(subject);
      if (resolution.outcome == Outcome::broken || resolution.outcome == Outcome::risk)
        resolution.history = history_of(host, claim, resolution);
      resolution.better_toolkit = better_toolkit(subject, library, resolution);
      derived.resolutions.push_back(std::move(resolution));
    }
  }
  derived.caches = judge_caches(host, knowledge, claims, derived.resolutions);
  derived.shadows = find_shadows(host, knowledge, claims);
  derived.cuda_versions = cuda_versions(host, knowledge, derived.resolutions);
  return derived;
}

}  // namespace trueup
