#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/result.hpp"

namespace trueup {

/// The names that a pattern with ranges in brackets stands for, in order; a name without brackets stands for itself.
///
///     pattern ::= (text | '[' item (',' item)* ']')*       item ::= number | [begin] (':' | '-') end [':' step]
///
/// Begin and end are both numbers or both letters, and both belong to the range. A begin with leading zeros keeps the
/// width: `gpu[001:100]`. Several brackets give every combination. Sources: Ansible's `[begin:end:step]`; '-' and lists
/// as cluster tools and our own reports write them (`gpu[001-003,007]`). Errors: malformed (what is wrong in which
/// bracket), limit (more than `most` names).
Result<std::vector<std::string>> expand_host_range(std::string_view pattern, std::size_t most);

/// Splits at `separator` where that stands outside brackets.
std::vector<std::string_view> split_outside_brackets(std::string_view text, char separator);

}  // namespace trueup
