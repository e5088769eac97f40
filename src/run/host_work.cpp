#include "run/host_work.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"

namespace trueup {
namespace {

using namespace std::chrono_literals;

constexpr auto kFollowFor = 20s;      // a host holds an answer back so long while nothing happens
constexpr auto kAround = 40s;         // of a call's limit: logging in, becoming root
constexpr std::size_t kLongestJournal = std::size_t{4} << 20U;
constexpr auto kLongestPause = 30s;   // before a host that was not reached is asked again

bool holds(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::string why_not_told(const Comparison& comparison) {
  return fmt::format("could not be evaluated: {}", join(comparison.unknown, "; "));
}

std::string why_disagrees(const Comparison& comparison) {
  std::string why;
  if (!comparison.still.empty()) why = fmt::format("still found: {}", join(comparison.still, ", "));
  if (!comparison.unexpected.empty())
    why += fmt::format("{}found and not planned: {}", why.empty() ? "" : "; ", join(comparison.unexpected, ", "));
  return why;
}

}  // namespace

std::string_view to_string(WorkOutcome outcome) {
  switch (outcome) {
    case WorkOutcome::unchanged: return "unchanged";
    case WorkOutcome::verified: return "verified";
    case WorkOutcome::unverified: return "unverified";
    case WorkOutcome::put_back: return "put back";
    case WorkOutcome::stuck: return "stuck";
    case WorkOutcome::interrupted: return "interrupted";
    case WorkOutcome::at_work: return "at work";
    case WorkOutcome::refused: return "refused";
    case WorkOutcome::failed: return "failed";
    case WorkOutcome::not_begun: return "not begun";
  }
  return "unknown";
}

WorkOutcome outcome_of_refusal(std::string_view code) {
  for (const auto* each : {"lock-held", "left-behind", "used", "later-run", "kubernetes"})
    if (code == each) return WorkOutcome::refused;
  return WorkOutcome::failed;
}

WorkResult unreached_result(std::string why, std::string hint) {
  WorkResult result;
  result.outcome = WorkOutcome::failed;
  result.code = "unreachable";
  result.why = std::move(why);
  result.hint = std::move(hint);
  return result;
}

Comparison compare_with_plan(const std::vector<std::string>& cures, const std::vector<std::string>& remaining,
                             const HostReport& after) {
  Comparison comparison;
  for (const auto& finding : after.assessment.findings) {
    const auto key = finding.key();
    if (holds(remaining, key)) continue;
    if (holds(cures, key) && finding.severity != Severity::info)
      comparison.still.push_back(key);
    else if (finding.severity == Severity::error)
      comparison.unexpected.push_back(key);
  }
  for (const auto& key : cures) {
    if (holds(remaining, key) || holds(comparison.still, key)) continue;
    const auto check = key.substr(0, key.find('@'));
    const auto& open = after.assessment.not_evaluated;
    const auto found = std::find_if(open.begin(), open.end(), [&](const NotEvaluated& one) {
      return one.check == check && (one.about.empty() || key == one.check + "@" + one.about);
    });
    if (found != open.end())
      comparison.unknown.push_back(fmt::format("{}: {}", key, found->why));
    else if (after.status != HostStatus::audited)
      comparison.unknown.push_back(fmt::format("{}: the host was not looked at as a whole", key));
  }
  return comparison;
}

HostWork::HostWork(WorkSettings settings, Goal goal, std::vector<Probe> first, std::vector<std::string> cures,
                   std::vector<std::string> remaining)
    : settings_(std::move(settings)),
      goal_(goal),
      first_(std::move(first)),
      cures_(std::move(cures)),
      remaining_(std::move(remaining)) {}

RunCall HostWork::call() const {
  auto call = settings_.call;
  call.nonce = settings_.nonce();
  return call;
}

Call HostWork::begin(Clock::time_point now) {
  heard_ = now;
  finished_ = false;
  switch (goal_) {
    case Goal::apply: return ask(Phase::starting, std::move(first_), 120s);
    case Goal::resume: return ask(Phase::starting, {continue_call(call(), Continue::resume)}, 60s + kAround);
    case Goal::undo: return ask(Phase::starting, {continue_call(call(), Continue::undo)}, 60s + kAround);
    case Goal::follow: touched_ = true; return follow();
    case Goal::verify: break;
  }
  touched_ = true;
  phase_ = Phase::auditing;
  return last_ = Call{settings_.audit, {}, {}};
}

Call HostWork::ask(Phase phase, std::vector<Probe> probes, std::chrono::milliseconds limit,
                   std::chrono::milliseconds pause) {
  Playbook playbook;
  playbook.probes = std::move(probes);
  phase_ = phase;
  last_ = Call{std::make_shared<const ProbeLoad>(playbook), pause, limit};
  return last_;
}

Call HostWork::follow(std::chrono::milliseconds pause) {
  const auto lines = static_cast<std::size_t>(std::count(journal_text_.begin(), journal_text_.end(), '\n'));
  return ask(Phase::following, {follow_call(call(), lines, kFollowFor)}, kFollowFor + kAround, pause);
}

Call HostWork::again(std::chrono::milliseconds pause) {
  last_.pause = pause;
  return last_;
}

std::optional<Call> HostWork::finish(WorkOutcome outcome, std::string why, std::string hint) {
  finished_ = true;
  result_.outcome = outcome;
  result_.why = std::move(why);
  result_.hint = std::move(hint);
  return std::nullopt;
}

Result<std::optional<Call>> HostWork::next(HostProbing probing, Clock::time_point now) {
  if (probing.error) return lost(*std::move(probing.error), now);
  heard_ = now;
  losses_ = 0;
  switch (phase_) {
    case Phase::starting:
    case Phase::turning_back: return started(probing);
    case Phase::following: return followed(probing);
    case Phase::auditing: return audited(std::move(probing));
    case Phase::marking: break;
  }
  const auto* output = find_output(probing.outputs, "mark");
  const auto answer =
      output == nullptr ? Result<CallAnswer>(fail(ErrorKind::internal, "no answer")) : read_answer(*output);
  if (answer && answer->words == "verified") return finish(WorkOutcome::verified, "");
  return finish(WorkOutcome::unverified, fmt::format("the audit agrees, but the host could not be told: {}",
                                                     answer ? answer->words : to_string(answer.error())));
}

// Nothing was heard. What began goes on by itself, and is asked again; what did not begin is over.
Result<std::optional<Call>> HostWork::lost(Error error, Clock::time_point now) {
  if (!touched_ && phase_ == Phase::starting) {
    // Before the script was sent nothing can have begun.
    const bool is_sent = std::any_of(error.context.begin(), error.context.end(),
                                     [](const std::string& doing) { return doing == "probing"; });
    if (!is_sent) {
      result_.code = "unreachable";
      return finish(WorkOutcome::failed, to_string(error), error.hint);
    }
    touched_ = true;
    losses_ = 1;
    settings_.say(fmt::format("not reached any more, asking whether it began: {}", to_string(error)));
    start_was_lost_ = std::move(error);
    return follow(5s);
  }
  // That the host does not want us any more is no accident of the network.
  const bool is_refused =
      error.kind == ErrorKind::auth || error.kind == ErrorKind::host_key || error.kind == ErrorKind::escalation;
  if (is_refused || now - heard_ >= settings_.reconnect_for) {
    abandon(error);
    return std::nullopt;
  }
  const auto pause = std::min<std::chrono::milliseconds>(kLongestPause, 1s * (1 << std::min(losses_, 5)));
  if (losses_++ == 0) settings_.say(fmt::format("not reached, asking again: {}", to_string(error)));
  return again(pause);
}

void HostWork::abandon(const Error& why) {
  if (!touched_) {
    finish(WorkOutcome::not_begun, to_string(why));
  } else if (phase_ == Phase::auditing || phase_ == Phase::marking) {
    finish(WorkOutcome::unverified, to_string(why), fmt::format("`trueup resume {}` looks again", settings_.call.run));
  } else {
    finish(WorkOutcome::at_work, to_string(why),
           fmt::format("it goes on by itself; `trueup status {}` tells", settings_.call.run));
  }
}

std::optional<Call> HostWork::started(const HostProbing& probing) {
  const auto* output = find_output(probing.outputs, phase_ == Phase::starting && goal_ == Goal::apply ? "start" : "continue");
  const auto answer =
      output == nullptr ? Result<CallAnswer>(fail(ErrorKind::internal, "no answer")) : read_answer(*output);
  if (!answer) {
    // It may have begun all the same.
    start_was_lost_ = answer.error();
    touched_ = true;
    return follow(5s);
  }
  if (answer->kind == CallAnswer::Kind::refused) {
    result_.code = answer->code;
    // The call before, whose answer was lost, holds it.
    if (phase_ == Phase::turning_back && answer->code == "lock-held") return follow(5s);
    if (phase_ == Phase::turning_back)
      return finish(WorkOutcome::stuck, fmt::format("{}; and not undone: {}", why_turned_, answer->words));
    return finish(outcome_of_refusal(answer->code), answer->words);
  }
  if (answer->kind == CallAnswer::Kind::unanswered)
    start_was_lost_ = Error{ErrorKind::timeout, "the executor gave no answer", {}, {}, {}};
  touched_ = true;
  return follow();
}

std::optional<Call> HostWork::followed(const HostProbing& probing) {
  const auto* output = find_output(probing.outputs, "follow");
  auto runs =
      output == nullptr ? Result<std::vector<RunOnHost>>(fail(ErrorKind::internal, "no answer")) : read_runs(*output);
  if (!runs) {
    // The state directory is no longer ours to read, or the call was ended: the host is there, the run cannot be seen.
    if (losses_ == 0 && runs.error().kind != ErrorKind::refused) {
      losses_ = 1;
      return again(5s);
    }
    return finish(WorkOutcome::at_work, to_string(runs.error()),
                  fmt::format("`trueup status {}` tells", settings_.call.run));
  }
  if (runs->empty()) {
    if (start_was_lost_)
      return finish(WorkOutcome::failed, fmt::format("it did not begin: {}", to_string(*start_was_lost_)),
                    start_was_lost_->hint);
    return finish(WorkOutcome::interrupted, "the host no longer has the run");
  }
  const auto& run = runs->front();
  journal_text_ += run.journal_text;
  if (journal_text_.size() > kLongestJournal)
    return finish(WorkOutcome::at_work, "its journal is longer than that of any run can be",
                  fmt::format("`trueup status {}` tells", settings_.call.run));
  const auto before = std::exchange(result_.journal, parse_journal(journal_text_, run.lives));
  tell(before);
  // A host that has nothing to say says so at once only where it does not wait, as it should.
  if (result_.journal.state == RunState::running) return follow(run.journal_text.empty() ? 1s : 0s);
  return ended(result_.journal.state);
}

// Each event once.
void HostWork::tell(const RunJournal& before) {
  for (std::size_t i = before.events.size(); i < result_.journal.events.size(); ++i) {
    const auto& event = result_.journal.events[i];
    settings_.say(fmt::format("{}{}{}{}", event.event, event.step > 0 ? fmt::format(" step {}", event.step) : "",
                              event.detail.empty() ? "" : event.step > 0 ? ": " : " ", event.detail));
  }
}

std::optional<Call> HostWork::ended(RunState state) {
  const auto& journal = result_.journal;
  const auto because = journal.why.empty() ? std::string() : fmt::format("step {}: {}", journal.why_step, journal.why);
  const auto commands = fmt::format("`trueup resume {0}` or `trueup rollback {0}`", settings_.call.run);
  switch (state) {
    case RunState::applied:
      if (goal_ == Goal::undo) break;
      if (!why_turned_.empty())
        return finish(WorkOutcome::stuck, fmt::format("{}; and not undone", why_turned_), commands);
      if (!settings_.audit) return finish(WorkOutcome::unverified, "not looked at");
      settings_.say("looking at the host again");
      phase_ = Phase::auditing;
      return last_ = Call{settings_.audit, {}, {}};
    case RunState::verified:
      if (goal_ == Goal::undo) break;
      return finish(WorkOutcome::verified, "");
    case RunState::undone: return finish(WorkOutcome::put_back, !why_turned_.empty() ? why_turned_ : because);
    case RunState::stuck:
      return finish(WorkOutcome::stuck, because, fmt::format("once the cause is gone, {}", commands));
    case RunState::interrupted:
    case RunState::running: break;
  }
  return finish(WorkOutcome::interrupted,
                "nothing works on the run any more, and it did not end; was the host restarted?", commands);
}

Result<std::optional<Call>> HostWork::audited(HostProbing probing) {
  HostReport report;
  if (auto why = settings_.assess(std::move(probing), report)) return fail(*std::move(why));
  result_.comparison = compare_with_plan(cures_, remaining_, report);
  const auto& comparison = result_.comparison;
  if (!comparison.still.empty() || !comparison.unexpected.empty()) return turn_back(why_disagrees(comparison));
  if (!comparison.unknown.empty())
    return finish(WorkOutcome::unverified, why_not_told(comparison),
                  fmt::format("`trueup resume {}` looks again", settings_.call.run));
  return ask(Phase::marking, {verified_call(call())}, 20s + kAround);
}

// Done, and not what it was done for.
std::optional<Call> HostWork::turn_back(std::string why) {
  why_turned_ = fmt::format("all steps are done, but {}", why);
  // Whoever used the host since then did so as it is: whether that goes is not ours to say.
  if (goal_ == Goal::verify)
    return finish(WorkOutcome::stuck, why_turned_,
                  fmt::format("nothing was undone; `trueup rollback {}` puts everything back", settings_.call.run));
  if (settings_.keep)
    return finish(WorkOutcome::stuck, why_turned_,
                  fmt::format("kept as was asked for; `trueup rollback {}`", settings_.call.run));
  settings_.say(fmt::format("{}: undoing", why_turned_));
  return ask(Phase::turning_back, {continue_call(call(), Continue::undo)}, 60s + kAround);
}

}  // namespace trueup
