#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/report.hpp"

// Formats of an audit that pipelines know already. What each field means: docs/report-formats.md.

namespace trueup {

/// What GitHub takes of the summary of one step, in bytes.
inline constexpr std::size_t kStepSummaryBytes = 1U << 20U;

/// JUnit XML: a suite for each host, and in it a case for each of `checks` (ids; all that were looked for), whether it was
/// evaluated or not, so that a case has a history. Fails or errs exactly where the exit status would not be 0.
std::string render_junit(const RunReport& report, const std::vector<std::string>& checks);

/// GitHub's Markdown: counts, root causes with their evidence folded, what was not looked at. At most `most_bytes` (but no
/// fewer than some 4 KiB), and says what was left out.
std::string render_markdown(const RunReport& report, std::size_t most_bytes = kStepSummaryBytes);

/// Workflow commands of GitHub Actions: an annotation for each finding at or above `--fail-on` and for what was not looked
/// at, equal ones of many hosts as one.
std::string render_github(const RunReport& report);

/// A JSON object on each line: hosts, their findings, and a summary at the end. Plain ASCII.
std::string render_ndjson(const RunReport& report);

struct PipelineFormat {
  std::string_view name;  ///< of `--format`
  std::string (*render)(const RunReport& report, const std::vector<std::string>& checks);
};

/// The table of all of them.
std::span<const PipelineFormat> pipeline_formats();

}  // namespace trueup
