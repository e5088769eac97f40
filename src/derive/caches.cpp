#include "derive/caches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/text.hpp"
#include "derive/cache_places.hpp"
#include "derive/consumers.hpp"
#include "derive/resolve.hpp"

namespace trueup {
namespace {

constexpr std::int64_t kLockAge =
    600;  // seconds; builds of one module that take longer hold the lock of a live process

constexpr std::string_view kRuntime = "libcudart.so.";
constexpr std::string_view kSglangModule = "sgl_kernel_jit_";

// Caches whose keys hold all that decides about an entry: what changes makes new ones, so that none is ever stale. What
// is not in Triton's key are the host compiler and libcuda of its launcher stubs, which no release is known to care
// about.
struct Keyed {
  std::string_view kind;
  std::vector<std::string> packages;  ///< one of them brings the library
  std::string_view keys;
};
const Keyed kKeyed[] = {
    {"triton", {"triton"}, "the kernel's source, the compiler, the assembler and the target"},
    {"inductor", {"torch"}, "the graph, its settings, the GPU, and torch's and Triton's own sources"},
    {"vllm", {"vllm"}, "vLLM's settings and torch's, and the sources that were traced"},
    {"deep_gemm", {"deep-gemm", "sgl-deep-gemm"}, "the compiler with its version, its flags, and the sources"},
    {"compute", {}, "the PTX, the options, the driver's version and the GPU"},
};

// `120a`, `90a_120f`: targets as the directory names them.
std::string directory_of(std::vector<std::string> targets) {
  std::sort(targets.begin(), targets.end(),
            [](const std::string& a, const std::string& b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
  return join(targets, "_");
}

// As the resolutions name the library whose cache it is. Whoever runs torch has Inductor and the driver's cache.
std::string_view library_of(const JitCache& cache) {
  if (cache.kind == "tvm_ffi") return cache.op.starts_with(kSglangModule) ? "sglang" : "tvm_ffi";
  if (cache.kind == "inductor" || cache.kind == "compute") return "torch";
  return cache.kind;
}

// `py312_cu130` of <place>/py312_cu130/<name>; empty where TORCH_EXTENSIONS_DIR is the place, which has no such part.
std::string_view tag_of(std::string_view path, const std::string& place) {
  path.remove_prefix(std::min(path.size(), place.size() + 1));
  const auto slash = path.find('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

// Whether torch of that environment would name its directory so; nothing: that is not known.
std::optional<bool> is_tag_of(std::string_view tag, const PythonEnv& python) {
  if (python.python.empty() || !python.torch_cuda) return std::nullopt;
  const auto digits = [](std::string text) {
    std::erase(text, '.');
    return text;
  };
  const auto begin = "py" + digits(python.python);
  const auto cuda = torch_cuda(python);
  const auto end = *python.torch_cuda == "none" ? std::string("_cpu")
                   : cuda                       ? "_cu" + digits(cuda->major_minor().text())
                                                : std::string();
  if (end.empty()) return std::nullopt;
  // Between them may stand the flags of a build of Python: `py313t_cu130`.
  return tag.starts_with(begin) && tag.ends_with(end) && tag.size() <= begin.size() + end.size() + 1;
}

class Judge {
 public:
  Judge(const HostView& host, const Knowledge& knowledge, const std::vector<Claim>& claims,
        const std::vector<Resolution>& resolutions)
      : host_(host), knowledge_(knowledge), claims_(claims), resolutions_(resolutions) {}

  std::vector<CacheVerdict> all() {
    for (const auto& cache : items(host_.environment().caches)) {
      const auto users = users_of(cache);
      const auto* user = users.empty() ? nullptr : users.front();
      if (user != nullptr) owner(cache, *user);
      if (cache.kind == "flashinfer") flashinfer(cache, user);
      if (cache.kind == "torch_extensions") torch_extensions(cache, users);
      if (user == nullptr) continue;
      keyed(cache, users);
      newer_than_driver(cache, *user);
      if (cache.kind == "tvm_ffi") tvm_ffi(cache, *user);
      if (cache.kind == "tilelang") tilelang(cache, *user);
      if (cache.kind == "compute") compute(cache, *user);
    }
    return std::move(verdicts_);
  }

 private:
  // Several consumers share an account's caches: whoever has the library comes before who has not.
  std::vector<const Claim*> users_of(const JitCache& cache) {
    std::vector<const Claim*> users, others;
    for (const auto& claim : claims_) {
      if (claim.consumer.kind == "unclaimed" || place(cache, claim).empty()) continue;
      (resolution_of(&claim, library_of(cache)) != nullptr ? users : others).push_back(&claim);
    }
    users.insert(users.end(), others.begin(), others.end());
    return users;
  }

  // The place of that consumer in which the cache lies; empty: none.
  std::string place(const JitCache& cache, const Claim& claim) {
    auto [known, is_new] = places_.try_emplace({&claim, cache.kind});
    if (is_new) known->second = cache_places(cache.kind, claim.consumer);
    return place_of(cache.path, known->second);
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
      if (consumer_id(service) == consumer.id && !service.groups.empty() && !cache.writable_by.empty())
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

  void keyed(const JitCache& cache, const std::vector<const Claim*>& users) {
    const auto* row = std::find_if(std::begin(kKeyed), std::end(kKeyed),
                                   [&](const Keyed& each) { return each.kind == cache.kind; });
    if (row == std::end(kKeyed)) return;
    const PythonPackage* newest = nullptr;
    const PythonEnv* its_env = nullptr;
    bool older_than_all = cache.modified > 0;
    for (const auto* user : users)
      for (const auto& name : row->packages)
        if (const auto* package = user->python == nullptr ? nullptr : user->python->package(name); package != nullptr) {
          older_than_all &= package->installed > cache.modified;
          if (newest != nullptr && newest->installed >= package->installed) continue;
          newest = package;
          its_env = user->python;
        }
    const auto& user = *users.front();
    if (newest == nullptr || !older_than_all) {
      add(cache, &user, fmt::format("cache.{}.keyed", cache.kind), Outcome::ok,
          fmt::format("its keys hold {}: nothing in it can be stale", row->keys));
      return;
    }
    auto& verdict = add(
        cache, &user, fmt::format("cache.{}.leftover", cache.kind), Outcome::ok,
        fmt::format("nothing in it is newer than {} {}, and its keys hold {}: the entries are leftovers that nothing "
                    "reads",
                    newest->name, newest->version, row->keys));
    verdict.evidence.push_back(fmt::format("{}: last written {}", cache.path, date_text(cache.modified)));
    verdict.evidence.push_back(fmt::format("{} {} in {}: installed {}", newest->name, newest->version, its_env->path,
                                           date_text(newest->installed)));
  }

  // Kernels name the release of the assembler that made them.
  void newer_than_driver(const JitCache& cache, const Claim& user) {
    if (user.python == nullptr) return;
    const auto* resolution = resolution_of(&user, library_of(cache));
    for (const auto& text : cache.built_by) {
      const auto release = Version::parse(text);
      if (!release) continue;
      const auto objection = driver_objection({host_, knowledge_, user.consumer, *user.python}, *release);
      if (!objection.unknown.empty() || objection.value.empty()) continue;
      const bool goes_on = resolution != nullptr && resolution->compiler_version &&
                           resolution->compiler_version->major() == release->major();
      auto& verdict = add(cache, &user, "cache.any.newer_than_driver", goes_on ? Outcome::risk : Outcome::ok,
                          fmt::format("holds kernels that CUDA {} made, which the driver does not load{}", text,
                                      goes_on ? ", and its user's compiler makes more of them"
                                              : "; another compiler is used now, which does not read them"));
      verdict.evidence.push_back(fmt::format("{}: made by CUDA {}", cache.path, join(cache.built_by, ", ")));
      verdict.evidence.push_back(objection.value);
      return;
    }
  }

  // Plain tvm-ffi writes its build file anew and lets ninja see what changed. A module of SGLang that exists is loaded
  // without asking ninja: the toolkit is in neither its name nor that question, and in older releases neither is the
  // target.
  void tvm_ffi(const JitCache& cache, const Claim& user) {
    if (!cache.op.starts_with(kSglangModule)) {
      const auto* plain = resolution_of(&user, "tvm_ffi");
      link_moved(cache, user, plain != nullptr ? plain : resolution_of(&user, "sglang"), "tvm", true);
      return;
    }
    const auto* resolution = resolution_of(&user, "sglang");
    if (resolution == nullptr || !cache.built) return;
    foreign_cudart(cache, user, *resolution, "sgl");
    if (cache.archs.empty())
      foreign_target(cache, user, *resolution);
    else
      arch_mismatch(cache, user, *resolution, "sgl");
    toolkit_changed(cache, user, *resolution);
  }

  void toolkit_changed(const JitCache& cache, const Claim& user, const Resolution& resolution) {
    if (cache.cuda_home.empty() || resolution.root.empty()) return;
    std::string change;
    if (host_.resolved(cache.cuda_home) != host_.resolved(resolution.root))
      change = fmt::format("its toolkit was {}, the service's is {}", cache.cuda_home, resolution.root);
    if (const auto* link = moved_since(cache.cuda_home, cache.modified))
      change = fmt::format("{} was pointed to {} on {}", link->path, link->target, date_text(link->changed));
    if (change.empty()) return;
    auto& verdict = add(cache, &user, "cache.sgl.toolkit_unknown", Outcome::risk,
                        fmt::format("SGLang loads this module as it is, whatever toolkit built it: {}", change));
    verdict.evidence.push_back(
        fmt::format("{}: built {} with {}", cache.path, date_text(cache.modified), cache.cuda_home));
  }

  // The name of the module says nothing of the target, and the build file does.
  void foreign_target(const JitCache& cache, const Claim& user, const Resolution& resolution) {
    if (cache.targets.empty() || resolution.gpus_cc.empty()) return;
    for (const auto& compute_cap : resolution.gpus_cc)
      for (const auto& target : cache.targets) {
        const auto* row = knowledge_.gpu_target(std::string_view(target).substr(target.find('_') + 1));
        if (row == nullptr || row->runs(Version::of(compute_cap))) return;
      }
    auto& verdict =
        add(cache, &user, "cache.sgl.foreign_target", Outcome::broken,
            fmt::format("SGLang loads this module as it is, and it is built for {}: code that no GPU of compute "
                        "capability {} runs",
                        join(cache.targets, " "), join(resolution.gpus_cc, ", ")));
    verdict.evidence.push_back(fmt::format("{}/build.ninja: {}", cache.path, join(cache.targets, " ")));
    verdict.evidence.push_back(fmt::format("{} sees compute capability {}", user.consumer.id,
                                           join(resolution.gpus_cc, ", ")));
  }

  // The toolkit is not in tilelang's key either; the release of tilelang is, as a directory.
  void tilelang(const JitCache& cache, const Claim& user) {
    const auto* resolution = resolution_of(&user, "tilelang");
    if (resolution == nullptr || resolution->library_version.empty()) return;
    if (!cache.version.empty() && cache.version != resolution->library_version) {
      add(cache, &user, "cache.tilelang.version_mismatch", Outcome::ok,
          fmt::format("built by tilelang {}, and {} has {}: a leftover", cache.version, resolution->python_env,
                      resolution->library_version));
      return;
    }
    const auto* link = moved_since(resolution->root, cache.modified);
    if (link == nullptr) return;
    auto& verdict = add(cache, &user, "cache.tilelang.toolkit_unknown", Outcome::risk,
                        fmt::format("tilelang loads these kernels as they are, whatever toolkit built them: {} was "
                                    "pointed to {} on {}",
                                    link->path, link->target, date_text(link->changed)));
    verdict.evidence.push_back(fmt::format("{}: last written {}", cache.path, date_text(cache.modified)));
  }

  // The driver drops entries to stay below the limit, and translates them again at each start.
  void compute(const JitCache& cache, const Claim& user) {
    const auto text = variable(user.consumer.env, "CUDA_CACHE_MAXSIZE").value_or("");
    std::uint64_t limit = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
    if (error != std::errc() || end != text.data() + text.size() || cache.size_bytes < limit / 20 * 19) return;
    auto& verdict = add(cache, &user, "cache.compute.full", Outcome::risk,
                        fmt::format("it has reached its limit (CUDA_CACHE_MAXSIZE={}): what the driver drops it "
                                    "translates again at the next start",
                                    text));
    verdict.evidence.push_back(fmt::format("{}: {} bytes", cache.path, cache.size_bytes));
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
      const auto* rule = rule_of(resolution->library_version);
      link_moved(cache, *user, resolution, "fi", rule != nullptr && rule->rewrites);
      arch_mismatch(cache, *user, *resolution, "fi");
      foreign_cudart(cache, *user, *resolution, "fi");
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

  // The link that `path` names, where it was moved after `time`.
  const CudaLink* moved_since(const std::string& path, std::int64_t time) const {
    if (time == 0) return nullptr;
    for (const auto& link : items(host_.environment().cuda_links))
      if (link.path == clean_path(path) && link.changed > time) return &link;
    return nullptr;
  }

  // ninja compares commands and times: one that names the toolkit by a link stays the same when that is moved. Where
  // the build file is written anew (`rewritten`), another root of the consumer is another command.
  void link_moved(const JitCache& cache, const Claim& user, const Resolution* resolution, std::string_view library,
                  bool rewritten) {
    if (resolution == nullptr || !cache.built || cache.cuda_home.empty()) return;
    if (rewritten && clean_path(resolution->root) != clean_path(cache.cuda_home)) return;
    const auto* link = moved_since(cache.cuda_home, cache.modified);
    if (link == nullptr) return;
    auto& verdict = add(cache, &user, fmt::format("cache.{}.symlink_drift", library), Outcome::risk,
                        fmt::format("{} was pointed to {} after this module was built: ninja does not see the change",
                                    link->path, link->target));
    verdict.evidence.push_back(fmt::format("{}: built {}", cache.path, date_text(cache.modified)));
    verdict.evidence.push_back(fmt::format("{} -> {}: changed {}", link->path, link->target, date_text(link->changed)));
    verdict.evidence.push_back(fmt::format("the consumer's toolkit now: {}", resolution->root_resolved));
  }

  void arch_mismatch(const JitCache& cache, const Claim& user, const Resolution& resolution, std::string_view library) {
    if (cache.archs.empty() || resolution.targets.empty() || cache.archs == directory_of(resolution.targets)) return;
    add(cache, &user, fmt::format("cache.{}.arch_mismatch", library), Outcome::ok,
        fmt::format("built for {}, which this consumer no longer uses (now {}): a leftover", cache.archs,
                    directory_of(resolution.targets)));
  }

  void foreign_cudart(const JitCache& cache, const Claim& user, const Resolution& resolution,
                      std::string_view library) {
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
          add(cache, &user, fmt::format("cache.{}.foreign_cudart", library), outcome,
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

  void torch_extensions(const JitCache& cache, const std::vector<const Claim*>& users) {
    stale_lock(cache, users.empty() ? nullptr : users.front());
    const Claim* user = nullptr;
    const Claim* stranger = nullptr;
    for (const auto* each : users) {
      if (resolution_of(each, "torch_extensions") == nullptr) continue;
      const auto tag = tag_of(cache.path, place(cache, *each));
      const auto is_its = each->python == nullptr ? std::nullopt
                          : tag.empty()           ? std::optional(true)
                                                  : is_tag_of(tag, *each->python);
      if (!is_its) return;  // whose it is cannot be told
      if (user == nullptr && *is_its) user = each;
      if (stranger == nullptr && !*is_its) stranger = each;
    }
    if (user == nullptr) {
      if (stranger != nullptr && cache.built && !cache.locked)
        add(cache, stranger, "cache.torch.tag_mismatch", Outcome::ok,
            "built for another Python or another CUDA of torch than any consumer of this account has: a leftover");
      return;
    }
    const auto& resolution = *resolution_of(user, "torch_extensions");
    link_moved(cache, *user, &resolution, "torch", true);
    foreign_cudart(cache, *user, resolution, "torch");
    shared(cache, *user, users);
  }

  // In a directory that TORCH_EXTENSIONS_DIR names, environments are not kept apart.
  void shared(const JitCache& cache, const Claim& user, const std::vector<const Claim*>& users) {
    if (!tag_of(cache.path, place(cache, user)).empty() || cache.python_env.empty()) return;
    const auto end = users.end();
    const auto builds = [&](const Claim* each) { return each->consumer.python_env == cache.python_env; };
    const auto builder = std::find_if(users.begin(), end, builds);
    const auto other = std::find_if(users.begin(), end, [&](const Claim* each) {
      return !builds(each) && resolution_of(each, "torch_extensions") != nullptr;
    });
    if (builder == end || other == end) return;
    auto& verdict =
        add(cache, *other, "cache.torch.shared", Outcome::risk,
            fmt::format("{} and {} build {} in one directory: each makes anew what the other built, or takes "
                        "it while it is written",
                        cache.python_env, (*other)->consumer.python_env, cache.op));
    verdict.evidence.push_back(fmt::format("{}/build.ninja names {}", cache.path, cache.python_env));
    verdict.evidence.push_back(
        fmt::format("TORCH_EXTENSIONS_DIR of {} and {}", (*builder)->consumer.id, (*other)->consumer.id));
  }

  // The lock is a file whose existence locks: one that a killed process left makes each later start wait for ever.
  // Locks of the other libraries are held with flock(2) and end with their process: what is left of them means nothing.
  void stale_lock(const JitCache& cache, const Claim* user) {
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
  std::map<std::pair<const Claim*, std::string>, std::vector<std::string>> places_;  ///< by consumer and kind
  std::vector<CacheVerdict> verdicts_;
};

}  // namespace

std::vector<CacheVerdict> judge_caches(const HostView& host, const Knowledge& knowledge,
                                       const std::vector<Claim>& claims, const std::vector<Resolution>& resolutions) {
  return Judge(host, knowledge, claims, resolutions).all();
}

}  // namespace trueup
