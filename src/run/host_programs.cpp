#include "run/host_programs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "run/program.hpp"

namespace trueup {
namespace {

constexpr std::size_t kMostOutput = 1U << 20U;

std::string shown(const nlohmann::json& value) {
  return printable(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

Result<std::vector<std::string>> read_argv(const nlohmann::json& value) {
  std::vector<std::string> argv;
  if (value.is_array())
    for (const auto& word : value)
      if (word.is_string()) argv.push_back(word.get<std::string>());
  if (argv.empty() || argv.size() != value.size())
    return fail(ErrorKind::malformed,
                fmt::format("expected a list of texts, a program and its arguments; found {}", shown(value)));
  if (argv.front().front() != '/')
    return fail(ErrorKind::malformed,
                fmt::format("expected the program's absolute path, found '{}'", printable(argv.front())));
  return argv;
}

std::vector<std::string> variables_of(const Host& host, const std::string& run) {
  return {"TRUEUP_HOST=" + host.name, "TRUEUP_ADDRESS=" + host.address, "TRUEUP_RUN=" + run};
}

Result<void> run_around(const char* what, const std::vector<std::string>& argv, const HostPrograms& programs,
                        const Host& host, std::vector<std::string> variables) {
  const auto done = run_program({what, argv, std::move(variables), programs.limit, kMostOutput});
  if (!done) return fail(with_context(done.error(), "on host " + host.name));
  return {};
}

}  // namespace

std::vector<HostPrograms> host_programs(const Inventory& inventory, const std::vector<Host>& hosts,
                                        std::vector<Error>& errors) {
  std::vector<HostPrograms> all(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto vars = inventory.vars.find(hosts[i].name);
    if (vars == inventory.vars.end()) continue;
    const auto wrong = [&](const char* name, Error error) {
      error.message = fmt::format("host {}: '{}': {}", hosts[i].name, name, error.message);
      errors.push_back(std::move(error));
    };
    const auto read = [&](const char* name, std::vector<std::string>& into) {
      const auto* value = vars->second.contains(name) ? &vars->second.at(name) : nullptr;
      if (value == nullptr || value->is_null()) return;
      if (auto argv = read_argv(*value))
        into = *std::move(argv);
      else
        wrong(name, argv.error());
    };
    read("before_host", all[i].before);
    read("after_host", all[i].after);
    constexpr auto kLimit = "host_program_limit";
    if (!vars->second.contains(kLimit)) continue;
    const auto& limit = vars->second.at(kLimit);
    const auto parsed = parse_duration(limit.is_string() ? limit.get<std::string>() : shown(limit));
    if (parsed)
      all[i].limit = *parsed;
    else
      wrong(kLimit, parsed.error());
  }
  return all;
}

Result<bool> run_before_host(const HostPrograms& programs, const Host& host, const std::string& run) {
  if (programs.before.empty()) return false;
  const auto done = run_around("before_host program", programs.before, programs, host, variables_of(host, run));
  if (!done) return fail(done.error());
  return true;
}

Result<void> run_after_host(const HostPrograms& programs, const Host& host, const std::string& run,
                            WorkOutcome outcome) {
  if (programs.after.empty()) return {};
  auto variables = variables_of(host, run);
  variables.push_back(fmt::format("TRUEUP_OUTCOME={}", to_string(outcome)));
  return run_around("after_host program", programs.after, programs, host, std::move(variables));
}

std::string how_to_bring_back(const HostPrograms& programs, const Host& host, const std::string& run) {
  const auto command = shell_line(programs.after.empty() ? programs.before : programs.after);
  if (programs.after.empty()) return fmt::format("take back what `{}` did", command);
  std::string variables;
  for (const auto& variable : variables_of(host, run)) {
    const auto value = variable.find('=') + 1;
    variables += fmt::format("{}{} ", variable.substr(0, value), shell_quote(variable.substr(value)));
  }
  return fmt::format("`{}TRUEUP_OUTCOME=verified {}`", variables, command);
}

}  // namespace trueup
