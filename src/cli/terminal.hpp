#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/secret.hpp"
#include "run/probe_hosts.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// What kind of thing a stream of ours is, and how to write there.
bool is_terminal(int fd);
/// Columns of the terminal behind `fd`; 100 where it is none.
std::size_t terminal_width(int fd);
/// `auto`: a terminal, and neither NO_COLOR nor TERM=dumb.
bool wants_color(std::string_view choice, int fd);

/// `error: ...` and, on a line of its own, what to do about it. Safe for the terminal.
void print_error(const Error& error);
/// The same as `warning: ...`: something is not as wished, and what was asked for is done all the same.
void print_warning(const Error& error);

/// Asks on the terminal without echo. Errors: no terminal to ask on.
Result<Secret> ask_secret(const std::string& prompt);

/// One line on a terminal's standard error that renews itself, or a line per host in a log. Silent when `quiet`.
class ProgressLine {
 public:
  ProgressLine(bool quiet, std::size_t hosts);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(const Progress& progress);
  void host_done(std::string_view name, std::string_view outcome);
  void clear();

 private:
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::size_t hosts_;
  std::size_t done_ = 0;
};

}  // namespace trueup
