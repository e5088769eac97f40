#pragma once

#include "cli/options.hpp"

namespace CLI {
class App;
}

namespace trueup {

/// `trueup plan`: audits, inspects what fixes would change, and shows it; its exit status. Writes to no host.
int plan(Options options);

void add_plan_options(CLI::App& command, Options& options);
/// `--plan-key`, for whatever reads or writes plans.
void add_plan_key(CLI::App& command, Options& options);

}  // namespace trueup
