#pragma once

#include <string>
#include <vector>

#include "load/files.hpp"
#include "load/yaml.hpp"
#include "trueup/playbook.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// Loads and merges playbook files (with their `include`s). Fills `errors` with everything that is wrong, each at
/// file:line:column with the nearest right name, and returns what could be read.
Playbook load_playbooks(const std::vector<std::string>& paths, const FileAccess& files, Errors& errors);

}  // namespace trueup
