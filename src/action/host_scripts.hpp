#pragma once

#include <string_view>

namespace trueup {

// Made from the .sh files beside this one.
extern const std::string_view kHostStateScript;
extern const std::string_view kKubernetesScript;
extern const std::string_view kHostCallsScript;
extern const std::string_view kExecutorScript;

}  // namespace trueup
