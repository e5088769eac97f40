#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "derive/resolve.hpp"

// FlashInfer, predicted without importing it: which toolkit it takes the CUDA version from, which targets that leaves,
// and whether a build for them would end in a module that the driver loads. The order of the questions is the order in
// which FlashInfer itself fails: its import, its architecture check, the build.

namespace trueup {
namespace {

using Bare = FlashInferArchs::Bare;
using Query = FlashInferToolkit::Query;
using Root = FlashInferToolkit::Root;

// What a build cannot do without, of the paths that a toolkit may lack.
constexpr std::array<std::string_view, 10> kNeeded = {"include/cuda_runtime.h",
                                                      "include/curand_kernel.h",
                                                      "include/cublasLt.h",
                                                      "include/nvrtc.h",
                                                      "lib64",
                                                      "lib64/libcudart.so",
                                                      "bin/ptxas",
                                                      "bin/cudafe++",
                                                      "bin/fatbinary",
                                                      "nvvm/bin/cicc"};

class FlashInfer {
 public:
  explicit FlashInfer(const Subject& subject)
      : subject_(subject),
        knowledge_(subject.knowledge),
        result_(begin_resolution(subject, "flashinfer", "flashinfer-python")) {}

  Resolution resolve() {
    (void)(read_version() && see_gpus() && find_toolkit() && ask_version() && choose_targets() && check_targets() &&
           check_build() && check_risks());
    if (result_.outcome == Outcome::broken && build_only_) soften_if_prebuilt();
    return std::move(result_);
  }

 private:
  // --- how a question ends
  // --------------------------------------------------------------------------------------------
  bool end(Outcome outcome, std::string reason, std::string explanation) {
    conclude(result_, outcome, std::move(reason), std::move(explanation));
    return false;
  }
  bool unknown(std::string reason, std::string why) { return end(Outcome::unknown, std::move(reason), std::move(why)); }
  bool broken(std::string reason, std::string why) { return end(Outcome::broken, std::move(reason), std::move(why)); }
  void say(std::string line) { result_.evidence.push_back(std::move(line)); }

  const Variables& env() const { return subject_.consumer.env; }

  // --- the questions, in order; each returns whether to go on
  // -----------------------------------------------------------
  bool read_version() {
    const auto version = Version::parse(result_.library_version);
    if (!version) return unknown("version_unknown", version.error().message);
    version_ = *version;
    auto archs = knowledge_.flashinfer_archs_of(version_);
    auto toolkit = knowledge_.flashinfer_toolkit_of(version_);
    if (archs.row == nullptr && !gate_of_source()) return unknown("version_not_in_tables", archs.why_not);
    if (toolkit.row == nullptr) return unknown("version_not_in_tables", toolkit.why_not);
    toolkit_ = toolkit.row;
    if (archs.row != nullptr) {
      archs_ = *archs.row;
      result_.gate_rule = archs.label;
    }
    return adopt_gate_of_source();
  }

  // What the installed source demands goes before what is known of its version: it may be patched, or newer than the
  // tables.
  std::optional<std::string> gate_of_source() const {
    if (subject_.python.flashinfer_gate.empty()) return std::nullopt;
    return subject_.python.flashinfer_gate;
  }

  bool adopt_gate_of_source() {
    const auto text = gate_of_source();
    if (!text) return true;
    std::optional<Version> gate;
    if (*text != "none") {
      auto parsed = Version::parse(*text);
      if (!parsed) return true;
      gate = *std::move(parsed);
    }
    // The probe tells the lowest that the source names, which is that of 12.0.
    if (gate == (archs_.gate_120 ? archs_.gate_120 : archs_.gate) && !archs_.sm12.empty()) return true;
    if (archs_.sm12.empty() || (gate && !archs_.gate)) {
      targets_assumed_ = true;  // a gate that this version's row does not have: its targets are not in the table either
      archs_.bare = Bare::normalised;
    }
    archs_.gate = gate;
    archs_.gate_120.reset();
    result_.gate_rule = fmt::format("the installed flashinfer/compilation_context.py {}",
                                    gate ? fmt::format("demands CUDA {}", gate->text()) : "has no gate");
    return true;
  }

