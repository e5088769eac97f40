#include "cli/history.hpp"

#include <CLI/CLI.hpp>

#include "cli/output.hpp"
#include "cli/state.hpp"
#include "cli/terminal.hpp"

namespace trueup {
namespace {

int history(const Options& options) {
  auto store = open_store();
  const auto runs = store ? store->runs() : fail(store.error());
  if (!runs) {
    print_error(runs.error());
    return 1;
  }
  for (const auto& output : options.outputs) {
    const Renderers renderers = {[&](const TableOptions& table) { return render_history(*runs, table); },
                                 [&] { return render_history_json(*runs); }};
    if (const auto written = write_output(renderers, output, options); !written) {
      print_error(written.error());
      return 1;
    }
  }
  return 0;
}

}  // namespace

Result<Store> open_store() {
  const auto directory = state_directory();
  if (!directory) return fail(directory.error());
  return Store::open(*directory + "/store.db");
}

void remember(const Options& options, const RunRecord& run) {
  if (!options.store) return;
  auto store = open_store();
  const auto kept = store ? store->put(run) : fail(store.error());
  if (!kept) print_warning(with_context(kept.error(), "this run is not recorded"));
}

void add_no_store(CLI::App& command, Options& options) {
  command.add_flag_callback(
      "--no-store", [&options] { options.store = false; }, "do not record this run for `trueup history`");
}

void add_history(CLI::App& app, Options& options, int& status) {
  auto* command = app.add_subcommand("history", "the runs that are recorded, newest first");
  add_format(*command, options);
  add_color(*command, options);
  command->callback([&] { status = history(options); });
}

}  // namespace trueup
