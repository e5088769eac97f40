#pragma once

#include <sys/types.h>

#include <string>

#include "transport/descriptor.hpp"

namespace trueup {

/// `shell -c command` in a session of its own. It gets the three descriptors (the same one may serve twice) and nothing
/// else of ours: no other descriptor, no signal setting, no terminal. Errors: io.
Result<pid_t> spawn_shell(std::string shell, std::string command, const Descriptor& in, const Descriptor& out,
                          const Descriptor& err);

}  // namespace trueup