  bool see_gpus() {
    const auto gpus = subject_.host.visible_gpus(env());
    if (!gpus.unknown.empty()) return unknown("gpus_unknown", gpus.unknown);
    // A CPU build of torch sees none.
    if (!torch_is_cpu_build()) gpus_ = gpus.compute_caps;
    result_.gpus_cc = each_once(gpus_);
    say(torch_is_cpu_build() ? "torch is not built with CUDA and sees no GPU" : gpus.how);
    say(fmt::format(
        "flashinfer-python {} in {}{}", version_.text(), subject_.python.path,
        result_.torch_cuda ? fmt::format(", beside a torch built for CUDA {}", result_.torch_cuda->text()) : ""));
    return true;
  }

  bool torch_is_cpu_build() const { return subject_.python.torch_cuda == "none"; }

  bool find_toolkit() {
    const bool torch = toolkit_->root == Root::torch;
    root_ = find_root(subject_, {.calls_which = !torch, .default_directory = toolkit_->root != Root::which});
    if (torch && torch_is_cpu_build())  // which computes no constant
      root_ = {false, {}, "nothing found", "torch is not built with CUDA", {}};
    if (!root_.unknown.empty()) return unknown("toolkit_unknown", root_.unknown);
    if (torch && (!root_.found || root_.path.empty())) {
      // The build file takes an empty constant for none. The version query does not: it runs `bin/nvcc`, or `nvcc`.
      asked_.emplace();
      asked_->path = "nvcc";
      const auto on_path = subject_.host.program("nvcc", search_path(subject_));
      if (root_.found)
        asked_ = subject_.host.nvcc_at("");
      else if (!on_path.unknown.empty())
        return unknown("toolkit_unknown", on_path.unknown);
      else if (on_path.value.ends_with("/bin/nvcc"))
        asked_ = subject_.host.nvcc_at(on_path.value.substr(0, on_path.value.size() - 9));
      root_.found = true;
      root_.path = kDefaultToolkit;
    }
    result_.rule = root_.rule;
    result_.rule_detail = root_.detail;
    const auto& consumer = subject_.consumer;
    say(fmt::format("environment of {}: {}",
                    consumer.env_source == "process"    ? "the running process"
                    : consumer.env_source == "unit"     ? "the unit"
                    : consumer.env_source == "declared" ? "the inventory's consumer"
                                                        : "the host (nobody is known to use this environment)",
                    root_.detail));
    if (!root_.found) {
      say("so FlashInfer finds no toolkit");
      return true;
    }
    result_.root = root_.path;
    nvcc_ = subject_.host.nvcc_at(root_.path);
    result_.root_resolved = nvcc_.toolkit != nullptr ? nvcc_.toolkit->path : std::string();
    say(fmt::format("so its toolkit is {}{} (rule: {})", root_.path.empty() ? "\"\"" : root_.path,
                    nvcc_.toolkit != nullptr && nvcc_.toolkit->path != root_.path ? " -> " + nvcc_.toolkit->path : "",
                    root_.rule));
    if (!nvcc_.unknown.empty()) return unknown("compiler_unknown", nvcc_.unknown);
    if (root_.path.ends_with("/bin/nvcc"))
      names_compiler_ = subject_.host.nvcc_at(root_.path.substr(0, root_.path.size() - 9)).exists;
    return true;
  }

  bool ask_version() {
    const auto& nvcc = asked_ ? *asked_ : nvcc_;
    if (toolkit_->query == Query::none) {
      if (nvcc_.exists) result_.compiler_version = nvcc_.version;
      return true;
    }
    if (nvcc.exists && nvcc.executable) {
      if (!nvcc.version) return unknown("compiler_unknown", fmt::format("the version of {} is unknown", nvcc.path));
      result_.asked_version = nvcc.version;
      result_.asked_from = "nvcc";
      say(fmt::format("{} is CUDA {}{}", nvcc.path, nvcc.version->text(),
                      nvcc.version_source == "nvcc" ? "" : fmt::format(" (by {})", nvcc.version_source)));
      return true;
    }
    if (nvcc.exists) {
      say(fmt::format("{} is not executable: asking it for the version raises PermissionError", nvcc.path));
      return true;
    }
    if (names_compiler_) {
      say(fmt::format("{} is no directory: asking {} for the version raises NotADirectoryError", root_.path,
                      nvcc.path));
      return true;
    }
    if (root_.found) say(fmt::format("there is no {}", nvcc.path));
    if (toolkit_->query == Query::nvcc) return true;
    result_.asked_version = result_.torch_cuda;
    result_.asked_from = "torch.version.cuda";
    if (!result_.torch_cuda) {
      if (subject_.python.unknown.contains("torch_cuda"))
        return unknown("torch_cuda_unknown", fmt::format("FlashInfer takes torch's CUDA version, which is unknown: {}",
                                                         subject_.python.unknown.at("torch_cuda")));
      result_.asked_from.clear();
      say("and torch is not built with CUDA: no CUDA version at all");
    } else {
      say(fmt::format("without a compiler that answers, FlashInfer believes torch.version.cuda: {}",
                      result_.torch_cuda->text()));
    }
    return true;
  }

