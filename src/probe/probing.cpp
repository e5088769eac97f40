#include "trueup/probing.hpp"

#include <algorithm>

namespace trueup {

const ProbeOutput* find_output(const std::vector<ProbeOutput>& outputs, std::string_view id) {
  const auto found =
      std::find_if(outputs.begin(), outputs.end(), [&](const ProbeOutput& output) { return output.id == id; });
  return found == outputs.end() ? nullptr : &*found;
}

}  // namespace trueup
