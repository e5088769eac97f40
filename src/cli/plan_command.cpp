#include "cli/plan_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "action/action.hpp"
#include "action/host_run.hpp"
#include "action/scripts.hpp"
#include "base/text.hpp"
#include "cli/auditing.hpp"
#include "cli/history.hpp"
#include "cli/plan_key.hpp"
#include "cli/terminal.hpp"
#include "derive/what_if.hpp"
#include "plan/host_plan.hpp"
#include "plan/plan_file.hpp"
#include "plan/shared_paths.hpp"
#include "run/batches.hpp"

namespace trueup {
namespace {

InspectedStep inspected_step(const std::vector<ProbeOutput>& outputs, const std::string& id) {
  const auto* found = find_output(outputs, id);
  if (found == nullptr) return {{}, "it was not inspected"};
  if (found->status == ProbeStatus::ok) return {found->output, {}};
  if (found->status == ProbeStatus::unknown && !found->detail.empty()) return {{}, found->detail};
  return {{},
          fmt::format("could not be inspected: {}{}{}", to_string(found->status), found->detail.empty() ? "" : ": ",
                      found->detail)};
}

/// What one host's draft came to when its steps were inspected.
struct Inspection {
  std::optional<Error> error;
  std::vector<InspectedStep> steps;
  bool is_kubernetes_node = false;
};

/// Inspects each host's steps. Returns why the run ended early, if it did.
std::optional<Error> inspect_hosts(const Prepared& prepared, const Options& options,
                                   const std::vector<PlanDraft>& drafts, std::vector<Inspection>& inspections_made) {
  std::map<std::vector<std::string>, std::shared_ptr<const ProbeLoad>> loads;  // hosts with equal steps share one
  std::vector<std::size_t> asked;
  std::vector<Host> hosts;
  std::vector<Call> calls;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const auto& steps = drafts[i].steps;
    if (steps.empty()) continue;
    std::vector<std::string> scripts;
    for (const auto& step : steps) scripts.push_back(step.kind->inspect(step.params).text);
    auto& load = loads[std::move(scripts)];
    if (!load) {
      Playbook inspections;
      for (std::size_t step = 0; step < steps.size(); ++step)
        inspections.probes.push_back(inspect_probe(step, *steps[step].kind, steps[step].params, kActionLibrary));
      inspections.probes.push_back(kubernetes_probe());
      load = std::make_shared<const ProbeLoad>(inspections);
    }
    asked.push_back(i);
    hosts.push_back(prepared.hosts[i]);
    calls.push_back({load, {}, {}});
  }
  ProgressLine progress(options.quiet, hosts.size());
  const auto stopped = call_hosts(
      hosts, calls, prepared.probing,
      [&](HostProbing probing) -> Result<std::optional<Call>> {
        const auto index = asked[probing.host];
        auto& made = inspections_made[index];
        made.error = std::move(probing.error);
        for (std::size_t step = 0; step < drafts[index].steps.size(); ++step)
          made.steps.push_back(inspected_step(probing.outputs, inspect_id(step)));
        made.is_kubernetes_node = is_kubernetes_node(probing.outputs);
        progress.clear();
        progress.host_done(hosts[probing.host].name, made.error ? "not inspected" : "inspected");
        return std::nullopt;
      },
      [&](const Progress& now) { progress.update(now); });
  progress.clear();
  return stopped;
}

/// What is found on the host when all that is planned is done, as far as the model can tell.
Result<Assessment> assess_then(const Prepared& prepared, std::size_t index, const HostReport& today,
                               const std::vector<Change>& changes) {
  HostReport then;
  then.name = today.name;
  then.environment = today.environment;
  auto consumers = prepared.hosts[index].consumers;
  for (const auto& change : changes) {
    then.environment = with_change(std::move(then.environment), change);
    consumers = with_change(std::move(consumers), change);
  }
  (void)judge_host(prepared.auditor, consumers, then);
  if (then.error) return fail(*then.error);
  return std::move(then.assessment);
}

/// Why a host can neither come after another one nor go with it. Empty: it comes after it.
std::string why_neither(const Prepared& prepared, const std::string& host,
                        const std::map<std::size_t, SharedStep>& done_before) {
  if (done_before.empty()) return {};
  Errors errors;  // told when the groups are used
  const auto holds = [&](const GroupRule& group, const std::string& name) {
    return std::any_of(group.hosts.begin(), group.hosts.end(),
                       [&](std::size_t member) { return prepared.hosts[member].name == name; });
  };
  for (const auto& group : group_rules(prepared.inventory, prepared.hosts, errors))
    for (const auto& [step, shared] : done_before)
      if (group.atomic && holds(group, host) && holds(group, shared.host))
        return fmt::format("{} {} is {}, of which {} takes care first, and group {} is changed as a whole", shared.kind,
                           shared.path, shared.place, shared.host, group.name);
  return {};
}

HostPlan plan_of(const Prepared& prepared, std::size_t index, const HostReport& host, const PlanDraft& draft,
                 const Inspection& inspection, SharedPlaces& places) {
  const Error not_looked_at{ErrorKind::unreachable, "it was not looked at", {}, {}, {}};
  if (host.status == HostStatus::unreachable || (host.error && draft.steps.empty()))
    return (host.status == HostStatus::unreachable ? unreached_plan : incomplete_plan)(
        host.name, host.error.value_or(not_looked_at), draft);
  if (inspection.error) return incomplete_plan(host.name, with_context(*inspection.error, "inspecting"), draft);
  const bool is_offline = !host.unverified_source.empty();
  if (!is_offline && !draft.steps.empty() && inspection.steps.empty())
    return incomplete_plan(host.name, not_looked_at, draft);
  const auto done_before = places.done_before(draft, host.environment);
  if (const auto why = why_neither(prepared, host.name, done_before); !why.empty())
    return refused_plan(host.name, why, draft);
  auto made = make_host_plan(host.name, draft, inspection.steps,
                             {host.environment, prepared.auditor.knowledge,
                              !is_offline && !prepared.programs[index].before.empty(), inspection.is_kubernetes_node},
                             done_before);
  made.plan.unverified = host.unverified_source;
  if (is_offline) places.note(host.name, made.done, draft, host.environment);
  if (is_offline || !made.plan.has_work()) return std::move(made.plan);
  const auto predicted = assess_then(prepared, index, host, made.changes);
  if (!predicted)
    return refused_plan(host.name, "what would be left cannot be foretold: " + to_string(predicted.error()), draft);
  foretell(made.plan, host.assessment, *predicted, made.changes);
  places.note(host.name, made.done, draft, host.environment);
  if (made.plan.steps.empty()) return std::move(made.plan);
  made.plan.before_host = prepared.programs[index].before;
  made.plan.after_host = prepared.programs[index].after;
  return std::move(made.plan);
}

}  // namespace

