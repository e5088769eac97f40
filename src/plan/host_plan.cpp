#include "plan/host_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "derive/host_view.hpp"

namespace trueup {
namespace {

/// A step that restarts a unit on account of other steps: of its own it is not needed.
bool is_restart(const WantedStep& step) {
  const auto found = step.params.find("restart");
  return found != step.params.end() && found->is_boolean() && found->get<bool>();
}

bool meet(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& each) { return std::find(b.begin(), b.end(), each) != b.end(); });
}

std::string call_of(const WantedStep& step) {
  return fmt::format("{} {}", step.kind->name(), step.kind->object(step.params));
}

// --- guards: what the facts say ---

std::string not_root(const Environment& environment) {
  if (!environment.host.is_known()) return fmt::format("who we are there is not known: {}", environment.host.reason());
  if (environment.host->uid == 0) return {};
  return fmt::format("we are {} there, and only root may change anything: log in as root, or become root (-b)",
                     printable(environment.host->user));
}

std::string kubernetes(const GuardedHost& host) {
  if (host.can_drain || !host.is_kubernetes_node) return {};
  return "it is a node of Kubernetes, and the inventory gives no before_host program that drains it";
}

// systemd writes the device rules of containers anew, from what it knows of them.
std::string containers_cut_off(const Environment& environment) {
  std::vector<std::string> names;
  for (const auto& each : items(environment.containers))
    if (each.state == "running" && each.gpus && !each.gpu_devices && each.cgroup_driver == "systemd")
      names.push_back(printable(each.name.empty() ? each.id : each.name));
  const bool has_links = environment.driver.is_known() && environment.driver->device_links.value_or(false);
  if (names.empty() || has_links) return {};
  return fmt::format(
      "a daemon-reload would cut {} off from the GPUs: stop it first, or start it with --device=nvidia.com/gpu=...",
      join(names, ", "));
}

std::string driver_pending(const Environment& environment) {
  if (!environment.driver.is_known()) return {};
  const auto& driver = *environment.driver;
  if (!driver.loaded || !driver.on_disk || *driver.loaded == *driver.on_disk) return {};
  return fmt::format("driver {} is loaded and {} is installed: reboot first, or what starts anew may find no GPU",
                     driver.loaded->text(), driver.on_disk->text());
}

std::string driver_too_old(const GuardedHost& host, const Toolkit& toolkit) {
  if (!toolkit.version) return {};
  const auto* major = host.knowledge.cuda_major(toolkit.version->major());
  if (major == nullptr)
    return fmt::format("which driver CUDA {} needs is not known to this trueup", toolkit.version->text());
  const auto driver = HostView(host.environment, host.knowledge).driver();
  if (!driver.unknown.empty())
    return fmt::format("whether the driver loads what CUDA {} builds is not known: {}", toolkit.version->text(),
                       driver.unknown);
  if (driver.value >= major->min_driver) return {};
  return fmt::format("CUDA {} needs driver {} or newer, and this host has {}", toolkit.version->text(),
                     major->min_driver.text(), driver.value.text());
}

std::vector<std::string> guards(const GuardedHost& host, const std::vector<const WantedStep*>& steps,
                                const std::vector<Change>& changes, bool restarts) {
  std::vector<std::string> whys = {not_root(host.environment), kubernetes(host)};
  if (std::any_of(steps.begin(), steps.end(),
                  [](const WantedStep* step) { return step->kind->name() == "systemd_override"; }))
    whys.push_back(containers_cut_off(host.environment));
  if (restarts) whys.push_back(driver_pending(host.environment));
  for (const auto& change : changes)
    if (const auto* added = std::get_if<AddToolkit>(&change)) whys.push_back(driver_too_old(host, added->toolkit));
  std::erase(whys, std::string());
  return whys;
}

PlanStep plan_step(const WantedStep& wanted, const Inspected& inspected, const Difference& change) {
  PlanStep step;
  step.kind = std::string(wanted.kind->name());
  step.params = wanted.params.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  step.fix = wanted.fix;
  step.cures = wanted.cures;
  step.inspected = valid_utf8(inspected);
  step.current = change.current;
  step.wanted = change.wanted;
  step.diff = change.diff;
  step.irreversible = change.irreversible;
  step.restarts = change.restarts;
  step.download_bytes = change.download_bytes;
  step.disk_bytes = change.disk_bytes;
  return step;
}

