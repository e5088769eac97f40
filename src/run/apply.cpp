#include "run/apply.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "plan/host_plan.hpp"
#include "run/draining.hpp"

namespace trueup {
namespace {

using namespace std::chrono_literals;
using Clock = HostWork::Clock;

HostProgress progress_of(const WorkResult& result) {
  if (result.code == "unreachable") return HostProgress::untouched;
  switch (result.outcome) {
    case WorkOutcome::unchanged:
    case WorkOutcome::verified: return HostProgress::done;
    case WorkOutcome::refused: return HostProgress::untouched;
    case WorkOutcome::failed:
    case WorkOutcome::put_back: return HostProgress::put_back;
    case WorkOutcome::not_begun: return HostProgress::waiting;
    default: return HostProgress::away;
  }
}

std::string_view trim_end(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// Leads some of the hosts at once, each by its own HostWork.
std::optional<Error> work_on(const std::vector<Host>& hosts, const std::vector<std::size_t>& chosen,
                             std::vector<std::unique_ptr<HostWork>>& works, const WorkTools& tools) {
  std::vector<Host> some;
  std::vector<Call> first;
  for (const auto host : chosen) {
    some.push_back(hosts[host]);
    first.push_back(works[host]->begin(Clock::now()));
  }
  auto stopped = tools.call(some, first, [&](HostProbing probing) -> Result<std::optional<Call>> {
    auto& work = *works[chosen[probing.host]];
    return work.next(std::move(probing), Clock::now());
  });
  for (const auto host : chosen)
    if (!works[host]->is_finished())
      works[host]->abandon(stopped ? *stopped : Error{ErrorKind::interrupted, "not waited for", {}, {}, {}});
  return stopped;
}

HostWork make_work(std::size_t host, HostWork::Goal goal, std::vector<Probe> first, const Continuation& expected,
                   const ApplySettings& settings, const WorkTools& tools) {
  WorkSettings work;
  work.call.run = settings.run;
  work.call.by = settings.by;
  work.call.state = settings.state;
  work.nonce = tools.nonce;
  work.reconnect_for = settings.reconnect_for;
  work.audit = tools.audit;
  work.assess = [&tools, host](HostProbing probing, HostReport& report) {
    return tools.assess(host, std::move(probing), report);
  };
  work.say = [&tools, host](std::string_view line) { tools.say(host, line); };
  work.keep = settings.keep || expected.keep;
  return {std::move(work), goal, std::move(first), expected.cures, expected.remaining};
}

std::vector<std::string> keys_of(const std::vector<PlannedFinding>& findings) {
  std::vector<std::string> keys;
  for (const auto& finding : findings) keys.push_back(finding.key);
  return keys;
}

void say_why_not_begun(WorkReport& report) {
  for (auto& result : report.hosts)
    if (result.outcome == WorkOutcome::not_begun && result.why.empty())
      result.why = report.stopped ? to_string(*report.stopped) : report.why_no_more;
}

// Out of service those that are going to be changed; all that can be worked on now.
std::vector<std::size_t> take_out(const std::vector<std::size_t>& batch, const std::vector<Continuation>& continuations,
                                  Draining& draining, WorkReport& report) {
  std::vector<std::size_t> changed, chosen;
  for (const auto host : batch) {
    const auto goal = continuations[host].goal;
    (goal == HostWork::Goal::resume || goal == HostWork::Goal::undo ? changed : chosen).push_back(host);
  }
  const auto ready = draining.take_out(changed, report.hosts);
  chosen.insert(chosen.end(), ready.begin(), ready.end());
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// One call to each host, and its one answer.
std::optional<Error> ask_once(const std::vector<Host>& hosts, const ApplySettings& settings, const WorkTools& tools,
                              const std::function<Probe(std::size_t, const RunCall&)>& make,
                              const std::function<void(std::size_t, const Result<ProbeOutput>&)>& take) {
  std::vector<Call> calls;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    Playbook playbook;
    playbook.probes = {make(host, {settings.run, settings.by, tools.nonce(), settings.state})};
    const auto limit = playbook.probes.front().limit + 40s;  // logging in, becoming root
    calls.push_back({std::make_shared<const ProbeLoad>(playbook), {}, limit});
  }
  return tools.call(hosts, calls, [&](HostProbing probing) -> Result<std::optional<Call>> {
    if (probing.error)
      take(probing.host, fail(*std::move(probing.error)));
    else
      take(probing.host, probing.outputs.front());
    return std::nullopt;
  });
}

/// One application of a plan.
class Application {
 public:
  Application(const std::vector<Host>& hosts, const std::vector<const HostPlan*>& plans, const ApplySettings& settings,
              const WorkTools& tools)
      : hosts_(hosts),
        plans_(plans),
        settings_(settings),
        tools_(tools),
        works_(hosts.size()),
        steps_(hosts.size()),
        draining_(tools, hosts.size()) {
    report_.hosts.resize(hosts.size());
  }

  WorkReport run() {
    std::vector<HostProgress> progress(hosts_.size(), HostProgress::waiting);
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      auto& result = report_.hosts[host];
      if (!plans_[host]->refused.empty())
        result = refusal("planned", plans_[host]->refused);
      else if (const auto& why = plans_[host]->why_unseen(); !why.empty())
        result = unreached_result(why, plans_[host]->hint);
      else if (plans_[host]->steps.empty())
        result.outcome = WorkOutcome::unchanged;
      progress[host] = progress_of(result);
    }
    auto policy = settings_.policy;
    policy.order = order_of_plans();
    for (std::size_t batches = 0; !report_.stopped;) {
      refuse_behind_what_failed(progress);
      const auto batch = next_batch(policy, progress, batches);
      report_.why_no_more = batch.stop;
      if (batch.hosts.empty()) break;
      if (do_batch(batch.hosts)) ++batches;
      for (const auto host : batch.hosts) {
        progress[host] = progress_of(report_.hosts[host]);
        // Its turn came, whatever came of it.
        if (progress[host] == HostProgress::waiting) progress[host] = HostProgress::untouched;
      }
    }
    say_why_not_begun(report_);
    return std::move(report_);
  }

 private:
  /// Hosts at whose shared places another one works first. One that is not in this run was applied before, or the audit
  /// afterwards finds that it was not.
  std::vector<std::pair<std::size_t, std::size_t>> order_of_plans() const {
    std::vector<std::pair<std::size_t, std::size_t>> order;
    for (std::size_t host = 0; host < plans_.size(); ++host)
      for (const auto& shared : plans_[host]->shared)
        if (const auto first = index_of(shared.host)) order.emplace_back(host, *first);
    return order;
  }

  std::optional<std::size_t> index_of(const std::string& name) const {
    const auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& host) { return host.name == name; });
    return found == hosts_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - hosts_.begin()));
  }

  void refuse_behind_what_failed(std::vector<HostProgress>& progress) {
    for (std::size_t host = 0; host < plans_.size(); ++host)
      for (const auto& shared : plans_[host]->shared) {
        const auto first = index_of(shared.host);
        if (progress[host] != HostProgress::waiting || !first || progress[*first] == HostProgress::waiting ||
            progress[*first] == HostProgress::done)
          continue;
        report_.hosts[host] =
            refusal("shared", fmt::format("{} was to see to {} first, {} here, and it is: {}", shared.host,
                                          shared.place, shared.path, to_string(report_.hosts[*first].outcome)));
        progress[host] = HostProgress::untouched;
      }
  }

  static WorkResult refusal(std::string code, std::string why) {
    WorkResult result;
    result.outcome = WorkOutcome::refused;
    result.code = std::move(code);
    result.why = std::move(why);
    return result;
  }

  /// Whether anything was begun.
  bool do_batch(const std::vector<std::size_t>& batch) {
    auto chosen = inspect(batch);
    if (report_.stopped) return false;
    drop_with_their_groups(chosen, batch);
    chosen = draining_.take_out(chosen, report_.hosts);
    const auto ready = chosen;
    drop_with_their_groups(chosen, batch);
    for (const auto host : chosen) start(host);
    std::erase_if(chosen, [&](std::size_t host) { return works_[host] == nullptr; });
    if (!chosen.empty()) report_.stopped = work_on(hosts_, chosen, works_, tools_);
    for (const auto host : chosen) report_.hosts[host] = works_[host]->result();
    if (!report_.stopped) undo_with_their_groups(chosen);
    // Also of those that were not begun after all.
    draining_.bring_back(ready, std::vector<bool>(hosts_.size(), true), report_.hosts);
    return !chosen.empty();
  }

  std::vector<std::size_t> inspect(const std::vector<std::size_t>& batch) {
    std::vector<std::size_t> asked, fit;
    std::vector<Host> some;
    std::vector<Call> calls;
    for (const auto host : batch) {
      Playbook playbook;
      auto probes = inspect_calls(*plans_[host], settings_);
      if (!probes) {
        report_.hosts[host] = refusal("planned", to_string(probes.error()));
        continue;
      }
      playbook.probes = *std::move(probes);
      asked.push_back(host);
      some.push_back(hosts_[host]);
      calls.push_back({std::make_shared<const ProbeLoad>(playbook), {}, {}});
    }
    report_.stopped = tools_.call(some, calls, [&](HostProbing probing) -> Result<std::optional<Call>> {
      const auto host = asked[probing.host];
      auto& result = report_.hosts[host];
      if (probing.error) {
        result = unreached_result(to_string(*probing.error), probing.error->hint);
        return std::nullopt;
      }
      // An answer that cannot be read is asked for again at the start.
      const auto* turn = find_output(probing.outputs, "turn");
      if (const auto answer = turn == nullptr ? CallAnswer{} : read_answer(*turn).value_or(CallAnswer{});
          answer.kind == CallAnswer::Kind::refused) {
        result = refusal(answer.code, answer.words);
        result.outcome = outcome_of_refusal(answer.code);
        if (answer.code == "used")
          result.hint = "a plan is good for one apply: make a new one, and look at what it shows";
        tools_.say(host, fmt::format("refused: {}", result.why));
        return std::nullopt;
      }
      std::vector<std::string> changes;
      auto steps = render_steps(*plans_[host], probing.outputs, settings_, changes);
      if (!steps) {
        result = refusal("changed", to_string(steps.error()));
        result.hint = steps.error().hint;
        result.changes = std::move(changes);
        tools_.say(host, fmt::format("refused: {}", result.why));
        return std::nullopt;
      }
      steps_[host] = *std::move(steps);
      fit.push_back(host);
      return std::nullopt;
    });
    std::sort(fit.begin(), fit.end());
    return fit;
  }

  // Hosts that serve together are begun together, or not at all.
  void drop_with_their_groups(std::vector<std::size_t>& chosen, const std::vector<std::size_t>& batch) {
    for (bool again = true; again;) {
      again = false;
      for (const auto& group : settings_.policy.groups) {
        if (!group.atomic) continue;
        const auto missing = std::find_if(group.hosts.begin(), group.hosts.end(), [&](std::size_t host) {
          return std::find(batch.begin(), batch.end(), host) != batch.end() &&
                 std::find(chosen.begin(), chosen.end(), host) == chosen.end();
        });
        if (missing == group.hosts.end()) continue;
        for (const auto host : group.hosts)
          if (std::erase(chosen, host) > 0) {
            again = true;
            report_.hosts[host] = refusal("group", fmt::format("group {} is changed as a whole, and {} is not begun",
                                                               group.name, hosts_[*missing].name));
          }
      }
    }
  }

  void start(std::size_t host) {
    const auto& plan = *plans_[host];
    HostRun run;
    run.run = settings_.run;
    run.plan = settings_.plan;
    run.host = hosts_[host].name;
    run.by = settings_.by;
    run.keep = settings_.keep;
    run.drained = draining_.is_out(host);
    run.started = settings_.started;
    run.library = settings_.run_library;
    run.steps = std::move(steps_[host]);
    run.cures = keys_of(plan.cures);
    run.remaining = keys_of(plan.remaining);
    RunCall call;
    call.nonce = tools_.nonce();
    call.state = settings_.state;
    auto calls = start_calls(run, call);
    if (!calls) {
      report_.hosts[host] = refusal("planned", to_string(calls.error()));
      return;
    }
    works_[host] =
        std::make_unique<HostWork>(make_work(host, HostWork::Goal::apply, *std::move(calls),
                                             {HostWork::Goal::apply, run.cures, run.remaining}, settings_, tools_));
  }

  // Of an atomic group all are new, or all are old.
  void undo_with_their_groups(const std::vector<std::size_t>& chosen) {
    std::vector<std::size_t> to_undo;
    for (const auto& group : settings_.policy.groups) {
      if (!group.atomic || settings_.keep) continue;
      const auto is_ours = [&](std::size_t host) {
        return std::find(chosen.begin(), chosen.end(), host) != chosen.end();
      };
      const auto is_new = [&](std::size_t host) {
        return is_ours(host) && (report_.hosts[host].outcome == WorkOutcome::verified ||
                                 report_.hosts[host].outcome == WorkOutcome::unverified);
      };
      const auto failed = std::find_if(group.hosts.begin(), group.hosts.end(),
                                       [&](std::size_t host) { return is_ours(host) && !is_new(host); });
      if (failed == group.hosts.end()) continue;
      for (const auto host : group.hosts) {
        if (!is_new(host) || std::find(to_undo.begin(), to_undo.end(), host) != to_undo.end()) continue;
        tools_.say(host, fmt::format("group {} is changed as a whole, and {} failed: undoing", group.name,
                                     hosts_[*failed].name));
        works_[host] = std::make_unique<HostWork>(make_work(host, HostWork::Goal::undo, {}, {}, settings_, tools_));
        to_undo.push_back(host);
      }
    }
    if (to_undo.empty()) return;
    report_.stopped = work_on(hosts_, to_undo, works_, tools_);
    for (const auto host : to_undo) {
      report_.hosts[host] = works_[host]->result();
      if (report_.hosts[host].why.empty())
        report_.hosts[host].why = "its group is changed as a whole, and another of it failed";
    }
  }

  const std::vector<Host>& hosts_;
  const std::vector<const HostPlan*>& plans_;
  const ApplySettings& settings_;
  const WorkTools& tools_;
  std::vector<std::unique_ptr<HostWork>> works_;
  std::vector<std::vector<RunStep>> steps_;
  Draining draining_;
  WorkReport report_;
};

}  // namespace

