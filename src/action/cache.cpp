#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "action/kinds.hpp"
#include "action/parts.hpp"
#include "base/text.hpp"

namespace trueup {
namespace {

// Names of directories that JIT libraries make for themselves. A path below one of these is a cache wherever it lies.
constexpr std::array<std::string_view, 17> kCacheNames = {
    "flashinfer",   "torch_extensions",    "triton",   ".triton",       "deep_gemm", ".deep_gemm",
    "tvm-ffi",      ".tilelang",           "tilelang", "sglang",        "vllm",      ".nv",
    "ComputeCache", "torch_compile_cache", "inductor", "torchinductor", "cached_ops"};

// Directories whose content nothing on the host can build again, or that belong to a package.
constexpr std::array<std::string_view, 6> kNoCaches = {"site-packages",    "dist-packages", "flashinfer_jit_cache",
                                                       "flashinfer_cubin", "cubins",        "huggingface"};

// File systems that are this host's own. Anything else may be shared, or may hang.
constexpr std::array<std::string_view, 11> kLocal = {"ext2", "ext3", "ext4",  "xfs",     "btrfs",   "zfs",
                                                     "f2fs", "jfs",  "tmpfs", "overlay", "bcachefs"};

template <class List>
bool is_in(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

class CacheKind final : public ActionKind {
 public:
  std::string_view name() const override { return "cache"; }

  std::span<const ParamSpec> params() const override {
    static const std::vector<ParamSpec> kParams = {
        {"path", ParamType::path, true, "the directory: one module, one version, never a whole home"},
        {"owner", ParamType::text, false, "account that it has to belong to"},
        {"units", ParamType::texts, false, "services that use it and that the same fix restarts"},
    };
    return kParams;
  }

  Result<void> check(const Params& params) const override {
    const auto path = text_of(params, "path");
    if (const auto why = wrong_place(path); !why.empty()) return bad(fmt::format("path: '{}' {}", path, why));
    for (const auto& unit : texts_of(params, "units"))
      if (!unit.ends_with(".service") || !is_plain_name(unit))
        return bad(fmt::format("units: '{}' is no name of a service's unit", printable(unit)));
    return {};
  }

  std::string object(const Params& params) const override { return "path " + path(params); }
  std::string path(const Params& params) const override { return text_of(params, "path"); }
  int rank(const Params&) const override { return 70; }

  Script inspect(const Params& params) const override {
    auto words = texts_of(params, "units");
    words.insert(words.begin(), text_of(params, "path"));
    return call("cache_inspect", words);
  }

  Result<Difference> diff(const Params& params, const Inspected& inspected) const override {
    const Seen seen(inspected);
    const auto path = text_of(params, "path"), kind = seen.get("kind");
    if (kind.empty()) return bad("what is at " + path + " is missing in what was inspected");
    Difference difference;
    if (kind == "absent") {
      difference.current = difference.wanted = path + " is not there";
      return difference;
    }
    difference.needed = true;
    difference.current =
        fmt::format("{}, of {}", path, seen.get("account").empty() ? "nobody known" : seen.get("account"));
    difference.wanted = path + " set aside beside itself, until the run is pruned";
    difference.data = seen.get("identity");
    difference.predicted.push_back(RemoveCache{path});
    if (seen.get("real") != path) difference.predicted.push_back(RemoveCache{seen.get("real")});
    difference.refused = refusals(params, seen);
    return difference;
  }

  Script apply(const Params& params, const Difference& change) const override {
    return call("cache_apply", {text_of(params, "path"), identity(change)});
  }
  Script verify(const Params&, const Difference&) const override { return call("cache_verify", {}); }
  Script undo(const Params&, const Difference&) const override {
    return call("cache_undo", {}, std::chrono::minutes(10));
  }
  Script prune(const Params&, const Difference&) const override {
    return call("cache_prune", {}, std::chrono::minutes(10));
  }

 private:
  static std::string identity(const Difference& change) {
    return change.data.is_string() ? change.data.get<std::string>() : std::string();
  }

  static std::string wrong_place(const std::string& path) {
    const auto parts = split(std::string_view(path).substr(1), '/');
    for (const auto part : parts)
      if (is_in(kNoCaches, part)) return fmt::format("lies in {}, which is no JIT cache", part);
    if (parts.size() < 3) return "is too short for a part of a cache";
    if (parts.back() == ".cache") return "is all that programs of an account have cached, not one cache";
    return {};
  }

  static bool is_below_home(const std::string& path, const std::string& home) {
    if (home.size() < 2 || !path.starts_with(home + "/")) return false;
    // Not a directory of the home itself, unless it is a cache by its name.
    return std::count(path.begin() + static_cast<std::ptrdiff_t>(home.size()), path.end(), '/') >= 2;
  }

  static bool has_cache_name(const std::string& path) {
    const auto parts = split(std::string_view(path).substr(1), '/');
    return std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
      return is_in(kCacheNames, part) || part.starts_with("torchinductor_");
    });
  }

  static std::vector<std::string> refusals(const Params& params, const Seen& seen) {
    const auto path = text_of(params, "path"), real = seen.get("real"), account = seen.get("account"),
               owner = text_of(params, "owner"), identity = seen.get("identity"), decided_by = seen.get("decided_by");
    std::vector<std::string> why;
    if (seen.get("kind") == "link") return {fmt::format("{} is a link to {}: name the directory itself", path, real)};
    if (seen.get("kind") != "directory") return {path + " is no directory"};
    if (identity.empty()) return {path + " could not be looked at"};
    if (const auto wrong = wrong_place(real); !wrong.empty()) why.push_back(fmt::format("{} {}", real, wrong));
    if (real == seen.get("home") || !(is_below_home(real, seen.get("home")) || has_cache_name(real)))
      why.push_back(fmt::format("{} is not below the home of {}, and nothing in its name says that it is a JIT cache",
                                real, account.empty() ? "its owner" : account));
    if (seen.has("mount")) why.push_back(real + " is a mount point");
    if (!is_in(kLocal, seen.get("fstype")))
      why.push_back(fmt::format("{} is on a file system of type {}, which may be shared with other hosts", real,
                                seen.get("fstype")));
    const auto uid = identity.substr(identity.rfind(':') + 1);
    if (decided_by == "65534")
      why.push_back(fmt::format("{}: many accounts may write to a directory on the way to it", path));
    else if (decided_by != "0" && decided_by != uid)
      why.push_back(fmt::format("{} belongs to uid {}, and lies where uid {} decides", path, uid, decided_by));
    if (!owner.empty() && owner != account)
      why.push_back(
          fmt::format("{} belongs to {}, expected {}", path, account.empty() ? "uid " + uid : account, owner));
    for (const auto& user : seen.all("user"))
      why.push_back(fmt::format("{} is in use by {}, which this fix does not restart", path, user));
    return why;
  }
};

}  // namespace

std::unique_ptr<ActionKind> make_cache_kind() { return std::make_unique<CacheKind>(); }

}  // namespace trueup