  bool choose_targets() {
    if (!archs_.own_targets) {
      auto torch = torch_targets(subject_, gpus_);
      if (!torch.reason.empty()) return broken(torch.reason, torch.explanation);
      if (!torch.unknown.empty()) return unknown("targets_unknown", torch.unknown);
      result_.targets = std::move(torch.targets);
      return !result_.targets.empty() || see_no_gpu();
    }
    const auto list = variable(env(), "FLASHINFER_CUDA_ARCH_LIST");
    if (list) return read_list(*list);
    if (gpus_.empty()) return see_no_gpu();
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const auto& gpu = gpus_[i];
      if (gated(gpu)) return drop_from(i);
      auto target = detected_target(gpu);
      if (!target) return false;
      add_target(*std::move(target));
    }
    const auto gate_of = [&](const Version& cc) { return archs_.gate_of(cc).has_value(); };
    if (const auto first = std::find_if(gpus_.begin(), gpus_.end(), gate_of); first != gpus_.end())
      say(gate_line("accepts", *first));
    say_targets();
    if (version_ < Version::of("0.3.2") &&
        std::any_of(gpus_.begin(), gpus_.end(), [](const Version& cc) { return cc.major() == 7; }))
      return broken("sm7_attribute_error",
                    fmt::format("FlashInfer {} raises AttributeError as soon as it sees a GPU of compute "
                                "capability 7.x",
                                version_.text()));
    return true;
  }

  bool see_no_gpu() {
    say("target architectures: the empty set, without a warning");
    return end(Outcome::risk, "no_visible_gpu", "the process sees no GPU, so FlashInfer has no target architecture");
  }

  // True where asking for the target of `gpu` raises: the version is too low, or asking for it failed itself.
  bool gated(const Version& gpu) const {
    const auto gate = archs_.gate_of(gpu);
    return gate && (!result_.asked_version || result_.asked_version->major_minor() < *gate);
  }

  std::string gate_line(std::string_view verb, const Version& gpu) {
    result_.gate = archs_.gate_of(gpu);
    return fmt::format("the gate of this version {} that: SM {} requires CUDA >= {} [{}]", verb,
                       archs_.gate_120 ? gpu.text() : "12.x", result_.gate->text(), result_.gate_rule);
  }

  // The loop over the devices is inside the `try`: the first that raises ends it, and those before it stay.
  bool drop_from(std::size_t first) {
    say(gate_line("refuses", gpus_[first]));
    for (std::size_t i = first; i < gpus_.size(); ++i)
      if (const auto text = gpus_[i].text();
          std::find(result_.dropped.begin(), result_.dropped.end(), text) == result_.dropped.end())
        result_.dropped.push_back(text);
    const auto asked = result_.asked_version
                           ? fmt::format("{} ({})", result_.asked_version->text(),
                                         result_.asked_from == "nvcc" ? nvcc_.path : result_.asked_from)
                           : fmt::format("no answer from {}", nvcc_.path);
    if (result_.targets.empty()) {
      say("the exception is swallowed: the set of target architectures is empty");
      return broken(
          "arch_set_empty",
          fmt::format("FlashInfer {} demands CUDA >= {} for compute capability {} and gets {}: its set of target "
                      "architectures is empty",
                      version_.text(), result_.gate->text(), gpus_[first].text(), asked));
    }
    say(fmt::format("the exception is swallowed: the targets are {}, and compute capability {} is left out",
                    join(result_.targets, " "), join(result_.dropped, ", ")));
    return broken(
        "gpu_dropped_by_gate",
        fmt::format("FlashInfer {} demands CUDA >= {} for compute capability {} and gets {}: it builds nothing for "
                    "those GPUs",
                    version_.text(), result_.gate->text(), gpus_[first].text(), asked));
  }