Result<std::vector<Probe>> inspect_calls(const HostPlan& plan, const ApplySettings& settings) {
  std::vector<Probe> probes;
  std::vector<std::string> looks;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto* kind = settings.find_action(plan.steps[i].kind);
    if (kind == nullptr)
      return fail(ErrorKind::refused,
                  fmt::format("step {}: there is no action '{}' here", i + 1, printable(plan.steps[i].kind)));
    probes.push_back(inspect_probe(i, *kind, Params::parse(plan.steps[i].params), settings.action_library));
    looks.push_back(probes.back().id);
  }
  probes.push_back(turn_call({settings.run, settings.by, {}, settings.state}, settings.plan, std::move(looks)));
  return probes;
}

std::vector<std::string> changed_lines(std::string_view planned, std::string_view found) {
  const auto before = split_lines(trim_end(planned)), after = split_lines(trim_end(found));
  std::vector<std::string> changes;
  const auto lacks = [](const std::vector<std::string_view>& lines, std::string_view line) {
    return std::find(lines.begin(), lines.end(), line) == lines.end();
  };
  for (const auto line : before)
    if (lacks(after, line)) changes.push_back(fmt::format("- {}", printable(line)));
  for (const auto line : after)
    if (lacks(before, line)) changes.push_back(fmt::format("+ {}", printable(line)));
  if (changes.empty() && before != after) changes.push_back("the same lines in another order or number");
  return changes;
}

