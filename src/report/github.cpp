#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "report/groups.hpp"
#include "trueup/report_formats.hpp"

// Workflow commands of GitHub Actions, one a line:
//   command ::= '::' name ' title=' property '::' message
// Source: GitHub's "Workflow commands for GitHub Actions", and actions/toolkit packages/core/src/command.ts for what is
// escaped. A step shows ten annotations of each level, so that equal ones of many hosts are one.

namespace trueup {
namespace {

constexpr std::size_t kLongestTitle = 200, kLongestHosts = 400, kLongestLine = 500, kMostLines = 20;

/// The message of a workflow command. `text` is one line of a report; lines are joined by kNextLine.
std::string message(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) safe += c == '%' ? std::string("%25") : std::string(1, c);
  return safe;
}

/// A property of a workflow command: in addition nothing that would end it.
std::string property(std::string_view text) {
  std::string safe;
  for (const char c : message(text))
    safe += c == ':' ? std::string("%3A") : c == ',' ? std::string("%2C") : std::string(1, c);
  return safe;
}

constexpr std::string_view kNextLine = "%0A";

class Annotation {
 public:
  Annotation(std::string_view level, const std::string& title)
      : text_(fmt::format("::{} title={}::", level, property(shorten(title, kLongestTitle)))) {}

  void line(const std::string& text) {
    if (lines_++ != 0) text_ += kNextLine;
    text_ += message(shorten(text, kLongestLine));
  }

  std::string take() { return std::move(text_) + "\n"; }

 private:
  std::string text_;
  std::size_t lines_ = 0;
};

std::string_view level_of(Severity severity) {
  return severity == Severity::error ? "error" : severity == Severity::warning ? "warning" : "notice";
}

std::string where(const std::vector<std::string>& hosts) {
  return hosts.size() == 1 ? "on " + hosts.front()
                           : fmt::format("on {} hosts: {}", hosts.size(), shorten(fold_hosts(hosts), kLongestHosts));
}

std::string annotation_of(const Block& block) {
  const auto& finding = *block.finding;
  Annotation annotation(level_of(finding.severity), finding.title);
  annotation.line(where(block.hosts));
  annotation.line("check " + finding.check);
  for (const auto& cause : finding.caused_by) annotation.line("caused by " + cause);
  if (!finding.because.empty()) annotation.line(std::string(trim(finding.because)));
  const auto shown = std::min(finding.evidence.size(), kMostLines);
  for (std::size_t i = 0; i < shown; ++i) annotation.line("- " + finding.evidence[i]);
  if (shown < finding.evidence.size())
    annotation.line(fmt::format("({} more lines of evidence)", finding.evidence.size() - shown));
  if (!finding.fixes.empty()) annotation.line("fix: " + join(finding.fixes, ", "));
  return annotation.take();
}

std::string annotation_of(const ErrorGroup& group) {
  const bool is_unreached = group.host->status == HostStatus::unreachable;
  Annotation annotation("error", is_unreached ? "not reached" : "not looked at to the end");
  annotation.line(where(group.hosts));
  annotation.line(to_string(*group.host->error));
  if (!group.host->error->hint.empty()) annotation.line(group.host->error->hint);
  return annotation.take();
}

std::string annotation_of(const std::string& why, const GapGroup& gap, const std::vector<std::string>& allowed) {
  const std::vector<std::string> checks(gap.checks.begin(), gap.checks.end());
  const bool is_allowed = std::all_of(checks.begin(), checks.end(), [&](const std::string& check) {
    return std::find(allowed.begin(), allowed.end(), check) != allowed.end();
  });
  Annotation annotation(is_allowed ? "notice" : "warning", count(checks.size(), "check") + " not evaluated");
  annotation.line(where(gap.hosts));
  annotation.line(why);
  annotation.line(join(checks, ", "));
  return annotation.take();
}

}  // namespace

std::string render_github(const RunReport& report) {
  std::string text;
  if (report.stopped) {
    Annotation annotation("error", "the audit ended early");
    annotation.line(to_string(*report.stopped));
    text += annotation.take();
  } else if (report.hosts.empty()) {
    Annotation annotation("error", "nothing was audited");
    annotation.line("no host was selected");
    text += annotation.take();
  }
  // Of one severity causes come before what they explain: they are shown where there is room for ten.
  const auto is_failing = [&](const Finding& finding) { return finding.severity >= report.fail_on; };
  auto blocks = blocks_of(report, is_failing);
  std::stable_sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    if (a.finding->severity != b.finding->severity) return a.finding->severity > b.finding->severity;
    return a.finding->root && !b.finding->root;
  });
  for (const auto& block : blocks) text += annotation_of(block);
  for (const auto& group : error_groups(report)) text += annotation_of(group);
  for (const auto& [why, gap] : gap_groups(report)) text += annotation_of(why, gap, report.allowed_unknown);
  Annotation summary("notice", "trueup");
  summary.line(totals(counts_of(report)));
  return text + summary.take();
}

}  // namespace trueup
