#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "derive/resolve.hpp"

// torch.utils.cpp_extension: the toolkit is a constant computed at import; targets come from TORCH_CUDA_ARCH_LIST or
// from the visible GPUs, clamped to the highest architecture that torch was built for and sorted as text, the last one
// with `+PTX`.

namespace trueup {
namespace {

std::optional<Version> torch_version(const PythonEnv& python) {
  const auto* torch = python.package("torch");
  if (torch == nullptr) return std::nullopt;
  auto version = Version::parse(torch->version);
  return version ? std::optional(*std::move(version)) : std::nullopt;
}

// Official builds only: of a nightly or somebody's own build the tables say nothing.
const TorchArchs* archs_of(const Subject& subject) {
  const auto torch = torch_version(subject.python);
  const auto cuda = torch_cuda(subject.python);
  if (!torch || !cuda || torch->is_dev()) return nullptr;
  if (!torch->local().empty() && !torch->local().starts_with("cu")) return nullptr;
  return subject.knowledge.torch_archs_of(*torch, *cuda);
}

Version without_ptx(const std::string& arch) {
  return Version::parse(arch.substr(0, arch.find('+'))).value_or(Version());
}

}  // namespace

TorchTargets torch_targets(const Subject& subject, const std::vector<Version>& compute_caps) {
  TorchTargets found;
  const auto torch = torch_version(subject.python);
  const auto list = variable(subject.consumer.env, "TORCH_CUDA_ARCH_LIST");
  if (list && !list->empty() && *list != "native") {
    std::string spaced = *list;
    std::replace(spaced.begin(), spaced.end(), ' ', ';');
    for (const auto entry : split(spaced, ';')) {
      if (entry.empty()) continue;
      if (const auto* reject = torch ? subject.knowledge.torch_list_reject(entry, *torch) : nullptr;
          reject != nullptr) {
        found.reason = "arch_list_rejected";
        found.explanation = fmt::format("torch {} refuses '{}' in TORCH_CUDA_ARCH_LIST: unknown CUDA arch ({})",
                                        torch->text(), entry, reject->source);
        return found;
      }
      std::string target(entry);
      target.erase(std::remove(target.begin(), target.end(), '.'), target.end());
      if (target.find_first_of("0123456789") != 0) {  // `Hopper`: a name, whose meaning torch knows
        found.unknown = fmt::format("TORCH_CUDA_ARCH_LIST names '{}', which torch expands", entry);
        return found;
      }
      found.targets.push_back(std::move(target));
    }
    return found;
  }
  if (compute_caps.empty()) return found;
  const auto* archs = archs_of(subject);
  if (archs == nullptr) {
    found.unknown = fmt::format("what torch {} was built for is not in the tables of {}",
                                torch ? torch->text() : "of this environment", subject.knowledge.as_of);
    return found;
  }
  Version highest;
  for (const auto& arch : archs->archs) highest = std::max(highest, without_ptx(arch));
  std::vector<std::string> texts;
  for (const auto& compute_cap : compute_caps)
    if (const auto text = std::min(compute_cap, highest).text();
        std::find(texts.begin(), texts.end(), text) == texts.end())
      texts.push_back(text);
  std::sort(texts.begin(), texts.end());
  for (const auto& text : texts) found.targets.push_back(plain_target(Version::of(text)));
  if (!found.targets.empty()) found.targets.back() += "+PTX";
  return found;
}

Resolution resolve_torch_extensions(const Subject& subject) {
  auto resolution = begin_resolution(subject, "torch_extensions", "torch");
  auto& evidence = resolution.evidence;
  const auto gpus = subject.host.visible_gpus(subject.consumer.env);
  if (!gpus.unknown.empty()) return conclude(resolution, Outcome::unknown, "gpus_unknown", gpus.unknown);
  resolution.gpus_cc = each_once(gpus.compute_caps);
  evidence.push_back(gpus.how);
  evidence.push_back(
      fmt::format("torch {} in {}, built for CUDA {}", resolution.library_version, subject.python.path,
                  resolution.torch_cuda ? resolution.torch_cuda->text() : "no version that could be read"));

  const auto targets = torch_targets(subject, gpus.compute_caps);
  resolution.targets = targets.targets;
  const auto root = find_root(subject, {.calls_which = false, .default_directory = true});
  if (!root.unknown.empty()) return conclude(resolution, Outcome::unknown, "toolkit_unknown", root.unknown);
  resolution.rule = root.rule;
  resolution.rule_detail = root.detail;
  resolution.root = root.path;
  if (!targets.reason.empty()) return conclude(resolution, Outcome::broken, targets.reason, targets.explanation);
  if (!root.found)
    return conclude(resolution, Outcome::risk, "compiler_missing",
                    fmt::format("torch extensions could not be built here: {}", root.detail));
  const auto nvcc = subject.host.nvcc_at(root.path);
  resolution.compiler = variable(subject.consumer.env, "PYTORCH_NVCC").value_or(nvcc.path);
  if (nvcc.toolkit != nullptr) resolution.root_resolved = nvcc.toolkit->path;
  evidence.push_back(fmt::format("{} ({})", root.rule, root.detail));
  if (!nvcc.unknown.empty()) return conclude(resolution, Outcome::unknown, "compiler_unknown", nvcc.unknown);
  if (!nvcc.exists)
    return conclude(resolution, Outcome::risk, "compiler_missing",
                    fmt::format("torch extensions could not be built here: there is no {}", nvcc.path));
  resolution.compiler_version = resolution.asked_version = nvcc.version;
  resolution.asked_from = "nvcc";
  evidence.push_back(
      fmt::format("{} is CUDA {}", nvcc.path, nvcc.version ? nvcc.version->text() : "of no known version"));
  // Where no list chooses the targets, they are those of the GPUs: a compiler that is older than a GPU has none for it.
  const bool listed = !variable(subject.consumer.env, "TORCH_CUDA_ARCH_LIST").value_or("").empty();
  for (const auto& compute_cap : gpus.compute_caps)
    if (!listed && nvcc.version && subject.knowledge.compiler_reaches(*nvcc.version, compute_cap) == false)
      return conclude(
          resolution, Outcome::risk, "compiler_older_than_gpu",
          fmt::format("nvcc {} can build nothing for compute capability {}", nvcc.version->text(), compute_cap.text()));
  if (nvcc.version && resolution.torch_cuda && nvcc.version->major() != resolution.torch_cuda->major())
    return conclude(
        resolution, Outcome::risk, "major_mismatch",
        fmt::format("torch is built for CUDA {} and the compiler is CUDA {}: setuptools' BuildExtension refuses "
                    "the pair, JIT loading does not ask",
                    resolution.torch_cuda->text(), nvcc.version->text()));
  if (!targets.unknown.empty()) return conclude(resolution, Outcome::unknown, "targets_unknown", targets.unknown);
  for (const auto& target : targets.targets) {
    const auto* row = subject.knowledge.gpu_target(target.substr(0, target.find('+')));
    if (row == nullptr || !nvcc.version)
      return conclude(resolution, Outcome::unknown, "target_unknown",
                      fmt::format("target {} is not in the tables", target));
    if (!row->known_to(*nvcc.version))
      return conclude(resolution, Outcome::risk, "target_unknown_to_compiler",
                      fmt::format("nvcc {} cannot build sm_{}, which needs {} ({})", nvcc.version->text(), row->target,
                                  row->min_nvcc.text(), row->source));
  }
  return conclude(resolution, Outcome::ok, "", "torch extensions can be built");
}

Resolution resolve_torch(const Subject& subject) {
  auto resolution = begin_resolution(subject, "torch", "torch");
  resolution.rule = "bundled";
  auto& evidence = resolution.evidence;
  if (!resolution.torch_cuda)
    return conclude(resolution, Outcome::unknown, "torch_cuda_unknown", "torch.version.cuda could not be read");
  const auto& cuda = *resolution.torch_cuda;
  const auto gpus = subject.host.visible_gpus(subject.consumer.env);
  if (!gpus.unknown.empty()) return conclude(resolution, Outcome::unknown, "gpus_unknown", gpus.unknown);
  resolution.gpus_cc = each_once(gpus.compute_caps);
  evidence.push_back(gpus.how);
  evidence.push_back(
      fmt::format("torch {} in {}, built for CUDA {}", resolution.library_version, subject.python.path, cuda.text()));

  const auto objection = driver_objection(subject, cuda);
  if (!objection.unknown.empty()) return conclude(resolution, Outcome::unknown, "driver_unknown", objection.unknown);
  if (!objection.value.empty()) {
    evidence.push_back(objection.value);
    return conclude(resolution, Outcome::broken, "driver_too_old", objection.value);
  }
  const auto* archs = archs_of(subject);
  for (const auto& compute_cap : gpus.compute_caps) {
    // Whatever the build, its compiler could not make code for a GPU that came later.
    if (subject.knowledge.compiler_reaches(cuda, compute_cap) == false)
      return conclude(resolution, Outcome::broken, "wheel_lacks_arch",
                      fmt::format("torch {} is built with CUDA {}, which has no code for compute capability {}",
                                  resolution.library_version, cuda.text(), compute_cap.text()));
    if (archs == nullptr) continue;
    const bool covered = std::any_of(archs->archs.begin(), archs->archs.end(), [&](const std::string& arch) {
      const auto built = without_ptx(arch);
      return built <= compute_cap && (built.major() == compute_cap.major() || arch.ends_with("+PTX"));
    });
    if (!covered)
      return conclude(resolution, Outcome::broken, "wheel_lacks_arch",
                      fmt::format("the {} wheel of torch {} holds code for {} and none for compute capability {} ({})",
                                  archs->variant, resolution.library_version, join(archs->archs, " "),
                                  compute_cap.text(), archs->source));
  }
  return conclude(resolution, Outcome::ok, "", "the driver and the GPUs can run this torch");
}

}  // namespace trueup