Result<std::vector<RunStep>> render_steps(const HostPlan& plan, const std::vector<ProbeOutput>& inspected,
                                          const ApplySettings& settings, std::vector<std::string>& changes) {
  std::vector<RunStep> steps;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto& step = plan.steps[i];
    const auto& kind = *settings.find_action(step.kind);
    const auto params = Params::parse(step.params);
    const auto object = kind.object(params);
    const auto where = fmt::format("step {}, {} {}", i + 1, step.kind, printable(object));
    const auto* output = find_output(inspected, inspect_id(i));
    if (output == nullptr || output->status != ProbeStatus::ok) {
      const auto why = output == nullptr ? std::string("no answer") : output->detail;
      return fail(ErrorKind::refused, fmt::format("{}: could not be looked at: {}", where, why));
    }
    changes = changed_lines(step.inspected, output->output);
    if (!changes.empty()) {
      Error error{ErrorKind::refused, fmt::format("{}: changed since the plan was made", where), {}, {}, {}};
      error.hint = "make the plan anew, and look at what it shows";
      return fail(std::move(error));
    }
    auto change = kind.diff(params, step.inspected);
    if (!change) return fail(with_context(std::move(change.error()), where));
    if (!change->refused.empty())
      return fail(ErrorKind::refused, fmt::format("{}: {}", where, join(change->refused, "; ")));
    if (!change->needed)
      return fail(ErrorKind::refused,
                  fmt::format("{}: there is nothing to do, which is not what the plan says", where));
    steps.push_back({step.kind, object, step.inspected, kind.inspect(params), kind.apply(params, *change),
                     kind.verify(params, *change), kind.undo(params, *change), kind.prune(params, *change)});
  }
  return steps;
}

