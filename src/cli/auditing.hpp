#pragma once

#include <optional>
#include <vector>

#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/setup.hpp"
#include "cli/stored.hpp"
#include "run/audit.hpp"
#include "run/host_programs.hpp"
#include "trueup/report.hpp"

// From the command line to a run's report: what all commands that look at hosts have in common.

namespace trueup {

/// The statuses of docs/exit-status.md that commands give by themselves.
inline constexpr int kToolFailed = 1, kBadInput = 2, kIncomplete = 4, kNeedsPerson = 7, kRefused = 8, kDeadline = 124,
                     kInterrupted = 130;

/// Says each error on standard error; the exit status.
int report_errors(const Errors& errors);

/// Everything between the command line and the reports: what `audit` and `facts` have in common.
struct Prepared {
  Auditor auditor;
  std::vector<Host> hosts;
  ProbingOptions probing;
  std::vector<StoredHost> stored;  ///< one for each host, where files are looked at instead
  Inventory inventory = {};                 ///< whole; empty where files are looked at
  std::vector<HostPrograms> programs = {};  ///< one for each host, where a plan is made
};

bool is_offline(const Options& options);

/// Loads and checks everything that the command line names, before any host is touched. Nothing: it is wrong, `status`
/// is the exit status, and all of it was said.
std::optional<Prepared> prepare(const Options& options, int& status);

/// Probes and judges every host. An expression that never ends stops the run, with what was done so far.
RunReport run_audit(const Prepared& prepared, const Options& options);

/// The status of a run that ended early for that reason.
int stopped_status(const Error& why);

/// Writes the report in every format that was asked for. `exit`: the status that the run has of its own; the one that
/// it ends with.
int write_outputs(const RunReport& report, const Options& options, const Renderers& renderers, int exit);

}  // namespace trueup
