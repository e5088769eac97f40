#include "derive/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <iterator>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "derive/cache_places.hpp"

namespace trueup {
namespace {

// Which cache a library leaves its work in, and the packages that bring it.
struct Trail {
  std::string_view library;
  std::string_view name;  ///< for people
  std::string_view cache;
  std::vector<std::string_view> packages;
};
const Trail kTrails[] = {
    {"flashinfer", "FlashInfer", "flashinfer", {"flashinfer-python"}},
    {"torch_extensions", "torch", "torch_extensions", {"torch"}},
    {"triton", "Triton", "triton", {"triton"}},
    {"sglang", "SGLang", "tvm_ffi", {"sglang"}},
    {"deep_gemm", "DeepGEMM", "deep_gemm", {"deep-gemm", "sgl-deep-gemm"}},
    {"tvm_ffi", "tvm-ffi", "tvm_ffi", {"apache-tvm-ffi"}},
    {"tilelang", "tilelang", "tilelang", {"tilelang"}},
    {"vllm", "vLLM", "vllm", {"vllm"}},
    {"torch", "torch", "inductor", {"torch"}},
};

// SGLang builds through tvm-ffi, into the same cache.
constexpr std::string_view kSglangModules = "sgl_kernel_jit_";

// Engines decide what is used of a library, torch what it is built for: their upgrades are part of its story.
constexpr std::string_view kAround[] = {"sglang", "vllm", "torch"};

/// How a module was made, as far as that is not how it would be made now.
struct Origin {
  std::string by;     ///< `FlashInfer 0.6.5`
  std::string how;    ///< ` for 120a with the toolkit /opt/cuda`
  std::string place;  ///< the cache that it lies in
  bool is_whole;      ///< one record stands for many kernels

  auto operator<=>(const Origin&) const = default;
};

struct Made {
  int count = 0;
  std::int64_t newest = 0;
};

class Teller {
 public:
  Teller(const HostView& host, const Claim& claim, const Resolution& resolution, const Trail& trail)
      : host_(host),
        claim_(claim),
        resolution_(resolution),
        trail_(trail),
        places_(cache_places(trail.cache, claim.consumer)) {}

  std::vector<std::string> all() {
    caches();
    packages();
    links();
    return std::move(lines_);
  }

 private:
  void caches() {
    std::map<Origin, Made> others;
    for (const auto& cache : items(host_.environment().caches)) {
      if (cache.kind != trail_.cache || cache.op.starts_with(kSglangModules) != (trail_.library == "sglang")) continue;
      const auto place = place_of(cache.path, places_);
      if (place.empty()) continue;
      if (cache.empty_set_mark && cache.version == resolution_.library_version)
        marks_.push_back(
            fmt::format("{} bears the mark of an empty set{}", cache.path, dated(", written on", cache.modified)));
      const auto origin = other_origin(cache, place);
      if (!origin) continue;
      auto& made = others[*origin];
      ++made.count;
      made.newest = std::max(made.newest, cache.modified);
    }
    for (const auto& [origin, made] : others) {
      const auto what = origin.is_whole ? std::string("kernels") : count(made.count, "module");
      lines_.push_back(fmt::format("{} built {}{} in {}{}", origin.by, what, origin.how, origin.place,
                                   dated(", the last on", made.newest)));
      newest_module_ = std::max(newest_module_, made.newest);
    }
  }

  // Nothing: it is as the library would make it now, or does not tell.
  std::optional<Origin> other_origin(const JitCache& cache, const std::string& place) const {
    const bool is_whole = cache.op.empty();
    if (is_whole ? cache.kind == "flashinfer" : !cache.built)
      return std::nullopt;  // its modules have their own records
    Origin origin{std::string(trail_.name), {}, place, is_whole};
    const bool other_release = !cache.version.empty() && cache.version != resolution_.library_version;
    if (other_release) origin.by += " " + cache.version;
    if (const auto tag = tag_of(cache, place); !tag.empty() && !is_current_tag(tag)) origin.how += " as " + tag;
    if (!cache.archs.empty() ? other_release || !is_current(cache.archs) : !any_is_target(cache.targets))
      origin.how += " for " + (cache.archs.empty() ? join(cache.targets, ", ") : cache.archs);
    if (!cache.cuda_home.empty() && host_.resolved(cache.cuda_home) != host_.resolved(resolution_.root))
      origin.how += " with the toolkit " + cache.cuda_home;
    auto releases = cache.built_by;
    if (resolution_.compiler_version)
      std::erase(releases, resolution_.compiler_version->major_minor().text());
    if (!releases.empty()) origin.how += " with CUDA " + join(releases, ", ");
    if (!cache.python_env.empty() && cache.python_env != resolution_.python_env)
      origin.how += " from " + cache.python_env;
    return other_release || !origin.how.empty() ? std::optional(origin) : std::nullopt;
  }

