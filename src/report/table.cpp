#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "report/groups.hpp"
#include "report/page.hpp"

// For people: root causes first, each with its chain and what follows from it; equal ones on many hosts are one block.

namespace trueup {

Paint paint_of(Severity severity) {
  return severity == Severity::error ? Paint::red : severity == Severity::warning ? Paint::yellow : Paint::dim;
}

std::vector<const Finding*> effects_of(const HostReport& host, const Finding& cause) {
  std::vector<const Finding*> effects;
  std::set<std::string> explained = {cause.key()};
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& finding : host.assessment.findings) {
      const auto is_explained = [&](const std::string& key) { return explained.count(key) != 0; };
      if (finding.root || !std::any_of(finding.caused_by.begin(), finding.caused_by.end(), is_explained)) continue;
      if (!explained.insert(finding.key()).second) continue;
      effects.push_back(&finding);
      grew = true;
    }
  }
  return effects;
}

namespace {

void render_block(Page& page, const Block& block, const TableOptions& options) {
  const auto& finding = *block.finding;
  const auto where = block.hosts.size() == 1 ? block.hosts.front()
                                             : fmt::format("{} hosts: {}", block.hosts.size(), fold_hosts(block.hosts));
  page.headline(paint_of(finding.severity), to_string(finding.severity),
                fmt::format("{}: {}", printable(where), printable(finding.title)));
  if (finding.severity == Severity::info && options.verbosity == 0) return;
  page.paragraph("check", printable(finding.check));
  if (!finding.because.empty()) page.paragraph("why", printable(trim(finding.because)));
  std::string_view label = block.hosts.size() == 1 ? "evidence" : "e.g. there";
  for (const auto& line : finding.evidence) {
    page.paragraph(label, "- " + printable(line));
    label = "";
  }
  label = "explains";
  for (const auto* effect : effects_of(*block.host, finding)) {
    page.paragraph(label, fmt::format("- {} ({})", printable(effect->title), printable(effect->check)));
    label = "";
  }
  if (!finding.fixes.empty()) page.paragraph("fix", printable(join(finding.fixes, ", ")));
  page.line();
}

/// Findings, in a block each; info findings as one line each after them.
void render_findings(Page& page, const RunReport& report, const TableOptions& options) {
  const auto blocks = root_blocks(report);
  for (const auto& block : blocks) render_block(page, block, options);
  const bool ends_short =
      !blocks.empty() && blocks.back().finding->severity == Severity::info && options.verbosity == 0;
  if (ends_short) page.line();
}

void render_errors(Page& page, const RunReport& report) {
  for (const auto& [host, names] : error_groups(report)) {
    const bool unreached = host->status == HostStatus::unreachable;
    page.headline(
        Paint::red, unreached ? "unreached" : "incomplete",
        printable(names.size() == 1 ? names.front() : fmt::format("{} hosts: {}", names.size(), fold_hosts(names))));
    page.paragraph("why", printable(to_string(*host->error)));
    if (!host->error->hint.empty()) page.paragraph("do", printable(host->error->hint));
    page.line();
  }
}

bool is_trouble(ProbeStatus status) {
  return status != ProbeStatus::ok && status != ProbeStatus::absent && status != ProbeStatus::unknown;
}

void render_probes(Page& page, const RunReport& report, const TableOptions& options) {
  std::map<std::string, std::vector<std::string>> troubled;
  for (const auto& host : report.hosts)
    for (const auto& probe : host.probes) {
      const bool shown = options.verbosity > 0 ? probe.status != ProbeStatus::ok
                                               : is_trouble(probe.status) && !is_told_by_error(host, probe);
      if (!shown) continue;
      troubled[fmt::format("{}: {}{}{}", probe.id, to_string(probe.status), probe.detail.empty() ? "" : ": ",
                           printable(probe.detail))]
          .push_back(host.name);
    }
  for (const auto& [text, names] : troubled)
    page.headline(Paint::yellow, "probe", fmt::format("{} ({})", text, printable(fold_hosts(names))));
  if (!troubled.empty()) page.line();
}

void render_gaps(Page& page, const RunReport& report) {
  const auto gaps = gap_groups(report);
  if (gaps.empty()) return;
  page.headline(Paint::yellow, "unknown", "checks that could not be evaluated");
  constexpr std::size_t kNamed = 4;
  for (const auto& [why, gap] : gaps) {
    std::vector<std::string> named(gap.checks.begin(), gap.checks.end());
    const auto more = named.size() > kNamed ? fmt::format(" and {} more", named.size() - kNamed) : std::string();
    named.resize(std::min(named.size(), kNamed));
    page.paragraph(
        "", fmt::format("- {}: {}{} ({})", printable(why), join(named, ", "), more, printable(fold_hosts(gap.hosts))));
  }
  const bool any_without_root = std::any_of(report.hosts.begin(), report.hosts.end(), [](const HostReport& host) {
    const auto& info = host.environment.host;
    return !host.error && host.unverified_source.empty() && !host.assessment.not_evaluated.empty() && info.is_known() &&
           info->uid != 0;
  });
  if (any_without_root)
    page.paragraph(
        "do", "look as root, who sees all of it: -b becomes root by sudo, as 'become: sudo' in the inventory does");
  page.line();
}

/// Facts that we did not gather ourselves: anybody may have written them.
void render_sources(Page& page, const RunReport& report) {
  const auto sources = unverified_sources(report);
  for (const auto& [file, names] : sources)
    page.headline(Paint::yellow, "unverified",
                  fmt::format("{}: read from {}, not from the host", printable(fold_hosts(names)), printable(file)));
  if (!sources.empty()) page.line();
}

void render_summary(Page& page, const RunReport& report) {
  const auto counts = counts_of(report);
  std::set<std::string> causes;
  for (const auto& host : report.hosts)
    for (const auto& finding : host.assessment.findings)
      if (finding.root && finding.severity >= report.fail_on) causes.insert(finding.check + "\n" + finding.title);
  std::vector<std::string> parts = {count(counts.hosts, "host")};
  if (counts.failing != 0) parts.push_back(page.paint(Paint::red, fmt::format("{} failing", counts.failing)));
  if (!causes.empty()) parts.push_back(count(causes.size(), "root cause"));
  if (counts.unreachable != 0)
    parts.push_back(page.paint(Paint::red, fmt::format("{} not reached", counts.unreachable)));
  if (counts.incomplete != 0) parts.push_back(page.paint(Paint::red, fmt::format("{} incomplete", counts.incomplete)));
  if (counts.failing == 0 && counts.warnings != 0)
    parts.push_back(page.paint(Paint::yellow, count(counts.warnings, "warning")));
  if (counts.not_evaluated != 0)
    parts.push_back(page.paint(Paint::yellow, count(counts.not_evaluated, "check") + " not evaluated"));
  const auto unverified = std::count_if(report.hosts.begin(), report.hosts.end(),
                                        [](const HostReport& host) { return !host.unverified_source.empty(); });
  if (unverified != 0) parts.push_back(page.paint(Paint::yellow, fmt::format("{} of unverified source", unverified)));
  if (counts.clean != 0) parts.push_back(page.paint(Paint::green, fmt::format("{} clean", counts.clean)));
  const auto seconds = std::chrono::duration<double>(report.finished - report.started).count();
  parts.push_back(fmt::format("{:.1f} s", seconds));
  page.line(join(parts, " · "));
  if (report.stopped) page.line(page.paint(Paint::red, "stopped early: ") + printable(to_string(*report.stopped)));
}

}  // namespace

void render_rest(Page& page, const RunReport& report, const TableOptions& options) {
  render_errors(page, report);
  render_probes(page, report, options);
  render_gaps(page, report);
  render_sources(page, report);
  render_summary(page, report);
}

std::string render_table(const RunReport& report, const TableOptions& options) {
  Page page(options);
  render_findings(page, report, options);
  render_rest(page, report, options);
  return page.take();
}

}  // namespace trueup
