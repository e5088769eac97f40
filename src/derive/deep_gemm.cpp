#include <fmt/format.h>

#include "derive/nvcc_build.hpp"

// DeepGEMM: CUDA_HOME is sought when it is imported, each kernel is compiled by nvcc (or by NVRTC) when it is first
// used, and cuobjdump of the same toolkit reads the kernel's name out of the result, from a warm cache as well
// (deep_gemm/__init__.py, csrc/jit/compiler.hpp, csrc/jit/kernel_runtime.hpp).

namespace trueup {

Resolution resolve_deep_gemm(const Subject& subject) {
  const bool is_fork = subject.python.package("deep-gemm") == nullptr;
  NvccBuild build(subject, {.name = "DeepGEMM",
                            .library = "deep_gemm",
                            .package = is_fork ? "sgl-deep-gemm" : "deep-gemm",
                            .when_no_root = "its import ends with an AssertionError",
                            .needs = {"include/cuda_runtime.h", "bin/ptxas", "bin/cudafe++", "bin/fatbinary",
                                      "nvvm/bin/cicc", "bin/cuobjdump"}});
  // SGLang's fork looks for nvcc itself (recorded of 0.2.5); DeepGEMM has the program `which` do it.
  const RootSearch search{.calls_which = !is_fork, .default_directory = true, .goes_on_without_which = true};
  if (!build.read_version() || !build.locate(find_root(subject, search)) || !build.see_gpus()) return build.take();
  if (build.root().found && variable(subject.consumer.env, "DG_JIT_USE_NVRTC").value_or("0") != "0") {
    build.end(Outcome::unknown, "nvrtc",
              fmt::format("{} compiles with the NVRTC of its process (DG_JIT_USE_NVRTC), whose version is not known",
                          build.name()));
    return build.take();
  }
  (void)(build.find_compiler("DG_JIT_NVCC_COMPILER") && build.choose_targets() && build.check_targets() &&
         build.check_driver() && build.check_toolkit() && build.check_tools());
  return build.take();
}

}  // namespace trueup
