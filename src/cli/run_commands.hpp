#pragma once

#include "cli/options.hpp"

namespace CLI {
class App;
}

namespace trueup {

/// `trueup status`, `resume`, `rollback`, `prune`; their exit status goes into `status`.
void add_run_commands(CLI::App& app, Options& options, int& status);

}  // namespace trueup
