#include "derive/nvcc_build.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace trueup {

NvccBuild::NvccBuild(const Subject& subject, NvccLibrary library)
    : subject_(subject),
      library_(std::move(library)),
      result_(begin_resolution(subject, library_.library, library_.package)) {}

bool NvccBuild::end(Outcome outcome, std::string reason, std::string explanation) {
  conclude(result_, outcome, std::move(reason), std::move(explanation));
  return false;
}

bool NvccBuild::read_version() {
  const auto version = Version::parse(result_.library_version);
  if (!version) return end(Outcome::unknown, "version_unknown", version.error().message);
  version_ = *version;
  if (!subject_.knowledge.knows_jit_version(library_.package, version_))
    return end(Outcome::unknown, "version_not_in_tables",
               fmt::format("{} is not in the tables of {}", name(), subject_.knowledge.as_of));
  return true;
}

bool NvccBuild::locate(ToolkitRoot root) {
  root_ = std::move(root);
  result_.rule = root_.rule;
  result_.rule_detail = root_.detail;
  if (root_.found) {
    result_.root = root_.path;
    toolkit_ = subject_.host.toolkit_at(root_.path);
    if (toolkit_ != nullptr) result_.root_resolved = toolkit_->path;
  }
  return true;
}

bool NvccBuild::see_gpus() {
  const auto gpus = subject_.host.visible_gpus(subject_.consumer.env);
  if (!gpus.unknown.empty()) return end(Outcome::unknown, "gpus_unknown", gpus.unknown);
  result_.gpus_cc = each_once(gpus.compute_caps);
  say(gpus.how);
  say(fmt::format("{} {} in {}", library_.package, result_.library_version, subject_.python.path));
  if (result_.gpus_cc.empty())
    return end(Outcome::risk, "no_visible_gpu", fmt::format("the process sees no GPU, so {} builds nothing", name()));
  return true;
}

bool NvccBuild::find_compiler(const std::string& replaced_by) {
  if (!root_.unknown.empty()) return end(Outcome::unknown, "toolkit_unknown", root_.unknown);
  say(root_.detail);
  if (!root_.found)
    return end(Outcome::broken, "compiler_missing",
               fmt::format("{} finds no CUDA toolkit ({}): {}", name(), root_.detail, library_.when_no_root));
  auto nvcc = subject_.host.nvcc_at(root_.path);
  if (const auto other = variable(subject_.consumer.env, replaced_by); other && !other->empty()) {
    say(fmt::format("{}={} compiles", replaced_by, *other));
    result_.rule = replaced_by;
    if (!other->ends_with("/bin/nvcc"))
      return end(Outcome::unknown, "compiler_unknown", fmt::format("what {}={} is was not asked", replaced_by, *other));
    nvcc = subject_.host.nvcc_at(other->substr(0, other->size() - std::string_view("/bin/nvcc").size()));
  }
  result_.compiler = nvcc.path;
  if (!nvcc.unknown.empty()) return end(Outcome::unknown, "compiler_unknown", nvcc.unknown);
  if (!nvcc.exists)
    return end(Outcome::broken, "compiler_missing",
               fmt::format("{} would run {}, which does not exist", name(), nvcc.path));
  if (!nvcc.executable)
    return end(Outcome::broken, "compiler_not_executable",
               fmt::format("{} would run {}, which is not executable", name(), nvcc.path));
  if (!nvcc.version)
    return end(Outcome::unknown, "compiler_unknown", fmt::format("the version of {} is unknown", nvcc.path));
  result_.compiler_version = result_.asked_version = nvcc.version;
  result_.asked_from = "nvcc";
  say(fmt::format("{} is CUDA {} ({})", nvcc.path, nvcc.version->text(), root_.rule));
  return true;
}

bool NvccBuild::choose_targets(const std::vector<std::string>& compute_caps) {
  for (const auto& text : compute_caps) {
    const auto compute_cap = Version::of(text);
    const auto* row = subject_.knowledge.jit_target(library_.package, version_, compute_cap);
    if (row == nullptr)
      return end(
          Outcome::risk, "gpu_not_served",
          fmt::format("{} has no kernels for compute capability {}: who uses it leaves it aside there", name(), text));
    const auto& asked = row->asks_torch ? result_.torch_cuda : compiler();
    if ((row->min_nvcc && !compiler()) || (row->below_cuda && !row->asks_torch && !asked))
      return end(Outcome::unknown, "compiler_unknown",
                 fmt::format("{} chooses by its compiler ({}), which is not known yet", name(), row->source));
    if (row->min_nvcc && *compiler() < *row->min_nvcc)
      return end(Outcome::broken, "compiler_too_old",
                 fmt::format("{} demands CUDA {} and {} is CUDA {} ({})", name(), row->min_nvcc->text(),
                             result_.compiler, compiler()->text(), row->source));
    if (row->asks_torch && !asked)
      return end(Outcome::unknown, "torch_cuda_unknown",
                 fmt::format("{} takes its target from torch.version.cuda, which could not be read", name()));
    const bool below = row->below_cuda && asked->major_minor() < *row->below_cuda;
    const auto target = row->target_of(compute_cap, below);
    if (std::find(result_.targets.begin(), result_.targets.end(), target) == result_.targets.end())
      result_.targets.push_back(target);
    say(fmt::format("it asks {} for sm_{} ({})", row->asks_torch ? "by torch's CUDA version" : "nvcc", target,
                    row->source));
    if (below && row->wants_cuda)
      stop_gap_ =
          fmt::format("{} asks for CUDA {} or newer on compute capability {} and makes do with sm_{} of CUDA {}",
                      name(), row->wants_cuda->text(), text, target, asked->text());
  }
  return true;
}