// Names on the command line that name nothing must not plan less than was meant.
Errors unknown_names(const Options& options, const Playbook& playbook) {
  std::vector<std::string> checks, fixes;
  for (const auto& check : playbook.checks) checks.push_back(check.id);
  for (const auto& fix : playbook.fixes) fixes.push_back(fix.id);
  // A finding, CHECK@ABOUT, is as good as its check.
  const auto ids = [](std::vector<std::string> names) {
    for (auto& name : names) name = name.substr(0, name.find('@'));
    return names;
  };
  Errors errors;
  require_known(ids(options.only), checks, "--only", errors);
  require_known(ids(options.exclude), checks, "--exclude", errors);
  require_known(ids(options.fixes), fixes, "--fix", errors);
  return errors;
}

std::string own_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return own_account().name;
  return fmt::format("{}@{}", own_account().name, name.data());
}

Planned make_plan(const Prepared& prepared, const Options& options) {
  Planned planned;
  auto& [report, plan] = planned;
  report = run_audit(prepared, options);
  report.kind = "plan";
  const PlanWishes wishes{options.fail_on, options.only, options.exclude, options.fixes};
  std::vector<PlanDraft> drafts;
  for (const auto& host : report.hosts) drafts.push_back(draft_plan(host.assessment, wishes, find_action));
  std::vector<Inspection> inspections_made(drafts.size());
  if (!is_offline(options) && !report.stopped)
    report.stopped = inspect_hosts(prepared, options, drafts, inspections_made);
  report.finished = std::chrono::system_clock::now();

  plan.id = fmt::format("{}-{}", make_run_id(report.started), random_hex(4));
  plan.version = TRUEUP_VERSION;
  plan.made_by = own_name();
  plan.created = std::chrono::floor<std::chrono::seconds>(report.started);
  plan.expires = plan.created + kPlanLifetime;
  plan.playbooks = prepared.auditor.digests;
  SharedPlaces places;
  for (std::size_t i = 0; i < drafts.size(); ++i)
    plan.hosts.push_back(plan_of(prepared, i, report.hosts[i], drafts[i], inspections_made[i], places));
  return planned;
}

