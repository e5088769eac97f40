#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "trueup/report.hpp"

// What is remembered of a run. No secret: what reports hold, no more.

namespace trueup {

/// One host's part of a run.
struct HostRecord {
  std::string name;
  std::string address;
  std::string status;         ///< of an audit: `audited`, `partial`, `unreachable`; of others: what became of the host
  std::string host_run;       ///< name of the run's directory on the host (docs/host-state.md); empty: it left none
  std::string detail = "{}";  ///< JSON object: what the run's report says of the host
  friend bool operator==(const HostRecord&, const HostRecord&) = default;
};

struct RunRecord {
  using Time = std::chrono::sys_time<std::chrono::milliseconds>;

  std::string id;                ///< sortable by time, unique
  std::string kind;              ///< the command: `audit`, `plan`, `apply`, `resume`, `rollback`
  std::string version;           ///< of trueup
  Time started{};
  std::optional<Time> finished;  ///< empty: not yet, or the controller was killed
  std::optional<int> exit;       ///< likewise
  std::string plan;              ///< id of the plan that was made or applied; empty: none
  std::vector<HostRecord> hosts; ///< in inventory order
  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

/// What is remembered of an audit that ended with `exit`. A host's detail: `error`, `unverified_source`, `findings` and
/// `not_evaluated` of docs/report-json.md.
RunRecord record_of(const RunReport& report, int exit);

/// `trueup history`: a line per run, in the order given.
std::string render_history(const std::vector<RunRecord>& runs, const TableOptions& options);
/// The same for programs: docs/history-json.md, schema 1.
std::string render_history_json(const std::vector<RunRecord>& runs);

}  // namespace trueup
