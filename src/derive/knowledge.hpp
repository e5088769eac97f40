#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "load/yaml.hpp"
#include "trueup/version.hpp"

// Version knowledge as data: playbooks/knowledge/*.yaml. A version that no row speaks of is not known, never assumed.

namespace trueup {

/// Inclusive at both ends; an end that is missing is open. Ordered as PEP 440 orders versions.
struct VersionRange {
  std::optional<Version> from;
  std::optional<Version> to;

  bool contains(const Version& version) const;
  std::string text() const;  ///< `0.6.8rc1 to 0.6.18`, `from 0.6.19`
};

/// Code for one target, as nvcc's `sm_` names it.
struct GpuTarget {
  std::string target;  ///< `120f`
  Version min_nvcc;
  std::optional<Version> max_nvcc;  ///< last minor version that knows it; absent: still known
  std::vector<Version> runs_on;     ///< compute capabilities that load it
  std::string source;

  bool known_to(const Version& compiler) const;
  std::string range_text() const;  ///< `it needs CUDA 12.9 or newer (source)`
  bool runs(const Version& compute_cap) const;
};

struct CudaMajor {
  int cuda_major = 0;
  Version min_driver;  ///< the oldest that loads machine code of any minor version
  std::string source;
};

struct DriverBranch {
  int branch = 0;
  Version max_cuda;
  std::string source;
};

struct GpuProduct {
  std::string match;
  Version compute_cap;
};

/// How a range of FlashInfer versions chooses its targets.
struct FlashInferArchs {
  enum class Bare { append_a, literal, normalised };

  VersionRange versions;
  bool own_targets = true;                  ///< false: torch's flags
  Bare bare = Bare::literal;                ///< what becomes of list entries without a suffix
  std::map<std::string, std::string> sm12;  ///< compute capability -> target; empty: not known
  std::optional<Version> sm12_below_cuda;   ///< below it `sm12_below` counts instead
  std::map<std::string, std::string> sm12_below;
  std::optional<Version> gate;  ///< CUDA version that an SM 12.x target demands
  std::optional<Version> gate_120;  ///< what compute capability 12.0 demands instead
  std::string source;

  /// The CUDA version that a target for `compute_cap` demands; absent: any will do.
  std::optional<Version> gate_of(const Version& compute_cap) const;
};

struct FlashInferNightlies {
  long first = 0;  ///< dates as in the version: 20260322
  long last = 0;
  std::optional<Version> as;  ///< judged like that release
  FlashInferArchs archs;      ///< where `as` is absent
};

struct FlashInferToolkit {
  enum class Root { torch, which, which_or_default };
  enum class Query { none, nvcc, nvcc_or_torch };

  VersionRange versions;
  Root root = Root::which_or_default;
  Query query = Query::nvcc_or_torch;
  std::string nvcc_variable;  ///< replaces the compiler of builds, not of the version query
  std::string source;
};

struct FlashInferCache {
  VersionRange versions;
  bool version_directory = true;
  bool rewrites = true;  ///< false: an existing build.ninja keeps the toolkit it was made for
  std::string source;
};

struct FlashInferOption {
  VersionRange versions;
  std::string option;
  Version min_nvcc;
  std::string source;
};

/// A module whose target follows torch.version.cuda alone.
struct FlashInferFixedTarget {
  VersionRange versions;
  std::string module;
  int cc_major = 0;
  Version torch_cuda;
  std::string target;
  std::string source;
};

struct TritonAssemblers {
  Version triton;
  Version ptxas;
  std::optional<Version> ptxas_blackwell;
};

/// The target for which a library that compiles for the GPUs it sees asks its compiler.
struct JitTarget {
  std::string package;
  VersionRange versions;
  std::vector<Version> compute_caps;  ///< empty: any that no other row of the package names
  std::string target;                 ///< `100f`; `{cc}` stands for the digits of the compute capability
  std::optional<Version> below_cuda;  ///< below it `below` counts instead
  std::string below;
  bool asks_torch = false;            ///< what is compared with below_cuda: torch.version.cuda, else nvcc's version
  std::optional<Version> min_nvcc;    ///< the library refuses older ones
  std::optional<Version> wants_cuda;  ///< what it asks for; below it works, with less
  std::string source;

