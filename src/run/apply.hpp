#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "action/action.hpp"
#include "run/batches.hpp"
#include "run/host_work.hpp"
#include "trueup/inventory.hpp"
#include "trueup/plan.hpp"

// Applying a plan to its hosts, and what follows it: resuming, rolling back.

namespace trueup {

/// How hosts are asked: call_hosts(), or a test's.
using CallHosts = std::function<std::optional<Error>(const std::vector<Host>& hosts, const std::vector<Call>& first,
                                                     const OnAnswer& on_answer)>;

/// What working on hosts needs from elsewhere. Hosts are indexes into those given.
struct WorkTools {
  CallHosts call;
  std::function<std::string()> nonce;
  std::function<void(std::size_t host, std::string_view)> say;
  std::shared_ptr<const ProbeLoad> audit;
  std::function<std::optional<Error>(std::size_t host, HostProbing, HostReport&)> assess;
  /// Before the first and after the last thing done on a host: a program on the controller. Null: none. Called side by
  /// side. Whether the host has one.
  std::function<Result<bool>(std::size_t host)> before_host;
  std::function<Result<void>(std::size_t host, WorkOutcome outcome)> after_host;
  std::function<std::string(std::size_t host)> how_to_bring_back;  ///< what a person does instead of after_host
};

struct ApplySettings {
  std::string run;             ///< id on every host
  std::string plan;
  std::string by;
  bool keep = false;
  BatchPolicy policy;
  std::chrono::milliseconds reconnect_for{600'000};
  std::chrono::sys_seconds started{};
  std::function<const ActionKind*(std::string_view)> find_action;
  std::string action_library;  ///< in front of a script in a bundle
  std::string run_library;     ///< in front of every script of a run
  std::string state = std::string(kHostState);
};

struct WorkReport {
  std::vector<WorkResult> hosts;
  std::optional<Error> stopped;  ///< the user, or the run's deadline: not all was waited for
  std::string why_no_more;       ///< why the batches ended with hosts that were not begun; empty: they did not
};

/// What a host is asked before anything is done: one probe per step, `step-NN`, and then whether it is our turn,
/// `turn`. Errors: an action that is not known here.
Result<std::vector<Probe>> inspect_calls(const HostPlan& plan, const ApplySettings& settings);
/// Lines of one and not of the other, as `- LINE` and `+ LINE`. Empty: they are the same, the ends of both apart.
std::vector<std::string> changed_lines(std::string_view planned, std::string_view found);
/// The steps with their scripts, from what was seen. Errors (refused): the first step that is not as planned, where
/// `changes` gets what changed; one that its action refuses to do.
Result<std::vector<RunStep>> render_steps(const HostPlan& plan, const std::vector<ProbeOutput>& inspected,
                                          const ApplySettings& settings, std::vector<std::string>& changes);

/// Batch by batch: inspect, before_host, run, audit, after_host. `plans`: one for each of `hosts`.
WorkReport apply_plan(const std::vector<Host>& hosts, const std::vector<const HostPlan*>& plans,
                      const ApplySettings& settings, const WorkTools& tools);

/// What is to be done with a run on one host.
struct Continuation {
  HostWork::Goal goal = HostWork::Goal::resume;
  std::vector<std::string> cures, remaining;
  bool keep = false;  ///< the run was begun with --keep
  bool was_verified = false;
};
/// Batch by batch, as the policy says; before_host where something is going to be changed, after_host at the end.
WorkReport continue_run(const std::vector<Host>& hosts, const std::vector<Continuation>& continuations,
                        const ApplySettings& settings, const WorkTools& tools);

/// All runs of each host, or those named.
struct HostRuns {
  std::optional<Error> error;
  std::vector<RunOnHost> runs;
};
std::vector<HostRuns> look_at_runs(const std::vector<Host>& hosts, const std::vector<std::string>& runs,
                                   const ApplySettings& settings, const WorkTools& tools,
                                   std::optional<Error>& stopped);
/// Removes what is kept to undo them. By run: why it was kept; empty: it is gone.
struct HostPruned {
  std::optional<Error> error;
  std::map<std::string, std::string> runs;
};
std::vector<HostPruned> prune_runs(const std::vector<Host>& hosts, const std::vector<std::vector<std::string>>& runs,
                                   const ApplySettings& settings, const WorkTools& tools,
                                   std::optional<Error>& stopped);

/// The contract of docs/exit-status.md: 7, 6, 130, 8, 124, 4, 0. `rolled_back`: being put back is what was asked for.
int exit_status(const WorkReport& report, bool rolled_back);

}  // namespace trueup
