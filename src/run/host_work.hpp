#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "action/host_run.hpp"
#include "run/probe_hosts.hpp"
#include "trueup/report.hpp"

namespace trueup {

/// What became of one host.
enum class WorkOutcome {
  unchanged,    ///< nothing was to be done
  verified,     ///< all steps are done, and the audit afterwards agrees with the plan
  unverified,   ///< all steps are done; whether the plan came true could not be told
  put_back,     ///< it failed, or was rolled back: as it was
  stuck,        ///< neither old nor new, or kept although it failed: a person is needed
  interrupted,  ///< nothing works on the run, and it did not end: `resume` or `rollback`
  at_work,      ///< left at work on the host, which was not reached any more, or not waited for
  refused,      ///< not as planned, or somebody else's turn; nothing was touched
  failed,       ///< nothing was touched, for another reason: not reached, no room
  not_begun,    ///< its turn did not come
};
std::string_view to_string(WorkOutcome outcome);

/// What a refusal to begin comes to, by its code (CallAnswer): somebody else's turn, or a host that cannot.
WorkOutcome outcome_of_refusal(std::string_view code);

/// How a host after its run differs from what the plan said. Keys of findings.
struct Comparison {
  std::vector<std::string> still;       ///< to be cured, and still there; not those of severity info: what was logged once
                                        ///< stays in the journal
  std::vector<std::string> unexpected;  ///< errors that the plan did not have
  std::vector<std::string> unknown;     ///< to be cured, and its check could not be evaluated: `KEY: WHY`
  friend bool operator==(const Comparison&, const Comparison&) = default;
};

/// A finding that the plan predicts to remain is neither still there nor unexpected. A host that was not audited as a
/// whole answers for none of its checks.
Comparison compare_with_plan(const std::vector<std::string>& cures, const std::vector<std::string>& remaining,
                             const HostReport& after);

struct WorkResult {
  WorkOutcome outcome = WorkOutcome::not_begun;
  std::string code;  ///< of a refusal, as in CallAnswer; `changed`: it is not as the plan saw it; `shared`: what
                     ///< another host was to do first was not done; `unreachable`
  std::string why;                ///< one line; empty: it went well
  std::string hint;               ///< what to do; may be empty
  std::string drained;  ///< why it is out of service, and how it comes back; empty: as far as we know it is not
  std::vector<std::string> changes;  ///< what is not as the plan saw it: `- LINE`, `+ LINE`
  RunJournal journal;
  Comparison comparison;
};

/// Of a host that was not reached, or not to the end: nothing was touched there.
WorkResult unreached_result(std::string why, std::string hint);

struct WorkSettings {
  RunCall call;                               ///< nonces come from `nonce`
  std::function<std::string()> nonce;
  std::chrono::milliseconds reconnect_for{600'000};  ///< a host that is not reached is asked again so long
  std::shared_ptr<const ProbeLoad> audit;     ///< null: none at the end
  /// Judges what the audit brought; an error ends the whole run.
  std::function<std::optional<Error>(HostProbing, HostReport&)> assess;
  std::function<void(std::string_view)> say;  ///< what happens on the host, a line each
  bool keep = false;                          ///< what failed is left as it is
};

/// Leads one host through its run, call by call: start (or resume, or undo), follow to the end, audit, compare, and
/// mark as verified or undo. Every call is a login of its own: a connection that is lost is simply asked for again.
/// Pure but for what the settings bring in.
class HostWork {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Goal {
    apply,
    resume,
    undo,
    follow,  ///< it is at work
    verify,  ///< it is applied, and was not compared yet
  };

  /// `first`: the calls that start it; of the other goals none is needed.
  HostWork(WorkSettings settings, Goal goal, std::vector<Probe> first, std::vector<std::string> cures,
           std::vector<std::string> remaining);

  Call begin(Clock::time_point now);
  Result<std::optional<Call>> next(HostProbing probing, Clock::time_point now);
  /// The run of all hosts ended early: this one is left as it is.
  void abandon(const Error& why);
  bool is_finished() const { return finished_; }
  const WorkResult& result() const { return result_; }

 private:
  enum class Phase { starting, following, auditing, marking, turning_back };

  Call ask(Phase phase, std::vector<Probe> probes, std::chrono::milliseconds limit,
           std::chrono::milliseconds pause = {});
  Call follow(std::chrono::milliseconds pause = {});
  Call again(std::chrono::milliseconds pause);
  std::optional<Call> finish(WorkOutcome outcome, std::string why, std::string hint = {});
  Result<std::optional<Call>> lost(Error error, Clock::time_point now);
  std::optional<Call> started(const HostProbing& probing);
  std::optional<Call> followed(const HostProbing& probing);
  Result<std::optional<Call>> audited(HostProbing probing);
  std::optional<Call> ended(RunState state);
  std::optional<Call> turn_back(std::string why);
  RunCall call() const;
  void tell(const RunJournal& before);

  WorkSettings settings_;
  Goal goal_;
  std::vector<Probe> first_;
  std::vector<std::string> cures_, remaining_;
  Phase phase_ = Phase::starting;
  Call last_;
  Clock::time_point heard_{};
  int losses_ = 0;                      ///< in a row
  std::optional<Error> start_was_lost_; ///< whether it began is not known
  bool finished_ = false;
  bool touched_ = false;                ///< something may be at work there
  std::string journal_text_, why_turned_;
  WorkResult result_;
};

}  // namespace trueup