  /// The target of a detected GPU; absent: the verdict is set.
  std::optional<std::string> detected_target(const Version& gpu) {
    if (gpu.major() < 9) return plain_target(gpu);
    if (gpu.major() != 12) return plain_target(gpu) + "a";
    if (targets_assumed_) {
      // Which of 120a, 120f, 121a, 121f it is does not matter to a compiler that knows all of them.
      if (result_.asked_version && result_.asked_version->major_minor() >= Version::of("12.9"))
        return plain_target(gpu) + (gpu.minor() == 0 ? "f" : "a");
      unknown("target_not_in_tables",
              fmt::format("which target FlashInfer {} builds for compute capability {} with CUDA {} is "
                          "not in the tables of {}",
                          version_.text(), gpu.text(),
                          result_.asked_version ? result_.asked_version->text() : "of no version", knowledge_.as_of));
      return std::nullopt;
    }
    const bool below = archs_.sm12_below_cuda &&
                       (!result_.asked_version || result_.asked_version->major_minor() < *archs_.sm12_below_cuda);
    const auto& table = below ? archs_.sm12_below : archs_.sm12;
    if (const auto found = table.find(gpu.text()); found != table.end()) return found->second;
    unknown("target_not_in_tables",
            fmt::format("which target FlashInfer {} builds for compute capability {} is not in the tables of {}",
                        version_.text(), gpu.text(), knowledge_.as_of));
    return std::nullopt;
  }

  void add_target(std::string target) {
    auto& targets = result_.targets;
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) targets.push_back(std::move(target));
  }

  void say_targets() {
    say(fmt::format("target architectures: {}",
                    result_.targets.empty() ? "the empty set" : join(result_.targets, " ")));
  }

  // list ::= entry (' ' entry)*    entry ::= integer '.' minor [suffix]
  // As `for arch in value.split(" "): major, minor = arch.split("."); int(major)` reads it: anything else raises at
  // import.
  bool read_list(const std::string& list) {
    from_list_ = true;
    say(fmt::format("FLASHINFER_CUDA_ARCH_LIST={}: the GPUs are not asked", list.empty() ? "\"\"" : list));
    const auto refuse = [&](std::string_view error, std::string_view entry) {
      say(fmt::format("reading '{}' raises {}: `import flashinfer` itself fails", entry, error));
      return broken(
          "arch_list_malformed",
          fmt::format("FLASHINFER_CUDA_ARCH_LIST={} raises {} while FlashInfer {} is imported; valid is for example "
                      "\"9.0a 12.0f\"",
                      list.empty() ? "\"\"" : list, error, version_.text()));
    };
    for (const auto entry : split(list, ' ')) {
      const auto parts = split(entry, '.');
      if (parts.size() != 2 || parts[0].empty() || parts[0].find_first_not_of("0123456789") != parts[0].npos)
        return refuse("ValueError", entry);
      const auto minor = parts[1];
      const bool normalised = archs_.bare == Bare::normalised;
      if (minor.empty() && normalised) return refuse("IndexError", entry);
      const bool bare = minor.find_first_not_of("0123456789") == minor.npos;
      if (bare && parts[0].size() > 3) return refuse("ValueError", entry);
      if (!bare || archs_.bare == Bare::literal || minor.empty()) {
        add_target(std::string(parts[0]) + std::string(minor));
        continue;
      }
      const auto parsed = Version::parse(entry);
      if (!parsed) return refuse("ValueError", entry);
      if (archs_.bare == Bare::append_a) {
        add_target(fmt::format("{}{}{}", parsed->major(), minor, parsed->major() >= 9 ? "a" : ""));
        continue;
      }
      const auto gpu = Version::of(fmt::format("{}.{}", parsed->major(), parsed->minor()));  // int("00") is 0
      if (gated(gpu)) {
        say(gate_line("refuses", gpu));
        say("outside the detection nothing swallows the exception: `import flashinfer` itself fails");
        return broken(
            "arch_list_refused",
            fmt::format("FLASHINFER_CUDA_ARCH_LIST={} passes through the version gate, which demands CUDA >= {} for {} "
                        "and raises while FlashInfer {} is imported",
                        list, result_.gate->text(), entry, version_.text()));
      }
      auto target = detected_target(gpu);
      if (!target) return false;
      add_target(*std::move(target));
    }
    say_targets();
    return true;
  }

