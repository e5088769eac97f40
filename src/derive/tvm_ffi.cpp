#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "derive/nvcc_build.hpp"

// tvm-ffi builds C++ and CUDA sources with ninja and the nvcc of its toolkit (python/tvm_ffi/cpp/extension.py).
// SGLang's kernels are built through it, for targets that SGLang chooses itself (sglang/kernels/jit/utils/arch.py).

namespace trueup {
namespace {

NvccLibrary with_tvm_ffi(std::string name, std::string library, std::string package) {
  return {.name = std::move(name),
          .library = std::move(library),
          .package = std::move(package),
          .when_no_root = "every build raises \"Could not find CUDA installation\"",
          .needs = {"include/cuda_runtime.h", "lib64", "lib64/libcudart.so", "bin/ptxas", "bin/cudafe++",
                    "bin/fatbinary", "nvvm/bin/cicc"},
          .ninja = true,
          .links = true};
}

constexpr RootSearch kSearch{.calls_which = false, .default_directory = true};

// `8.9 9.0a`: as `arch.split(".")` reads each; anything but two parts raises.
bool take_list(NvccBuild& build, const std::string& list) {
  std::vector<std::string> targets;
  std::string spaced = list;
  std::replace_if(
      spaced.begin(), spaced.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  for (const auto entry : split(spaced, ' ')) {
    if (entry.empty()) continue;
    const auto parts = split(entry, '.');
    if (parts.size() != 2)
      return build.end(
          Outcome::broken, "arch_list_malformed",
          fmt::format("TVM_FFI_CUDA_ARCH_LIST={} raises \"Invalid CUDA architecture: {}\" at each build", list, entry));
    targets.push_back(std::string(parts[0]) + std::string(parts[1]));
  }
  build.take_targets(std::move(targets), "TVM_FFI_CUDA_ARCH_LIST=" + list);
  return true;
}

// Unset, the list is one entry: the first line of `nvidia-smi --query-gpu=compute_cap`, whatever CUDA_VISIBLE_DEVICES
// says and whatever other GPUs there are (_get_cuda_target).
bool ask_nvidia_smi(NvccBuild& build, const Subject& subject) {
  const auto undetected = [&](const std::string& why) {
    return build.end(Outcome::broken, "gpu_not_detected",
                     fmt::format("{} asks nvidia-smi which GPU there is, and {}: each build raises \"Could not detect "
                                 "CUDA compute_cap automatically\"",
                                 build.name(), why));
  };
  const auto& tools = items(subject.host.environment().tools);
  const bool told =  // facts of a release that did not look for the program are silent on where it is
      std::any_of(tools.begin(), tools.end(), [](const Tool& each) { return each.name == "nvidia-smi"; });
  if (told || subject.host.environment().tools.is_unknown()) {
    const auto path = search_path(subject);
    const auto found = subject.host.program("nvidia-smi", path);
    if (!found.unknown.empty()) return build.end(Outcome::unknown, "tools_unknown", found.unknown);
    if (found.value.empty()) return undetected("that is in none of PATH=" + path);
  }
  const auto first = subject.host.first_listed_gpu();
  if (!first.unknown.empty()) return build.end(Outcome::unknown, "gpus_unknown", first.unknown);
  if (!first.value) return undetected("that lists none");
  build.say(fmt::format("nvidia-smi lists compute capability {} first", first.value->text()));
  return build.choose_targets({first.value->text()});
}

bool check_build(NvccBuild& build) {
  return build.check_targets() && build.check_driver() && build.check_toolkit() && build.check_tools();
}

}  // namespace

Resolution resolve_tvm_ffi(const Subject& subject) {
  NvccBuild build(subject, with_tvm_ffi("tvm-ffi", "tvm_ffi", "apache-tvm-ffi"));
  if (build.read_version() && build.locate(find_root(subject, kSearch)) && build.see_gpus()) {
    const auto list = variable(subject.consumer.env, "TVM_FFI_CUDA_ARCH_LIST");
    if ((list ? take_list(build, *list) : ask_nvidia_smi(build, subject)) && build.find_compiler()) {
      if (build.result().targets.empty())
        build.end(Outcome::risk, "no_target",
                  fmt::format("TVM_FFI_CUDA_ARCH_LIST is set and names no target: {} builds for the oldest GPU that it "
                              "knows, and the driver translates that",
                              build.result().compiler));
      else
        check_build(build);
    }
  }
  auto result = build.take();
  // Many packages bring tvm-ffi to load modules; few build with it, and those have a resolution of their own.
  if (result.outcome == Outcome::broken) result.outcome = Outcome::risk;
  return result;
}

Resolution resolve_sglang(const Subject& subject) {
  auto library = with_tvm_ffi("SGLang", "sglang", "sglang");
  library.min_gcc = 10;  // -std=c++20
  NvccBuild build(subject, std::move(library));
  const auto version = Version::parse(build.result().library_version);
  if (version && *version < Version::of("0.5.9")) {
    build.end(Outcome::ok, "", fmt::format("{} compiles no kernels of its own at run time", build.name()));
    return build.take();
  }
  (void)(build.read_version() && build.locate(find_root(subject, kSearch)) && build.see_gpus() &&
         build.find_compiler() && build.choose_targets() && check_build(build));
  return build.take();
}

}  // namespace trueup
