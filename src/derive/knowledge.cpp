#include "derive/knowledge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/regex.hpp>
#include <functional>

#include "base/text.hpp"

namespace trueup {
namespace {

constexpr std::size_t kLongestName = 200;  // of a product or list entry: remote text meets a backtracking matcher

// What every row of a table has, beside what its kind adds.
class RowReader {
 public:
  RowReader(const YamlNode& node, std::string what, const std::map<std::string, std::string>& sources, Errors& errors)
      : map_(node, std::move(what), errors), sources_(sources), errors_(errors), before_(errors.size()) {}

  YamlMap& map() { return map_; }

  std::optional<Version> version(std::string_view key) {
    const auto text = map_.text(key);
    if (!text) return std::nullopt;
    return parse(*text, map_.get(key)->at);
  }

  Version required_version(std::string_view key) {
    const auto* node = map_.required(key);
    return node == nullptr ? Version() : parse(map_.text(key).value_or(""), node->at).value_or(Version());
  }

  std::vector<Version> versions(std::string_view key) {
    std::vector<Version> found;
    const auto* node = map_.required(key);
    for (const auto& text : map_.texts(key))
      if (auto version = parse(text, node->at)) found.push_back(*std::move(version));
    return found;
  }

  VersionRange range() { return {version("from"), version("to")}; }

  std::string pattern(std::string_view key) {
    const auto text = map_.required_text(key);
    try {
      boost::regex{text, boost::regex::perl};
    } catch (const boost::regex_error& error) {
      map_.error(map_.get(key)->at, fmt::format("not a regular expression: {}", error.what()));
    }
    return text;
  }

  /// The row's source in full, with how sure it is.
  std::string source() {
    static const std::vector<std::string> kConfidence = {"verified", "reported", "memory"};
    const auto id = map_.required_text("source");
    map_.required("confidence");
    const auto confidence = map_.choice("confidence", kConfidence);
    const auto found = sources_.find(id);
    if (found == sources_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, text] : sources_) names.push_back(name);
      if (const auto* node = map_.get("source"); node != nullptr)
        map_.error(node->at, fmt::format("unknown source '{}'{}", id, did_you_mean(id, names)));
      return {};
    }
    return confidence == "verified" ? found->second : fmt::format("{}, {}", found->second, confidence.value_or(""));
  }

  std::map<std::string, std::string> text_map(std::string_view key) {
    std::map<std::string, std::string> found;
    const auto* node = map_.get(key);
    if (node == nullptr) return found;
    if (!node->is_map()) {
      map_.error(node->at, fmt::format("expected a mapping, got {}", node->describe()));
      return found;
    }
    for (const auto& [name, value] : node->members) found.emplace(name, value.scalar);
    return found;
  }

  bool finish() {
    map_.finish();
    return errors_.size() == before_;
  }

 private:
  std::optional<Version> parse(const std::string& text, const SourcePos& at) {
    auto version = Version::parse(text);
    if (version) return *std::move(version);
    map_.error(at, version.error().message);
    return std::nullopt;
  }

  YamlMap map_;
  const std::map<std::string, std::string>& sources_;
  Errors& errors_;
  std::size_t before_;
};

void read_sm12(RowReader& row, FlashInferArchs& archs) {
  archs.sm12 = row.text_map("sm12");
  archs.sm12_below = row.text_map("sm12_below");
  if (const auto cuda = archs.sm12_below.extract("cuda"); !cuda.empty())
    if (auto version = Version::parse(cuda.mapped())) archs.sm12_below_cuda = *std::move(version);
  archs.gate = row.version("gate");
  archs.gate_120 = row.version("gate_120");
  const auto bare = row.map().choice("bare", {"append_a", "literal", "normalised"}).value_or("literal");
  archs.bare = bare == "append_a"     ? FlashInferArchs::Bare::append_a
               : bare == "normalised" ? FlashInferArchs::Bare::normalised
                                      : FlashInferArchs::Bare::literal;
}

class Loader {
 public:
  Loader(Knowledge& knowledge, Errors& errors) : knowledge_(knowledge), errors_(errors) {}

