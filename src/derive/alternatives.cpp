#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "derive/host_view.hpp"
#include "derive/knowledge.hpp"
#include "derive/what_if.hpp"
#include "trueup/derived.hpp"

// What people try where a library is broken, each made to the model and derived again.

namespace trueup {
namespace {

std::string name_of(const Version& version) { return version.major_minor().text(); }

// A whole toolkit as NVIDIA's packages install it beside others.
Toolkit installed_beside(const Version& version) {
  Toolkit toolkit;
  toolkit.path = fmt::format("/usr/local/cuda-{}", name_of(version));
  toolkit.kind = "local";
  toolkit.version = version.major_minor();
  toolkit.version_source = "nvcc";
  toolkit.has_nvcc = toolkit.nvcc_executable = true;
  return toolkit;
}

bool is_usable(Outcome outcome) { return outcome == Outcome::ok || outcome == Outcome::risk; }

bool is_same(const Resolution& a, const Resolution& b) { return a.consumer == b.consumer && a.library == b.library; }

const Resolution* find_like(const std::vector<Resolution>& resolutions, const Resolution& wanted) {
  const auto found = std::find_if(resolutions.begin(), resolutions.end(),
                                  [&](const Resolution& each) { return is_same(each, wanted); });
  return found == resolutions.end() ? nullptr : &*found;
}

// `sglang.service` of `unit sglang.service`; others keep their kind.
std::string short_name(const std::string& consumer) {
  return consumer.starts_with("unit ") ? consumer.substr(5) : consumer;
}

// What is to be said of a change beside what becomes of the library, and how good it can be at best.
struct Terms {
  Judgement best = Judgement::proper;
  std::string but = {};
  bool tried = false;  // people try it, so that it is worth a line even where it changes nothing
};

class Judge {
 public:
  Judge(const Environment& environment, const std::vector<DeclaredConsumer>& declared, const Knowledge& knowledge,
        const Derived& before, const Resolution& fault)
      : environment_(environment),
        declared_(declared),
        knowledge_(knowledge),
        before_(before),
        fault_(fault),
        name_(short_name(fault.consumer)) {
    for (const auto& consumer : before.consumers)
      if (consumer.id == fault.consumer) env_ = consumer.env;
  }

  std::vector<Alternative> all() {
    if (fault_.library == "torch") {
      another_torch();
      another_driver();
    } else if (fault_.library == "triton") {
      another_assembler();
      another_driver();
    } else {
      another_toolkit();
      lists();
      if (fault_.gate && !fault_.dropped.empty())
        consider("FlashInfer's version gate patched out of its source", {RemoveGate{fault_.python_env}},
                 {Judgement::stop_gap, "the next upgrade of the package brings it back", true});
      moved_link();
      ninja();
    }
    emptied_cache();
    std::stable_sort(judged_.begin(), judged_.end(),
                     [](const Alternative& a, const Alternative& b) { return a.verdict > b.verdict; });
    return std::move(judged_);
  }

  /// What the consumer's next start brings; empty: nobody knows how it starts.
  std::string next_start() const {
    if (fault_.consumer.starts_with("process ")) return {};
    if (fault_.consumer.starts_with("user unit "))
      return "cannot be foretold: what the unit of a user's own systemd would start with was not read";
    const auto after = fault_.unit.empty() ? before_ : after_changes({Restart{fault_.unit}});
    const auto* next = find_like(after.resolutions, fault_);
    if (next == nullptr) return {};
    const auto differences = fault_.env_source == "process" ? variables_that_change(after) : std::string();
    const auto begins =
        differences.empty() ? std::string() : fmt::format("starts with other variables ({}) and ", differences);
    if (next->outcome == Outcome::unknown) return fmt::format("{}cannot be foretold: {}", begins, next->explanation);
    if (next->outcome == Outcome::broken && next->explanation == fault_.explanation)
      return begins + "meets the same: nothing that has a part in it will have changed";
    if (next->outcome == Outcome::broken)
      return fmt::format("{}meets {}: {}", begins, next->reason == fault_.reason ? "the same" : "another fault",
                         next->explanation);
    return fmt::format("{}works{}: {}", begins, next->outcome == Outcome::risk ? ", with a catch" : "",
                       next->explanation);
  }

