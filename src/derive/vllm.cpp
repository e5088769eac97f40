#include <fmt/format.h>

#include "base/text.hpp"
#include "derive/resolve.hpp"

// vLLM: for which CUDA its wheel was built, against torch's. Wheels of the default index are built for one version; a
// local part (+cu129) names another; what its extension is linked to tells the major version whatever the name.

namespace trueup {
namespace {

// `12.9` of `cu129`.
std::optional<Version> cuda_of_local(std::string_view local) {
  if (!local.starts_with("cu") || local.size() < 5 || local.find_first_not_of("0123456789", 2) != local.npos)
    return std::nullopt;
  return Version::of(fmt::format("{}.{}", local.substr(2, 2), local.substr(4)));
}

}  // namespace

std::optional<LinkedRuntime> linked_runtime(const PythonEnv& python, std::string_view directory) {
  static constexpr std::string_view kRuntime = "libcudart.so.";
  for (const auto& link : python.links)
    if (link.file.starts_with(directory) && link.needs.starts_with(kRuntime))
      if (const auto major = Version::parse(link.needs.substr(kRuntime.size())))
        return LinkedRuntime{link.file, link.needs, major->major()};
  return std::nullopt;
}

Resolution resolve_vllm(const Subject& subject) {
  auto resolution = begin_resolution(subject, "vllm", "vllm");
  resolution.rule = "wheel";
  auto& evidence = resolution.evidence;
  const auto version = Version::parse(resolution.library_version);
  if (!version) return conclude(resolution, Outcome::unknown, "version_unknown", version.error().message);
  if (!resolution.torch_cuda)
    return subject.python.torch_cuda == "none"
               ? conclude(resolution, Outcome::ok, "", "torch is a CPU build")
               : conclude(resolution, Outcome::unknown, "torch_cuda_unknown", "torch.version.cuda could not be read");
  const auto& torch = *resolution.torch_cuda;
  evidence.push_back(fmt::format("vllm {} in {}, beside a torch built for CUDA {}", version->text(),
                                 subject.python.path, torch.text()));

  const auto linked = linked_runtime(subject.python, "vllm/");
  if (linked) {
    evidence.push_back(fmt::format("{} is linked to {}", linked->file, linked->library));
    if (linked->major != torch.major())
      return conclude(resolution, Outcome::broken, "wheel_of_another_major",
                      fmt::format("the extension of vllm {} is linked to {}, and torch is built for CUDA {}",
                                  version->text(), linked->library, torch.text()));
  }
  auto built = cuda_of_local(version->local());
  // Of nightlies and of somebody's own build the tables say nothing.
  if (!built && !version->is_dev() && version->local().empty())
    if (const auto* row = subject.knowledge.vllm_wheel_of(*version); row != nullptr) {
      built = row->cuda;
      evidence.push_back(fmt::format("vllm {} of the default index is a CUDA {} build ({})", row->versions.text(),
                                     row->cuda.text(), row->source));
    }
  if (!built) {
    const auto why = why_unknown(subject.python.unknown, "links");
    if (!why.empty())
      return conclude(resolution, Outcome::unknown, "version_not_in_tables",
                      fmt::format("for which CUDA vllm {} was built is not in the tables of {}, and what its extension "
                                  "is linked to could not be read: {}",
                                  version->text(), subject.knowledge.as_of, why));
    return conclude(resolution, Outcome::ok, "",
                    linked ? fmt::format("vllm and torch are linked to CUDA {} alike", linked->major)
                           : std::string("vllm's extension is linked to no CUDA runtime"));
  }
  if (built->major() != torch.major() && !linked)
    return conclude(resolution, Outcome::risk, "wheel_of_another_major_by_name",
                    fmt::format("vllm {} is a CUDA {} build by its version, and torch is built for CUDA {}",
                                version->text(), built->text(), torch.text()));
  if (built->major() == torch.major() && built->major_minor() != torch.major_minor())
    return conclude(resolution, Outcome::risk, "wheel_of_another_minor",
                    fmt::format("vllm {} is a CUDA {} build, and torch and its cuBLAS are of CUDA {}", version->text(),
                                built->text(), torch.text()));
  return conclude(resolution, Outcome::ok, "", fmt::format("vllm and torch are builds of CUDA {}", torch.text()));
}

}  // namespace trueup
