#pragma once

#include <string>
#include <vector>

#include "run/apply.hpp"
#include "trueup/report.hpp"

// What apply, resume, rollback and status show.

namespace trueup {

struct WorkSummary {
  std::string kind;  ///< `apply`, `resume`, `rollback`
  std::string run, plan;
  std::vector<std::string> hosts;  ///< names, as in `report`
  WorkReport report;
  int exit = 0;
};

std::string render_work(const WorkSummary& summary, const TableOptions& options);
/// The document of docs/work-json.md, schema 1.
std::string render_work_json(const WorkSummary& summary);

struct RunsOfHost {
  std::string host;
  HostRuns found;
};
std::string render_runs(const std::vector<RunsOfHost>& hosts, const TableOptions& options);
std::string render_runs_json(const std::vector<RunsOfHost>& hosts);

}  // namespace trueup
