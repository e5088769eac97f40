#pragma once

#include <string_view>

namespace trueup {

// Made from the .sh files beside this one: what the scripts of actions call. lib.sh and consumers.sh of src/probe stand
// in front of it: those two are in front of every probe already, and all three are the `lib` of a run.
extern const std::string_view kActionLibrary;

}  // namespace trueup
