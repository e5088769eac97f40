#include "cli/work_desk.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "action/scripts.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/arguments.hpp"
#include "cli/history.hpp"
#include "cli/plan_command.hpp"
#include "probe/scripts.hpp"

namespace trueup {
namespace {

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

}  // namespace

Error usage_error(std::string message, std::string hint) {
  return {ErrorKind::usage, std::move(message), {}, {}, std::move(hint)};
}

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

Desk::Desk(const Prepared& prepared, std::vector<Host> hosts, const Options& options, const WorkOptions& work)
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

void Desk::set_programs(std::vector<HostPrograms> programs) {
  programs_ = std::move(programs);
  tools.before_host = [this](std::size_t host) { return run_before_host(programs_[host], hosts_[host], settings.run); };
  tools.after_host = [this](std::size_t host, WorkOutcome outcome) {
    return run_after_host(programs_[host], hosts_[host], settings.run, outcome);
  };
  tools.how_to_bring_back = [this](std::size_t host) {
    return how_to_bring_back(programs_[host], hosts_[host], settings.run);
  };
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

int finish_work(WorkSummary summary, const std::vector<Host>& hosts, RunRecord record, const Options& options) {
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

void add_hosts(CLI::App& command, Options& options) {
  add_inventory(command, options);
  add_limit(command, options);
  add_connection_options(command, options);
}

void add_yes(CLI::App& command, WorkOptions& work) { command.add_flag("-y,--yes", work.yes, "agree to what is shown"); }

void add_batches(CLI::App& command, WorkOptions& work) {
  command.add_option("--canary", work.policy.canary, "so many hosts first; only if all went well the others")
      ->option_text("N");
  const auto take_batch = [&work](const std::string& text) {
    const bool is_share = text.ends_with('%');
    const auto number = std::strtoul(text.c_str(), nullptr, 10);
    if (text.empty() || text.find_first_not_of("0123456789%") != text.npos || number == 0 || (is_share && number > 100))
      throw CLI::ValidationError(
          "--batch", fmt::format("expected a number of hosts or a share such as 25%, found '{}'", printable(text)));
    (is_share ? work.policy.percent : work.policy.size) = number;
  };
  command.add_option_function<std::string>("--batch", take_batch, "so many hosts at once, or such a share: 10, 25%")
      ->option_text("N|N%");
  command.add_option("--max-fail", work.policy.max_fail, "so many hosts may fail before no more are begun")
      ->option_text(with_default("N", work.policy.max_fail));
  add_duration(command, "--reconnect-for", work.reconnect_for,
               "a host that is lost is asked again so long; its steps go on meanwhile");
}

}  // namespace trueup
