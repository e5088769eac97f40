#include <fmt/format.h>

#include "derive/nvcc_build.hpp"

// tilelang (tilelang/env.py): after the variables and nvcc on PATH it takes the toolkit of the wheel nvidia-cuda-nvcc
// in its own environment, then /usr/local/cuda, then the HPC SDK.

namespace trueup {
namespace {

ToolkitRoot find_tilelang_root(const Subject& subject) {
  auto root = find_root(subject, {.calls_which = false, .default_directory = false});
  if (root.found || !root.unknown.empty()) return root;
  const auto nowhere = root.detail;
  if (subject.python.package("nvidia-cuda-nvcc") != nullptr) {
    for (const auto& toolkit : items(subject.host.environment().toolkits))
      if (toolkit.kind == "wheel" && toolkit.has_nvcc && toolkit.path.starts_with(subject.python.site_packages + "/"))
        return {true,
                toolkit.path,
                "wheel nvidia-cuda-nvcc",
                fmt::format("{}; the wheel nvidia-cuda-nvcc lies in {}", nowhere, toolkit.path),
                {}};
    return {false, {}, "nothing found", fmt::format("{}; the wheel nvidia-cuda-nvcc holds no nvcc", nowhere), {}};
  }
  root = find_root(subject, {.calls_which = false, .default_directory = true});
  if (root.found || !root.unknown.empty()) return root;
  for (const auto& toolkit : items(subject.host.environment().toolkits))
    if (toolkit.kind == "hpc_sdk")
      return {false, {}, {}, {}, fmt::format("which compiler of {} tilelang takes is not in the tables", toolkit.path)};
  return root;
}

}  // namespace

Resolution resolve_tilelang(const Subject& subject) {
  NvccBuild build(subject,
                  {.name = "tilelang",
                   .library = "tilelang",
                   .package = "tilelang",
                   .when_no_root = "each compilation raises RuntimeError",
                   .needs = {"include/cuda_runtime.h", "bin/ptxas", "bin/cudafe++", "bin/fatbinary", "nvvm/bin/cicc"},
                   .min_gcc = 10});
  (void)(build.read_version() && build.locate(find_tilelang_root(subject)) && build.see_gpus() &&
         build.find_compiler() && build.choose_targets() && build.check_targets() && build.check_driver() &&
         build.check_toolkit() && build.check_tools());
  return build.take();
}

}  // namespace trueup
