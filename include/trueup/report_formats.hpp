#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/report.hpp"

// Formats of an audit that pipelines know already. What each field means: docs/report-formats.md.

namespace trueup {

/// JUnit XML: a suite for each host, and in it a case for each of `checks` (ids; all that were looked for), whether it was
/// evaluated or not, so that a case has a history. Fails or errs exactly where the exit status would not be 0.
std::string render_junit(const RunReport& report, const std::vector<std::string>& checks);

struct PipelineFormat {
  std::string_view name;  ///< of `--format`
  std::string (*render)(const RunReport& report, const std::vector<std::string>& checks);
};

/// The table of all of them.
std::span<const PipelineFormat> pipeline_formats();

}  // namespace trueup