WorkReport apply_plan(const std::vector<Host>& hosts, const std::vector<const HostPlan*>& plans,
                      const ApplySettings& settings, const WorkTools& tools) {
  return Application(hosts, plans, settings, tools).run();
}

WorkReport continue_run(const std::vector<Host>& hosts, const std::vector<Continuation>& continuations,
                        const ApplySettings& settings, const WorkTools& tools) {
  WorkReport report;
  report.hosts.resize(hosts.size());
  std::vector<std::unique_ptr<HostWork>> works;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    works.push_back(std::make_unique<HostWork>(
        make_work(host, continuations[host].goal, {}, continuations[host], settings, tools)));
  std::vector<HostProgress> progress(hosts.size(), HostProgress::waiting);
  Draining draining(tools, hosts.size());
  std::vector<bool> was_verified;
  for (const auto& continuation : continuations) was_verified.push_back(continuation.was_verified);
  for (std::size_t batches = 0; !report.stopped; ++batches) {
    const auto batch = next_batch(settings.policy, progress, batches);
    report.why_no_more = batch.stop;
    if (batch.hosts.empty()) break;
    const auto chosen = take_out(batch.hosts, continuations, draining, report);
    report.stopped = work_on(hosts, chosen, works, tools);
    for (const auto host : chosen) report.hosts[host] = works[host]->result();
    draining.bring_back(chosen, was_verified, report.hosts);
    for (const auto host : batch.hosts) {
      const bool is_wanted =
          continuations[host].goal == HostWork::Goal::undo && report.hosts[host].outcome == WorkOutcome::put_back;
      progress[host] = is_wanted ? HostProgress::done : progress_of(report.hosts[host]);
      if (progress[host] == HostProgress::waiting) progress[host] = HostProgress::untouched;
    }
  }
  say_why_not_begun(report);
  return report;
}