  void load(const std::string& file, const std::string& text) {
    const auto tree = parse_yaml(text, file);
    if (!tree) {
      errors_.push_back(tree.error());
      return;
    }
    YamlMap map(*tree, "knowledge", errors_);
    map.required("knowledge");
    map.integer("knowledge", 1, 1);
    knowledge_.as_of = std::max(knowledge_.as_of, map.required_text("as_of"));
    sources_.clear();
    if (const auto* sources = map.required("sources"); sources != nullptr)
      for (const auto& [id, value] : sources->members) sources_.emplace(id, value.scalar);

    table(map, "gpu_targets", knowledge_.gpu_targets, [](RowReader& row) {
      return GpuTarget{row.map().required_text("target"), row.required_version("min_nvcc"), row.version("max_nvcc"),
                       row.versions("runs_on"), row.source()};
    });
    table(map, "cuda_majors", knowledge_.cuda_majors, [](RowReader& row) {
      return CudaMajor{static_cast<int>(row.map().integer("cuda_major", 1, 1000).value_or(0)),
                       row.required_version("min_driver"), row.source()};
    });
    table(map, "driver_branches", knowledge_.driver_branches, [](RowReader& row) {
      return DriverBranch{static_cast<int>(row.map().integer("branch", 1, 100000).value_or(0)),
                          row.required_version("max_cuda"), row.source()};
    });
    table(map, "gpu_products", knowledge_.gpu_products, [](RowReader& row) {
      row.source();
      return GpuProduct{row.pattern("match"), row.required_version("compute_cap")};
    });
    table(map, "flashinfer_archs", knowledge_.flashinfer_archs, [](RowReader& row) {
      FlashInferArchs archs;
      archs.versions = row.range();
      row.map().required("targets");
      archs.own_targets = row.map().choice("targets", {"own", "torch"}) != "torch";
      read_sm12(row, archs);
      archs.source = row.source();
      return archs;
    });
    table(map, "flashinfer_nightlies", knowledge_.flashinfer_nightlies, [](RowReader& row) {
      FlashInferNightlies nightlies;
      nightlies.first = row.map().integer("first", 20200101, 21001231).value_or(0);
      nightlies.last = row.map().integer("last", 20200101, 21001231).value_or(0);
      nightlies.as = row.version("as");
      read_sm12(row, nightlies.archs);
      nightlies.archs.source = row.source();
      return nightlies;
    });
    table(map, "flashinfer_toolkits", knowledge_.flashinfer_toolkits, [](RowReader& row) {
      FlashInferToolkit toolkit;
      toolkit.versions = row.range();
      const auto root = row.map().choice("root", {"torch", "which", "which_or_default"}).value_or("");
      toolkit.root = root == "torch"   ? FlashInferToolkit::Root::torch
                     : root == "which" ? FlashInferToolkit::Root::which
                                       : FlashInferToolkit::Root::which_or_default;
      const auto query = row.map().choice("version", {"none", "nvcc", "nvcc_or_torch"}).value_or("");
      toolkit.query = query == "none"   ? FlashInferToolkit::Query::none
                      : query == "nvcc" ? FlashInferToolkit::Query::nvcc
                                        : FlashInferToolkit::Query::nvcc_or_torch;
      toolkit.nvcc_variable = row.map().required_text("nvcc_variable");
      toolkit.source = row.source();
      return toolkit;
    });
    table(map, "flashinfer_caches", knowledge_.flashinfer_caches, [](RowReader& row) {
      FlashInferCache cache;
      cache.versions = row.range();
      cache.version_directory = row.map().flag("version_directory").value_or(true);
      cache.rewrites = row.map().flag("rewrites").value_or(true);
      cache.source = row.source();
      return cache;
    });
    table(map, "flashinfer_options", knowledge_.flashinfer_options, [](RowReader& row) {
      return FlashInferOption{row.range(), row.map().required_text("option"), row.required_version("min_nvcc"),
                              row.source()};
    });
    table(map, "flashinfer_fixed_targets", knowledge_.flashinfer_fixed_targets, [](RowReader& row) {
      return FlashInferFixedTarget{row.range(),
                                   row.map().required_text("module"),
                                   static_cast<int>(row.map().integer("cc_major", 1, 1000).value_or(0)),
                                   row.required_version("torch_cuda"),
                                   row.map().required_text("target"),
                                   row.source()};
    });
    table(map, "triton_assemblers", knowledge_.triton_assemblers, [](RowReader& row) {
      row.source();
      return TritonAssemblers{row.required_version("triton"), row.required_version("ptxas"),
                              row.version("ptxas_blackwell")};
    });
    table(map, "jit_targets", knowledge_.jit_targets, [](RowReader& row) {
      JitTarget target;
      target.package = row.map().required_text("package");
      target.versions = row.range();
      if (row.map().get("compute_caps") != nullptr) target.compute_caps = row.versions("compute_caps");
      target.target = row.map().required_text("target");
      target.below_cuda = row.version("below_cuda");
      target.below = row.map().text("below").value_or(target.target);
      target.asks_torch = row.map().choice("asks", {"nvcc", "torch"}) == "torch";
      target.min_nvcc = row.version("min_nvcc");
      target.wants_cuda = row.version("wants_cuda");
      target.source = row.source();
      return target;
    });
    table(map, "vllm_wheels", knowledge_.vllm_wheels, [](RowReader& row) {
      return VllmWheel{row.range(), row.required_version("cuda"), row.source()};
    });
    table(map, "wheel_libraries", knowledge_.wheel_libraries, [](RowReader& row) {
      row.source();
      return WheelLibrary{row.map().required_text("library"), row.map().required_text("package")};
    });
    table(map, "torch_archs", knowledge_.torch_archs, [](RowReader& row) {
      return TorchArchs{row.versions("torch"), row.map().required_text("variant"), row.map().texts("archs"),
                        row.source()};
    });
    table(map, "torch_list_rejects", knowledge_.torch_list_rejects, [](RowReader& row) {
      return TorchListReject{row.range(), row.pattern("match"), row.source()};
    });
    map.finish();
  }

