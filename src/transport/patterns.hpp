#pragma once

#include <string_view>

// PATTERNS of ssh_config(5), which known_hosts has as well: `*` and `?` only, for brackets are part of names
// ([host]:port).

namespace trueup::ssh {

bool matches_pattern(std::string_view pattern, std::string_view text);

/// pattern (',' pattern)*, each perhaps with '!' before it. A negated one that matches outweighs all others.
bool matches_pattern_list(std::string_view list, std::string_view text);

}  // namespace trueup::ssh
