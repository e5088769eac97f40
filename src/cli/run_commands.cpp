#include "cli/run_commands.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>

#include "base/text.hpp"
#include "cli/arguments.hpp"
#include "cli/history.hpp"
#include "cli/work_desk.hpp"

namespace trueup {
namespace {

/// What `prune` takes.
struct PruneOptions : WorkOptions {
  bool host_state = false, store = false;
  std::size_t kept_runs = 100;
};

Error no_such_run(const std::string& run) {
  return {ErrorKind::not_found,
          fmt::format("no selected host has a run {}", printable(run)),
          {},
          {},
          "`trueup history` lists runs"};
}

/// The hosts that have the run (or any, where none is named), with what they say of it. `stopped`: why not all were
/// asked.
std::vector<RunsOfHost> find_runs(Desk& desk, const std::string& run, std::optional<Error>& stopped) {
  const auto found = look_at_runs(desk.hosts(), run.empty() ? std::vector<std::string>{} : std::vector{run},
                                  desk.settings, desk.tools, stopped);
  std::vector<RunsOfHost> all;
  for (std::size_t i = 0; i < found.size(); ++i) all.push_back({desk.hosts()[i].name, found[i]});
  return all;
}

int show_status(Options options, const WorkOptions& work) {
  options.with_checks = false;
  int status = 0;
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  Desk desk(*prepared, prepared->hosts, options, work);
  std::optional<Error> stopped;
  const auto hosts = find_runs(desk, work.run, stopped);
  if (stopped) print_error(*stopped);
  int exit = 0;
  bool any = false;
  for (const auto& host : hosts) {
    if (host.found.error) exit = std::max(exit, kIncomplete);
    for (const auto& run : host.found.runs) {
      any = true;
      if (run.journal.state == RunState::stuck || run.journal.state == RunState::interrupted) exit = kNeedsPerson;
    }
  }
  if (!any && !work.run.empty() && exit == 0) {
    print_error(no_such_run(work.run));
    exit = kBadInput;
  }
  if (stopped && exit != kNeedsPerson) exit = stopped_status(*stopped);
  for (const auto& output : options.outputs)
    if (const auto written = write_output({[&](const TableOptions& table) { return render_runs(hosts, table); },
                                           [&] { return render_runs_json(hosts); }},
                                          output, options);
        !written) {
      print_error(written.error());
      return kToolFailed;
    }
  return exit;
}

/// What a host comes to that is not worked on: the run is settled there, or it did not say. Nothing: there is work.
std::optional<WorkResult> settled_result(const HostRuns& found, bool back) {
  if (found.error) return unreached_result(to_string(*found.error), found.error->hint);
  WorkResult result;
  result.journal = found.runs.front().journal;
  switch (result.journal.state) {
    case RunState::undone: result.outcome = WorkOutcome::put_back; return result;
    case RunState::verified: result.outcome = WorkOutcome::verified; break;
    default: return std::nullopt;
  }
  return back ? std::nullopt : std::optional(result);
}

Continuation continuation_of(const RunOnHost& run, bool back) {
  const auto state = run.journal.state;
  auto goal = back ? HostWork::Goal::undo : HostWork::Goal::resume;
  if (!back && state == RunState::running) goal = HostWork::Goal::follow;
  if (!back && state == RunState::applied) goal = HostWork::Goal::verify;
  const auto keep = run.about.find("keep");
  return {goal, run.cures, run.remaining, keep != run.about.end() && keep->second == "1", state == RunState::verified};
}

/// The hosts that have a run, by what is to be done there.
struct CarriedOn {
  std::vector<Host> hosts;
  std::vector<Continuation> continuations;  ///< one for each of them
  std::vector<RunsOfHost> shown;            ///< likewise
  std::vector<Host> settled;
  std::vector<WorkResult> settled_results;
  std::string plan;
};

CarriedOn sort_hosts(const std::vector<Host>& hosts, const std::vector<RunsOfHost>& found, bool back) {
  CarriedOn carried;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& host = found[i].found;
    if (!host.error && host.runs.empty()) continue;
    if (!host.error)
      if (const auto plan = host.runs.front().about.find("plan"); plan != host.runs.front().about.end())
        carried.plan = plan->second;
    if (auto result = settled_result(host, back)) {
      carried.settled.push_back(hosts[i]);
      carried.settled_results.push_back(*std::move(result));
      continue;
    }
    carried.hosts.push_back(hosts[i]);
    carried.continuations.push_back(continuation_of(host.runs.front(), back));
    carried.shown.push_back(found[i]);
  }
  return carried;
}

/// What runs around the work, and for which hosts.
std::map<std::string, std::vector<std::string>> programs_of(const std::vector<Host>& hosts,
                                                            const std::vector<HostPrograms>& programs) {
  std::map<std::string, std::vector<std::string>> names;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::vector<std::string> lines;
    const auto& [before, after, limit] = programs[i];
    if (!before.empty()) lines.push_back(fmt::format("before_host {} runs first", shell_line(before)));
    if (!after.empty()) lines.push_back(fmt::format("after_host {} at the end", shell_line(after)));
    if (!lines.empty()) names[join(lines, ", ")].push_back(hosts[i].name);
  }
  return names;
}

