#include "derive/caches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "derive/resolve.hpp"

namespace trueup {
namespace {

constexpr std::int64_t kLockAge =
    600;  // seconds; builds of one module that take longer hold the lock of a live process

// `<base>/.cache/flashinfer` of a consumer; empty: its home is not known.
std::string flashinfer_base(const Consumer& consumer) {
  const auto moved = variable(consumer.env, "FLASHINFER_WORKSPACE_BASE").value_or("");
  const auto base = moved.empty() ? consumer.home : moved;
  return base.empty() ? "" : clean_path(base) + "/.cache/flashinfer";
}

// Where a consumer's variables put the caches of a kind; none: its home is not known.
std::vector<std::string> bases(const std::string& kind, const Consumer& consumer) {
  const auto home = consumer.home.empty() ? std::string() : clean_path(consumer.home);
  const auto cache = variable(consumer.env, "XDG_CACHE_HOME").value_or(home.empty() ? "" : home + "/.cache");
  const auto moved = [&](const char* name, const std::string& otherwise) {
    const auto value = variable(consumer.env, name).value_or("");
    return value.empty() ? otherwise : clean_path(value);
  };
  const auto below = [](const std::string& base, const char* rest) { return base.empty() ? base : base + rest; };
  const auto vllm = moved("VLLM_CACHE_ROOT", below(cache, "/vllm"));
  if (kind == "flashinfer") return {flashinfer_base(consumer)};
  if (kind == "torch_extensions") return {moved("TORCH_EXTENSIONS_DIR", below(cache, "/torch_extensions"))};
  if (kind == "triton") return {moved("TRITON_CACHE_DIR", below(moved("TRITON_HOME", home), "/.triton/cache"))};
  if (kind == "inductor") return {moved("TORCHINDUCTOR_CACHE_DIR", "/tmp/torchinductor_" + consumer.user)};
  if (kind == "deep_gemm")
    return {moved("DG_JIT_CACHE_DIR", below(home, "/.deep_gemm")),
            moved("SGLANG_DG_CACHE_DIR", below(cache, "/deep_gemm")), below(vllm, "/deep_gemm")};
  if (kind == "tvm_ffi") return {moved("TVM_FFI_CACHE_DIR", below(home, "/.cache/tvm-ffi"))};
  if (kind == "tilelang") return {moved("TILELANG_CACHE_DIR", below(home, "/.tilelang/cache"))};
  if (kind == "vllm") return {below(vllm, "/torch_compile_cache")};
  if (kind == "compute") return {moved("CUDA_CACHE_PATH", below(home, "/.nv/ComputeCache"))};
  return {};
}

bool below(std::string_view path, const std::string& base) {
  return !base.empty() && (path == base || path.starts_with(base + "/"));
}

// `120a`, `90a_120f`: targets as the directory names them.
std::string directory_of(std::vector<std::string> targets) {
  std::sort(targets.begin(), targets.end(),
            [](const std::string& a, const std::string& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  return join(targets, "_");
}

class Judge {
 public:
  Judge(const HostView& host, const Knowledge& knowledge, const std::vector<Claim>& claims,
        const std::vector<Resolution>& resolutions)
      : host_(host), knowledge_(knowledge), claims_(claims), resolutions_(resolutions) {}

  std::vector<CacheVerdict> all() {
    for (const auto& cache : items(host_.environment().caches)) {
      const auto* user = user_of(cache);
      if (user != nullptr) owner(cache, *user);
      if (cache.kind == "flashinfer") flashinfer(cache, user);
      if (cache.kind == "torch_extensions") torch_extensions(cache, user);
      if (cache.kind == "triton" && user != nullptr) triton(cache, *user);
      if (cache.kind == "tvm_ffi" && user != nullptr) sglang(cache, *user);
    }
    return std::move(verdicts_);
  }

 private:
  // Several consumers share an account's caches: whoever has the library comes before who has not.
  const Claim* user_of(const JitCache& cache) const {
    const Claim* other = nullptr;
    const auto library = cache.kind == "tvm_ffi" ? "sglang" : cache.kind;
    for (const auto& claim : claims_) {
      if (claim.consumer.kind == "unclaimed") continue;
      const auto places = bases(cache.kind, claim.consumer);
      if (std::none_of(places.begin(), places.end(), [&](const std::string& base) { return below(cache.path, base); }))
        continue;
      if (resolution_of(&claim, library) != nullptr) return &claim;
      if (other == nullptr) other = &claim;
    }
    return other;
  }

  CacheVerdict& add(const JitCache& cache, const Claim* user, std::string rule, Outcome outcome,
                    std::string explanation) {
    CacheVerdict verdict;
    verdict.path = cache.path;
    verdict.kind = cache.kind;
    if (user != nullptr) {
      verdict.consumer = user->consumer.id;
      verdict.unit = user->consumer.unit;
    }
    verdict.rule = std::move(rule);
    verdict.outcome = outcome;
    verdict.explanation = std::move(explanation);
    verdicts_.push_back(std::move(verdict));
    return verdicts_.back();
  }

  const Resolution* resolution_of(const Claim* user, std::string_view library) const {
    if (user == nullptr) return nullptr;
    const auto found = std::find_if(resolutions_.begin(), resolutions_.end(), [&](const Resolution& each) {
      return each.consumer == user->consumer.id && each.library == library;
    });
    return found == resolutions_.end() ? nullptr : &*found;
  }

  // Whether the modes let the consumer's account write what root owns; absent: they, or its groups, are not known.
  std::optional<bool> may_write(const JitCache& cache, const Consumer& consumer) const {
    if (cache.writable_by == "owner") return false;
    if (cache.writable_by == "all") return true;
    for (const auto& service : items(host_.environment().services))
      if (service.unit == consumer.unit && !service.groups.empty() && !cache.writable_by.empty())
        return std::any_of(service.groups.begin(), service.groups.end(),
                           [&](std::int64_t gid) { return cache.writable_by == fmt::format("group {}", gid); });
    return std::nullopt;
  }

  // Somebody debugged with root's powers: what was built then cannot be replaced by who uses it.
  void owner(const JitCache& cache, const Claim& user) {
    if (cache.owner != "root" || user.consumer.user.empty() || user.consumer.user == "root") return;
    const auto may = may_write(cache, user.consumer);
    if (may == true) return;
    const auto outcome = may ? Outcome::risk : Outcome::unknown;
    const auto told = std::find_if(verdicts_.begin(), verdicts_.end(), [&](const CacheVerdict& each) {
      return each.rule == "cache.any.owner" && each.kind == cache.kind && each.consumer == user.consumer.id &&
             each.outcome == outcome;
    });
    if (told != verdicts_.end()) {
      told->evidence.push_back(fmt::format("{}: owner {}", cache.path, cache.owner));
      return;
    }
    auto& verdict =
        add(cache, &user, "cache.any.owner", outcome,
            may ? fmt::format("root owns it, and {} runs as {}: a build there ends with \"Permission denied\"",
                              user.consumer.id, user.consumer.user)
                : fmt::format("root owns it, and whether {} may write there is not known ({})", user.consumer.user,
                              cache.writable_by.empty() ? "its modes were not told, or there are access lists"
                                                        : "writable by " + cache.writable_by));
    verdict.evidence.push_back(fmt::format("{}: owner {}", cache.path, cache.owner));
  }

  void triton(const JitCache& cache, const Claim& user) {
    const auto* package = user.python == nullptr ? nullptr : user.python->package("triton");
    if (package == nullptr || package->installed == 0 || cache.modified == 0 || cache.modified >= package->installed)
      return;
    auto& verdict = add(cache, &user, "cache.triton.leftover", Outcome::ok,
                        fmt::format("nothing in it is newer than triton {}: its key holds the compiler, so that the "
                                    "entries are leftovers that nothing reads",
                                    package->version));
    verdict.evidence.push_back(fmt::format("{}: last written {}", cache.path, date_text(cache.modified)));
    verdict.evidence.push_back(fmt::format("triton {} in {}: installed {}", package->version, user.python->path,
                                           date_text(package->installed)));
  }

  // A module that exists is loaded without asking ninja; the toolkit is in neither its name nor that question.
  void sglang(const JitCache& cache, const Claim& user) {
    const auto* resolution = resolution_of(&user, "sglang");
    if (resolution == nullptr || !cache.built || !cache.op.starts_with("sgl_kernel_jit_") || cache.cuda_home.empty() ||
        resolution->root.empty())
      return;
    std::string change;
    if (host_.resolved(cache.cuda_home) != host_.resolved(resolution->root))
      change = fmt::format("its toolkit was {}, the service's is {}", cache.cuda_home, resolution->root);
    for (const auto& link : items(host_.environment().cuda_links))
      if (link.path == clean_path(cache.cuda_home) && cache.modified > 0 && link.changed > cache.modified)
        change = fmt::format("{} was pointed to {} on {}", link.path, link.target, date_text(link.changed));
    if (change.empty()) return;
    auto& verdict = add(cache, &user, "cache.sgl.toolkit_unknown", Outcome::risk,
                        fmt::format("SGLang loads this module as it is, whatever toolkit built it: {}", change));
    verdict.evidence.push_back(
        fmt::format("{}: built {} with {}", cache.path, date_text(cache.modified), cache.cuda_home));
  }

  void flashinfer(const JitCache& cache, const Claim* user) {
    if (cache.empty_set_mark && cache.archs.empty())
      add(cache, user, "cache.fi.empty_arch", Outcome::risk,
          fmt::format("some process of {} imported FlashInfer {} with an empty set of target architectures{}",
                      cache.owner, cache.version, cache.modified > 0 ? ", last on " + date_text(cache.modified) : ""));
    const auto* resolution = resolution_of(user, "flashinfer");
    if (resolution == nullptr) return;
    if (cache.version.empty() || cache.version == resolution->library_version) {
      baked_toolkit(cache, *user, *resolution);
      symlink_drift(cache, *user, *resolution);
      arch_mismatch(cache, *user, *resolution);
      foreign_cudart(cache, *user, *resolution);
    }
    foreign_env(cache, *user, *resolution);
  }

  const FlashInferCache* rule_of(const std::string& version) const {
    const auto parsed = Version::parse(version);
    return parsed ? knowledge_.flashinfer_cache_of(*parsed).row : nullptr;
  }

  void baked_toolkit(const JitCache& cache, const Claim& user, const Resolution& resolution) {
    const auto* rule = rule_of(resolution.library_version);
    if (rule == nullptr || rule->rewrites || cache.cuda_home.empty() || resolution.root.empty()) return;
    if (clean_path(cache.cuda_home) == clean_path(resolution.root)) return;
    if (host_.resolved(cache.cuda_home) == host_.resolved(resolution.root)) return;  // one toolkit under two names
    auto& verdict = add(
        cache, &user, "cache.fi.baked_toolkit", Outcome::risk,
        fmt::format("FlashInfer {} never writes an existing build.ninja again: this module would still be built with "
                    "{}, not with {}",
                    resolution.library_version, cache.cuda_home, resolution.root));
    verdict.evidence.push_back(fmt::format("{}/build.ninja: cuda_home = {}", cache.path, cache.cuda_home));
    verdict.evidence.push_back(fmt::format("the consumer's toolkit now: {} ({})", resolution.root, resolution.rule));
    verdict.evidence.push_back(fmt::format("FlashInfer {}: {}", rule->versions.text(), rule->source));
  }

  void symlink_drift(const JitCache& cache, const Claim& user, const Resolution& resolution) {
    if (!cache.built || cache.modified == 0 || cache.cuda_home.empty()) return;
    for (const auto& link : items(host_.environment().cuda_links)) {
      if (link.path != clean_path(cache.cuda_home) || link.changed <= cache.modified) continue;
      auto& verdict = add(cache, &user, "cache.fi.symlink_drift", Outcome::risk,
                          fmt::format("{} was pointed to {} after this module was built: ninja does not see the change",
                                      link.path, link.target));
      verdict.evidence.push_back(fmt::format("{}: built {}", cache.path, date_text(cache.modified)));
      verdict.evidence.push_back(fmt::format("{} -> {}: changed {}", link.path, link.target, date_text(link.changed)));
      verdict.evidence.push_back(fmt::format("the consumer's toolkit now: {}", resolution.root_resolved));
    }
  }

  void arch_mismatch(const JitCache& cache, const Claim& user, const Resolution& resolution) {
    if (cache.archs.empty() || resolution.targets.empty() || cache.archs == directory_of(resolution.targets)) return;
    add(cache, &user, "cache.fi.arch_mismatch", Outcome::ok,
        fmt::format("built for {}, which this consumer no longer uses (now {}): a leftover", cache.archs,
                    directory_of(resolution.targets)));
  }

  void foreign_cudart(const JitCache& cache, const Claim& user, const Resolution& resolution) {
    static constexpr std::string_view kRuntime = "libcudart.so.";
    if (!resolution.torch_cuda || user.python == nullptr) return;
    for (const auto& needed : cache.needed) {
      const auto major = needed.starts_with(kRuntime) ? Version::parse(needed.substr(kRuntime.size()))
                                                      : fail(ErrorKind::not_found, "");
      if (!major || major->major() == resolution.torch_cuda->major()) continue;
      const auto objection = driver_objection({host_, knowledge_, user.consumer, *user.python}, *major);
      const auto outcome = !objection.unknown.empty() ? Outcome::unknown
                           : objection.value.empty()  ? Outcome::risk
                                                      : Outcome::broken;
      auto& verdict =
          add(cache, &user, "cache.fi.foreign_cudart", outcome,
              fmt::format("the module is linked to {}, and the torch of {} is built for CUDA {}: it brings the runtime "
                          "of another stack into the process{}",
                          needed, resolution.python_env, resolution.torch_cuda->text(),
                          outcome == Outcome::broken ? ", which the driver does not know" : ""));
      verdict.evidence.push_back(fmt::format("{}: NEEDED {}", cache.path, needed));
      verdict.evidence.push_back(
          fmt::format("torch.version.cuda of {} is {}", resolution.python_env, resolution.torch_cuda->text()));
      if (!objection.value.empty()) verdict.evidence.push_back(objection.value);
      if (!objection.unknown.empty()) verdict.evidence.push_back(objection.unknown);
      if (resolution.compiler_version)
        verdict.evidence.push_back(fmt::format(
            "the service's compiler is CUDA {} ({}): what it builds next is linked to "
            "libcudart.so.{}",
            resolution.compiler_version->text(), resolution.rule_detail, resolution.compiler_version->major()));
    }
  }

  void foreign_env(const JitCache& cache, const Claim& user, const Resolution& resolution) {
    const auto* rule = rule_of(resolution.library_version);
    if (rule == nullptr || rule->rewrites || cache.python_env.empty() || cache.python_env == resolution.python_env)
      return;
    if (!cache.version.empty() && cache.version != resolution.library_version) return;
    for (const auto& python : items(host_.environment().python_envs)) {
      const auto* package = python.path == cache.python_env ? python.package("flashinfer-python") : nullptr;
      if (package == nullptr || package->version != resolution.library_version) continue;
      auto& verdict =
          add(cache, &user, "cache.fi.foreign_env", Outcome::risk,
              fmt::format(
                  "the module was built by {} and is loaded as it is by {}: the cache tells FlashInfer {} and targets "
                  "apart, not Python or torch",
                  cache.python_env, resolution.python_env, resolution.library_version));
      verdict.evidence.push_back(fmt::format("{}/build.ninja names {}", cache.path, cache.python_env));
      verdict.evidence.push_back(fmt::format("{} runs {}", user.consumer.id, resolution.python_env));
      verdict.evidence.push_back(fmt::format("both hold FlashInfer {}", resolution.library_version));
    }
  }

  // The lock is a file whose existence locks: one that a killed process left makes each later start wait for ever.
  void torch_extensions(const JitCache& cache, const Claim* user) {
    if (!cache.locked) return;
    if (!host_.environment().host.is_known() || cache.modified == 0) {
      add(cache, user, "cache.torch.stale_lock", Outcome::unknown, "the age of the lock cannot be told");
      return;
    }
    const auto age = host_.environment().host->clock - cache.modified;
    if (age < kLockAge) return;
    const bool lives = std::any_of(claims_.begin(), claims_.end(), [&](const Claim& claim) {
      return claim.consumer.env_source == "process" && claim.consumer.user == cache.owner;
    });
    auto& verdict = add(cache, user, "cache.torch.stale_lock", lives ? Outcome::risk : Outcome::broken,
                        fmt::format("a lock of {} minutes{}: the next start waits for it without end", age / 60,
                                    lives ? "" : ", and no process of its owner runs"));
    verdict.evidence.push_back(
        fmt::format("{}/lock, owner {}, newest file of {}", cache.path, cache.owner, date_text(cache.modified)));
  }

  const HostView& host_;
  const Knowledge& knowledge_;
  const std::vector<Claim>& claims_;
  const std::vector<Resolution>& resolutions_;
  std::vector<CacheVerdict> verdicts_;
};

}  // namespace

std::vector<CacheVerdict> judge_caches(const HostView& host, const Knowledge& knowledge,
                                       const std::vector<Claim>& claims, const std::vector<Resolution>& resolutions) {
  return Judge(host, knowledge, claims, resolutions).all();
}

}  // namespace trueup
