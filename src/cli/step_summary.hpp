#pragma once

#include "trueup/report.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// Appends the report as Markdown to the file that GITHUB_STEP_SUMMARY names, as far as GitHub takes it; nothing, where that
/// is not set. What other commands of the step wrote there stays.
Result<void> append_step_summary(const RunReport& report);

}  // namespace trueup
