#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "expr/jq_text.hpp"
#include "model/schema.hpp"

namespace trueup {

/// What an expression gives, as far as it can be told without running it: `lists` levels of list around `shape`; no
/// shape: not told.
struct JqType {
  const Shape* shape = nullptr;
  int lists = 0;
};

/// What an expression is given beside the facts.
struct JqScope {
  JqType item = {};
  std::optional<JqType> each = {};                      ///< absent: there is no `.each` here
  std::map<std::string, JqType, std::less<>> variables = {};  ///< by name, without `$`
};

/// Follows the paths of an expression that is given the facts and `scope`, and reports those that the facts' schema
/// does not have. What it cannot follow it lets pass. Returns what the expression gives.
JqType check_paths(const JqTokens& expression, const JqScope& scope, std::vector<JqProblem>& problems);

}  // namespace trueup
