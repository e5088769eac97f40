#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "action/action.hpp"
#include "trueup/finding.hpp"
#include "trueup/plan.hpp"

// From findings to the steps that are wanted, before anything of the host is inspected.

namespace trueup {

using FindAction = std::function<const ActionKind*(std::string_view)>;

/// What the command line narrows a plan to. Names are checks, or keys of findings (CHECK@ABOUT).
struct PlanWishes {
  Severity fail_on = Severity::error;
  std::vector<std::string> only = {};  ///< empty: all
  std::vector<std::string> exclude = {};
  std::vector<std::string> fixes = {};  ///< empty: all
};

struct WantedStep {
  const ActionKind* kind = nullptr;
  Params params;
  std::string fix;                 ///< the first that wants it
  std::vector<std::string> cures;  ///< keys of the root findings that it was made for
};

struct PlanDraft {
  std::vector<PlannedFinding> cures;  ///< roots, each followed by what it explains
  std::vector<WantedStep> steps;      ///< in the order in which they are to run
  std::vector<LeftOut> left_out;
};

/// For each root finding that counts the first fix that fits. A root counts where it is at or above `fail_on`, or
/// explains a finding that is and that no such root explains. Steps of several findings on one object become one where
/// they agree; a fix that contradicts what is there already is not taken. Pure.
PlanDraft draft_plan(const Assessment& assessment, const PlanWishes& wishes, const FindAction& find_kind);

/// `a` and `b` as one: members of objects united, everything else equal. Absent: they contradict each other.
std::optional<Params> united(const Params& a, const Params& b);

/// Whether `wanted` (a check, or CHECK@ABOUT) names the finding.
bool is_named(const Finding& finding, std::string_view wanted);

PlannedFinding planned(const Finding& finding);

}  // namespace trueup
