#include <algorithm>

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

}  // namespace

// The order of the contract among those that an audit can give: 130, 1, 3, 124, 4.
int exit_status(const RunReport& report) {
  if (report.stopped && report.stopped->kind == ErrorKind::interrupted) return 130;
  if (report.stopped && report.stopped->kind == ErrorKind::internal) return 1;
  for (const auto& host : report.hosts)
    for (const auto& finding : host.assessment.findings)
      if (finding.severity >= report.fail_on) return 3;
  if (report.stopped) return 124;
  return was_all_looked_at(report) ? 0 : 4;
}

}  // namespace trueup
