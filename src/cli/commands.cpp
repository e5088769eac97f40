#include "cli/commands.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/apply_command.hpp"
#include "cli/arguments.hpp"
#include "cli/auditing.hpp"
#include "cli/history.hpp"
#include "cli/output.hpp"
#include "cli/plan_command.hpp"
#include "cli/run_commands.hpp"
#include "cli/setup.hpp"
#include "cli/step_summary.hpp"
#include "cli/stored.hpp"
#include "cli/terminal.hpp"
#include "probe/standalone.hpp"
#include "trueup/report_formats.hpp"

#ifndef TRUEUP_VERSION
#error "the build defines TRUEUP_VERSION"
#endif

namespace trueup {
namespace {

/// The formats that `audit` has.
std::vector<std::string> audit_formats() {
  std::vector<std::string> names = {"table", "json"};
  for (const auto& format : pipeline_formats()) names.emplace_back(format.name);
  return names;
}

std::string render_pipeline(const RunReport& report, const Prepared& prepared, std::string_view name) {
  std::vector<std::string> checks;
  for (const auto& check : prepared.auditor.playbook.checks) checks.push_back(check.id);
  for (const auto& format : pipeline_formats())
    if (format.name == name) return format.render(report, checks);
  throw std::logic_error(fmt::format("no format '{}'", name));
}

Result<void> summarize_step(const RunReport& report, const Options& options) {
  const bool is_wanted = std::any_of(options.outputs.begin(), options.outputs.end(),
                                     [](const Output& output) { return output.format == "github"; });
  return is_wanted ? append_step_summary(report) : Result<void>();
}

int audit(const Options& options) {
  int status = 0;
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  const auto report = run_audit(*prepared, options);
  int exit = write_outputs(report, options,
                                 {[&](const TableOptions& table) { return render_table(report, table); },
                                  [&] { return render_json(report); },
                                  [&](std::string_view format) { return render_pipeline(report, *prepared, format); }},
                                 exit_status(report));
  if (const auto appended = summarize_step(report, options); !appended) {
    print_error(appended.error());
    if (exit != kInterrupted) exit = kToolFailed;
  }
  remember(options, record_of(report, exit));
  return exit;
}

/// Whether no more is selected than the one host that a command is about.
bool is_one_host(const Prepared& prepared, const Options& options, std::string_view command) {
  if (prepared.hosts.size() <= 1) return true;
  std::vector<std::string> names;
  for (const auto& host : prepared.hosts) names.push_back(host.name);
  report_errors({Error{ErrorKind::usage,
                       fmt::format("{} shows one host; '{}' selects {}: {}", command, printable(options.limit),
                                   names.size(), shorten(fold_hosts(names), 200)),
                       {},
                       {},
                       {}}});
  return false;
}

/// Whether `asked` can name something: a check, or a finding as CHECK@ABOUT.
bool is_check(const std::string& asked, const Playbook& playbook) {
  std::vector<std::string> ids;
  for (const auto& check : playbook.checks) ids.push_back(check.id);
  const auto id = asked.substr(0, asked.find('@'));
  if (asked.empty() || std::find(ids.begin(), ids.end(), id) != ids.end()) return true;
  report_errors({Error{ErrorKind::usage,
                       fmt::format("there is no check '{}'{}", printable(id), did_you_mean(id, ids)),
                       {},
                       {},
                       "`trueup audit` names the checks of its findings"}});
  return false;
}

int explain(const Options& options) {
  int status = 0;
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  if (!is_one_host(*prepared, options, "explain") || !is_check(options.asked, prepared->auditor.playbook))
    return kBadInput;
  auto report = run_audit(*prepared, options);
  report.kind = "explain";
  for (auto& host : report.hosts)
    judge_alternatives(host.environment, prepared->hosts.front().consumers, prepared->auditor.knowledge, host.derived);
  const auto& checks = prepared->auditor.playbook.checks;
  return write_outputs(
      report, options,
      {[&](const TableOptions& table) { return render_explanation(report, checks, options.asked, table); },
       [&] { return render_explanation_json(report, checks, options.asked); }},
      exit_status(report));
}

int facts(Options options) {
  options.with_checks = false;
  int status = 0;
  const auto prepared = prepare(options, status);
  if (!prepared) return status;
  if (!is_one_host(*prepared, options, "facts")) return kBadInput;
  const auto report = run_audit(*prepared, options);
  if (report.stopped) print_error(*report.stopped);
  for (const auto& host : report.hosts) {
    if (host.error) print_error(*host.error);
    if (host.status == HostStatus::unreachable) continue;
    auto document = environment_to_json(host.environment);
    document["name"] = host.name;
    if (!host.unverified_source.empty()) document["unverified_source"] = host.unverified_source;
    document["derived"] = derived_to_json(host.derived);
    std::cout << document.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) << '\n';
  }
  return exit_status(report);
}

int probe_script(Options options) {
  options.with_checks = false;
  Errors errors;
  const auto auditor = load_auditor(options, errors);
  if (!auditor && errors.empty()) errors.push_back(auditor.error());
  if (!errors.empty()) return report_errors(errors);
  BundleOptions bundle;
  bundle.nonce = random_hex(16);
  bundle.tag = random_hex(8);
  bundle.host_limit = std::chrono::ceil<std::chrono::seconds>(options.host_timeout);
  std::cout << make_standalone(auditor->playbook.probes, auditor->playbook.signatures, bundle, TRUEUP_VERSION);
  return 0;
}

int lint(Options options) {
  options.deep = true;
  options.planning = true;
  Errors errors;
  std::size_t hosts = 0, groups = 0;
  const auto auditor = load_auditor(options, errors);
  if (!options.inventories.empty()) {
    const auto inventory = load_inventories(options, errors);
    for (const auto& host : inventory.hosts) report_refused(host, errors);
    hosts = inventory.hosts.size();
    groups = inventory.groups.size();
  }
  if (!auditor && errors.empty()) errors.push_back(auditor.error());
  if (!errors.empty()) return report_errors(errors);
  const auto& playbook = auditor->playbook;
  if (!options.inventories.empty())
    fmt::print("{}: {}, {}{}\n", printable(join(options.inventories, ", ")), count(hosts, "host"),
               count(groups, "group"), hosts == 0 ? "; nothing would be looked at" : "");
  fmt::print("{} files: {} probes, {} checks, {} signatures, {} fixes; nothing wrong\n", playbook.files.size(),
             playbook.probes.size(), playbook.checks.size(), playbook.signatures.size(), playbook.fixes.size());
  return 0;
}

int inventory_list(const Options& options) {
  Errors errors;
  const auto inventory = load_inventories(options, errors);
  if (!errors.empty()) return report_errors(errors);
  const auto hosts = select_hosts(inventory, options.limit);
  if (!hosts) return report_errors({hosts.error()});
  for (const auto& host : *hosts) {
    const auto port = host.port == 0 ? 22 : host.port;
    const auto where = host.refused.contains("address")             ? std::string("(address not usable)")
                       : host.transport == TransportKind::local ? std::string("local")
                                                                 : fmt::format("{}:{}", host.address, port);
    fmt::print("{}  {}{}{}\n", host.name, where, host.groups.empty() ? "" : "  ", join(host.groups, ","));
  }
  return 0;
}

// The command line.

/// All names that a word on the command line could have been meant for.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> words;
  for (const auto* command : app.get_subcommands(nullptr)) words.push_back(command->get_name());
  for (const auto* command : app.get_subcommands())
    for (const auto* option : command->get_options())
      for (const auto& name : option->get_lnames()) words.push_back("--" + name);
  return words;
}

