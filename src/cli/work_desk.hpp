#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/auditing.hpp"
#include "cli/options.hpp"
#include "cli/terminal.hpp"
#include "cli/work_report.hpp"
#include "run/apply.hpp"
#include "run/host_programs.hpp"
#include "store/store.hpp"

namespace CLI {
class App;
}

// What the commands that change hosts, or follow what was changed, have in common.

namespace trueup {

/// What these commands take beyond the options of all.
struct WorkOptions {
  std::string run;
  BatchPolicy policy;
  bool keep = false;
  bool yes = false;
  std::chrono::milliseconds reconnect_for{600'000};
};

Error usage_error(std::string message, std::string hint = {});

/// Whether the user agrees; without a terminal only `--yes` says so. Errors: nobody there to ask.
Result<bool> ask_leave(const WorkOptions& work, const std::string& question);

/// What the hosts of one run have in common: tools and settings made of what was prepared.
class Desk {
 public:
  Desk(const Prepared& prepared, std::vector<Host> hosts, const Options& options, const WorkOptions& work);
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  /// Each host is taken out of service and brought back by these; one for each.
  void set_programs(std::vector<HostPrograms> programs);

  const std::vector<Host>& hosts() const { return hosts_; }
  ApplySettings settings;
  WorkTools tools;

 private:
  const Prepared& prepared_;
  const std::vector<Host> hosts_;
  std::vector<HostPrograms> programs_;
  ProgressLine progress_;
  std::shared_ptr<const ProbeLoad> audit_;
};

/// A run as it is recorded before anything is done, so that it is known should we end in the middle.
RunRecord begun_record(const std::string& id, const std::string& kind, const std::string& plan,
                       const std::vector<Host>& hosts);
/// Shows what came of it and records it; the exit status.
int finish_work(WorkSummary summary, const std::vector<Host>& hosts, RunRecord record, const Options& options);

/// Inventory, -l, and how hosts are reached.
void add_hosts(CLI::App& command, Options& options);
void add_yes(CLI::App& command, WorkOptions& work);
void add_batches(CLI::App& command, WorkOptions& work);

}  // namespace trueup
