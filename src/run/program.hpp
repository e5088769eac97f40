#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "trueup/result.hpp"

namespace trueup {

/// A program on the controller.
struct Program {
  std::string what;                            ///< what errors call it: `inventory program`
  std::vector<std::string> argv;               ///< the first is a path; a bare name is a file here, not on PATH
  std::vector<std::string> variables = {};     ///< NAME=VALUE, before ours
  std::chrono::milliseconds time{30'000};
  std::size_t bytes = 64U << 20U;              ///< of its output
};

/// What it prints. It runs with our working directory and nothing on its input; when its time or its output is over the
/// limit, it and what it started are killed. Errors: not_found, io (no file, not executable, others could write it,
/// could not be started), timeout, limit, malformed (it failed: status and the end of its standard error).
Result<std::string> run_program(const Program& program);

}  // namespace trueup