int plan(Options options) {
  options.planning = true;
  if (is_offline(options) && !options.plan_file.empty())
    return report_errors({Error{ErrorKind::usage,
                                "-o: a plan made from stored facts is not saved",
                                {},
                                {},
                                "nobody vouches for a file; plan against the hosts themselves"}});
  if (auto errors = unwritable({Output{"", options.plan_file}}); !errors.empty()) {
    errors.front().context = {"--out"};
    return report_errors(errors);
  }
  int status = 0;
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  if (const auto errors = unknown_names(options, prepared->auditor.playbook); !errors.empty())
    return report_errors(errors);
  std::optional<Secret> key;
  if (!options.plan_file.empty()) {
    auto loaded = load_plan_key(options.plan_key);
    if (!loaded) return report_errors({loaded.error()});
    key = *std::move(loaded);
  }

  const auto [report, plan] = make_plan(*prepared, options);
  int exit = exit_status(report, plan, options.detailed_exitcode);
  std::string saved_to;
  if (key && !report.stopped) {
    if (const auto written = write_file(options.plan_file, plan_to_json(plan, key->reveal())); written) {
      saved_to = options.plan_file;
    } else {
      print_error(written.error());
      exit = kToolFailed;
    }
  }
  exit = write_outputs(report, options,
                       {[&](const TableOptions& table) { return render_plan(plan, saved_to, table); },
                        [&] { return render_plan_json(plan); }},
                       exit);
  auto record = record_of(report, exit);
  record.plan = plan.id;
  remember(options, record);
  return exit;
}

void add_plan_key(CLI::App& command, Options& options) {
  command
      .add_option("--plan-key", options.plan_key,
                  "file of the key that seals plans, for controllers that share them; default: this account's own")
      ->option_text("FILE");
}

void add_plan_choice(CLI::App& command, Options& options) {
  const auto add_names = [&](const char* name, std::vector<std::string>& into, const char* help) {
    command.add_option(name, into, help)->option_text("NAME,...")->delimiter(',')->allow_extra_args(false);
  };
  add_names("--only", options.only, "only what cures these: checks, or findings as CHECK@ABOUT");
  add_names("--exclude", options.exclude, "not what cures these");
  add_names("--fix", options.fixes, "no fixes but these");
}

void add_plan_options(CLI::App& command, Options& options) {
  command.add_option("-o,--out", options.plan_file, "save the plan for `trueup apply`")->option_text("FILE");
  command.add_flag("--detailed-exitcode", options.detailed_exitcode, "exit with 5 where something would change");
  add_plan_choice(command, options);
  add_plan_key(command, options);
}

}  // namespace trueup
