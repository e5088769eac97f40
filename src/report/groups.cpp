#include "report/groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace trueup {

std::vector<Block> blocks_of(const RunReport& report, const std::function<bool(const Finding&)>& is_wanted) {
  std::vector<Block> blocks;
  std::map<std::string, std::size_t> index;
  for (const auto& host : report.hosts)
    for (const auto& finding : host.assessment.findings) {
      if (!is_wanted(finding)) continue;
      const auto key = fmt::format("{}\n{}\n{}", to_string(finding.severity), finding.check, finding.title);
      const auto [at, is_new] = index.emplace(key, blocks.size());
      if (is_new) blocks.push_back({&host, &finding, {}});
      blocks[at->second].hosts.push_back(host.name);
    }
  std::stable_sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    if (a.finding->severity != b.finding->severity) return a.finding->severity > b.finding->severity;
    return a.hosts.size() > b.hosts.size();
  });
  return blocks;
}

std::vector<Block> root_blocks(const RunReport& report) {
  return blocks_of(report, [](const Finding& finding) { return finding.root; });
}

std::vector<ErrorGroup> error_groups(const RunReport& report) {
  // The host's own name and address in the message would make each one different.
  std::map<std::string, std::size_t> index;
  std::vector<ErrorGroup> groups;
  for (const auto& host : report.hosts) {
    if (!host.error) continue;
    std::string key = to_string(*host.error);
    for (const auto& own : {host.address, host.name})
      for (auto at = key.find(own); !own.empty() && at != key.npos; at = key.find(own, at))
        key.replace(at, own.size(), "\n");
    const auto [at, is_new] = index.emplace(key, groups.size());
    if (is_new) groups.push_back({&host, {}});
    groups[at->second].hosts.push_back(host.name);
  }
  return groups;
}

bool is_told_by_error(const HostReport& host, const ProbeOutput& probe) {
  return host.error && !probe.lost_with.empty() && to_string(*host.error).find(probe.lost_with) != std::string::npos;
}

namespace {

/// Whether each of the reasons, of which a check may have several, is that one.
bool is_nothing_but(std::string_view reasons, std::string_view why) {
  constexpr std::string_view kNext = "; needs ";
  for (;;) {
    const auto end = reasons.find(kNext);
    if (reasons.substr(0, end).find(why) == reasons.npos) return false;
    if (end == reasons.npos) return true;
    reasons.remove_prefix(end + kNext.size());
  }
}

}  // namespace

std::map<std::string, GapGroup> gap_groups(const RunReport& report) {
  std::map<std::string, GapGroup> gaps;
  for (const auto& host : report.hosts) {
    std::set<std::string> told;
    for (const auto& probe : host.probes)
      if (is_told_by_error(host, probe)) told.insert(probe.lost_with);
    std::set<std::string> reasons;
    for (const auto& gap : host.assessment.not_evaluated) {
      const auto by_error =
          std::find_if(told.begin(), told.end(), [&](const std::string& why) { return is_nothing_but(gap.why, why); });
      const auto& why = by_error == told.end() ? gap.why : *by_error;
      gaps[why].checks.insert(gap.check);
      if (reasons.insert(why).second) gaps[why].hosts.push_back(host.name);
    }
  }
  return gaps;
}

std::map<std::string, std::vector<std::string>> unverified_sources(const RunReport& report) {
  std::map<std::string, std::vector<std::string>> sources;
  for (const auto& host : report.hosts)
    if (!host.unverified_source.empty()) sources[host.unverified_source].push_back(host.name);
  return sources;
}

namespace {

void add(Counts& counts, const HostReport& host, Severity fail_on) {
  const auto& [findings, not_evaluated, held, not_applicable] = host.assessment;
  bool fails = false, warns = false;
  for (const auto& finding : findings) {
    fails |= finding.severity >= fail_on;
    warns |= finding.severity != Severity::info;
    counts.root_causes += finding.root ? 1U : 0U;
    counts.errors += finding.severity == Severity::error ? 1U : 0U;
    counts.warnings += finding.severity == Severity::warning ? 1U : 0U;
    counts.infos += finding.severity == Severity::info ? 1U : 0U;
  }
  const bool unreachable = host.status == HostStatus::unreachable;
  counts.unreachable += unreachable ? 1U : 0U;
  counts.incomplete += host.error && !unreachable ? 1U : 0U;
  counts.failing += fails ? 1U : 0U;
  counts.clean += !host.error && !warns && not_evaluated.empty() ? 1U : 0U;
  counts.held += held;
  counts.not_applicable += not_applicable;
  counts.not_evaluated += not_evaluated.size();
  ++counts.hosts;
}

}  // namespace

Counts counts_of(const HostReport& host, Severity fail_on) {
  Counts counts;
  add(counts, host, fail_on);
  return counts;
}

Counts counts_of(const RunReport& report) {
  Counts counts;
  for (const auto& host : report.hosts) add(counts, host, report.fail_on);
  return counts;
}

std::string totals(const Counts& counts) {
  return fmt::format("{} ({} failing, {} not reached, {} incomplete, {} clean); {}, {}, {}; {} not evaluated",
                     count(counts.hosts, "host"), counts.failing, counts.unreachable, counts.incomplete, counts.clean,
                     count(counts.errors, "error"), count(counts.warnings, "warning"), count(counts.infos, "info"),
                     count(counts.not_evaluated, "check"));
}

}  // namespace trueup