 private:
  Derived after_changes(const std::vector<Change>& changes) const {
    auto environment = environment_;
    auto declared = declared_;
    for (const auto& change : changes) {
      environment = with_change(std::move(environment), change);
      declared = with_change(std::move(declared), change);
    }
    return derive(environment, declared, knowledge_);
  }

  std::string variables_that_change(const Derived& after) const {
    std::vector<std::string> changed;
    for (const auto& consumer : after.consumers) {
      if (consumer.id != fault_.consumer) continue;
      auto names = consumer.env;
      names.insert(env_.begin(), env_.end());
      for (const auto& [name, value] : names) {
        const auto now = variable(env_, name), then = variable(consumer.env, name);
        if (now != then)
          changed.push_back(
              fmt::format("{} {}, now {}", name, then ? "= " + *then : "not set", now ? *now : "not set"));
      }
    }
    return join(changed, "; ");
  }

  /// What else ends up worse: the first library that worked and would not.
  const Resolution* harmed_by(const Derived& after) const {
    for (const auto& each : after.resolutions) {
      const auto* before = find_like(before_.resolutions, each);
      if (!is_same(each, fault_) && each.outcome == Outcome::broken && before != nullptr && is_usable(before->outcome))
        return &each;
    }
    return nullptr;
  }

  /// Caches that the change makes wrong: to be cleared with it.
  std::vector<const CacheVerdict*> stale_after(const Derived& after) const {
    std::vector<const CacheVerdict*> stale;
    for (const auto& verdict : after.caches) {
      const bool was_so = std::any_of(before_.caches.begin(), before_.caches.end(), [&](const CacheVerdict& each) {
        return each.path == verdict.path && each.rule == verdict.rule;
      });
      if (verdict.consumer == fault_.consumer && !was_so && verdict.outcome != Outcome::ok) stale.push_back(&verdict);
    }
    return stale;
  }

  /// Whether a fix may lead the consumer to it: it belongs to the system, or to the consumer's own environment. What
  /// other processes name, or other users installed, is theirs.
  bool may_be_used(const Toolkit& toolkit) const {
    if (toolkit.unknown.contains("version")) return false;
    if (toolkit.kind == "local" || toolkit.kind == "distribution" || toolkit.kind == "hpc_sdk") return true;
    return !fault_.python_env.empty() && toolkit.path.starts_with(fault_.python_env + "/");
  }

  /// The changes as a fix can make them; nothing where it cannot make all of them.
  void spell_out(const std::vector<Change>& changes, Alternative& alternative) const {
    auto spelt = alternative;
    for (const auto& change : changes) {
      const Toolkit* used = nullptr;
      if (const auto* added = std::get_if<AddToolkit>(&change)) {
        used = &added->toolkit;
      } else if (const auto* variable = std::get_if<SetVariable>(&change)) {
        if (variable->value)
          spelt.set[variable->name] = *variable->value;
        else
          spelt.unset.push_back(variable->name);
        for (const auto& toolkit : items(environment_.toolkits))
          if (variable->name == "CUDA_HOME" && toolkit.path == variable->value) used = &toolkit;
      } else if (const auto* removed = std::get_if<RemoveCache>(&change)) {
        spelt.caches.push_back(removed->path);
      } else {
        return;
      }
      if (used == nullptr) continue;
      if (!may_be_used(*used)) return;
      spelt.toolkit = used->path;
      const auto& there = items(environment_.toolkits);
      if (std::none_of(there.begin(), there.end(), [&](const Toolkit& each) { return each.path == used->path; }))
        spelt.cuda = name_of(*used->version);
    }
    alternative = std::move(spelt);
  }

