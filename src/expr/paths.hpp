#pragma once

#include "expr/jq_text.hpp"
#include "model/schema.hpp"

namespace trueup {

/// What an expression gives, as far as it can be told without running it: `lists` levels of list around `shape`; no shape:
/// not told.
struct JqType {
  const Shape* shape = nullptr;
  int lists = 0;
};

/// Follows the paths of an expression that is given the facts, with `item` of the type given, and reports those that the
/// facts' schema does not have. What it cannot follow it lets pass. Returns what the expression gives.
JqType check_paths(const JqTokens& expression, JqType item, std::vector<JqProblem>& problems);

}  // namespace trueup
