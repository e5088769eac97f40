#include "cli/apply_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text.hpp"
#include "cli/arguments.hpp"
#include "cli/history.hpp"
#include "cli/plan_command.hpp"
#include "cli/plan_key.hpp"
#include "cli/work_desk.hpp"
#include "plan/plan_file.hpp"

namespace trueup {
namespace {

/// What `apply` takes beyond the options of its kind.
struct ApplyOptions : WorkOptions {
  std::string plan;  ///< the file; empty: one is made now
};

/// The plan of the file, and the hosts that it is for. Says what is wrong; `status` is the exit status then.
std::optional<Plan> load_plan(const ApplyOptions& work, const Options& options, const Prepared& prepared, int& status) {
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

/// Nothing runs around the steps of a host but what its plan showed.
Errors check_programs(const std::vector<const HostPlan*>& plans, const std::vector<HostPrograms>& programs) {
  Errors errors;
  const auto compare = [&](const HostPlan& plan, const char* name, const std::vector<std::string>& shown,
                           const std::vector<std::string>& now) {
    if (shown == now) return;
    const auto said = [](const std::vector<std::string>& argv) {
      return argv.empty() ? std::string("none") : fmt::format("`{}`", shell_line(argv));
    };
    errors.push_back({ErrorKind::refused,
                      fmt::format("host {}: the plan showed {} as its {}, the inventory has {} now", plan.name,
                                  said(shown), name, said(now)),
                      {},
                      {},
                      "make the plan anew, and look at it again"});
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i]->steps.empty()) continue;
    compare(*plans[i], "before_host", plans[i]->before_host, programs[i].before);
    compare(*plans[i], "after_host", plans[i]->after_host, programs[i].after);
  }
  return errors;
}

int apply(Options options, const ApplyOptions& work) {
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
  auto programs = host_programs(inventory, hosts, errors);
  if (!errors.empty()) return report_errors(errors);
  if (const auto others = check_programs(plans, programs); !others.empty()) {
    report_errors(others);
    return kRefused;
  }

  Desk desk(*prepared, hosts, options, with_groups);
  desk.settings.run = make_run_id(std::chrono::system_clock::now());
  desk.settings.plan = plan->id;
  desk.set_programs(std::move(programs));
  const SignalsHeld held;  // between two batches, and at the end, there is something to put in order
  const auto record = begun_record(desk.settings.run, "apply", plan->id, hosts);
  remember(options, record);
  WorkSummary summary{"apply", desk.settings.run, plan->id, {}, apply_plan(hosts, plans, desk.settings, desk.tools), 0};
  for (const auto& host : hosts) summary.hosts.push_back(host.name);
  summary.exit = exit_status(summary.report, false);
  return finish_work(std::move(summary), hosts, record, options);
}

}  // namespace

void add_apply(CLI::App& app, Options& options, int& status) {
  const auto work = std::make_shared<ApplyOptions>();
  auto* command = app.add_subcommand("apply", "do what a plan says, look whether it helped, else put it back");
  add_positional(*command, "PLAN", work->plan,
                 "file of `trueup plan -o`; without one a plan is made, shown and asked about");
  add_hosts(*command, options);
  add_playbook(*command, options);
  add_plan_choice(*command, options);
  add_plan_key(*command, options);
  add_batches(*command, *work);
  command->add_flag("--keep", work->keep, "leave what fails as it is, to be looked at; `rollback` puts it back");
  add_yes(*command, *work);
  add_report_options(*command, options);
  add_no_store(*command, options);
  command->callback([&options, &status, work] { status = apply(options, *work); });
}

}  // namespace trueup