  bool check_targets() {
    // The compiler of builds, which a variable may replace; the version above was not its.
    auto compiler = nvcc_;
    if (const auto replaced = variable(env(), toolkit_->nvcc_variable);
        replaced && !replaced->empty() && *replaced != nvcc_.path) {
      const auto root = replaced->ends_with("/bin/nvcc") ? replaced->substr(0, replaced->size() - 9) : std::string();
      compiler = root.starts_with('/') ? subject_.host.nvcc_at(root) : Nvcc{};
      say(fmt::format("{}={} compiles; the version is still that of the toolkit", toolkit_->nvcc_variable, *replaced));
      if (compiler.toolkit == nullptr || !compiler.version)
        return unknown("compiler_unknown",
                       fmt::format("the version of {}={} is unknown{}", toolkit_->nvcc_variable, *replaced,
                                   compiler.unknown.empty() ? "" : ": " + compiler.unknown));
    }
    build_only_ = true;
    if (!root_.found) {
      const bool no_which = root_.rule == "no program `which`";
      return broken(
          no_which ? "which_missing" : "compiler_missing",
          no_which ? "FlashInfer looks for nvcc through the program `which`, which this process does not find: every "
                     "build raises FileNotFoundError"
                   : fmt::format("FlashInfer finds no CUDA compiler ({}): every build raises \"Could not find nvcc\"{}",
                                 root_.detail, elsewhere()));
    }
    if (asked_ && toolkit_->query == Query::nvcc && !result_.asked_version)
      return broken(asked_->exists ? "compiler_not_executable" : "compiler_missing",
                    fmt::format("FlashInfer {} asks `{}` for its version whenever it writes a build file, and there {}",
                                version_.text(), root_.rule == "CUDA_PATH" ? "bin/nvcc" : "nvcc",
                                asked_->exists ? "it is not executable" : "is none where it looks"));
    if (!compiler.exists) {
      if (names_compiler_ || (root_.rule == "CUDA_HOME" &&
                              (!root_.path.starts_with('/') || root_.path.find_first_of(": \"'") != root_.path.npos)))
        return broken("cuda_home_malformed", fmt::format("{}={} is not the name of a directory, so {} does not exist",
                                                         root_.rule, root_.path, nvcc_.path));
      return broken("compiler_missing",
                    fmt::format("{} ({}) has no bin/nvcc: every build ends with \"nvcc: not found\"{}",
                                root_.path.empty() ? "the toolkit \"\"" : root_.path, root_.rule, elsewhere()));
    }
    result_.compiler = compiler.path;
    result_.compiler_version = compiler.version;
    if (!compiler.executable)
      return broken("compiler_not_executable",
                    fmt::format("{} is not executable: every build raises PermissionError", compiler.path));
    if (!compiler.version)
      return unknown("compiler_unknown", fmt::format("the version of {} is unknown", compiler.path));
    compiler_ = compiler;
    return check_codes();
  }

  bool check_codes() {
    const auto& version = *compiler_.version;
    for (const auto& target : result_.targets) {
      const auto name = target.substr(0, target.find('+'));
      const bool plausible = name.find_first_not_of("0123456789af") == name.npos && (name == target || !from_list_);
      if (!plausible)
        return broken(
            "arch_list_malformed",
            fmt::format("FlashInfer passes '{}' on as it is, and nvcc knows no target compute_{}", target, target));
      const auto* row = knowledge_.gpu_target(name);
      if (row == nullptr)
        return unknown("target_not_in_tables", fmt::format("which compiler knows compute_{} is not in the tables of {}",
                                                           name, knowledge_.as_of));
      if (row->known_to(version)) continue;
      say(fmt::format("nvcc {} does not know compute_{}: {}", version.text(), name, row->range_text()));
      return broken("target_unknown_to_compiler",
                    fmt::format("FlashInfer {} builds for compute_{}, which {} (CUDA {}) does not know: {}",
                                version_.text(), name, compiler_.path, version.text(), row->range_text()));
    }
    for (const auto& gpu : result_.gpus_cc) {
      const auto compute_cap = Version::of(gpu);
      const bool covered = std::any_of(result_.targets.begin(), result_.targets.end(), [&](const std::string& target) {
        const auto* row = knowledge_.gpu_target(target.substr(0, target.find('+')));
        return target.ends_with("+PTX") || (row != nullptr && row->runs(compute_cap));
      });
      if (!covered)
        return broken("gpu_not_covered",
                      fmt::format("code for {} does not run on compute capability {}: \"no kernel image is "
                                  "available\"",
                                  join(result_.targets, " "), gpu));
    }
    return true;
  }

