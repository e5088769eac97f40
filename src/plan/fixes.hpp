#pragma once

#include <vector>

#include "plan/draft.hpp"
#include "trueup/playbook.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// What the loader cannot know of fixes: actions that there are not, parameters that an action does not take, lacks, or
/// takes otherwise. Each at its place, with the nearest right name. What a template gives is looked at when a plan is
/// made.
void check_fixes(const std::vector<Fix>& fixes, const FindAction& find_kind, const std::vector<std::string>& kinds,
                 std::vector<Error>& errors);

}  // namespace trueup
