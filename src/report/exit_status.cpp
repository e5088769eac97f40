#include <algorithm>
#include <cassert>

#include "trueup/report.hpp"

namespace trueup {
namespace {

bool was_all_looked_at(const RunReport& report) {
  const auto allowed = [&](const NotEvaluated& gap) {
    return std::find(report.allowed_unknown.begin(), report.allowed_unknown.end(), gap.check) !=
           report.allowed_unknown.end();
  };
  return !report.hosts.empty() && std::all_of(report.hosts.begin(), report.hosts.end(), [&](const HostReport& host) {
    const auto& gaps = host.assessment.not_evaluated;
    return !host.error && host.status != HostStatus::unreachable && std::all_of(gaps.begin(), gaps.end(), allowed);
  });
}

// The order of the contract among those that looking at hosts can give: 130, 1, 3, 124, 4.
template <class IsFault>
int looking_status(const RunReport& report, IsFault&& is_fault) {
  if (report.stopped && report.stopped->kind == ErrorKind::interrupted) return 130;
  if (report.stopped && report.stopped->kind == ErrorKind::internal) return 1;
  for (std::size_t i = 0; i < report.hosts.size(); ++i)
    for (const auto& finding : report.hosts[i].assessment.findings)
      if (finding.severity >= report.fail_on && is_fault(i, finding)) return 3;
  if (report.stopped) return 124;
  return was_all_looked_at(report) ? 0 : 4;
}

}  // namespace

int exit_status(const RunReport& report) {
  return looking_status(report, [](std::size_t, const Finding&) { return true; });
}

int exit_status(const RunReport& report, const Plan& plan, bool detailed) {
  assert(report.hosts.size() == plan.hosts.size());
  const int status = looking_status(report, [&](std::size_t host, const Finding& finding) {
    const auto& cures = plan.hosts[host].cures;
    return std::none_of(cures.begin(), cures.end(),
                        [&](const PlannedFinding& cured) { return cured.key == finding.key(); });
  });
  if (status != 0 || !detailed) return status;
  const bool has_steps =
      std::any_of(plan.hosts.begin(), plan.hosts.end(), [](const HostPlan& host) { return !host.steps.empty(); });
  return has_steps ? 5 : 0;
}

}  // namespace trueup