  // A compiler that lies on the host where nothing looks.
  std::string elsewhere() const {
    for (const auto& toolkit : items(subject_.host.environment().toolkits))
      if (toolkit.has_nvcc && toolkit.nvcc_executable)
        return fmt::format("; {}/bin/nvcc exists, where nothing looks", toolkit.path);
    return {};
  }

  bool check_build() {
    const auto& compiler = *compiler_.version;
    for (const auto& row : knowledge_.flashinfer_options)
      if (row.versions.contains(version_) && compiler.major_minor() < row.min_nvcc)
        return broken(
            "option_unknown_to_compiler",
            fmt::format(
                "FlashInfer {} passes {} to every build, which {} (CUDA {}) does not know: it needs {} or newer "
                "({})",
                version_.text(), row.option, compiler_.path, compiler.text(), row.min_nvcc.text(), row.source));
    const auto objection = driver_objection(subject_, compiler);
    if (!objection.unknown.empty()) return unknown("driver_unknown", objection.unknown);
    if (!objection.value.empty()) {
      say(objection.value);
      if (stack_runs_without(subject_, compiler))
        return broken("toolkit_beyond_driver",
                      fmt::format("FlashInfer compiles with CUDA {} ({}) beside a torch of CUDA {}, and {}",
                                  compiler.text(), root_.rule, result_.torch_cuda->text(), objection.value));
      return broken("driver_too_old",
                    fmt::format("FlashInfer compiles with CUDA {}, and {}", compiler.text(), objection.value));
    }
    if (const auto* toolkit = compiler_.toolkit; toolkit == nullptr) {
      return broken(
          "toolkit_incomplete",
          fmt::format("{} is a compiler without a toolkit around it: no headers, no libraries", compiler_.path));
    } else if (toolkit->kind != "distribution") {
      std::vector<std::string> lacks;
      for (const auto& path : toolkit->lacks)
        if (std::find(kNeeded.begin(), kNeeded.end(), path) != kNeeded.end()) lacks.push_back(path);
      if (!lacks.empty())
        return broken("toolkit_incomplete", fmt::format("the toolkit {} lacks {}, which every build needs",
                                                        toolkit->path, join(lacks, ", ")));
    }
    return check_tools();
  }

  bool check_tools() {
    const auto path = search_path(subject_);
    const auto ninja = subject_.host.program("ninja", path);
    if (!ninja.unknown.empty()) return unknown("tools_unknown", ninja.unknown);
    if (ninja.value.empty()) {
      const auto& bin = subject_.python.bin;
      const bool beside = std::find(bin.begin(), bin.end(), "ninja") != bin.end();
      return broken("ninja_missing",
                    fmt::format("FlashInfer runs `ninja` by name, and it is in none of PATH={}{}", path,
                                beside ? fmt::format("; {}/bin/ninja exists", subject_.python.path) : ""));
    }
    const auto cxx = variable(env(), "CXX").value_or("c++");
    if (cxx.find('/') == cxx.npos && cxx.find(' ') == cxx.npos && !cxx.empty()) {
      const auto found = subject_.host.program(cxx, path);
      if (!found.unknown.empty()) return unknown("tools_unknown", found.unknown);
      if (found.value.empty() && (cxx == "c++" || cxx == "g++"))
        return broken("host_compiler_missing",
                      fmt::format("FlashInfer compiles with `{}`, which is in none of PATH={}", cxx, path));
    }
    return check_host_compiler(path);
  }

