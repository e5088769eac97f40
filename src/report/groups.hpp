#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trueup/report.hpp"

// What many hosts have in common, told once: what every report for people is made of.

namespace trueup {

/// Equal findings of several hosts. The first host's stands for all.
struct Block {
  const HostReport* host = nullptr;
  const Finding* finding = nullptr;
  std::vector<std::string> hosts;
};

/// The findings that `is_wanted`, those that equal each other in severity, check and title as one: the heaviest first,
/// and among those what most hosts have.
std::vector<Block> blocks_of(const RunReport& report, const std::function<bool(const Finding&)>& is_wanted);
std::vector<Block> root_blocks(const RunReport& report);

/// Hosts that were not reached or cut off for one reason. The first host's error stands for all.
struct ErrorGroup {
  const HostReport* host = nullptr;
  std::vector<std::string> hosts;
};
std::vector<ErrorGroup> error_groups(const RunReport& report);

/// Whether a probe was lost for what the host's own error says already.
bool is_told_by_error(const HostReport& host, const ProbeOutput& probe);

/// Checks that could not be evaluated for one reason. Where that is what ended the host's audit, it is told by it, not
/// by all the facts that are missing for it.
struct GapGroup {
  std::vector<std::string> hosts;
  std::set<std::string> checks;
};
/// By reason.
std::map<std::string, GapGroup> gap_groups(const RunReport& report);

/// Hosts by the file that their facts were read from, where nobody vouches for it.
std::map<std::string, std::vector<std::string>> unverified_sources(const RunReport& report);

/// What is counted in a run.
struct Counts {
  std::size_t hosts = 0, unreachable = 0;
  std::size_t incomplete = 0;  ///< hosts that were reached and then cut off
  std::size_t failing = 0;     ///< hosts with a finding at or above `--fail-on`
  std::size_t clean = 0;       ///< hosts with nothing but infos, and everything looked at
  std::size_t root_causes = 0, errors = 0, warnings = 0, infos = 0;
  std::size_t held = 0, not_applicable = 0, not_evaluated = 0;

  std::size_t findings() const { return errors + warnings + infos; }
};
Counts counts_of(const RunReport& report);
Counts counts_of(const HostReport& host, Severity fail_on);

/// In one line, whatever there is none of included: `2 hosts (1 failing, 0 not reached, ...), ...`.
std::string totals(const Counts& counts);

}  // namespace trueup
