#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/units.hpp"
#include "cli/options.hpp"

// The options that several commands have.

namespace trueup {

void add_inventory(CLI::App& command, Options& options);
void add_limit(CLI::App& command, Options& options);
void add_playbook(CLI::App& command, Options& options);
void add_deep(CLI::App& command, Options& options);
void add_tags(CLI::App& command, Options& options);
void add_stored(CLI::App& command, Options& options);
void add_connection_options(CLI::App& command, Options& options);
/// For commands that change nothing on hosts.
void add_accept_new_host_keys(CLI::App& command, Options& options);
/// `formats`: of `--format`.
void add_report_options(CLI::App& command, Options& options,
                        const std::vector<std::string>& formats = {"table", "json"});

/// A word that needs no option; CLI11 would tell its type beside its name.
CLI::Option* add_positional(CLI::App& command, const std::string& name, std::string& into, const std::string& help);

/// What stands beside an option in the help: `N (default: 50)`.
template <class Value>
std::string with_default(std::string_view what, const Value& value) {
  return fmt::format("{} (default: {})", what, value);
}

/// `into`: a duration, whose value is the default, or an optional one.
template <class Duration>
CLI::Option* add_duration(CLI::App& command, const std::string& name, Duration& into, const std::string& help) {
  const auto take = [&into, name](const std::string& text) {
    const auto duration = parse_duration(text);
    if (!duration) throw CLI::ValidationError(name, duration.error().message);
    into = *duration;
  };
  std::string text = "DURATION";
  if constexpr (std::is_same_v<Duration, std::chrono::milliseconds>) text = with_default(text, duration_text(into));
  return command.add_option_function<std::string>(name, take, help)->option_text(text);
}

}  // namespace trueup