 private:
  template <class Row, class Read>
  void table(YamlMap& map, std::string_view name, std::vector<Row>& rows, Read read) {
    const auto* list = map.get(name);
    if (list == nullptr) return;
    if (!list->is_sequence()) {
      map.error(list->at, fmt::format("{}: expected a list, got {}", name, list->describe()));
      return;
    }
    std::vector<Row> fresh;
    for (const auto& item : list->items) {
      RowReader reader(item, fmt::format("row of {}", name), sources_, errors_);
      auto row = read(reader);
      if (reader.finish()) fresh.push_back(std::move(row));
    }
    rows.insert(rows.begin(), std::make_move_iterator(fresh.begin()), std::make_move_iterator(fresh.end()));
  }

  Knowledge& knowledge_;
  Errors& errors_;
  std::map<std::string, std::string> sources_;
};

bool matches(const std::string& pattern, std::string_view text, bool whole) {
  if (text.size() > kLongestName) return false;
  const boost::regex regex(pattern, boost::regex::perl | boost::regex::icase);
  try {
    return whole ? boost::regex_match(text.begin(), text.end(), regex)
                 : boost::regex_search(text.begin(), text.end(), regex);
  } catch (const std::runtime_error&) {  // the matcher gave up: too complex
    return false;
  }
}

// The row that contains `version`. Nightlies sort just before the version they are named after: for them, the last row
// that begins before.
template <class Row>
const Row* row_of(const std::vector<Row>& rows, const Version& version) {
  for (const auto& row : rows)
    if (row.versions.contains(version)) return &row;
  const Row* last = nullptr;
  if (!version.is_dev()) return last;
  for (const auto& row : rows)
    if (row.versions.from && *row.versions.from <= version &&
        (last == nullptr || *last->versions.from < *row.versions.from))
      last = &row;
  return last;
}

template <class Row>
Lookup<Row> lookup(const std::vector<Row>& rows, const Version& version, const std::string& as_of) {
  if (const auto* row = row_of(rows, version); row != nullptr)
    return {row, fmt::format("FlashInfer {} ({})", row->versions.text(), row->source), {}};
  return {nullptr, {}, fmt::format("FlashInfer {} is not in the tables of {}", version.text(), as_of)};
}

}  // namespace

bool VersionRange::contains(const Version& version) const {
  return (!from || *from <= version) && (!to || version <= *to);
}

std::string VersionRange::text() const {
  if (from && to) return fmt::format("{} to {}", from->text(), to->text());
  if (from) return fmt::format("from {}", from->text());
  return to ? fmt::format("up to {}", to->text()) : "any";
}

std::optional<Version> FlashInferArchs::gate_of(const Version& compute_cap) const {
  if (compute_cap.major() != 12) return std::nullopt;
  return gate_120 && compute_cap.minor() == 0 ? gate_120 : gate;
}

bool GpuTarget::known_to(const Version& compiler) const {
  const auto minor = compiler.major_minor();
  return min_nvcc <= minor && (!max_nvcc || minor <= *max_nvcc);
}

std::string GpuTarget::range_text() const {
  return max_nvcc ? fmt::format("CUDA {} to {} do ({})", min_nvcc.text(), max_nvcc->text(), source)
                  : fmt::format("it needs CUDA {} or newer ({})", min_nvcc.text(), source);
}

std::string JitTarget::target_of(const Version& compute_cap, bool below_limit) const {
  auto text = below_limit ? below : target;
  if (const auto at = text.find("{cc}"); at != text.npos)
    text.replace(at, 4, fmt::format("{}{}", compute_cap.major(), compute_cap.minor()));
  return text;
}

bool GpuTarget::runs(const Version& compute_cap) const {
  return std::find(runs_on.begin(), runs_on.end(), compute_cap) != runs_on.end();
}

const GpuTarget* Knowledge::gpu_target(std::string_view target) const {
  const auto found =
      std::find_if(gpu_targets.begin(), gpu_targets.end(), [&](const auto& row) { return row.target == target; });
  return found == gpu_targets.end() ? nullptr : &*found;
}