  bool consider(std::string change, const std::vector<Change>& changes, Terms terms = {}) {
    const auto after = after_changes(changes);
    const auto* now = find_like(after.resolutions, fault_);
    // What cannot be told is no advice.
    if (now == nullptr || now->outcome == Outcome::unknown) return false;
    Alternative alternative{std::move(change), Judgement::rejected, now->explanation};
    spell_out(changes, alternative);
    if (now->outcome == Outcome::broken) {
      const bool has_no_bearing = now->explanation == fault_.explanation;
      if (has_no_bearing && !terms.tried) return false;
      if (has_no_bearing) alternative.why = "changes nothing: what it changes has no part in this";
    } else if (const auto* harmed = harmed_by(after)) {
      alternative.why = fmt::format("cures this and breaks {} of {}: {}", harmed->library, short_name(harmed->consumer),
                                    harmed->explanation);
    } else {
      alternative.verdict = std::min(terms.best, now->outcome == Outcome::ok ? Judgement::proper : Judgement::stop_gap);
      if (!terms.but.empty()) alternative.why += "; " + terms.but;
      const auto stale = stale_after(after);
      if (!stale.empty())
        alternative.why += fmt::format(". Clear {} with it: {}", stale.front()->path, stale.front()->explanation);
      for (const auto* verdict : stale)
        if (std::find(alternative.caches.begin(), alternative.caches.end(), verdict->path) == alternative.caches.end())
          alternative.caches.push_back(verdict->path);
    }
    judged_.push_back(std::move(alternative));
    return judged_.back().verdict == Judgement::proper;
  }

  /// What could be installed beside: torch's own version, what a gate or a target demands, the newest that the driver
  /// runs.
  std::vector<Toolkit> installable() const {
    std::vector<Version> versions;
    if (fault_.torch_cuda) versions.push_back(*fault_.torch_cuda);
    if (fault_.gate) versions.push_back(*fault_.gate);
    for (const auto& target : fault_.targets)
      if (const auto* row = knowledge_.gpu_target(target.substr(0, target.find('+'))))
        versions.push_back(row->min_nvcc);
    if (const auto driver = HostView(environment_, knowledge_).driver(); driver.unknown.empty())
      if (const auto most = knowledge_.driver_max_cuda(driver.value)) versions.push_back(*most);
    std::set<std::string> known;
    for (const auto& toolkit : items(environment_.toolkits))
      if (toolkit.version && toolkit.has_nvcc) known.insert(name_of(*toolkit.version));
    std::vector<Toolkit> toolkits;
    for (const auto& version : versions)
      if (known.insert(name_of(version)).second) toolkits.push_back(installed_beside(version));
    return toolkits;
  }

  Terms terms_of(const Toolkit& toolkit) const {
    if (!toolkit.version || !fault_.torch_cuda || toolkit.version->major() == fault_.torch_cuda->major()) return {};
    return {Judgement::stop_gap,
            fmt::format("torch is built for CUDA {}, so that libraries of two CUDA majors meet in one process",
                        fault_.torch_cuda->text()),
            false};
  }

  void another_toolkit() {
    const auto pin = [&](const Toolkit& toolkit) { return SetVariable{fault_.consumer, "CUDA_HOME", toolkit.path}; };
    if (variable(env_, "CUDA_HOME"))
      consider("CUDA_HOME taken out of " + name_, {SetVariable{fault_.consumer, "CUDA_HOME", {}}});
    for (const auto& toolkit : items(environment_.toolkits)) {
      if (!toolkit.has_nvcc || toolkit.path == fault_.root_resolved) continue;
      if (consider(fmt::format("CUDA_HOME={} in {}", toolkit.path, name_), {pin(toolkit)}, terms_of(toolkit)))
        better_.push_back(toolkit);
    }
    for (const auto& toolkit : installable())
      if (consider(
              fmt::format("CUDA {} installed beside, CUDA_HOME={} in {}", toolkit.version->text(), toolkit.path, name_),
              {AddToolkit{toolkit}, pin(toolkit)}, terms_of(toolkit)))
        better_.push_back(toolkit);
  }

