#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trueup/derived.hpp"
#include "trueup/environment.hpp"
#include "trueup/finding.hpp"
#include "trueup/plan.hpp"
#include "trueup/probing.hpp"
#include "trueup/result.hpp"

namespace trueup {

enum class HostStatus {
  audited,      ///< every probe answered (a fact may still be unknown)
  partial,      ///< reached, and at least one probe gave nothing
  unreachable,  ///< not reached: see `error`
};

std::string_view to_string(HostStatus status);

/// One host's part of a run.
struct HostReport {
  std::string name;
  std::string address;
  std::string unverified_source;           ///< the file that its facts were read from; empty: the host itself was probed
  HostStatus status = HostStatus::audited;
  std::optional<Error> error;              ///< why it was not reached, or was cut off; context names the phase
  Environment environment;
  Derived derived;
  Assessment assessment;
  std::vector<ProbeOutput> probes;
  std::chrono::milliseconds duration{0};
};

/// The result of one audit.
struct RunReport {
  std::string id;                          ///< sortable by time, unique
  std::string kind = "audit";
  std::string version;                     ///< of trueup
  std::chrono::system_clock::time_point started;
  std::chrono::system_clock::time_point finished;
  std::vector<HostReport> hosts;           ///< in inventory order
  std::optional<Error> stopped;            ///< the run's deadline, or the user: not all hosts were looked at
  Severity fail_on = Severity::error;
  std::vector<std::string> allowed_unknown;  ///< checks whose not-evaluated does not count
};

/// The exit status of the contract (docs/exit-status.md): 0, 1, 3, 4, 124, 130; the heaviest wins.
int exit_status(const RunReport& report);

struct TableOptions {
  bool color = false;
  std::size_t width = 100;
  int verbosity = 0;  ///< 1: info findings in full and probes; 2: raw reasons too
};

/// For people. Root causes first, each with its chain; equal findings on many hosts are one block with a folded host
/// list.
std::string render_table(const RunReport& report, const TableOptions& options);

/// For programs: the document of docs/report-json.md, schema 1. Plain ASCII: hosts choose bytes
/// that a terminal obeys, and a pipe often ends in one.
std::string render_json(const RunReport& report);

/// For people, one host in depth: each root cause with what was seen, the chain, how sure we are, why it worked before,
/// what the next start brings, and alternatives (where `judge_alternatives` was asked for them). `asked`: the id of a
/// check or the key of a finding, whose causes alone are shown; empty: all. `checks`: those of the run.
std::string render_explanation(const RunReport& report, const std::vector<Check>& checks, const std::string& asked,
                               const TableOptions& options);
/// The same for programs: the second document of docs/report-json.md.
std::string render_explanation_json(const RunReport& report, const std::vector<Check>& checks,
                                    const std::string& asked);

/// The exit status of `plan`: as of an audit, but 3 only for findings that no step cures, and 5 where `detailed` and
/// there are steps. `report.hosts` and `plan.hosts` are the same hosts in the same order.
int exit_status(const RunReport& report, const Plan& plan, bool detailed);

/// For people: what would be done on each host, in order, and why; what it costs; what is left. Equal plans of many
/// hosts are one block. `saved_to`: the file that it was written to; empty: none.
std::string render_plan(const Plan& plan, const std::string& saved_to, const TableOptions& options);
/// For programs: the document of docs/plan-json.md without its seal, so that nobody applies it.
std::string render_plan_json(const Plan& plan);

/// `gpu[001-003,007]`: names that differ in one run of digits, folded.
std::string fold_hosts(std::vector<std::string> names);

}  // namespace trueup
