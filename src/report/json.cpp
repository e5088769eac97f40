#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "report/json_parts.hpp"

namespace trueup {

using nlohmann::ordered_json;

namespace {

std::string utc(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

}  // namespace

ordered_json error_json(const std::optional<Error>& error) {
  if (!error) return nullptr;
  return {{"kind", to_string(error->kind)}, {"message", to_string(*error)}, {"hint", error->hint}};
}

ordered_json finding_json(const Finding& f) {
  return {{"check", f.check},
          {"about", f.about},
          {"key", f.key()},
          {"severity", to_string(f.severity)},
          {"title", f.title},
          {"because", f.because},
          {"root", f.root},
          {"caused_by", f.caused_by},
          {"evidence", f.evidence},
          {"fixes", f.fixes},
          {"references", f.references}};
}

ordered_json gaps_json(const std::vector<NotEvaluated>& not_evaluated) {
  auto gaps = ordered_json::array();
  for (const auto& gap : not_evaluated) gaps.push_back({{"check", gap.check}, {"about", gap.about}, {"why", gap.why}});
  return gaps;
}

ordered_json run_json(const RunReport& report) {
  return {{"id", report.id},
          {"kind", report.kind},
          {"version", report.version},
          {"started", utc(report.started)},
          {"finished", utc(report.finished)},
          {"exit", exit_status(report)},
          {"stopped", error_json(report.stopped)}};
}

ordered_json source_json(const HostReport& host) {
  return host.unverified_source.empty() ? ordered_json() : ordered_json(host.unverified_source);
}

std::string json_text(const ordered_json& document) {
  // Host data is not always UTF-8, and dump() throws on what is not.
  return document.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json host_json(const HostReport& host, ordered_json findings) {
  auto probes = ordered_json::array();
  for (const auto& probe : host.probes)
    probes.push_back({{"id", probe.id},
                      {"status", to_string(probe.status)},
                      {"duration_ms", probe.duration.count()},
                      {"detail", probe.detail}});
  return {{"name", host.name},
          {"address", host.address},
          {"unverified_source", source_json(host)},
          {"status", to_string(host.status)},
          {"error", error_json(host.error)},
          {"duration_ms", host.duration.count()},
          {"findings", std::move(findings)},
          {"not_evaluated", gaps_json(host.assessment.not_evaluated)},
          {"probes", std::move(probes)}};
}

ordered_json summary_json(const Counts& counts) {
  return {{"hosts", counts.hosts},
          {"reached", counts.hosts - counts.unreachable},
          {"unreachable", counts.unreachable},
          {"root_causes", counts.root_causes},
          {"errors", counts.errors},
          {"warnings", counts.warnings},
          {"infos", counts.infos},
          {"held", counts.held},
          {"not_applicable", counts.not_applicable},
          {"not_evaluated", counts.not_evaluated}};
}

std::string_view to_string(HostStatus status) {
  switch (status) {
    case HostStatus::audited:
      return "audited";
    case HostStatus::partial:
      return "partial";
    case HostStatus::unreachable:
      return "unreachable";
  }
  return "unreachable";
}

std::string render_json(const RunReport& report) {
  auto hosts = ordered_json::array();
  for (const auto& host : report.hosts) {
    auto findings = ordered_json::array();
    for (const auto& finding : host.assessment.findings) findings.push_back(finding_json(finding));
    hosts.push_back(host_json(host, std::move(findings)));
  }
  const ordered_json document = {{"schema", kReportSchema},
                                 {"run", run_json(report)},
                                 {"hosts", std::move(hosts)},
                                 {"summary", summary_json(counts_of(report))}};
  return json_text(document);
}

}  // namespace trueup
