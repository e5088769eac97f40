#include <array>

#include "trueup/report_formats.hpp"

namespace trueup {

std::span<const PipelineFormat> pipeline_formats() {
  using Checks = std::vector<std::string>;
  static constexpr std::array<PipelineFormat, 1> kFormats = {{
      {"junit", render_junit},
  }};
  return kFormats;
}

}  // namespace trueup