/// Of the draft's findings those that a step is for; the others are left out, because nothing is left to be done for
/// them.
void settle_findings(const PlanDraft& draft, const std::vector<const WantedStep*>& kept, HostPlan& plan) {
  std::set<std::string> wanted, served;
  for (const auto& step : draft.steps) wanted.insert(step.cures.begin(), step.cures.end());
  for (const auto* step : kept) served.insert(step->cures.begin(), step->cures.end());
  bool is_served = true;  // what follows a root in the list is cured with it
  for (const auto& finding : draft.cures) {
    if (wanted.contains(finding.key)) is_served = served.contains(finding.key);
    if (is_served)
      plan.cures.push_back(finding);
    else
      plan.left_out.push_back(
          {finding, "all that its fix would do is as it should be already, and it is there nevertheless"});
  }
}

HostPlan plan_without_steps(const std::string& name, const PlanDraft& draft, const std::string& why) {
  HostPlan plan;
  plan.name = name;
  plan.left_out = draft.left_out;
  for (const auto& finding : draft.cures) plan.left_out.push_back({finding, why});
  return plan;
}

}  // namespace

HostPlan refused_plan(const std::string& name, std::string why, const PlanDraft& draft) {
  auto plan = plan_without_steps(name, draft, "nothing may be done on this host");
  plan.refused = std::move(why);
  return plan;
}

HostPlan unreached_plan(const std::string& name, const Error& why, const PlanDraft& draft) {
  auto plan = plan_without_steps(name, draft, "the host was not reached");
  plan.unreached = to_string(why);
  plan.hint = why.hint;
  return plan;
}

HostPlan incomplete_plan(const std::string& name, const Error& why, const PlanDraft& draft) {
  auto plan = plan_without_steps(name, draft, "the host could not be looked at to the end");
  plan.incomplete = to_string(why);
  plan.hint = why.hint;
  return plan;
}

std::string inspect_id(std::size_t index) { return fmt::format("step-{:02}", index + 1); }

Probe inspect_probe(std::size_t index, const ActionKind& kind, const Params& params, std::string_view library) {
  const auto script = kind.inspect(params);
  Probe probe;
  probe.id = inspect_id(index);
  probe.limit = script.limit;
  probe.script = fmt::format("{}{}", library, script.text);
  return probe;
}

HostDraft make_host_plan(const std::string& name, const PlanDraft& draft, const std::vector<InspectedStep>& inspected,
                         const GuardedHost& host, const std::map<std::size_t, SharedStep>& done_before) {
  HostDraft made;
  made.plan.name = name;
  made.plan.left_out = draft.left_out;
  const bool was_inspected = !inspected.empty();
  std::vector<std::string> refusals;
  std::vector<Difference> differences(draft.steps.size());
  std::vector<bool> is_needed(draft.steps.size(), true);  // all, where nothing was inspected
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    const auto& step = draft.steps[i];
    const auto refuse = [&](const std::string& why) { refusals.push_back(fmt::format("{}: {}", call_of(step), why)); };
    if (!was_inspected) {
      differences[i].wanted = step.kind->object(step.params);
      continue;
    }
    if (i >= inspected.size() || !inspected[i].error.empty()) {
      refuse(i < inspected.size() ? inspected[i].error : "it was not inspected");
      continue;
    }
    auto difference = step.kind->diff(step.params, inspected[i].text);
    if (!difference) {
      refuse(to_string(difference.error()));
      continue;
    }
    differences[i] = *std::move(difference);
    for (const auto& why : differences[i].refused) refuse(why);
    is_needed[i] = differences[i].needed;
  }
  const auto is_asked_for = [&](const WantedStep& restart) {
    for (std::size_t i = 0; i < draft.steps.size(); ++i)
      if (is_needed[i] && !is_restart(draft.steps[i]) && meet(restart.cures, draft.steps[i].cures)) return true;
    return false;
  };
  for (std::size_t i = 0; i < draft.steps.size(); ++i)
    if (is_restart(draft.steps[i]) && !is_asked_for(draft.steps[i])) is_needed[i] = false;

  std::vector<const WantedStep*> kept;
  bool restarts = false;
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    if (!is_needed[i]) continue;
    kept.push_back(&draft.steps[i]);
    if (const auto shared = done_before.find(i); shared != done_before.end()) {
      made.plan.shared.push_back(shared->second);
    } else {
      made.plan.steps.push_back(
          plan_step(draft.steps[i], i < inspected.size() ? inspected[i].text : Inspected(), differences[i]));
      made.done.push_back(i);
    }
    made.changes.insert(made.changes.end(), differences[i].predicted.begin(), differences[i].predicted.end());
    restarts = restarts || !differences[i].restarts.empty();
  }
  if (!kept.empty() && was_inspected)
    for (auto& why : guards(host, kept, made.changes, restarts)) refusals.push_back(std::move(why));
  if (!refusals.empty()) return {refused_plan(name, join(refusals, "; "), draft), {}, {}};
  settle_findings(draft, kept, made.plan);
  return made;
}