void NvccBuild::take_targets(std::vector<std::string> targets, const std::string& how) {
  result_.targets = std::move(targets);
  say(fmt::format("{}: targets {}", how, join(result_.targets, " ")));
}

bool NvccBuild::check_targets() {
  for (const auto& target : result_.targets) {
    const auto* row = subject_.knowledge.gpu_target(target);
    if (row == nullptr)
      return end(
          Outcome::unknown, "target_not_in_tables",
          fmt::format("which compiler knows sm_{} is not in the tables of {}", target, subject_.knowledge.as_of));
    if (!row->known_to(*compiler()))
      return end(Outcome::broken, "target_unknown_to_compiler",
                 fmt::format("{} asks for sm_{}, which {} (CUDA {}) does not know: {}", name(), target,
                             result_.compiler, compiler()->text(), row->range_text()));
  }
  for (const auto& text : result_.gpus_cc) {
    const auto compute_cap = Version::of(text);
    const bool covered = std::any_of(result_.targets.begin(), result_.targets.end(), [&](const std::string& target) {
      const auto* row = subject_.knowledge.gpu_target(target);
      return row != nullptr && row->runs(compute_cap);
    });
    if (!covered)
      return end(Outcome::broken, "gpu_not_covered",
                 fmt::format("{} builds for {}, which does not run on compute capability {}", name(),
                             join(result_.targets, " "), text));
  }
  return true;
}

bool NvccBuild::check_driver() {
  const auto objection = driver_objection(subject_, *compiler());
  if (!objection.unknown.empty()) return end(Outcome::unknown, "driver_unknown", objection.unknown);
  if (objection.value.empty()) return true;
  say(objection.value);
  return end(Outcome::broken, stack_runs_without(subject_, *compiler()) ? "toolkit_beyond_driver" : "driver_too_old",
             fmt::format("{} compiles with CUDA {}, and {}", name(), compiler()->text(), objection.value));
}

bool NvccBuild::check_toolkit() {
  if (toolkit_ == nullptr || toolkit_->kind == "distribution") return true;
  std::vector<std::string> lacks;
  for (const auto& path : toolkit_->lacks)
    if (std::find(library_.needs.begin(), library_.needs.end(), path) != library_.needs.end()) lacks.push_back(path);
  if (lacks.empty()) return true;
  return end(Outcome::broken, "toolkit_incomplete",
             fmt::format("the toolkit {} lacks {}, which {} needs", toolkit_->path, join(lacks, ", "), name()));
}

bool NvccBuild::check_tools() {
  const auto path = search_path(subject_);
  std::vector<std::string> programs;
  if (library_.ninja) programs.emplace_back("ninja");
  const auto cxx = variable(subject_.consumer.env, "CXX").value_or("c++");
  if (library_.links && (cxx == "c++" || cxx == "g++")) programs.push_back(cxx);
  for (const auto& program : programs) {
    const auto found = subject_.host.program(program, path);
    if (!found.unknown.empty()) return end(Outcome::unknown, "tools_unknown", found.unknown);
    if (found.value.empty())
      return end(Outcome::broken, program == "ninja" ? "ninja_missing" : "host_compiler_missing",
                 fmt::format("{} runs `{}` by name, and it is in none of PATH={}", name(), program, path));
    const auto* tool = subject_.host.tool(found.value);
    if (library_.min_gcc && program != "ninja" && tool != nullptr && tool->version &&
        tool->version->major() < *library_.min_gcc)
      return end(Outcome::broken, "host_compiler_too_old",
                 fmt::format("{} needs gcc {} or newer, and {} is {}", name(), *library_.min_gcc, found.value,
                             tool->version->text()));
  }
  if (toolkit_ != nullptr && toolkit_->max_gcc && toolkit_->kind != "distribution") {
    const auto gcc = subject_.host.program("gcc", path);
    const auto* tool = gcc.value.empty() ? nullptr : subject_.host.tool(gcc.value);
    const bool chosen = variable(subject_.consumer.env, "NVCC_PREPEND_FLAGS").has_value() ||
                        variable(subject_.consumer.env, "NVCC_APPEND_FLAGS").has_value() ||
                        variable(subject_.consumer.env, "CC").has_value();
    if (!chosen && tool != nullptr && tool->version && tool->version->major() > *toolkit_->max_gcc)
      return end(Outcome::broken, "host_compiler_too_new",
                 fmt::format("nvcc of {} accepts gcc up to {} and would drive {}, which is {}", toolkit_->path,
                             *toolkit_->max_gcc, gcc.value, tool->version->text()));
  }
  if (!stop_gap_.empty()) return end(Outcome::risk, "stop_gap_target", stop_gap_);
  return end(Outcome::ok, "",
             fmt::format("{} builds for {} with {} (CUDA {})", name(), join(result_.targets, " "), result_.compiler,
                         compiler()->text()));
}

}  // namespace trueup
