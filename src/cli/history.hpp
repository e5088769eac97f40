#pragma once

#include "cli/options.hpp"
#include "store/store.hpp"

namespace CLI {
class App;
}

namespace trueup {

/// The store of this account.
Result<Store> open_store();

/// Keeps `run`, unless --no-store was given. What a run found is worth more than the note of it: a store that cannot be
/// written is a warning.
void remember(const Options& options, const RunRecord& run);

void add_no_store(CLI::App& command, Options& options);
/// `trueup history`; its exit status goes into `status`.
void add_history(CLI::App& app, Options& options, int& status);

}  // namespace trueup