  void lists() {
    for (const auto* name : {"FLASHINFER_CUDA_ARCH_LIST", "TORCH_CUDA_ARCH_LIST"})
      if (variable(env_, name))
        consider(fmt::format("{} taken out of {}", name, name_), {SetVariable{fault_.consumer, name, {}}});
    if (fault_.library != "flashinfer" || fault_.gpus_cc.empty()) return;
    std::set<std::string> tried;
    for (const auto* suffix : {"f", "a", ""}) {
      std::vector<std::string> entries;
      for (const auto& compute_cap : fault_.gpus_cc)
        entries.push_back(compute_cap + (Version::of(compute_cap).major() >= 9 ? suffix : ""));
      const auto list = join(entries, " ");
      if (!tried.insert(list).second) continue;
      consider(fmt::format("FLASHINFER_CUDA_ARCH_LIST=\"{}\" in {}", list, name_),
               {SetVariable{fault_.consumer, "FLASHINFER_CUDA_ARCH_LIST", list}},
               {Judgement::stop_gap, "it has to be kept in step with the GPUs and the package from now on", false});
    }
  }

  void moved_link() {
    const auto link = clean_path(fault_.root);
    const auto& links = items(environment_.cuda_links);
    if (std::none_of(links.begin(), links.end(), [&](const CudaLink& each) { return each.path == link; })) return;
    for (const auto& toolkit : better_) {
      const std::vector<Change> changes = {AddToolkit{toolkit}, MoveLink{link, toolkit.path}};
      const auto what = fmt::format("{} pointed to {}", link, toolkit.path);
      const auto after = after_changes(changes);
      const auto* now = find_like(after.resolutions, fault_);
      std::set<std::string> others;
      for (const auto& each : after.resolutions) {
        const auto* before = find_like(before_.resolutions, each);
        if (before != nullptr && each.consumer != fault_.consumer && before->root_resolved != each.root_resolved)
          others.insert(short_name(each.consumer));
      }
      if (now != nullptr && is_usable(now->outcome) && !others.empty())
        judged_.push_back({what, Judgement::rejected,
                           fmt::format("changes the compiler of {} as well, which nobody there asked for; a pin in {} "
                                       "touches nobody else",
                                       join(std::vector(others.begin(), others.end()), ", "), name_)});
      else
        consider(
            what, changes,
            {Judgement::stop_gap, "whoever asks for the default gets another compiler with it, now and later", true});
      return;
    }
  }

  void ninja() {
    if (fault_.reason != "ninja_missing") return;
    const auto path = variable(env_, "PATH").value_or(std::string(kDefaultPath));
    consider(fmt::format("PATH={}/bin:... in {}", fault_.python_env, name_),
             {SetVariable{fault_.consumer, "PATH", fmt::format("{}/bin:{}", fault_.python_env, path)}},
             {Judgement::proper, "", true});
  }

  void another_assembler() {
    auto toolkits = items(environment_.toolkits);
    std::erase_if(toolkits, [](const Toolkit& each) {
      return !each.has_nvcc || std::find(each.lacks.begin(), each.lacks.end(), "bin/ptxas") != each.lacks.end();
    });
    const auto present = toolkits.size();
    for (auto& toolkit : installable()) toolkits.push_back(std::move(toolkit));
    for (std::size_t i = 0; i < toolkits.size(); ++i) {
      const auto ptxas = toolkits[i].path + "/bin/ptxas";
      const auto before =
          i < present ? std::string() : fmt::format("CUDA {} installed beside, ", toolkits[i].version->text());
      for (const auto* name : {"TRITON_PTXAS_BLACKWELL_PATH", "TRITON_PTXAS_PATH"})
        consider(fmt::format("{}{}={} in {}", before, name, ptxas, name_),
                 {AddToolkit{toolkits[i]}, SetVariable{fault_.consumer, name, ptxas}},
                 {Judgement::proper, "a path that goes away later is passed over without a word", i == 0});
    }
  }

