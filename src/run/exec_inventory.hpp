#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "trueup/result.hpp"

namespace trueup {

struct InventoryProgramLimits {
  std::chrono::milliseconds time{30'000};
  std::size_t bytes = 64U << 20U;
};

/// What `PATH --list` prints. The program runs with our environment and working directory, and nothing on its input;
/// when its time or its output is over the limit, it and what it started are killed. A bare name is a file here, not on
/// PATH. Errors: not_found, io (no file, not executable, others could write it, could not be started), timeout, limit,
/// malformed (it failed: status and the end of its standard error).
Result<std::string> run_inventory_program(const std::string& path, const InventoryProgramLimits& limits = {});

}  // namespace trueup
