#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "derive/host_view.hpp"
#include "support/catch.hpp"
#include "trueup/derived.hpp"
#include "unit/derive/derive_cases.hpp"

// What released packages answered on the hosts of tests/data/grid/grid.json (tests/grid/record.py), against what is
// derived from the facts that the probes would have found there. Every cell must agree.

namespace trueup {
namespace {

using nlohmann::json;
using Texts = std::set<std::string>;

constexpr auto kPrefix = "/opt/venv";
constexpr auto kUnit = "grid.service";

json read_grid(const std::string& name) {
  return json::parse(test::read_file(std::filesystem::path(TRUEUP_TEST_DATA) / "grid" / (name + ".json")));
}

std::string parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// A host of the grid: the facts about it that do not depend on the cell.
class Host {
 public:
  explicit Host(const json& layout)
      : nvcc_(layout.value("nvcc", json::object()).get<std::map<std::string, std::string>>()),
        links_(layout.value("links", json::object()).get<std::map<std::string, std::string>>()) {
    std::set<std::string> roots;
    for (const auto& [path, what] : nvcc_) roots.insert(parent(parent(path)));
    for (const auto& [path, target] : links_)
      if (path.ends_with("/bin/nvcc")) roots.insert(parent(parent(path)));
    for (const std::string directory : layout.value("directories", json::array())) roots.insert(directory);
    for (const auto& root : roots) toolkits_.push_back(toolkit(root));
    if (layout.value("which", true)) tools_.push_back({"which", "/usr/bin/which", {}, {}});
    for (const auto* name : {"gcc", "g++", "cc", "c++", "ninja", "nvidia-smi"})
      tools_.push_back({name, fmt::format("/usr/bin/{}", name), {}, {}});
    for (const std::string path : {"/usr/local/bin/nvcc", "/usr/bin/nvcc"})
      if (const auto answer = nvcc_.find(resolved(path)); answer != nvcc_.end() && answer->second != "no x") {
        tools_.push_back({"nvcc", path, Version::of(answer->second), {}});
        break;
      }
    for (const auto& [path, target] : links_)
      if (path.starts_with("/usr/local/cuda"))
        cuda_links_.push_back({path, target, found(path) ? resolved(path) : "", 1});
  }

  /// The facts, where a service has the environment `env`.
  Environment with(const Variables& env) const {
    Environment environment;
    auto toolkits = toolkits_;
    for (const auto* name : {"CUDA_HOME", "CUDA_PATH"}) {  // what an environment names is looked at as well
      const auto value = variable(env, name).value_or("");
      const auto path = resolved(clean_path(value));
      const bool known =
          std::any_of(toolkits.begin(), toolkits.end(), [&](const Toolkit& each) { return each.path == path; });
      if (value.starts_with('/') && !known && found(path) && !nvcc_.contains(path)) toolkits.push_back(toolkit(path));
    }
    environment.toolkits = toolkits;
    environment.cuda_links = cuda_links_;
    environment.tools = tools_;
    Driver driver;
    driver.loaded = Version::of("580.95.05");
    environment.driver = driver;
    return environment;
  }

 private:
  std::string resolved(std::string path) const {
    for (bool followed = true; followed;) {
      followed = false;
      for (const auto& [link, target] : links_)
        if (path == link || path.starts_with(link + "/")) {
          path = target + path.substr(link.size());
          followed = true;
        }
    }
    return path;
  }

  bool found(const std::string& path) const {
    const auto real = resolved(path);
    if (real == "/usr" || real == "/usr/local") return true;
    const auto holds = [&](const std::string& each) { return each == real || each.starts_with(real + "/"); };
    return std::any_of(nvcc_.begin(), nvcc_.end(), [&](const auto& each) { return holds(each.first); }) ||
           std::any_of(toolkits_.begin(), toolkits_.end(), [&](const Toolkit& each) { return holds(each.path); });
  }

