#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "load/yaml.hpp"
#include "trueup/report.hpp"
#include "trueup/result.hpp"

namespace CLI {
class App;
}

// Where results go: `--format`, standard output, files.

namespace trueup {

/// Sorts by time, and tells apart what started in one second on one machine.
std::string make_run_id(std::chrono::system_clock::time_point started);

/// All of `text` into the open `file`, which is closed in any case. False: errno says why.
bool write_and_close(int file, std::string_view text);

/// Reports hold what hosts said: the file is readable by its owner alone.
Result<void> write_file(const std::string& path, std::string_view text);

/// Errors, before an audit of many hosts is made for nothing: reports whose place cannot be written.
Errors unwritable(const std::vector<Output>& outputs);

/// What is written where a format is asked for.
struct Renderers {
  std::function<std::string(const TableOptions&)> table;
  std::function<std::string()> json;
  std::function<std::string(std::string_view format)> pipeline = {};  ///< any other format that the command has
};

Result<void> write_output(const Renderers& renderers, const Output& output, const Options& options);

/// `--format NAME[:PATH]`, repeatable. `formats`: the names there are.
void add_format(CLI::App& command, Options& options, const std::vector<std::string>& formats = {"table", "json"});

void add_color(CLI::App& command, Options& options);

}  // namespace trueup
