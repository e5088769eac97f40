#pragma once

#include "cli/options.hpp"

namespace CLI {
class App;
}

namespace trueup {

/// `trueup apply`; its exit status goes into `status`.
void add_apply(CLI::App& app, Options& options, int& status);

}  // namespace trueup
