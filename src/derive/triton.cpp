#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "derive/resolve.hpp"

// Triton assembles with the ptxas of its wheel and never looks at CUDA_HOME or PATH. From compute capability 10.0 on it
// takes `ptxas-blackwell` where the wheel has one, and then only TRITON_PTXAS_BLACKWELL_PATH overrides it
// (python/triton/knobs.py).

namespace trueup {
namespace {

struct Assembler {
  std::string path;
  std::optional<Version> version;
  std::string rule;
  std::string detail;
  std::string unknown;
};

std::optional<Version> bundled(const Subject& subject, const std::string& name, const Version& triton,
                               std::string& from) {
  if (const auto file = subject.python.ptxas.find(name); file != subject.python.ptxas.end()) {
    from = "asked";
    if (auto version = Version::parse(file->second)) return *std::move(version);
    return std::nullopt;
  }
  if (!subject.python.unknown.contains("ptxas")) return std::nullopt;  // looked, and it is not there
  from = "as the tables say of this release";
  const auto* row = subject.knowledge.triton_assemblers_of(triton);
  if (row == nullptr) return std::nullopt;
  return name == "ptxas" ? std::optional(row->ptxas) : row->ptxas_blackwell;
}

Assembler find_assembler(const Subject& subject, const Version& compute_cap, const Version& triton) {
  const std::string directory = subject.python.site_packages + "/triton/backends/nvidia/bin/";
  std::string from;
  const bool blackwell = compute_cap.major() >= 10 && (subject.python.ptxas.contains("ptxas-blackwell") ||
                                                       bundled(subject, "ptxas-blackwell", triton, from).has_value());
  const std::string name = blackwell ? "ptxas-blackwell" : "ptxas";
  const std::string override = blackwell ? "TRITON_PTXAS_BLACKWELL_PATH" : "TRITON_PTXAS_PATH";
  if (const auto path = variable(subject.consumer.env, override); path && !path->empty()) {
    const auto named = subject.host.ptxas_at(*path);
    if (!named.unknown.empty()) return {*path, {}, override, fmt::format("{}={}", override, *path), named.unknown};
    if (named.value) return {*path, named.value, override, fmt::format("{}={}", override, *path), {}};
    // A path that does not exist is skipped without a word.
  }
  const auto version = bundled(subject, name, triton, from);
  Assembler found{
      directory + name, version, "bundled", fmt::format("{} is not set; the wheel's {}, {}", override, name, from), {}};
  if (!version) {
    const auto why = why_unknown(subject.python.unknown, "ptxas");
    found.unknown = fmt::format("the version of Triton's {} is unknown{}", name, why.empty() ? "" : ": " + why);
  }
  return found;
}

}  // namespace

Resolution resolve_triton(const Subject& subject) {
  auto resolution = begin_resolution(subject, "triton", "triton");
  auto& evidence = resolution.evidence;
  const auto version = Version::parse(resolution.library_version);
  if (!version) return conclude(resolution, Outcome::unknown, "version_unknown", version.error().message);
  const auto gpus = subject.host.visible_gpus(subject.consumer.env);
  if (!gpus.unknown.empty()) return conclude(resolution, Outcome::unknown, "gpus_unknown", gpus.unknown);
  resolution.gpus_cc = each_once(gpus.compute_caps);
  evidence.push_back(gpus.how);
  evidence.push_back(fmt::format("triton {} in {}", version->text(), subject.python.path));
  if (gpus.compute_caps.empty())
    return conclude(resolution, Outcome::risk, "no_visible_gpu", "the process sees no GPU");

  for (const auto& text : resolution.gpus_cc) {
    const auto compute_cap = Version::of(text);
    const auto assembler = find_assembler(subject, compute_cap, *version);
    resolution.compiler = assembler.path;
    resolution.rule = assembler.rule;
    resolution.rule_detail = assembler.detail;
    const auto target = plain_target(compute_cap) + (compute_cap.major() >= 9 ? "a" : "");
    resolution.targets.push_back(target);
    if (!assembler.unknown.empty())
      return conclude(resolution, Outcome::unknown, "compiler_unknown", assembler.unknown);
    resolution.compiler_version = resolution.asked_version = assembler.version;
    resolution.asked_from = assembler.path.substr(assembler.path.rfind('/') + 1);
    evidence.push_back(fmt::format("{} is {} ({})", assembler.path, assembler.version->text(), assembler.detail));
    const auto* row = subject.knowledge.gpu_target(target);
    if (row == nullptr)
      return conclude(
          resolution, Outcome::unknown, "target_unknown",
          fmt::format("which assembler knows sm_{} is not in the tables of {}", target, subject.knowledge.as_of));
    if (!row->known_to(*assembler.version)) {
      evidence.push_back(fmt::format("sm_{} needs {} or newer ({})", target, row->min_nvcc.text(), row->source));
      return conclude(
          resolution, Outcome::broken, "target_unknown_to_compiler",
          fmt::format("Triton {} assembles with {} {}, which does not know sm_{}: it needs {} or newer",
                      version->text(), resolution.asked_from, assembler.version->text(), target, row->min_nvcc.text()));
    }
    const auto objection = driver_objection(subject, *assembler.version);
    if (!objection.unknown.empty()) return conclude(resolution, Outcome::unknown, "driver_unknown", objection.unknown);
    if (!objection.value.empty()) {
      evidence.push_back(objection.value);
      return conclude(resolution, Outcome::broken, "driver_too_old",
                      fmt::format("Triton assembles with CUDA {}, and {}", assembler.version->text(), objection.value));
    }
  }

  // Its launcher stubs are C, compiled when a kernel first runs. Engines do that; a program that only loads torch does
  // not.
  const bool certain = subject.python.package("vllm") != nullptr || subject.python.package("sglang") != nullptr;
  const auto outcome = certain ? Outcome::broken : Outcome::risk;
  const auto path = search_path(subject);
  if (const auto cc = variable(subject.consumer.env, "CC"); !cc || cc->empty()) {
    const auto gcc = subject.host.program("gcc", path);
    const auto clang = subject.host.program("clang", path);
    if (gcc.value.empty() && clang.value.empty()) {
      if (!gcc.unknown.empty()) return conclude(resolution, Outcome::unknown, "tools_unknown", gcc.unknown);
      if (!clang.unknown.empty()) return conclude(resolution, Outcome::unknown, "tools_unknown", clang.unknown);
      return conclude(
          resolution, outcome, "host_compiler_missing",
          fmt::format("Triton compiles its launchers when a kernel first runs, and finds neither gcc nor clang in "
                      "PATH={}, nor is CC set",
                      path));
    }
  }
  if (!subject.python.python_h && !subject.python.unknown.contains("python_h"))
    return conclude(resolution, outcome, "python_headers_missing",
                    fmt::format("Triton compiles its launchers against Python.h, which Python {} of {} does not have",
                                subject.python.python, subject.python.path));
  return conclude(resolution, Outcome::ok, "", "Triton can assemble for every GPU it sees");
}

}  // namespace trueup
