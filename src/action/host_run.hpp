#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "action/action.hpp"
#include "trueup/probing.hpp"

// A run on a host, as text in both directions: what the controller asks travels as probes of a bundle, and what the
// host keeps of a run (docs/host-state.md) is read here. Pure; the scripts are host_state.sh, host_calls.sh and
// executor.sh.

namespace trueup {

inline constexpr std::string_view kHostState = "/var/lib/trueup";

/// One step with its scripts rendered.
struct RunStep {
  std::string kind, object;
  Inspected expected;  ///< what `inspect` must print just before the step, and again after its undoing
  Script inspect, apply, verify, undo, prune;
};

struct HostRun {
  std::string run;      ///< unique, sorted by time; letters, digits, `-` and `.`, as `plan`
  std::string plan;
  std::string host;
  std::string by;       ///< user@controller
  bool keep = false;    ///< a step that fails is left as it is, and so are those before it
  bool drained = false; ///< a before_host program ran: only then may this be a node of Kubernetes
  std::chrono::sys_seconds started{};
  std::string library;  ///< what stands in front of every step's script
  std::vector<RunStep> steps;
  std::vector<std::string> cures, remaining;  ///< keys of findings: what the closing audit is compared with, also after `resume`
};

/// Who asks, of which run, and where the host keeps it. `nonce`: hex digits, new for every call.
struct RunCall {
  std::string run, by, nonce;
  std::string state = std::string(kHostState);
};

/// Whether the host is a node of Kubernetes, which start_calls() refuses unless it was drained: for whoever plans. One
/// that did not say counts as none until then.
Probe kubernetes_probe();
bool is_kubernetes_node(const std::vector<ProbeOutput>& outputs);

/// Whether a run of the plan could begin on the host now. It is asked after the calls `after`, of the same bundle.
Probe turn_call(const RunCall& call, const std::string& plan, std::vector<std::string> after);
/// The calls that start a run, in one bundle: all but the last write its directory, the last starts it and gives the
/// answer. Errors: an id that is no file name, more than 99 steps.
Result<std::vector<Probe>> start_calls(const HostRun& run, const RunCall& call);

enum class Continue { resume, undo };
Probe continue_call(const RunCall& call, Continue what);
/// Answered when the journal has more than `lines` lines, when nothing works on the run, or after `wait`.
Probe follow_call(const RunCall& call, std::size_t lines, std::chrono::seconds wait);
/// All that is known of the runs named; of all runs, where none is.
Probe look_call(const RunCall& call, const std::vector<std::string>& runs);
/// After the controller's audit agreed with the plan.
Probe verified_call(const RunCall& call);
/// Runs that are not ended, or stuck, stay.
Probe prune_call(const RunCall& call, const std::vector<std::string>& runs);

enum class RunState {
  running,      ///< an executor works on it
  interrupted,  ///< none does, and it did not end: the host may be between old and new
  applied,      ///< all steps are done, and nobody compared the host with the plan yet
  verified,     ///< and the audit afterwards agreed with the plan
  undone,       ///< put back, or never touched
  stuck,        ///< neither old nor new: a person is needed
};
std::string_view to_string(RunState state);

/// `EPOCH EVENT [NN] [DETAIL]`
struct JournalEvent {
  std::int64_t at = 0;
  std::string event;
  int step = 0;        ///< 0: of the run as a whole
  std::string detail;  ///< of `start` and `end`: what; else why
  friend bool operator==(const JournalEvent&, const JournalEvent&) = default;
};

struct RunJournal {
  std::vector<JournalEvent> events;
  std::size_t lines = 0;     ///< complete ones, also those that are no event
  std::size_t damaged = 0;   ///< complete lines that are no event: cut by a full disk, or not ours
  RunState state = RunState::interrupted;
  bool undoing = false;      ///< on its way back
  std::map<int, bool> steps; ///< touched and not put back -> whether it is done
  std::string why;           ///< of the last step that failed, changed or got stuck; empty: none did
  int why_step = 0;
};

/// Any bytes are answered. A last line without an end says nothing: it is being written, or was cut. `lives`: an
/// executor works on the run now.
RunJournal parse_journal(std::string_view text, bool lives);

/// What a host says to a call.
struct CallAnswer {
  enum class Kind { done, refused, unanswered } kind = Kind::done;
  std::string code;  ///< of a refusal: lock-held, left-behind, used, later-run, no-run, no-state, state-unsafe, disk-full,
                     ///< no-tool, kubernetes, not-applied
  std::string words; ///< for people; of `done`: `started`, `already applied`, `verified`, ...
};

/// The answer of a call that starts, continues, or marks. Errors: the probe did not end well.
Result<CallAnswer> read_answer(const ProbeOutput& output);

/// A run as its host tells it.
struct RunOnHost {
  std::string run;
  bool lives = false;
  std::map<std::string, std::string> about;
  std::vector<std::string> steps;    ///< `KIND OBJECT`
  std::vector<std::string> cures, remaining;  ///< keys of findings, as the plan had them
  std::string journal_text;
  RunJournal journal;
  std::vector<std::string> outputs;  ///< what the step that went wrong printed last, each line behind `NN.EVENT `
};

/// Of a follow call: the one run, whose journal holds the new lines only. Of a look call: all.
Result<std::vector<RunOnHost>> read_runs(const ProbeOutput& output);
/// Of a prune call: run -> why it was kept; empty: it is gone.
Result<std::map<std::string, std::string>> read_pruned(const ProbeOutput& output);

}  // namespace trueup