/// resume, rollback: on the hosts that have the run.
int carry_on(Options options, const WorkOptions& work, bool back) {
  int status = 0;
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  CarriedOn carried;
  {
    Desk desk(*prepared, prepared->hosts, options, work);
    std::optional<Error> stopped;
    carried = sort_hosts(prepared->hosts, find_runs(desk, work.run, stopped), back);
    if (stopped) {
      print_error(*stopped);
      return stopped_status(*stopped);
    }
  }
  const auto& hosts = carried.hosts;
  if (hosts.empty() && carried.settled.empty()) return report_errors({no_such_run(work.run)});
  Errors errors;
  auto with_groups = work;
  with_groups.policy.groups = group_rules(prepared->inventory, hosts, errors);
  auto programs = host_programs(prepared->inventory, hosts, errors);
  if (!errors.empty()) return report_errors(errors);
  if (back && !hosts.empty()) {
    fmt::print(stderr, "{}",
               render_runs(carried.shown, {wants_color(options.color, STDERR_FILENO), terminal_width(STDERR_FILENO),
                                           options.verbosity}));
    for (const auto& [lines, names] : programs_of(hosts, programs))
      fmt::print(stderr, "for {}, here: {}\n", printable(fold_hosts(names)), printable(lines));
    const auto agreed =
        ask_leave(work, fmt::format("undo this on {}?",
                                    hosts.size() == 1 ? hosts.front().name : fmt::format("{} hosts", hosts.size())));
    if (!agreed) return report_errors({agreed.error()});
    if (!*agreed) return kRefused;
  }
  Desk desk(*prepared, hosts, options, with_groups);
  desk.settings.run = work.run;
  desk.set_programs(std::move(programs));
  auto all = hosts;
  all.insert(all.end(), carried.settled.begin(), carried.settled.end());
  const SignalsHeld held;
  WorkSummary summary{back ? "rollback" : "resume", work.run, carried.plan, {}, {}, 0};
  auto record = begun_record(make_run_id(std::chrono::system_clock::now()), summary.kind, summary.plan, all);
  for (auto& host : record.hosts) host.host_run = work.run;
  remember(options, record);
  summary.report = continue_run(hosts, carried.continuations, desk.settings, desk.tools);
  summary.report.hosts.insert(summary.report.hosts.end(), carried.settled_results.begin(),
                              carried.settled_results.end());
  for (const auto& host : all) summary.hosts.push_back(host.name);
  summary.exit = exit_status(summary.report, back);
  return finish_work(std::move(summary), all, std::move(record), options);
}

/// Forgets all records but the last, once that was shown and agreed to; the exit status.
int prune_store(const PruneOptions& work) {
  auto store = open_store();
  const auto runs = store ? store->runs() : fail(store.error());
  if (!runs) {
    print_error(runs.error());
    return kToolFailed;
  }
  const auto ended = static_cast<std::size_t>(
      std::count_if(runs->begin(), runs->end(), [](const RunRecord& run) { return run.exit.has_value(); }));
  const auto removable = ended - std::min(ended, work.kept_runs);
  fmt::print("records: {} go, {} stay\n", removable, runs->size() - removable);
  std::fflush(stdout);
  if (removable == 0) return 0;
  const auto agreed = ask_leave(work, "remove them?");
  if (!agreed) return report_errors({agreed.error()});
  if (!*agreed) return kRefused;
  if (const auto pruned = store->prune(work.kept_runs); !pruned) {
    print_error(pruned.error());
    return kToolFailed;
  }
  return 0;
}

