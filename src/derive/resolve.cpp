#include "derive/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace trueup {

ToolkitRoot find_root(const Subject& subject, const RootSearch& search) {
  const auto& env = subject.consumer.env;
  const auto cuda_home = variable(env, "CUDA_HOME");
  const auto cuda_path = variable(env, "CUDA_PATH");
  if (cuda_home && !cuda_home->empty())
    return {true, *cuda_home, "CUDA_HOME", fmt::format("CUDA_HOME={}", *cuda_home), {}};
  const std::string home_text = cuda_home ? "CUDA_HOME is empty" : "CUDA_HOME is not set";
  if (cuda_path)  // also when empty: `environ.get("CUDA_HOME") or environ.get("CUDA_PATH")` is then "", which is not
                  // None
    return {true,
            *cuda_path,
            "CUDA_PATH",
            fmt::format("{}; CUDA_PATH={}", home_text, cuda_path->empty() ? "\"\"" : *cuda_path),
            {}};

  const auto path = search_path(subject);
  const std::string unset =
      cuda_home ? "CUDA_HOME is empty, CUDA_PATH is not set" : "neither CUDA_HOME nor CUDA_PATH is set";
  bool asked = true;
  if (search.calls_which) {
    const auto which = subject.host.program("which", path);
    if (!which.unknown.empty()) return {false, {}, {}, {}, which.unknown};
    asked = !which.value.empty();
    if (!asked && !search.goes_on_without_which)
      return {false, {}, "no program `which`", fmt::format("{}; `which` is in none of {}", unset, path), {}};
  }
  const auto nvcc = asked ? subject.host.program("nvcc", path) : Told<std::string>{};
  if (!nvcc.unknown.empty()) return {false, {}, {}, {}, nvcc.unknown};
  if (!nvcc.value.empty()) {
    // Two levels up from the name on PATH; links are not followed.
    auto root = nvcc.value.substr(0, nvcc.value.size() - std::string_view("/bin/nvcc").size());
    if (!nvcc.value.ends_with("/bin/nvcc"))
      root = nvcc.value.substr(0, nvcc.value.rfind('/', nvcc.value.rfind('/') - 1));
    return {true,
            root.empty() ? "/" : root,
            "nvcc on PATH",
            fmt::format("{}; the first nvcc on PATH is {}", unset, nvcc.value),
            {}};
  }
  const auto nowhere = fmt::format("{}; no nvcc in PATH={}", unset, path);
  if (!search.default_directory) return {false, {}, "nothing found", nowhere, {}};
  const auto& links = subject.host.environment().cuda_links;
  if (subject.host.toolkit_at(kDefaultToolkit) != nullptr)
    return {true, std::string(kDefaultToolkit), fmt::format("default {}", kDefaultToolkit), nowhere, {}};
  if (links.is_unknown())
    return {false, {}, {}, {}, fmt::format("whether {} exists is unknown: {}", kDefaultToolkit, links.reason())};
  for (const auto& link : items(links))
    if (link.path == kDefaultToolkit) {
      if (link.resolved.empty())
        return {false, {}, "nothing found", fmt::format("{}; {} is a dangling link", nowhere, kDefaultToolkit), {}};
      return {true, std::string(kDefaultToolkit), fmt::format("default {}", kDefaultToolkit), nowhere, {}};
    }
  return {false, {}, "nothing found", fmt::format("{}; {} does not exist", nowhere, kDefaultToolkit), {}};
}

Resolution begin_resolution(const Subject& subject, std::string library, const std::string& package) {
  Resolution resolution;
  resolution.consumer = subject.consumer.id;
  resolution.unit = subject.consumer.unit;
  resolution.claimed = subject.consumer.kind != "unclaimed";
  resolution.python_env = subject.python.path;
  resolution.library = std::move(library);
  resolution.env_source = subject.consumer.env_source;
  resolution.torch_cuda = torch_cuda(subject.python);
  if (const auto* found = subject.python.package(package); found != nullptr)
    resolution.library_version = found->version;
  return resolution;
}

Resolution& conclude(Resolution& resolution, Outcome outcome, std::string reason, std::string explanation) {
  resolution.outcome = outcome;
  resolution.reason = std::move(reason);
  resolution.explanation = std::move(explanation);
  return resolution;
}

std::vector<std::string> each_once(const std::vector<Version>& compute_caps) {
  std::vector<std::string> once;
  for (const auto& compute_cap : compute_caps)
    if (std::find(once.begin(), once.end(), compute_cap.text()) == once.end()) once.push_back(compute_cap.text());
  return once;
}

Told<std::string> driver_objection(const Subject& subject, const Version& cuda) {
  const auto* major = subject.knowledge.cuda_major(cuda.major());
  if (major == nullptr)
    return {{},
            fmt::format("which driver CUDA {} needs is not in the tables of {}", cuda.text(), subject.knowledge.as_of)};
  auto driver = subject.host.driver();
  std::string what = "driver";
  // Another libcuda may stand before the driver's own: it is the one that loads.
  const auto library_path = variable(subject.consumer.env, "LD_LIBRARY_PATH").value_or("");
  for (const auto entry : split(library_path, ':')) {
    const auto* directory = subject.host.library_dir(entry);
    const auto libcuda = directory == nullptr ? LibraryFile() : LibraryFile(*directory, "libcuda.so.1");
    if (libcuda.version) {
      driver = {*libcuda.version, {}};
      what = fmt::format("libcuda of {}", entry);
      break;
    }
    const bool looked = directory != nullptr && why_unknown(directory->unknown, "libraries").empty();
    if (libcuda.exists || (!looked && clean_path(entry).ends_with("/compat")))
      return {
          {},
          fmt::format("{} stands before the driver's own libcuda, and which version lies there is not told", entry)};
  }
  if (!driver.unknown.empty()) return {{}, driver.unknown};
  if (major->min_driver <= driver.value) return {};
  const auto most = subject.knowledge.driver_max_cuda(driver.value);
  return {fmt::format("{} {} loads nothing of CUDA {}: it implements CUDA {}, and CUDA {} needs {} or newer ({})", what,
                      driver.value.text(), cuda.text(), most ? most->text() : "of an older branch", cuda.major(),
                      major->min_driver.text(), major->source),
          {}};
}

bool stack_runs_without(const Subject& subject, const Version& compiler) {
  const auto torch = torch_cuda(subject.python);
  if (!torch || torch->major() >= compiler.major()) return false;
  const auto objection = driver_objection(subject, *torch);
  return objection.value.empty() && objection.unknown.empty();
}

std::optional<Version> torch_cuda(const PythonEnv& python) {
  if (!python.torch_cuda || *python.torch_cuda == "none") return std::nullopt;
  auto version = Version::parse(*python.torch_cuda);
  return version ? std::optional(*std::move(version)) : std::nullopt;
}

std::string search_path(const Subject& subject) {
  return variable(subject.consumer.env, "PATH").value_or(std::string(kDefaultPath));
}

std::string plain_target(const Version& compute_cap) {
  return fmt::format("{}{}", compute_cap.major(), compute_cap.minor());
}

}  // namespace trueup