  std::string target_of(const Version& compute_cap, bool below_limit) const;
};

/// For which CUDA vLLM's wheels of the default index are built.
struct VllmWheel {
  VersionRange versions;
  Version cuda;
  std::string source;
};

/// The package of wheels that brings a library.
struct WheelLibrary {
  std::string library;  ///< `libcublas.so.12`
  std::string package;  ///< `nvidia-cublas-cu12`
};

struct TorchArchs {
  std::vector<Version> torch;      ///< `2.9`
  std::string variant;             ///< `cu130`
  std::vector<std::string> archs;  ///< `12.0+PTX`
  std::string source;
};

struct TorchListReject {
  VersionRange versions;
  std::string match;
  std::string source;
};

/// The row that speaks of a version, how to name it to a reader, or why there is none.
template <class Row>
struct Lookup {
  const Row* row = nullptr;
  std::string label = {};  ///< `FlashInfer 0.6.8rc1 to 0.6.18 (source)`
  std::string why_not = {};
};

class Knowledge {
 public:
  std::string as_of;  ///< of the newest table

  std::vector<GpuTarget> gpu_targets;
  std::vector<CudaMajor> cuda_majors;
  std::vector<DriverBranch> driver_branches;
  std::vector<GpuProduct> gpu_products;
  std::vector<FlashInferArchs> flashinfer_archs;
  std::vector<FlashInferNightlies> flashinfer_nightlies;
  std::vector<FlashInferToolkit> flashinfer_toolkits;
  std::vector<FlashInferCache> flashinfer_caches;
  std::vector<FlashInferOption> flashinfer_options;
  std::vector<FlashInferFixedTarget> flashinfer_fixed_targets;
  std::vector<TritonAssemblers> triton_assemblers;
  std::vector<JitTarget> jit_targets;
  std::vector<VllmWheel> vllm_wheels;
  std::vector<WheelLibrary> wheel_libraries;
  std::vector<TorchArchs> torch_archs;
  std::vector<TorchListReject> torch_list_rejects;

  const GpuTarget* gpu_target(std::string_view target) const;
  const CudaMajor* cuda_major(int major) const;
  /// Of the branch that `driver` belongs to; absent: older than the table.
  std::optional<Version> driver_max_cuda(const Version& driver) const;
  /// The compute capability of a product, by its name.
  std::optional<Version> product_compute_cap(std::string_view name) const;
  /// Whether code of any target that `compiler` knows loads on `compute_cap`; absent: no row speaks of the capability.
  std::optional<bool> compiler_reaches(const Version& compiler, const Version& compute_cap) const;

  Lookup<FlashInferArchs> flashinfer_archs_of(const Version& version) const;
  Lookup<FlashInferToolkit> flashinfer_toolkit_of(const Version& version) const;
  Lookup<FlashInferCache> flashinfer_cache_of(const Version& version) const;
  bool knows_jit_version(std::string_view package, const Version& version) const;
  /// Null: the tables know that version, and of no kernels of it for `compute_cap`.
  const JitTarget* jit_target(std::string_view package, const Version& version, const Version& compute_cap) const;
  const VllmWheel* vllm_wheel_of(const Version& version) const;
  const TritonAssemblers* triton_assemblers_of(const Version& version) const;
  const TorchArchs* torch_archs_of(const Version& torch, const Version& cuda) const;
  /// Why torch refuses `entry` of TORCH_CUDA_ARCH_LIST (the row's source), or null.
  const TorchListReject* torch_list_reject(std::string_view entry, const Version& torch) const;
};

/// Reads the tables, each given as (file name, text). Rows of later texts are asked before those of earlier ones, so
/// that a user's table can overrule ours. `errors` receives everything that is wrong, at file:line:column; such rows
/// are left out.
Knowledge load_knowledge(const std::vector<std::pair<std::string, std::string>>& named_texts, Errors& errors);

}  // namespace trueup
