#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trueup {

/// jq definitions that need nothing: versions, sizes, the walls around the controller, the texts of a check. Those that
/// `program`, which is to follow them, may use: the others would only be searched for.
std::string prelude(std::string_view program);

/// Definitions that look at the facts. They stand behind `prelude()` and behind `$facts` being bound; what follows may
/// use `$facts`.
std::string_view facts_prelude();

/// The frame of checks, behind the other two. Which of them are evaluated say `$n` and `$alone` (JqProgram::run), and
/// `_needs`: of each check the sections that it rests on.
std::string_view check_prelude();

/// The frame of fixes and what they are advised, behind the others: only where a plan is being made.
std::string_view fix_prelude();

/// Names of the prelude for playbook authors, as jq writes them: `ver_ge/1`.
const std::vector<std::string>& prelude_functions();

}  // namespace trueup