int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string message = error.what();
  if (const auto extras = app.remaining(true); !extras.empty()) {
    const auto& word = extras.front();
    message =
        fmt::format("'{}' is not known here{}", word, did_you_mean(word.substr(0, word.find('=')), known_words(app)));
  } else if (app.get_subcommands().empty()) {
    message = "a command is missing";
  }
  fmt::print(stderr, "error: {}\n       see trueup --help, trueup COMMAND --help\n", printable(message));
  return kBadInput;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  Options options;
  int status = 0;
  CLI::App app("trueup finds out what state GPU inference hosts are really in, and says what is wrong and why.",
               "trueup");
  app.require_subcommand(1);
  app.set_version_flag("--version", TRUEUP_VERSION);

  auto* audit_command = app.add_subcommand("audit", "what is wrong on these hosts, and why; without -i: this machine");
  add_inventory(*audit_command, options);
  add_limit(*audit_command, options);
  add_playbook(*audit_command, options);
  add_stored(*audit_command, options);
  add_deep(*audit_command, options);
  add_tags(*audit_command, options);
  add_connection_options(*audit_command, options);
  add_accept_new_host_keys(*audit_command, options);
  add_report_options(*audit_command, options, audit_formats());
  add_no_store(*audit_command, options);
  audit_command->callback([&] { status = audit(options); });

  auto* explain_command = app.add_subcommand("explain", "one host in depth: the causal chain, and what would help");
  add_positional(*explain_command, "HOST", options.limit, "which host; without -i: this machine");
  add_positional(*explain_command, "CHECK", options.asked, "only what causes this finding: a check, or CHECK@ABOUT");
  add_inventory(*explain_command, options);
  add_stored(*explain_command, options);
  add_playbook(*explain_command, options);
  add_deep(*explain_command, options);
  add_connection_options(*explain_command, options);
  add_report_options(*explain_command, options);
  explain_command->callback([&] { status = explain(options); });

  auto* plan_command = app.add_subcommand("plan", "what would cure what an audit finds: the dry run; changes nothing");
  add_inventory(*plan_command, options);
  add_limit(*plan_command, options);
  add_playbook(*plan_command, options);
  add_stored(*plan_command, options);
  add_deep(*plan_command, options);
  add_tags(*plan_command, options);
  add_plan_options(*plan_command, options);
  add_connection_options(*plan_command, options);
  add_report_options(*plan_command, options);
  add_no_store(*plan_command, options);
  plan_command->callback([&] { status = plan(options); });

  auto* facts_command = app.add_subcommand("facts", "the environment of a host, as JSON");
  add_positional(*facts_command, "HOST", options.limit, "which host; without -i: this machine");
  add_inventory(*facts_command, options);
  add_stored(*facts_command, options);
  add_playbook(*facts_command, options);
  add_deep(*facts_command, options);
  add_connection_options(*facts_command, options);
  facts_command->callback([&] { status = facts(options); });

  auto* script_command =
      app.add_subcommand("probe-script", "the probes as a script, for a host that SSH does not reach");
  script_command->footer(
      "It reads nothing from standard input, changes nothing, and ends by itself:\n"
      "  trueup probe-script > probe.sh\n"
      "  kubectl exec -i POD -- sh < probe.sh > POD.out      or: copy it there, and as root: sh probe.sh > HOST.out\n"
      "  trueup audit --from-output POD.out\n"
      "Each script carries a nonce of its own and may be run on many hosts, one output file for each. Its output is "
      "as\n"
      "private as the host: it holds settings, though no secrets that are known as such.");
  add_playbook(*script_command, options);
  add_deep(*script_command, options);
  add_duration(*script_command, "--host-timeout", options.host_timeout, "limit of everything on one host");
  script_command->callback([&] { status = probe_script(options); });

  add_apply(app, options, status);
  add_run_commands(app, options, status);
  add_history(app, options, status);

  auto* lint_command = app.add_subcommand("lint", "whether playbooks and inventories are right; touches no host");
  add_playbook(*lint_command, options);
  add_tags(*lint_command, options);
  add_inventory(*lint_command, options);
  lint_command->callback([&] { status = lint(options); });

  auto* inventory_command = app.add_subcommand("inventory", "what the inventory says");
  inventory_command->require_subcommand(1);
  auto* list_command = inventory_command->add_subcommand("list", "hosts, where they are reached, and their groups");
  add_inventory(*list_command, options);
  add_limit(*list_command, options);
  list_command->callback([&] { status = inventory_list(options); });

  auto* version_command = app.add_subcommand("version", "the version of trueup");
  version_command->callback([] { fmt::print("trueup {}\n", TRUEUP_VERSION); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    // Usage is told with all the words in front: `trueup inventory list`.
    const CLI::App* asked = &app;
    std::string before;
    for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = asked->get_subcommands()) {
      before += (before.empty() ? "" : " ") + asked->get_name();
      asked = chosen.front();
    }
    fmt::print("{}", asked->help(before));
    return 0;
  } catch (const CLI::CallForVersion&) {
    fmt::print("trueup {}\n", TRUEUP_VERSION);
    return 0;
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error);
  }
  return status;
}

}  // namespace trueup
