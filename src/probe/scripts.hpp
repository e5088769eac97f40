#pragma once

#include <string_view>

namespace trueup {

// Made from the files beside this one by embed.cmake.
extern const std::string_view kBundleScript;
extern const std::string_view kProbeLibrary;
extern const std::string_view kConsumersLibrary;
extern const std::string_view kCachePlaces;

}  // namespace trueup
