#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/finding.hpp"
#include "trueup/result.hpp"

// What apply will do on each host, exactly. A plan holds kinds, parameters and facts, never shell, and no secret.

namespace trueup {

/// One step on one host.
struct PlanStep {
  std::string kind;                   ///< of the action: `systemd_override`
  std::string params;                 ///< JSON object, templates rendered
  std::string fix;                    ///< id of the fix that it comes from
  std::vector<std::string> cures;     ///< keys of the findings that it was made for
  std::string inspected;              ///< what the action's inspect script printed when the plan was made, and has to print
                                      ///< again just before the step; so no inspect sees what other steps of a plan change
  std::string current, wanted;        ///< one line each, for people
  std::string diff;                   ///< unified, redacted; may be empty
  std::string irreversible;           ///< what undo cannot bring back
  std::vector<std::string> restarts;  ///< units that are down meanwhile
  std::uint64_t download_bytes = 0;
  std::uint64_t disk_bytes = 0;
  friend bool operator==(const PlanStep&, const PlanStep&) = default;
};

/// A finding that a plan is for, or that it predicts.
struct PlannedFinding {
  std::string key;
  std::string title;
  Severity severity = Severity::error;
  friend bool operator==(const PlannedFinding&, const PlannedFinding&) = default;
};

/// A finding that no step of the plan is for.
struct LeftOut {
  PlannedFinding finding;
  std::string why;                    ///< "no fix is known", "fix X does not fit: ...", "left out by --only"
  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

/// Something to be done at a place that several hosts share, and that another host does.
struct SharedStep {
  std::string kind;
  std::string path;   ///< as this host sees it
  std::string place;  ///< on the server: `nas:/export/home/ml/.cache`
  std::string host;   ///< that does it, before this one begins
  friend bool operator==(const SharedStep&, const SharedStep&) = default;
};

struct HostPlan {
  std::string name;
  std::string unverified;             ///< the file that its facts were read from; empty: the host itself was looked at. Steps were
                                      ///< not inspected then, and such a plan is never saved
  std::string refused;                ///< why nothing may be done on this host (a guard, not root); empty: the steps
                                      ///< stand, or there is nothing to do
  std::string unreached;              ///< why the host was not reached; empty: it was
  std::string incomplete;  ///< why it could not be looked at to the end (cut off, sudo refused); empty: it was
  std::string hint;        ///< what can be done about either
  std::vector<std::string> before_host;  ///< program, with arguments, that the controller runs before the steps
  std::vector<std::string> after_host;   ///< likewise, after them
  std::vector<PlannedFinding> cures;  ///< findings that the steps are for
  std::vector<PlanStep> steps;        ///< in the order in which they run; empty: nothing to do
  std::vector<SharedStep> shared;     ///< what another host does first
  std::vector<LeftOut> left_out;
  std::vector<PlannedFinding> remaining;  ///< findings that what-if still has after all steps

  /// Something is done for it, by its own steps or another host's.
  bool has_work() const { return !steps.empty() || !shared.empty(); }
  const std::string& why_unseen() const { return unreached.empty() ? incomplete : unreached; }
  friend bool operator==(const HostPlan&, const HostPlan&) = default;
};

struct Plan {
  std::string id;                     ///< unique; sortable by time
  std::string version;                ///< of trueup
  std::string made_by;                ///< user@controller
  std::chrono::sys_seconds created{};
  std::chrono::sys_seconds expires{};
  std::map<std::string, std::string> playbooks;  ///< file name -> SHA-256 of its text
  std::vector<HostPlan> hosts;        ///< in inventory order
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// The plan file: schema 2, with `mac`, the HMAC-SHA256 of the document without it under the controller's key.
std::string plan_to_json(const Plan& plan, std::string_view key);
/// Errors: no plan, another schema, a mac that is not of this key (edited, or made by another controller), each named.
Result<Plan> plan_from_json(std::string_view text, std::string_view key);

}  // namespace trueup
