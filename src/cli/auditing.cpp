#include "cli/auditing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/terminal.hpp"

#ifndef TRUEUP_VERSION
#error "the build defines TRUEUP_VERSION"
#endif

namespace trueup {
namespace {

std::string_view outcome_of(const HostReport& host) {
  if (host.status == HostStatus::unreachable) return "not reached";
  if (host.error) return "incomplete";
  const auto& findings = host.assessment.findings;
  const bool failing = std::any_of(findings.begin(), findings.end(),
                                   [](const Finding& finding) { return finding.severity == Severity::error; });
  return failing ? "errors found" : "no error found";
}

}  // namespace

int report_errors(const Errors& errors) {
  for (const auto& error : errors) print_error(error);
  return kBadInput;
}

bool is_offline(const Options& options) { return !options.from.empty() || !options.from_output.empty(); }

std::optional<Prepared> prepare(const Options& options, int& status) {
  Errors errors = unwritable(options.outputs);
  auto auditor = load_auditor(options, errors);
  if (!auditor && errors.empty()) errors.push_back(auditor.error());
  std::vector<StoredHost> stored;
  std::vector<Host> hosts;
  Inventory inventory;
  std::vector<HostPrograms> programs;
  if (is_offline(options)) {
    if (auditor) stored = load_stored(options, *auditor, errors);
    if (errors.empty()) hosts = selected_stored(options, stored, errors);
  } else {
    inventory = load_inventories(options, errors);
    if (errors.empty()) hosts = selected_hosts(options, inventory, errors);
    if (errors.empty() && options.planning) programs = host_programs(inventory, hosts, errors);
  }
  if (!errors.empty()) {
    status = report_errors(errors);
    return std::nullopt;
  }
  if (is_offline(options)) return Prepared{*std::move(auditor), std::move(hosts), {}, std::move(stored), {}, {}};
  auto probing = probing_options(options, hosts, errors);
  if (!probing) errors.push_back(probing.error());
  if (!errors.empty()) {
    status = report_errors(errors);
    return std::nullopt;
  }
  return Prepared{*std::move(auditor), std::move(hosts), *std::move(probing), {}, std::move(inventory),
                  std::move(programs)};
}

int stopped_status(const Error& why) {
  if (why.kind == ErrorKind::interrupted) return kInterrupted;
  return why.kind == ErrorKind::internal ? kToolFailed : kDeadline;
}

RunReport run_audit(const Prepared& prepared, const Options& options) {
  if (prepared.hosts.empty()) fmt::print(stderr, "warning: no host is selected by '{}'\n", printable(options.limit));
  RunReport report;
  report.started = std::chrono::system_clock::now();
  report.id = make_run_id(report.started);
  report.version = TRUEUP_VERSION;
  report.fail_on = options.fail_on;
  report.allowed_unknown = options.allow_unknown;
  report.hosts.resize(prepared.hosts.size());
  if (is_offline(options)) {
    for (std::size_t i = 0; i < prepared.hosts.size(); ++i) {
      auto& host = report.hosts[i];
      if (!report.stopped) {
        report.stopped = assess_stored(prepared.auditor, prepared.hosts[i], prepared.stored[i], host);
      } else {
        host.name = prepared.hosts[i].name;
        host.status = HostStatus::unreachable;
        host.error = with_context(*report.stopped, "not begun");
      }
    }
    report.finished = std::chrono::system_clock::now();
    return report;
  }
  ProgressLine progress(options.quiet, prepared.hosts.size());
  report.stopped = probe_hosts(
      prepared.hosts, prepared.auditor.playbook, prepared.probing,
      [&](HostProbing probing) -> std::optional<Error> {
        auto& host = report.hosts[probing.host];
        const auto why = assess_host(prepared.auditor, prepared.hosts[probing.host], std::move(probing), host);
        progress.clear();
        progress.host_done(host.name, outcome_of(host));
        return why;
      },
      [&](const Progress& now) { progress.update(now); });
  progress.clear();
  report.finished = std::chrono::system_clock::now();
  return report;
}

int write_outputs(const RunReport& report, const Options& options, const Renderers& renderers, int exit) {
  if (report.stopped) print_error(*report.stopped);
  for (const auto& output : options.outputs)
    if (const auto written = write_output(renderers, output, options); !written) {
      print_error(written.error());
      if (exit != kInterrupted) exit = kToolFailed;
    }
  return exit;
}

}  // namespace trueup
