#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "action/action.hpp"
#include "derive/knowledge.hpp"
#include "derive/what_if.hpp"
#include "plan/draft.hpp"
#include "trueup/environment.hpp"
#include "trueup/plan.hpp"
#include "trueup/playbook.hpp"

// From what was inspected on a host to its plan, and what becomes of the host by it. Pure.

namespace trueup {

/// The id of the probe that inspects the step of that index, from 0: `step-01`.
std::string inspect_id(std::size_t index);
/// That probe. `library`: in front of the script, which may use it.
Probe inspect_probe(std::size_t index, const ActionKind& kind, const Params& params, std::string_view library);

/// What the inspect script of one step gave.
struct InspectedStep {
  Inspected text;
  std::string error;  ///< why it could not be looked at; empty: it could
};

/// A host's plan, and what its steps change in the model, in their order.
struct HostDraft {
  HostPlan plan;
  std::vector<Change> changes;
  std::vector<std::size_t> done;  ///< of the draft's steps those that the plan has, by index
};

/// What the facts of a host say against a plan for it.
struct GuardedHost {
  const Environment& environment;
  const Knowledge& knowledge;
  bool can_drain = false;  ///< the inventory has a `before_host` that drains it
  bool is_kubernetes_node = false;
};

/// The steps that are still needed, with their differences. `inspected`: one for each step of the draft, or none at all
/// where the host was not looked at (its facts came from a file): all steps stand then. Something that was not seen, or
/// a guard, refuses the whole host.
/// `done_before`: steps of the draft, by index, that another host does at a place that both see.
HostDraft make_host_plan(const std::string& name, const PlanDraft& draft, const std::vector<InspectedStep>& inspected,
                         const GuardedHost& host, const std::map<std::size_t, SharedStep>& done_before = {});

/// A host on which nothing may be done. The findings that count are left out with it.
HostPlan refused_plan(const std::string& name, std::string why, const PlanDraft& draft = {});
/// Likewise a host that was not reached, or could not be looked at to the end.
HostPlan unreached_plan(const std::string& name, const Error& why, const PlanDraft& draft = {});
HostPlan incomplete_plan(const std::string& name, const Error& why, const PlanDraft& draft = {});

/// Findings at warning or above that the host will still have: what the assessment of the predicted host says, without
/// what the restart of a unit ends (a finding about a unit that starts anew, which today only follows from findings
/// that are gone then), and with those of today whose check cannot be evaluated then.
std::vector<PlannedFinding> what_remains(const Assessment& today, const Assessment& predicted,
                                         const std::vector<Change>& changes);

/// Puts what remains into the plan. A finding that was left out, and is gone then all the same, is cured by the steps
/// for others.
void foretell(HostPlan& plan, const Assessment& today, const Assessment& predicted,
              const std::vector<Change>& changes);

}  // namespace trueup