  // nvcc checks the major version of the gcc it drives (crt/host_config.h). A distribution's package brings its own
  // choice.
  bool check_host_compiler(const std::string& path) {
    const auto* toolkit = compiler_.toolkit;
    if (toolkit == nullptr || !toolkit->max_gcc || toolkit->kind == "distribution") return true;
    for (const auto* flags : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"})
      if (const auto value = variable(env(), flags); value && !value->empty()) return true;
    const auto cc = variable(env(), "CC").value_or("gcc");
    const auto gcc = cc.starts_with('/') ? Told<std::string>{cc, {}} : subject_.host.program(cc, path);
    if (gcc.value.empty()) return true;
    const auto* tool = subject_.host.tool(gcc.value);
    if (tool == nullptr || !tool->version || !tool->name.starts_with("gcc")) return true;
    if (tool->version->major() <= *toolkit->max_gcc) return true;
    return broken("host_compiler_too_new",
                  fmt::format("nvcc of {} accepts gcc up to {} and would drive {}, which is {}", toolkit->path,
                              *toolkit->max_gcc, gcc.value, tool->version->text()));
  }

  bool check_risks() {
    build_only_ = false;
    const auto& compiler = *compiler_.version;
    for (const auto& row : knowledge_.flashinfer_fixed_targets) {
      const auto* target = knowledge_.gpu_target(row.target);
      const bool concerned =
          std::any_of(gpus_.begin(), gpus_.end(), [&](const Version& cc) { return cc.major() == row.cc_major; });
      if (!row.versions.contains(version_) || !concerned || target == nullptr || !result_.torch_cuda ||
          *result_.torch_cuda < row.torch_cuda || target->known_to(compiler))
        continue;
      say(fmt::format("{} asks torch.version.cuda ({}) and builds for compute_{}, whatever the targets are ({})",
                      row.module, result_.torch_cuda->text(), row.target, row.source));
      return end(
          Outcome::risk, "fixed_target_unknown_to_compiler",
          fmt::format(
              "it builds for {}, with slower or missing NVFP4 kernels on SM 12.x; {} alone follows torch's CUDA {} and "
              "asks for compute_{}, which {} (CUDA {}) does not know",
              join(result_.targets, " "), row.module, result_.torch_cuda->text(), row.target, compiler_.path,
              compiler.text()));
    }
    if (from_list_ && std::any_of(gpus_.begin(), gpus_.end(), [&](const Version& cc) { return gated(cc); }))
      return end(Outcome::risk, "list_bypasses_gate",
                 fmt::format(
                     "FLASHINFER_CUDA_ARCH_LIST steps around the gate that refuses CUDA {}: a stop-gap, with slower or "
                     "missing NVFP4 kernels",
                     compiler.text()));
    return end(Outcome::ok, "",
               fmt::format("FlashInfer {} builds for {} with {} (CUDA {})", version_.text(), join(result_.targets, " "),
                           compiler_.path, compiler.text()));
  }

  // Kernels that were compiled ahead of time need no compiler; the architecture check still comes first.
  void soften_if_prebuilt() {
    const auto* prebuilt = subject_.python.package("flashinfer-jit-cache");
    const auto version = prebuilt == nullptr ? fail(ErrorKind::not_found, "") : Version::parse(prebuilt->version);
    if (!version || *version != version_) return;
    say(fmt::format("flashinfer-jit-cache {} holds prebuilt kernels", prebuilt->version));
    result_.outcome = Outcome::risk;
    result_.explanation += "; only kernels that flashinfer-jit-cache does not hold are concerned";
  }

  const Subject& subject_;
  const Knowledge& knowledge_;
  Resolution result_;
  Version version_;
  FlashInferArchs archs_;
  const FlashInferToolkit* toolkit_ = nullptr;
  std::vector<Version> gpus_;
  ToolkitRoot root_;
  Nvcc nvcc_;
  std::optional<Nvcc> asked_;  ///< who is asked for the version, where that is not `nvcc_`
  Nvcc compiler_;
  bool names_compiler_ = false;  ///< the root is the compiler itself, no directory
  bool from_list_ = false;
  bool targets_assumed_ = false;
  bool build_only_ = false;  ///< what is judged now matters to builds alone
};

}  // namespace

Resolution resolve_flashinfer(const Subject& subject) { return FlashInfer(subject).resolve(); }

}  // namespace trueup
