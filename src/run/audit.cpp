#include "run/audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace trueup {
namespace {

Result<void> read_output(const Auditor& auditor, const Probe& probe, const ProbeOutput& output,
                         Environment& environment) {
  auto value = auditor.parsers.at(probe.id)(output.output);
  if (!value) return fail(std::move(value).error());
  return set_section(environment, probe.into, *value);
}

}  // namespace

Environment read_environment(const Auditor& auditor, std::vector<ProbeOutput>& outputs) {
  Environment environment;
  for (const auto& section : auditor.left_to_deep)
    set_section_unknown(environment, section, "only a deep probe can tell, and --deep was not given");
  for (auto& output : outputs) {
    const auto& probes = auditor.playbook.probes;
    const auto probe = std::find_if(probes.begin(), probes.end(), [&](const Probe& p) { return p.id == output.id; });
    if (probe == probes.end()) continue;
    if (output.status == ProbeStatus::absent) {
      set_section_absent(environment, probe->into);
      continue;
    }
    if (output.status == ProbeStatus::ok) {
      const auto read = read_output(auditor, *probe, output, environment);
      if (read) continue;
      output.status = ProbeStatus::unreadable;
      output.detail = to_string(read.error());
    }
    const auto reason = output.status == ProbeStatus::unknown
                            ? output.detail
                            : fmt::format("probe {}: {}{}{}", output.id, to_string(output.status),
                                          output.detail.empty() ? "" : ": ", output.detail);
    set_section_unknown(environment, probe->into, reason);
  }
  return environment;
}

bool answered_all(const std::vector<ProbeOutput>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const ProbeOutput& output) {
    return output.status == ProbeStatus::ok || output.status == ProbeStatus::absent ||
           output.status == ProbeStatus::unknown;
  });
}

std::optional<Error> assess_host(const Auditor& auditor, const Host& host, HostProbing probing, HostReport& report) {
  report.name = host.name;
  report.address = host.address;
  report.error = std::move(probing.error);
  report.probes = std::move(probing.outputs);
  report.duration = probing.duration;
  if (report.error && report.probes.empty()) {
    report.status = HostStatus::unreachable;
    return std::nullopt;
  }
  report.environment = read_environment(auditor, report.probes);
  for (auto& probe : report.probes) probe.output = {};  // read now; a thousand hosts' raw text would stay in memory
  report.status = !report.error && answered_all(report.probes) ? HostStatus::audited : HostStatus::partial;
  return judge_host(auditor, host.consumers, report);
}

std::optional<Error> judge_host(const Auditor& auditor, const std::vector<DeclaredConsumer>& consumers,
                                HostReport& report) {
  report.derived = derive(report.environment, consumers, auditor.knowledge);
  if (auditor.planning) judge_alternatives(report.environment, consumers, auditor.knowledge, report.derived);
  auto facts = environment_to_json(report.environment);
  facts["derived"] = derived_to_json(report.derived);
  auto assessment = auditor.checks.assess(facts, auditor.check_limit);
  if (assessment) {
    report.assessment = *std::move(assessment);
    return std::nullopt;
  }
  if (!report.error) report.error = with_context(assessment.error(), "judging");
  report.status = HostStatus::partial;
  if (!auditor.checks.is_spent()) return std::nullopt;
  return with_context(assessment.error(), "on host " + report.name);
}

}  // namespace trueup
