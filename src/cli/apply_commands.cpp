#include "cli/apply_commands.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "action/scripts.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/arguments.hpp"
#include "cli/auditing.hpp"
#include "cli/history.hpp"
#include "cli/plan_command.hpp"
#include "cli/plan_key.hpp"
#include "cli/terminal.hpp"
#include "cli/work_report.hpp"
#include "plan/plan_file.hpp"
#include "probe/scripts.hpp"
#include "run/host_programs.hpp"

namespace trueup {
namespace {

/// What these commands take beyond the options of all.
struct WorkOptions {
  std::string plan;  ///< apply: the file; empty: one is made now
  std::string run;
  BatchPolicy policy;
  bool keep = false;
  bool yes = false;
  bool host_state = false, store = false;
  std::size_t kept_runs = 100;
  std::chrono::milliseconds reconnect_for{600'000};
};

Error usage_error(std::string message, std::string hint = {}) {
  return {ErrorKind::usage, std::move(message), {}, {}, std::move(hint)};
}

Error no_such_run(const std::string& run) {
  return {ErrorKind::not_found, fmt::format("no selected host has a run {}", printable(run)), {}, {},
          "`trueup history` lists runs"};
}

/// Whether the user agrees; without a terminal only `--yes` says so. Errors: nobody there to ask.
Result<bool> ask_leave(const WorkOptions& work, const std::string& question) {
  if (work.yes) return true;
  if (!is_terminal(STDIN_FILENO) || !is_terminal(STDERR_FILENO))
    return fail(usage_error("there is no terminal to ask on", "--yes agrees to what is shown"));
  fmt::print(stderr, "{} [y/N] ", question);
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

/// What the hosts of one run have in common: tools and settings made of what was prepared.
class Desk {
 public:
  Desk(const Prepared& prepared, std::vector<Host> hosts, const Options& options, const WorkOptions& work)
      : prepared_(prepared),
        hosts_(std::move(hosts)),
        progress_(options.quiet, hosts_.size()),
        audit_(std::make_shared<const ProbeLoad>(prepared.auditor.playbook)) {
    settings.by = own_name();
    settings.keep = work.keep;
    settings.policy = work.policy;
    settings.reconnect_for = work.reconnect_for;
    settings.find_action = find_action;
    settings.action_library = std::string(kActionLibrary);
    settings.run_library = fmt::format("{}{}{}", kProbeLibrary, kConsumersLibrary, kActionLibrary);
    settings.started = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    tools.call = [this](const std::vector<Host>& some, const std::vector<Call>& first, const OnAnswer& on_answer) {
      auto stopped =
          call_hosts(some, first, prepared_.probing, on_answer, [&](const Progress& now) { progress_.update(now); });
      progress_.clear();
      return stopped;
    };
    tools.nonce = [] { return random_hex(16); };
    tools.say = [this, quiet = options.quiet](std::size_t host, std::string_view line) {
      if (quiet) return;
      progress_.clear();
      fmt::print(stderr, "{}: {}\n", hosts_[host].name, printable(line));
    };
    tools.audit = audit_;
    tools.assess = [this](std::size_t host, HostProbing probing, HostReport& report) {
      return assess_host(prepared_.auditor, hosts_[host], std::move(probing), report);
    };
  }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  const std::vector<Host>& hosts() const { return hosts_; }
  ApplySettings settings;
  WorkTools tools;

 private:
  const Prepared& prepared_;
  const std::vector<Host> hosts_;
  ProgressLine progress_;
  std::shared_ptr<const ProbeLoad> audit_;
};

RunRecord record_of(const WorkSummary& summary, const std::vector<Host>& hosts, RunRecord record) {
  record.hosts.clear();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto& result = summary.report.hosts[i];
    HostRecord host{hosts[i].name, hosts[i].address, std::string(to_string(result.outcome)), "", "{}"};
    if (!result.journal.events.empty()) host.host_run = summary.run;
    host.detail = nlohmann::json{{"why", result.why}, {"code", result.code}}.dump(
        -1, ' ', true, nlohmann::json::error_handler_t::replace);
    record.hosts.push_back(std::move(host));
  }
  return record;
}

RunRecord begun_record(const std::string& id, const std::string& kind, const std::string& plan,
                       const std::vector<Host>& hosts) {
  RunRecord record;
  record.id = id;
  record.kind = kind;
  record.version = TRUEUP_VERSION;
  record.started = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  record.plan = plan;
  for (const auto& host : hosts) record.hosts.push_back({host.name, host.address, "begun", "", "{}"});
  return record;
}

/// Shows what came of it and records it; the exit status.
int finish(WorkSummary summary, const std::vector<Host>& hosts, RunRecord record, const Options& options) {
  if (summary.report.stopped) print_error(*summary.report.stopped);
  for (const auto& output : options.outputs)
    if (const auto written = write_output({[&](const TableOptions& table) { return render_work(summary, table); },
                                           [&] { return render_work_json(summary); }},
                                          output, options);
        !written) {
      print_error(written.error());
      if (summary.exit == 0) summary.exit = kToolFailed;
    }
  record = record_of(summary, hosts, std::move(record));
  record.finished = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  record.exit = summary.exit;
  remember(options, record);
  return summary.exit;
}

/// The plan of the file, and the hosts that it is for. Says what is wrong; `status` is the exit status then.
std::optional<Plan> load_plan(const WorkOptions& work, const Options& options, const Prepared& prepared, int& status) {
  const auto key = load_plan_key(options.plan_key);
  if (!key) {
    status = report_errors({key.error()});
    return std::nullopt;
  }
  const auto text = read_input(work.plan);
  if (!text) {
    status = report_errors({text.error()});
    return std::nullopt;
  }
  auto plan = plan_from_json(*text, key->reveal());
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto usable =
      plan ? check_usable(*plan, prepared.auditor.digests, TRUEUP_VERSION, now) : Result<void>(fail(plan.error()));
  if (usable) return *std::move(plan);
  status = report_errors({with_context(usable.error(), fmt::format("plan {}", printable(work.plan)))});
  if (usable.error().kind == ErrorKind::refused) status = kRefused;
  return std::nullopt;
}

int apply(Options options, const WorkOptions& work) {
  int status = 0;
  options.planning = work.plan.empty();  // a plan that was made needs no fixes any more, nor does the audit behind it
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  std::optional<Plan> plan;
  if (work.plan.empty()) {
    if (const auto errors = unknown_names(options, prepared->auditor.playbook); !errors.empty())
      return report_errors(errors);
    auto planned = make_plan(*prepared, options);
    if (planned.report.stopped) {
      print_error(*planned.report.stopped);
      return exit_status(planned.report);
    }
    plan = std::move(planned.plan);
    fmt::print(
        stderr, "{}",
        render_plan(*plan, "",
                    {wants_color(options.color, STDERR_FILENO), terminal_width(STDERR_FILENO), options.verbosity}));
    const bool is_empty =
        std::all_of(plan->hosts.begin(), plan->hosts.end(), [](const HostPlan& host) { return host.steps.empty(); });
    if (!is_empty) {
      const auto agreed = ask_leave(work, "apply this?");
      if (!agreed) return report_errors({agreed.error()});
      if (!*agreed) return kRefused;
    }
  } else {
    plan = load_plan(work, options, *prepared, status);
    if (!plan) return status;
  }

  // The plan's hosts, as the inventory reaches them now; -l takes some of them.
  Errors errors;
  const auto& inventory = prepared->inventory;
  std::vector<Host> hosts;
  std::vector<const HostPlan*> plans;
  for (const auto& host_plan : plan->hosts) {
    const auto named = [&](const Host& host) { return host.name == host_plan.name; };
    const auto selected = std::find_if(prepared->hosts.begin(), prepared->hosts.end(), named);
    if (selected != prepared->hosts.end()) {
      hosts.push_back(*selected);
      plans.push_back(&host_plan);
    } else if (std::none_of(inventory.hosts.begin(), inventory.hosts.end(), named)) {
      errors.push_back(usage_error(
          fmt::format("the plan is for host {}, which is not in the inventory", printable(host_plan.name))));
    }
  }
  auto with_groups = work;
  with_groups.policy.groups = group_rules(inventory, hosts, errors);
  const auto programs = host_programs(inventory, hosts, errors);
  if (!errors.empty()) return report_errors(errors);

  Desk desk(*prepared, hosts, options, with_groups);
  desk.settings.run = make_run_id(std::chrono::system_clock::now());
  desk.settings.plan = plan->id;
  desk.tools.before_host = [&](std::size_t host) {
    return run_before_host(programs[host], hosts[host], desk.settings.run);
  };
  desk.tools.after_host = [&](std::size_t host, WorkOutcome outcome) {
    return run_after_host(programs[host], hosts[host], desk.settings.run, outcome);
  };
  const SignalsHeld held;  // between two batches, and at the end, there is something to put in order
  const auto record = begun_record(desk.settings.run, "apply", plan->id, hosts);
  remember(options, record);
  WorkSummary summary{"apply", desk.settings.run, plan->id, {}, apply_plan(hosts, plans, desk.settings, desk.tools), 0};
  for (const auto& host : hosts) summary.hosts.push_back(host.name);
  summary.exit = exit_status(summary.report, false);
  return finish(std::move(summary), hosts, record, options);
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

/// resume, rollback: on the hosts that have the run.
int carry_on(Options options, const WorkOptions& work, bool back) {
  int status = 0;
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  std::vector<Host> hosts;
  std::vector<Continuation> continuations;
  std::vector<RunsOfHost> shown;
  WorkSummary summary{back ? "rollback" : "resume", work.run, "", {}, {}, 0};
  std::vector<Host> settled;
  std::vector<WorkResult> settled_results;
  {
    Desk desk(*prepared, prepared->hosts, options, work);
    std::optional<Error> stopped;
    const auto found = find_runs(desk, work.run, stopped);
    if (stopped) {
      print_error(*stopped);
      return stopped_status(*stopped);
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      WorkResult result;
      if (found[i].found.error) {
        result.outcome = WorkOutcome::failed;
        result.code = "unreachable";
        result.why = to_string(*found[i].found.error);
        result.hint = found[i].found.error->hint;
        settled.push_back(prepared->hosts[i]);
        settled_results.push_back(std::move(result));
        continue;
      }
      if (found[i].found.runs.empty()) continue;
      const auto& run = found[i].found.runs.front();
      if (const auto plan = run.about.find("plan"); plan != run.about.end()) summary.plan = plan->second;
      const auto state = run.journal.state;
      result.journal = run.journal;
      const bool is_settled = state == RunState::undone || (state == RunState::verified && !back);
      if (is_settled) {
        result.outcome = state == RunState::verified ? WorkOutcome::verified : WorkOutcome::put_back;
        settled.push_back(prepared->hosts[i]);
        settled_results.push_back(std::move(result));
        continue;
      }
      auto goal = back ? HostWork::Goal::undo : HostWork::Goal::resume;
      if (!back && state == RunState::running) goal = HostWork::Goal::follow;
      if (!back && state == RunState::applied) goal = HostWork::Goal::verify;
      hosts.push_back(prepared->hosts[i]);
      const auto keep = run.about.find("keep");
      continuations.push_back({goal, run.cures, run.remaining, keep != run.about.end() && keep->second == "1"});
      shown.push_back(found[i]);
    }
  }
  if (hosts.empty() && settled.empty())
    return report_errors({no_such_run(work.run)});
  if (back && !hosts.empty()) {
    fmt::print(stderr, "{}",
               render_runs(shown, {wants_color(options.color, STDERR_FILENO), terminal_width(STDERR_FILENO),
                                   options.verbosity}));
    const auto agreed =
        ask_leave(work, fmt::format("undo this on {}?",
                                    hosts.size() == 1 ? hosts.front().name : fmt::format("{} hosts", hosts.size())));
    if (!agreed) return report_errors({agreed.error()});
    if (!*agreed) return kRefused;
  }
  Errors errors;
  auto with_groups = work;
  with_groups.policy.groups = group_rules(prepared->inventory, hosts, errors);
  if (!errors.empty()) return report_errors(errors);
  Desk desk(*prepared, hosts, options, with_groups);
  desk.settings.run = work.run;
  auto all = hosts;
  all.insert(all.end(), settled.begin(), settled.end());
  const SignalsHeld held;
  auto record = begun_record(make_run_id(std::chrono::system_clock::now()), summary.kind, summary.plan, all);
  for (auto& host : record.hosts) host.host_run = work.run;
  remember(options, record);
  summary.report = continue_run(hosts, continuations, desk.settings, desk.tools);
  summary.report.hosts.insert(summary.report.hosts.end(), settled_results.begin(), settled_results.end());
  for (const auto& host : all) summary.hosts.push_back(host.name);
  summary.exit = exit_status(summary.report, back);
  return finish(std::move(summary), all, std::move(record), options);
}

/// Forgets all records but the last, once that was shown and agreed to; the exit status.
int prune_store(const WorkOptions& work) {
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

int prune(Options options, const WorkOptions& work) {
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

void add_common(CLI::App& command, Options& options) {
  add_inventory(command, options);
  add_limit(command, options);
  add_connection_options(command, options);
}

void add_run(CLI::App& command, WorkOptions& work, bool required) {
  auto* option = command.add_option("RUN", work.run, "id of the run, as apply, `trueup history` or an audit names it");
  if (required) option->required();
  option->check([](const std::string& run) {
    return run.empty() ||
                   run.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.") != run.npos
               ? "not the id of a run"
               : "";
  });
}

void add_yes(CLI::App& command, WorkOptions& work) { command.add_flag("-y,--yes", work.yes, "agree to what is shown"); }

void add_batches(CLI::App& command, WorkOptions& work) {
  command.add_option("--canary", work.policy.canary, "so many hosts first; only if all went well the others");
  const auto take_batch = [&work](const std::string& text) {
    const bool is_share = text.ends_with('%');
    const auto number = std::strtoul(text.c_str(), nullptr, 10);
    if (text.empty() || text.find_first_not_of("0123456789%") != text.npos || number == 0 || (is_share && number > 100))
      throw CLI::ValidationError(
          "--batch", fmt::format("expected a number of hosts or a share such as 25%, found '{}'", printable(text)));
    (is_share ? work.policy.percent : work.policy.size) = number;
  };
  command.add_option_function<std::string>("--batch", take_batch, "so many hosts at once, or such a share: 10, 25%")
      ->type_name("N|N%");
  command.add_option("--max-fail", work.policy.max_fail, "so many hosts may fail before no more are begun")
      ->capture_default_str();
  add_duration(command, "--reconnect-for", work.reconnect_for,
               "a host that is lost is asked again so long; its steps go on meanwhile")
      ->default_str(duration_text(work.reconnect_for));
}

}  // namespace

void add_apply_commands(CLI::App& app, Options& options, int& status) {
  const auto work = std::make_shared<WorkOptions>();

  auto* apply_command = app.add_subcommand("apply", "do what a plan says, look whether it helped, else put it back");
  apply_command->add_option("PLAN", work->plan,
                            "file of `trueup plan -o`; without one a plan is made, shown and asked about");
  add_common(*apply_command, options);
  add_playbook(*apply_command, options);
  add_plan_choice(*apply_command, options);
  add_plan_key(*apply_command, options);
  add_batches(*apply_command, *work);
  apply_command->add_flag("--keep", work->keep, "leave what fails as it is, to be looked at; `rollback` puts it back");
  add_yes(*apply_command, *work);
  add_report_options(*apply_command, options);
  add_no_store(*apply_command, options);
  apply_command->callback([&options, &status, work] { status = apply(options, *work); });

  auto* status_command = app.add_subcommand("status", "how far a run came on its hosts; without RUN: all runs there");
  add_run(*status_command, *work, false);
  add_common(*status_command, options);
  add_format(*status_command, options);
  add_color(*status_command, options);
  status_command->callback([&options, &status, work] { status = show_status(options, *work); });

  auto* resume_command =
      app.add_subcommand("resume", "go on with a run that was interrupted, or was never looked at afterwards");
  add_run(*resume_command, *work, true);
  add_common(*resume_command, options);
  add_batches(*resume_command, *work);
  add_format(*resume_command, options);
  add_color(*resume_command, options);
  add_no_store(*resume_command, options);
  resume_command->callback([&options, &status, work] { status = carry_on(options, *work, false); });

  auto* rollback_command = app.add_subcommand("rollback", "put everything back that a run changed");
  add_run(*rollback_command, *work, true);
  add_common(*rollback_command, options);
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
      ->capture_default_str()
      ->needs("--store");
  add_common(*prune_command, options);
  add_yes(*prune_command, *work);
  prune_command->callback([&options, &status, work] { status = prune(options, *work); });
}

}  // namespace trueup