  Toolkit toolkit(const std::string& root) const {
    Toolkit toolkit;
    toolkit.path = root;
    toolkit.kind = root == "/usr" ? "distribution" : "local";
    for (const auto& [link, target] : links_)
      if (resolved(link) == root) toolkit.reached_by.push_back(link);
    if (const auto answer = nvcc_.find(resolved(root + "/bin/nvcc")); answer != nvcc_.end()) {
      toolkit.has_nvcc = true;
      toolkit.nvcc_executable = answer->second != "no x";
      if (toolkit.nvcc_executable) {
        toolkit.version = Version::of(answer->second);
        toolkit.version_source = "nvcc";
      }
    }
    return toolkit;
  }

  std::map<std::string, std::string> nvcc_;
  std::map<std::string, std::string> links_;
  std::vector<Toolkit> toolkits_;
  std::vector<CudaLink> cuda_links_;
  std::vector<Tool> tools_;
};

class Grid {
 public:
  Grid() : grid_(read_grid("grid")), knowledge_(test::shipped_knowledge()) {
    for (const auto& [name, layout] : grid_.at("layouts").items()) hosts_.emplace(name, Host(layout));
  }

  /// Derives `library` in the cell `layout; environment; gpus; torch`.
  Resolution derived(const std::string& cell, const std::string& library, std::vector<PythonPackage> packages,
                     const std::string& gate) const {
    const auto names = split_cell(cell);
    Service service;
    service.unit = kUnit;
    service.user = "root";
    service.python_env = kPrefix;
    service.unit_env = grid_.at("environments").at(names[1]).get<Variables>();
    service.unit_env.emplace("PATH", grid_.at("path").get<std::string>());
    auto environment = hosts_.at(names[0]).with(service.unit_env);
    PythonEnv python;
    python.path = kPrefix;
    python.packages = std::move(packages);
    const auto& cuda = grid_.at("torch").at(names[3]).at("cuda");
    python.torch_cuda = cuda.is_null() ? "none" : cuda.get<std::string>();
    python.flashinfer_gate = gate;
    environment.python_envs = std::vector{python};
    std::vector<Gpu> gpus;
    for (const std::string compute_cap : grid_.at("gpus").at(names[2])) {
      Gpu gpu;
      gpu.index = static_cast<int>(gpus.size());
      gpu.name = "NVIDIA GPU";
      gpu.compute_cap = Version::of(compute_cap);
      gpu.kernel_driver = "nvidia";
      gpus.push_back(gpu);
    }
    if (gpus.empty()) {  // of a host without GPUs nothing is derived; what is meant is a process that sees none
      gpus.emplace_back();
      gpus.back().compute_cap = Version::of("9.0");
      gpus.back().kernel_driver = "nvidia";
      service.unit_env["CUDA_VISIBLE_DEVICES"] = "";
    }
    environment.services = std::vector{service};
    environment.gpus = gpus;
    for (auto& each : derive(environment, {}, knowledge_).resolutions)
      if (each.library == library) return each;
    return {};
  }

  /// Whether the process sees no GPU: there is none, or its torch is a CPU build.
  bool sees_no_gpu(const std::string& cell) const {
    const auto names = split_cell(cell);
    return grid_.at("gpus").at(names[2]).empty() || grid_.at("torch").at(names[3]).at("cuda").is_null();
  }

  /// Whether the tables speak of a `torch` for the cell's CUDA: official builds only.
  bool knows_torch(const std::string& torch, const std::string& cell) const {
    const std::string cuda = grid_.at("torch").at(split_cell(cell)[3]).at("cuda");
    return knowledge_.torch_archs_of(Version::of(torch), Version::of(cuda)) != nullptr;
  }

 private:
  static std::vector<std::string> split_cell(const std::string& cell) {
    std::vector<std::string> names;
    for (std::size_t from = 0; from <= cell.size();) {
      const auto end = std::min(cell.find("; ", from), cell.size());
      names.push_back(cell.substr(from, end - from));
      from = end + 2;
    }
    return names;
  }

