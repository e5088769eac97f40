#pragma once

#include <string>

#include "trueup/result.hpp"

namespace trueup {

/// Where trueup keeps what outlives a run, for this account alone: `$XDG_STATE_HOME/trueup`, else
/// `~/.local/state/trueup`. Made (0700) where it is not there. Errors: no home, another's directory, one that others
/// can write to.
Result<std::string> state_directory();

}  // namespace trueup
