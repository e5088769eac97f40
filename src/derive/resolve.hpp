#pragma once

#include <string>

#include "derive/host_view.hpp"
#include "derive/knowledge.hpp"
#include "trueup/derived.hpp"

// How each JIT library finds its compiler and targets. One function per library; what they share is here.

namespace trueup {

/// One Python environment as one consumer uses it.
struct Subject {
  const HostView& host;
  const Knowledge& knowledge;
  const Consumer& consumer;
  const PythonEnv& python;
};

/// A toolkit root as a library names it, and the rule that chose it.
struct ToolkitRoot {
  bool found = false;
  std::string path;  ///< may be empty although found: CUDA_PATH=""
  std::string rule;
  std::string detail;
  std::string unknown;  ///< why it cannot be told
};

/// The search that torch began and others copied.
struct RootSearch {
  bool calls_which = false;       ///< through the program `which`: where that is missing, the search ends in an error
  bool default_directory = true;  ///< /usr/local/cuda last
  bool goes_on_without_which = false;  ///< that error is caught: a missing `which` counts as no nvcc on PATH
};
ToolkitRoot find_root(const Subject& subject, const RootSearch& search);

/// What FlashInfer and torch do with a list of targets that torch chooses: TORCH_CUDA_ARCH_LIST, else the GPUs, clamped
/// to what torch was built for.
struct TorchTargets {
  std::vector<std::string> targets;  ///< `120`, `90+PTX`
  std::string reason;                ///< not empty: torch raises; `arch_list_rejected`
  std::string explanation;
  std::string unknown;
};
TorchTargets torch_targets(const Subject& subject, const std::vector<Version>& compute_caps);

Resolution resolve_flashinfer(const Subject& subject);
Resolution resolve_torch_extensions(const Subject& subject);
Resolution resolve_triton(const Subject& subject);
Resolution resolve_deep_gemm(const Subject& subject);
Resolution resolve_tvm_ffi(const Subject& subject);
/// The kernels that SGLang compiles at run time, through tvm-ffi.
Resolution resolve_sglang(const Subject& subject);
Resolution resolve_tilelang(const Subject& subject);
/// Not a compiler: whether vLLM's wheel and torch are of one CUDA version.
Resolution resolve_vllm(const Subject& subject);
/// Not a compiler: whether the driver and the GPUs can run the wheel itself.
Resolution resolve_torch(const Subject& subject);

/// A resolution with what does not depend on the library filled in, and the first links of its evidence.
Resolution begin_resolution(const Subject& subject, std::string library, const std::string& package);
/// Sets the verdict.
Resolution& conclude(Resolution& resolution, Outcome outcome, std::string reason, std::string explanation);

/// The compute capabilities of `visible`, each once, in order.
std::vector<std::string> each_once(const std::vector<Version>& compute_caps);

/// Why the driver cannot load machine code of `cuda`; an empty value: it can. In `unknown`: why that cannot be told.
Told<std::string> driver_objection(const Subject& subject, const Version& cuda);

/// Where the driver refuses what `compiler` builds: whether it is the compiler alone that is too new for it, because
/// torch's CUDA, an older major version, would run.
bool stack_runs_without(const Subject& subject, const Version& compiler);

/// The CUDA runtime that an extension module below `directory` of site-packages is linked to.
struct LinkedRuntime {
  std::string file;
  std::string library;  ///< `libcudart.so.13`
  int major = 0;
};
std::optional<LinkedRuntime> linked_runtime(const PythonEnv& python, std::string_view directory);

/// What `torch.version.cuda` gives; absent: no torch, a CPU build, or not readable.
std::optional<Version> torch_cuda(const PythonEnv& python);

std::string search_path(const Subject& subject);

/// `120` of 12.0.
std::string plain_target(const Version& compute_cap);

}  // namespace trueup