std::vector<PlannedFinding> what_remains(const Assessment& today, const Assessment& predicted,
                                         const std::vector<Change>& changes) {
  std::set<std::string> restarted;
  for (const auto& change : changes)
    if (const auto* restart = std::get_if<Restart>(&change)) restarted.insert(restart->unit);
  std::set<std::string> left;
  for (const auto& finding : predicted.findings) left.insert(finding.key());
  // Gone is what its check says is gone, not what it cannot tell any more.
  const auto is_untold = [&](const Finding& finding) {
    return std::any_of(predicted.not_evaluated.begin(), predicted.not_evaluated.end(), [&](const NotEvaluated& gap) {
      return gap.check == finding.check && (gap.about.empty() || gap.about == finding.about);
    });
  };
  std::map<std::string, const Finding*> known;
  for (const auto& finding : today.findings) {
    known[finding.key()] = &finding;
    if (is_untold(finding)) left.insert(finding.key());
  }

  // Whether all that explains it is gone. Causes never go round in a circle.
  const std::function<bool(const Finding&)> loses_its_causes = [&](const Finding& finding) {
    return !finding.root &&
           std::all_of(finding.caused_by.begin(), finding.caused_by.end(), [&](const std::string& key) {
             const auto cause = known.find(key);
             return !left.contains(key) || (cause != known.end() && loses_its_causes(*cause->second));
           });
  };
  const auto ends_with_a_restart = [&](const Finding& finding) {
    const auto was = known.find(finding.key());
    return restarted.contains(finding.about) && was != known.end() && loses_its_causes(*was->second);
  };
  std::vector<PlannedFinding> remaining;
  std::set<std::string> told;
  const auto tell = [&](const Finding& finding) {
    if (finding.severity == Severity::info || ends_with_a_restart(finding)) return;
    if (told.insert(finding.key()).second) remaining.push_back(planned(finding));
  };
  std::for_each(predicted.findings.begin(), predicted.findings.end(), tell);
  for (const auto& finding : today.findings)
    if (is_untold(finding)) tell(finding);
  return remaining;
}

void foretell(HostPlan& plan, const Assessment& today, const Assessment& predicted,
              const std::vector<Change>& changes) {
  plan.remaining = what_remains(today, predicted, changes);
  const auto is_in = [](const std::vector<PlannedFinding>& findings, const std::string& key) {
    return std::any_of(findings.begin(), findings.end(), [&](const PlannedFinding& each) { return each.key == key; });
  };
  for (const auto& finding : today.findings) {
    const auto key = finding.key();
    if (finding.severity == Severity::info || is_in(plan.remaining, key)) continue;
    std::erase_if(plan.left_out, [&](const LeftOut& each) { return each.finding.key == key; });
    if (!is_in(plan.cures, key)) plan.cures.push_back(planned(finding));
  }
}

}  // namespace trueup