  void another_torch() {
    if (!fault_.torch_cuda) return;
    const auto torch = Version::parse(fault_.library_version);
    if (!torch) return;
    std::set<std::string> tried = {name_of(*fault_.torch_cuda)};
    for (const auto& row : knowledge_.torch_archs) {
      if (std::find(row.torch.begin(), row.torch.end(), torch->major_minor()) == row.torch.end()) continue;
      if (!row.variant.starts_with("cu") || row.variant.size() < 5) continue;
      const auto cuda = Version::parse(fmt::format("{}.{}", row.variant.substr(2, 2), row.variant.substr(4)));
      if (!cuda || !tried.insert(name_of(*cuda)).second) continue;
      consider(fmt::format("the {} build of torch {}", row.variant,
                           fault_.library_version.substr(0, fault_.library_version.find('+'))),
               {UseTorchBuild{fault_.python_env, *cuda}},
               {Judgement::proper, "whatever else in the environment is built for torch's CUDA has to follow", true});
    }
    for (const auto& toolkit : items(environment_.toolkits))
      if (toolkit.has_nvcc) {
        consider(fmt::format("CUDA_HOME={} in {}", toolkit.path, name_),
                 {SetVariable{fault_.consumer, "CUDA_HOME", toolkit.path}}, {Judgement::proper, "", true});
        break;
      }
  }

  void another_driver() {
    if (fault_.reason != "driver_too_old") return;
    const auto wanted = fault_.compiler_version ? fault_.compiler_version : fault_.torch_cuda;
    const auto* major = wanted ? knowledge_.cuda_major(wanted->major()) : nullptr;
    if (major == nullptr) return;
    consider(fmt::format("driver {} or newer", major->min_driver.text()), {UseDriver{major->min_driver}},
             {Judgement::proper, "every service with a GPU on this host restarts with it", false});
  }

  void emptied_cache() {
    for (const auto& cache : items(environment_.caches)) {
      if (cache.kind != fault_.library) continue;
      const auto part = "/" + cache.kind;
      const auto at = cache.path.find(part);
      const auto base = at == cache.path.npos ? cache.path : cache.path.substr(0, at + part.size());
      const auto consumer = std::find_if(before_.consumers.begin(), before_.consumers.end(),
                                         [&](const Consumer& each) { return each.id == fault_.consumer; });
      if (consumer == before_.consumers.end() || consumer->home.empty() ||
          !base.starts_with(clean_path(consumer->home) + "/"))
        continue;
      consider(base + " removed", {RemoveCache{base}}, {Judgement::stop_gap, "", true});
      return;
    }
  }

  const Environment& environment_;
  const std::vector<DeclaredConsumer>& declared_;
  const Knowledge& knowledge_;
  const Derived& before_;
  const Resolution& fault_;
  const std::string name_;
  Variables env_;
  std::vector<Toolkit> better_;  ///< toolkits that cure it when they are pinned
  std::vector<Alternative> judged_;
};

}  // namespace

void judge_alternatives(const Environment& environment, const std::vector<DeclaredConsumer>& declared,
                        const Knowledge& knowledge, Derived& derived) {
  const auto before = derived;
  for (std::size_t i = 0; i < before.resolutions.size(); ++i) {
    const auto& fault = before.resolutions[i];
    if (!fault.claimed || fault.outcome != Outcome::broken) continue;
    Judge judge(environment, declared, knowledge, before, fault);
    derived.resolutions[i].next_start = judge.next_start();
    derived.resolutions[i].alternatives = judge.all();
  }
}

}  // namespace trueup
