#pragma once

#include <string>

#include "cli/auditing.hpp"
#include "cli/options.hpp"
#include "trueup/plan.hpp"

namespace CLI {
class App;
}

namespace trueup {

/// user@controller
std::string own_name();

/// An audit, and the plan that rests on it.
struct Planned {
  RunReport report;
  Plan plan;
};
/// Audits, and inspects what the fixes would change. Writes to no host.
Planned make_plan(const Prepared& prepared, const Options& options);

/// Names on the command line that name no check or fix.
Errors unknown_names(const Options& options, const Playbook& playbook);

/// `trueup plan`: audits, inspects what fixes would change, and shows it; its exit status. Writes to no host.
int plan(Options options);

/// Which findings and fixes are planned for.
void add_plan_choice(CLI::App& command, Options& options);
void add_plan_options(CLI::App& command, Options& options);
/// `--plan-key`, for whatever reads or writes plans.
void add_plan_key(CLI::App& command, Options& options);

}  // namespace trueup