int prune(Options options, const PruneOptions& work) {
  if (!work.store && !work.host_state)
    return report_errors({usage_error("what is to be pruned is missing: --host-state, --store or both")});
  if (work.store)
    if (const int failed = prune_store(work); failed != 0) return failed;
  if (!work.host_state) return 0;
  options.with_checks = false;
  int status = 0;
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  Desk desk(*prepared, prepared->hosts, options, work);
  std::optional<Error> stopped;
  const auto found = find_runs(desk, "", stopped);
  int exit = 0;
  std::vector<Host> hosts;
  std::vector<std::vector<std::string>> runs;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].found.error) {
      print_error(*found[i].found.error);
      exit = kIncomplete;
    }
    std::vector<std::string> removable;
    for (const auto& run : found[i].found.runs) {
      const bool is_settled = run.journal.state == RunState::verified || run.journal.state == RunState::undone;
      fmt::print("{}: run {} is {}: {}\n", found[i].host, run.run, to_string(run.journal.state),
                 is_settled ? "what is kept to undo it goes, and it can no longer be rolled back" : "stays");
      if (is_settled) removable.push_back(run.run);
    }
    if (removable.empty()) continue;
    hosts.push_back(prepared->hosts[i]);
    runs.push_back(std::move(removable));
  }
  if (hosts.empty() || stopped) {
    if (stopped) print_error(*stopped);
    return stopped ? stopped_status(*stopped) : exit;
  }
  std::fflush(stdout);
  const auto agreed = ask_leave(work, "remove this?");
  if (!agreed) return report_errors({agreed.error()});
  if (!*agreed) return kRefused;
  const auto pruned = prune_runs(hosts, runs, desk.settings, desk.tools, stopped);
  for (std::size_t i = 0; i < pruned.size(); ++i) {
    if (pruned[i].error) {
      print_error(*pruned[i].error);
      exit = kIncomplete;
    }
    for (const auto& [run, why] : pruned[i].runs) {
      if (why.empty()) continue;
      fmt::print("{}: run {} stays: {}\n", hosts[i].name, run, why);
      exit = kIncomplete;
    }
  }
  if (stopped) {
    print_error(*stopped);
    return stopped_status(*stopped);
  }
  return exit;
}

void add_run(CLI::App& command, WorkOptions& work, bool required) {
  auto* option =
      add_positional(command, "RUN", work.run, "id of the run, as apply, `trueup history` or an audit names it");
  if (required) option->required();
  option->check([](const std::string& run) {
    return run.empty() ||
                   run.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.") != run.npos
               ? "not the id of a run"
               : "";
  });
}

}  // namespace

void add_run_commands(CLI::App& app, Options& options, int& status) {
  const auto work = std::make_shared<PruneOptions>();

  auto* status_command = app.add_subcommand("status", "how far a run came on its hosts; without RUN: all runs there");
  add_run(*status_command, *work, false);
  add_hosts(*status_command, options);
  add_format(*status_command, options);
  add_color(*status_command, options);
  status_command->callback([&options, &status, work] { status = show_status(options, *work); });

  auto* resume_command =
      app.add_subcommand("resume", "go on with a run that was interrupted, or was never looked at afterwards");
  add_run(*resume_command, *work, true);
  add_hosts(*resume_command, options);
  add_batches(*resume_command, *work);
  add_format(*resume_command, options);
  add_color(*resume_command, options);
  add_no_store(*resume_command, options);
  resume_command->callback([&options, &status, work] { status = carry_on(options, *work, false); });

  auto* rollback_command = app.add_subcommand("rollback", "put everything back that a run changed");
  add_run(*rollback_command, *work, true);
  add_hosts(*rollback_command, options);
  add_batches(*rollback_command, *work);
  add_yes(*rollback_command, *work);
  add_format(*rollback_command, options);
  add_color(*rollback_command, options);
  add_no_store(*rollback_command, options);
  rollback_command->callback([&options, &status, work] { status = carry_on(options, *work, true); });

  auto* prune_command =
      app.add_subcommand("prune", "remove what is kept of runs: on hosts what undoes them, here the records");
  prune_command->add_flag("--host-state", work->host_state, "on the hosts, of runs that are verified or undone");
  prune_command->add_flag("--store", work->store, "here, all records but the last");
  prune_command->add_option("--keep-runs", work->kept_runs, "--store: how many records stay")
      ->option_text(with_default("N", work->kept_runs))
      ->needs("--store");
  add_hosts(*prune_command, options);
  add_yes(*prune_command, *work);
  prune_command->callback([&options, &status, work] { status = prune(options, *work); });
}

}  // namespace trueup