const CudaMajor* Knowledge::cuda_major(int major) const {
  const auto found =
      std::find_if(cuda_majors.begin(), cuda_majors.end(), [&](const auto& row) { return row.cuda_major == major; });
  return found == cuda_majors.end() ? nullptr : &*found;
}

std::optional<Version> Knowledge::driver_max_cuda(const Version& driver) const {
  const DriverBranch* best = nullptr;
  for (const auto& row : driver_branches)
    if (row.branch <= driver.major() && (best == nullptr || best->branch < row.branch)) best = &row;
  return best == nullptr ? std::nullopt : std::optional(best->max_cuda);
}

std::optional<Version> Knowledge::product_compute_cap(std::string_view name) const {
  for (const auto& row : gpu_products)
    if (matches(row.match, name, false)) return row.compute_cap;
  return std::nullopt;
}

std::optional<bool> Knowledge::compiler_reaches(const Version& compiler, const Version& compute_cap) const {
  std::optional<bool> answer;
  for (const auto& row : gpu_targets)
    if (row.runs(compute_cap)) answer = answer.value_or(false) || row.known_to(compiler);
  return answer;
}

Lookup<FlashInferArchs> Knowledge::flashinfer_archs_of(const Version& version) const {
  long first_nightly = 0;
  for (const auto& row : flashinfer_nightlies) {
    first_nightly = first_nightly == 0 ? row.first : std::min(first_nightly, row.first);
    if (version.dev() < row.first || version.dev() > row.last) continue;
    const auto name = fmt::format("FlashInfer nightlies {} to {}", row.first, row.last);
    if (!row.as) return {&row.archs, fmt::format("{} ({})", name, row.archs.source), {}};
    auto like = lookup(flashinfer_archs, *row.as, as_of);
    if (like.row != nullptr) like.label = fmt::format("{}, like {} ({})", name, row.as->text(), like.row->source);
    return like;
  }
  if (version.is_dev() && first_nightly != 0 && version.dev() > first_nightly)
    return {nullptr, {}, fmt::format("the nightly FlashInfer {} is not in the tables of {}", version.text(), as_of)};
  return lookup(flashinfer_archs, version, as_of);
}

Lookup<FlashInferToolkit> Knowledge::flashinfer_toolkit_of(const Version& version) const {
  return lookup(flashinfer_toolkits, version, as_of);
}

Lookup<FlashInferCache> Knowledge::flashinfer_cache_of(const Version& version) const {
  return lookup(flashinfer_caches, version, as_of);
}

bool Knowledge::knows_jit_version(std::string_view package, const Version& version) const {
  return std::any_of(jit_targets.begin(), jit_targets.end(),
                     [&](const auto& row) { return row.package == package && row.versions.contains(version); });
}

const JitTarget* Knowledge::jit_target(std::string_view package, const Version& version,
                                       const Version& compute_cap) const {
  const JitTarget* any = nullptr;
  for (const auto& row : jit_targets) {
    if (row.package != package || !row.versions.contains(version)) continue;
    if (std::find(row.compute_caps.begin(), row.compute_caps.end(), compute_cap) != row.compute_caps.end()) return &row;
    if (row.compute_caps.empty() && any == nullptr) any = &row;
  }
  return any;
}

const VllmWheel* Knowledge::vllm_wheel_of(const Version& version) const {
  for (const auto& row : vllm_wheels)
    if (row.versions.contains(version)) return &row;
  return nullptr;
}

const TritonAssemblers* Knowledge::triton_assemblers_of(const Version& version) const {
  const auto found = std::find_if(triton_assemblers.begin(), triton_assemblers.end(),
                                  [&](const auto& row) { return row.triton == version; });
  return found == triton_assemblers.end() ? nullptr : &*found;
}

const TorchArchs* Knowledge::torch_archs_of(const Version& torch, const Version& cuda) const {
  const auto variant = fmt::format("cu{}{}", cuda.major(), cuda.minor());
  for (const auto& row : torch_archs)
    if (row.variant == variant && std::find(row.torch.begin(), row.torch.end(), torch.major_minor()) != row.torch.end())
      return &row;
  return nullptr;
}

const TorchListReject* Knowledge::torch_list_reject(std::string_view entry, const Version& torch) const {
  if (entry.ends_with("+PTX")) entry.remove_suffix(4);
  for (const auto& row : torch_list_rejects)
    if (row.versions.contains(torch) && matches(row.match, entry, true)) return &row;
  return nullptr;
}

Knowledge load_knowledge(const std::vector<std::pair<std::string, std::string>>& named_texts, Errors& errors) {
  Knowledge knowledge;
  Loader loader(knowledge, errors);
  for (const auto& [file, text] : named_texts) loader.load(file, text);
  return knowledge;
}

}  // namespace trueup