  static std::string tag_of(const JitCache& cache, const std::string& place) {
    const auto begin = place.size() + 1;
    const auto slash = cache.kind == "torch_extensions" ? cache.path.find('/', begin) : std::string::npos;
    return slash == std::string::npos ? std::string() : cache.path.substr(begin, slash - begin);
  }

  void packages() {
    if (claim_.python == nullptr) return;
    auto names = trail_.packages;
    names.insert(names.end(), std::begin(kAround), std::end(kAround));
    for (auto name = names.begin(); name != names.end(); ++name) {
      const auto* package = claim_.python->package(*name);
      if (package == nullptr || package->installed == 0 || std::find(names.begin(), name, *name) != name) continue;
      lines_.push_back(fmt::format("{} {} was installed on {}", package->name, package->version,
                                   date_text(package->installed)));
      newest_package_ = std::max(newest_package_, package->installed);
    }
  }

  void links() {
    for (const auto& link : items(host_.environment().cuda_links)) {
      if (link.path != clean_path(resolution_.root) && !lies_in(clean_path(resolution_.compiler), link.path)) continue;
      const bool after_packages = newest_package_ > 0 && link.changed > newest_package_;
      if (after_packages || (newest_module_ > 0 && link.changed > newest_module_))
        lines_.push_back(fmt::format("{} was pointed to {} on {}, after the {} came", link.path, link.target,
                                     date_text(link.changed), after_packages ? "packages" : "modules"));
    }
    std::move(marks_.begin(), marks_.end(), std::back_inserter(lines_));
  }

  bool is_target(std::string_view built) const {
    const auto under = built.find('_');
    const auto target = under == built.npos ? built : built.substr(under + 1);
    return std::any_of(resolution_.targets.begin(), resolution_.targets.end(),
                       [&](const std::string& each) { return each.substr(0, each.find('+')) == target; });
  }

  bool any_is_target(const std::vector<std::string>& built) const {
    return built.empty() || resolution_.targets.empty() ||  // nobody knows
           std::any_of(built.begin(), built.end(), [&](const std::string& each) { return is_target(each); });
  }

  // `90a_120f`: all of them, in whatever order.
  bool is_current(std::string_view archs) const {
    if (resolution_.targets.empty()) return true;  // nobody knows
    const auto parts = split(archs, '_');
    return parts.size() == resolution_.targets.size() &&
           std::all_of(parts.begin(), parts.end(), [&](std::string_view each) { return is_target(each); });
  }

  bool is_current_tag(const std::string& tag) const {
    if (claim_.python == nullptr || !resolution_.torch_cuda || claim_.python->python.empty()) return true;
    std::string digits = claim_.python->python + "_cu" + resolution_.torch_cuda->major_minor().text();
    std::erase(digits, '.');
    return tag == "py" + digits;
  }

  static std::string dated(std::string_view text, std::int64_t time) {
    return time > 0 ? fmt::format("{} {}", text, date_text(time)) : std::string();
  }

  const HostView& host_;
  const Claim& claim_;
  const Resolution& resolution_;
  const Trail& trail_;
  const std::vector<std::string> places_;
  std::int64_t newest_package_ = 0;
  std::int64_t newest_module_ = 0;
  std::vector<std::string> marks_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> history_of(const HostView& host, const Claim& claim, const Resolution& resolution) {
  const auto* trail = std::find_if(std::begin(kTrails), std::end(kTrails),
                                   [&](const Trail& each) { return each.library == resolution.library; });
  return trail == std::end(kTrails) ? std::vector<std::string>() : Teller(host, claim, resolution, *trail).all();
}

}  // namespace trueup