std::vector<HostRuns> look_at_runs(const std::vector<Host>& hosts, const std::vector<std::string>& runs,
                                   const ApplySettings& settings, const WorkTools& tools,
                                   std::optional<Error>& stopped) {
  std::vector<HostRuns> found(hosts.size());
  stopped = ask_once(hosts, settings, tools, [&](std::size_t, const RunCall& call) { return look_call(call, runs); },
                     [&](std::size_t host, const Result<ProbeOutput>& output) {
                       auto read = output.and_then(read_runs);
                       if (read)
                         found[host].runs = *std::move(read);
                       else
                         found[host].error = std::move(read.error());
                     });
  return found;
}

std::vector<HostPruned> prune_runs(const std::vector<Host>& hosts, const std::vector<std::vector<std::string>>& runs,
                                   const ApplySettings& settings, const WorkTools& tools,
                                   std::optional<Error>& stopped) {
  std::vector<HostPruned> pruned(hosts.size());
  stopped = ask_once(
      hosts, settings, tools, [&](std::size_t host, const RunCall& call) { return prune_call(call, runs[host]); },
      [&](std::size_t host, const Result<ProbeOutput>& output) {
        auto read = output.and_then(read_pruned);
        if (read)
          pruned[host].runs = *std::move(read);
        else
          pruned[host].error = std::move(read.error());
      });
  return pruned;
}

int exit_status(const WorkReport& report, bool rolled_back) {
  const auto any = [&](auto&& is) { return std::any_of(report.hosts.begin(), report.hosts.end(), is); };
  const auto has = [&](WorkOutcome outcome) {
    return any([&](const WorkResult& host) { return host.outcome == outcome; });
  };
  if (has(WorkOutcome::stuck) || has(WorkOutcome::interrupted)) return 7;
  const bool unreached = any([](const WorkResult& host) { return host.code == "unreachable"; });
  if (any([](const WorkResult& host) { return host.outcome == WorkOutcome::failed && host.code != "unreachable"; }))
    return 6;
  if (!rolled_back && has(WorkOutcome::put_back)) return 6;
  if (report.stopped && report.stopped->kind == ErrorKind::interrupted) return 130;
  if (report.stopped && report.stopped->kind == ErrorKind::internal) return 1;
  if (has(WorkOutcome::refused)) return 8;
  if (report.stopped) return 124;
  if (unreached || report.hosts.empty() || has(WorkOutcome::unverified) || has(WorkOutcome::at_work) ||
      has(WorkOutcome::not_begun))
    return 4;
  return 0;
}

}  // namespace trueup
