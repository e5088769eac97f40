#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <iostream>
#include <system_error>

#include "base/text.hpp"
#include "cli/arguments.hpp"
#include "cli/terminal.hpp"

namespace trueup {
namespace {

/// `NAME[:PATH]`. Errors: no such format, no path behind the colon, a place that another report goes to.
Result<void> add_output(std::vector<Output>& outputs, const std::vector<std::string>& formats,
                        const std::string& text) {
  const auto colon = text.find(':');
  Output output{text.substr(0, colon), colon == text.npos ? "" : text.substr(colon + 1)};
  if (std::find(formats.begin(), formats.end(), output.format) == formats.end())
    return fail(ErrorKind::usage, fmt::format("unknown format '{}'{} (there are: {})", printable(output.format),
                                              did_you_mean(output.format, formats), join(formats, ", ")));
  if (colon != text.npos && output.path.empty())
    return fail(ErrorKind::usage, fmt::format("'{}': a path is missing after ':'", printable(text)));
  const auto goes_there_too = [&](const Output& other) { return other.path == output.path; };
  if (std::any_of(outputs.begin(), outputs.end(), goes_there_too))
    return fail(ErrorKind::usage,
                fmt::format("two reports for {}", output.path.empty() ? "standard output" : printable(output.path)));
  outputs.push_back(std::move(output));
  return {};
}

}  // namespace

std::string make_run_id(std::chrono::system_clock::time_point started) {
  return fmt::format("{:%Y%m%dT%H%M%SZ}-{}", fmt::gmtime(std::chrono::system_clock::to_time_t(started)), getpid());
}

bool write_and_close(int file, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(file, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      const int why = errno;
      close(file);
      errno = why;
      return false;
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  return close(file) == 0;
}

Result<void> write_file(const std::string& path, std::string_view text) {
  const auto failed = [&] {
    return fail(ErrorKind::io, fmt::format("cannot write '{}': {}", path, std::generic_category().message(errno)));
  };
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return failed();
  struct stat status {};
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) fchmod(file, 0600);  // one that was there keeps its mode
  return write_and_close(file, text) ? Result<void>() : failed();
}

Errors unwritable(const std::vector<Output>& outputs) {
  Errors errors;
  for (const auto& [format, path] : outputs) {
    if (path.empty()) continue;
    const auto slash = path.rfind('/');
    const auto folder = slash == path.npos ? std::string(".") : path.substr(0, slash + 1);
    struct stat status {};
    const bool exists = stat(path.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
      errno = EISDIR;
    else if (access((exists ? path : folder).c_str(), exists ? W_OK : W_OK | X_OK) == 0)
      continue;
    errors.push_back({ErrorKind::io,
                      fmt::format("cannot write '{}': {}", path, std::generic_category().message(errno)),
                      {},
                      {fmt::format("--format {}", format)},
                      {}});
  }
  return errors;
}

Result<void> write_output(const Renderers& renderers, const Output& output, const Options& options) {
  const bool to_terminal = output.path.empty() && is_terminal(STDOUT_FILENO);
  const TableOptions table{output.path.empty() && wants_color(options.color, STDOUT_FILENO),
                           to_terminal ? terminal_width(STDOUT_FILENO) : 100, options.verbosity};
  const auto text = output.format == "json"    ? renderers.json()
                    : output.format == "table" ? renderers.table(table)
                                               : renderers.pipeline(output.format);
  if (!output.path.empty()) return write_file(output.path, text);
  if (!std::cout.write(text.data(), static_cast<std::streamsize>(text.size())).flush())
    return fail(ErrorKind::io, "cannot write to standard output");
  return {};
}

void add_format(CLI::App& command, Options& options, const std::vector<std::string>& formats) {
  const auto take_formats = [&options, formats](const std::vector<std::string>& texts) {
    options.outputs.clear();
    for (const auto& text : texts)
      if (const auto added = add_output(options.outputs, formats, text); !added)
        throw CLI::ValidationError("--format", added.error().message);
  };
  command
      .add_option_function<std::vector<std::string>>("--format", take_formats,
                                                     join(formats, ", ") + "; with :PATH into a file; may be repeated")
      ->option_text("FORMAT[:PATH] (default: table)")
      ->allow_extra_args(false);
}

void add_color(CLI::App& command, Options& options) {
  command.add_option("--color", options.color, "colours of the table")
      ->option_text(with_default("auto|always|never", options.color))
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

}  // namespace trueup
