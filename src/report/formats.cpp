#include <array>

#include "trueup/report_formats.hpp"

namespace trueup {

std::span<const PipelineFormat> pipeline_formats() {
  using Checks = std::vector<std::string>;
  static constexpr std::array<PipelineFormat, 4> kFormats = {{
      {"junit", render_junit},
      {"markdown", [](const RunReport& report, const Checks&) { return render_markdown(report); }},
      {"github", [](const RunReport& report, const Checks&) { return render_github(report); }},
      {"ndjson", [](const RunReport& report, const Checks&) { return render_ndjson(report); }},
  }};
  return kFormats;
}

}  // namespace trueup