  json grid_;
  Knowledge knowledge_;
  std::map<std::string, Host> hosts_;
};

/// `sm_120` and `compute_120` for torch's `120+PTX`.
Texts codes(const std::vector<std::string>& targets) {
  Texts codes;
  for (const auto& target : targets) {
    const auto plain = target.substr(0, target.find("+PTX"));
    codes.insert("sm_" + plain);
    if (plain != target) codes.insert("compute_" + plain);
  }
  return codes;
}

std::string text_of(const json& answer, const char* name) {
  return answer.contains(name) && answer[name].is_string() ? answer[name].get<std::string>() : std::string();
}

/// What a FlashInfer's own answer says of the outcome; several where it does not tell them apart.
Texts reasons_of(const json& answer, bool no_gpus) {
  const auto error = [&](const char* name) { return text_of(answer, name); };
  const auto says = [&](const char* name, std::string_view part) {
    return error(name).find(part) != std::string::npos;
  };
  if (answer.contains("no import"))
    return says("no import", "requires CUDA") || says("no import", "Could not determine CUDA version")
               ? Texts{"arch_list_refused"}
               : Texts{"arch_list_malformed"};
  if (says("no build", "sm75") || says("no build", "list index out of range"))
    return {no_gpus ? "no_visible_gpu" : "arch_set_empty"};
  if (says("no build", "isdigit")) return {"sm7_attribute_error"};
  if (says("no build", "Unknown CUDA arch")) return {"arch_list_rejected"};
  if (answer.contains("swallowed")) return {"gpu_dropped_by_gate"};
  if (says("no build", "'which'")) return {"which_missing"};
  if (says("no build", "PermissionError")) return {"compiler_not_executable"};
  if (says("no build", "Could not find nvcc") || says("no build", "FileNotFoundError"))
    return {"compiler_missing", "cuda_home_malformed"};
  if (says("no build", "NotADirectoryError")) return {"compiler_missing", "cuda_home_malformed"};
  if (says("no build", "Could not determine CUDA version")) return {"compiler_missing"};
  if (answer.contains("no build")) return {"?"};
  const auto& state = answer.at("build").at("nvcc is");
  if (state == "missing") return {"compiler_missing", "cuda_home_malformed"};
  if (state == "not executable") return {"compiler_not_executable"};
  // The build file is written; what becomes of it is the compiler's answer, not FlashInfer's.
  return {"",
          "toolkit_incomplete",
          "target_unknown_to_compiler",
          "arch_list_malformed",
          "target_not_in_tables",
          "gpu_not_covered",
          "fixed_target_unknown_to_compiler",
          "list_bypasses_gate",
          "option_unknown_to_compiler",
          "ninja_missing",
          "ninja_off_path",
          "host_compiler_missing"};
}

/// In what a resolution of FlashInfer differs from the package's answer; empty: they agree.
std::string flashinfer_difference(const Resolution& ours, const json& answer, bool no_gpus) {
  const auto reasons = reasons_of(answer, no_gpus);
  if (!reasons.contains(ours.reason))
    return fmt::format("reason '{}' where '{}' is right", ours.reason, fmt::join(reasons, "|"));
  if (answer.contains("no import")) return {};
  const auto version = ours.asked_version ? ours.asked_version->text() : "";
  if (version != text_of(answer, "version")) return fmt::format("version '{}'", version);
  const bool built = answer.contains("build");
  if (!built && answer.contains("torch_root")) {
    // The constant of torch; where it is None or empty, the build file would say /usr/local/cuda.
    const auto root = text_of(answer, "torch_root");
    if (ours.root != (root.empty() ? kDefaultToolkit : root)) return fmt::format("root '{}'", ours.root);
  } else if (ours.root != (built ? text_of(answer["build"], "root") : text_of(answer, "root"))) {
    return fmt::format("root '{}'", ours.root);
  }
  if (built && !ours.compiler.empty() && clean_path(ours.compiler) != clean_path(text_of(answer["build"], "nvcc")))
    return fmt::format("compiler '{}'", ours.compiler);
  if (answer.contains("targets")) {
    const auto set = answer["targets"].get<Texts>();
    if (Texts(ours.targets.begin(), ours.targets.end()) != set)
      return fmt::format("targets '{}'", fmt::join(ours.targets, " "));
  } else if (built && codes(ours.targets) != answer["build"]["targets"].get<Texts>()) {
    return fmt::format("targets '{}'", fmt::join(ours.targets, " "));
  }
  return {};
}

/// The same for a library that only names a root and, where `targets_too`, the codes that nvcc shall emit.
std::string root_difference(const Resolution& ours, const json& answer, bool targets_too) {
  if (ours.root != text_of(answer, "root")) return fmt::format("root '{}'", ours.root);
  const auto error = text_of(answer, "no targets");
  if ((error.find("Unknown CUDA arch") != std::string::npos) != (ours.reason == "arch_list_rejected"))
    return fmt::format("reason '{}'", ours.reason);
  if (!targets_too) return {};
  if (answer.contains("targets") ? codes(ours.targets) != answer["targets"].get<Texts>()
                                 : answer.contains("no targets") && !ours.targets.empty())
    return fmt::format("targets '{}'", fmt::join(ours.targets, " "));
  return {};
}

/// Replays all recorded releases of `package`; how many there are.
template <class Difference>
int replay(const std::string& package, const std::string& library, Difference difference) {
  const Grid grid;
  int releases = 0;
  for (const auto& path : test::cases_in("grid", ".json")) {
    const auto name = path.stem().string();
    if (name == "grid") continue;
    const auto recorded = read_grid(name);
    if (recorded.at("package") != package) continue;
    ++releases;
    std::vector<PythonPackage> packages = {{package, recorded.at("version"), 0}};
    if (package != "torch") packages.push_back({"torch", "2.9.1", 0});
    for (const auto& group : recorded.at("answers"))
      for (const std::string cell : group.at("cells")) {
        const auto ours = grid.derived(cell, library, packages, recorded.value("gate", ""));
        const auto wrong = difference(ours, group.at("answer"), grid, cell, recorded.at("version"));
        if (wrong.empty()) continue;
        INFO(name << ", " << cell << ": " << wrong);
        INFO("it answers " << group.at("answer").dump());
        INFO("derived: " << ours.reason << ": " << ours.explanation);
        CHECK(wrong.empty());
      }
  }
  return releases;
}

}  // namespace

TEST_CASE("FlashInfer itself and trueup agree on every cell of the grid", "[unit][derive][grid]") {
  const auto difference = [](const Resolution& ours, const json& answer, const Grid& grid, const std::string& cell,
                             const std::string&) {
    return flashinfer_difference(ours, answer, grid.sees_no_gpu(cell));
  };
  CHECK(replay("flashinfer-python", "flashinfer", difference) >= 8);
}

TEST_CASE("torch.utils.cpp_extension and trueup agree on every cell of the grid", "[unit][derive][grid]") {
  const auto difference = [](const Resolution& ours, const json& answer, const Grid& grid, const std::string& cell,
                             const std::string& torch) {
    return root_difference(ours, answer, grid.knows_torch(torch, cell));
  };
  CHECK(replay("torch", "torch_extensions", difference) >= 2);
}

TEST_CASE("tvm-ffi itself and trueup agree on every cell of the grid", "[unit][derive][grid]") {
  const auto difference = [](const Resolution& ours, const json& answer, const Grid&, const std::string&,
                             const std::string&) { return root_difference(ours, answer, true); };
  CHECK(replay("apache-tvm-ffi", "tvm_ffi", difference) >= 1);
}

TEST_CASE("SGLang's DeepGEMM itself and trueup agree on every cell of the grid", "[unit][derive][grid]") {
  const auto difference = [](const Resolution& ours, const json& answer, const Grid&, const std::string&,
                             const std::string&) { return root_difference(ours, answer, false); };
  CHECK(replay("sgl-deep-gemm", "deep_gemm", difference) >= 1);
}

}  // namespace trueup
