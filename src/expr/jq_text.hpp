#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trueup/result.hpp"

// The text of jq expressions: tokens, and what may not stand in a check.

namespace trueup {

struct JqToken {
  /// `open` and `close` are brackets, and the quotes of a string that holds `\( )`, which is a bracket pair too.
  enum class Kind { field, name, variable, number, text, format, op, open, close };

  Kind kind = Kind::op;
  std::string_view text = {};   ///< as written: `.name` of a field; of a string what stands between its quotes
  std::size_t offset = 0;       ///< into the expression
  std::size_t partner = 0;      ///< index of the bracket that belongs to this one

  bool is(Kind wanted, std::string_view written) const { return kind == wanted && text == written; }
};

/// A place in an expression and what is wrong there.
struct JqProblem {
  std::size_t offset = 0;
  std::string message;
};

struct JqTokens {
  std::vector<JqToken> tokens;
  std::string code;  ///< the expression with its comments blanked out: same length, same lines
  std::vector<JqProblem> problems;
};

/// Splits as jq's lexer does. Reports brackets that do not match, strings without an end, characters jq does not know,
/// and names that checks may not use: those that read the controller (`$ENV`, `input`, `import`, `now`, ...).
JqTokens tokenize_jq(std::string_view text);

/// Where the `}}` that ends a template's expression stands in `text`, brackets and strings skipped; npos: nowhere.
std::size_t find_braces_end(std::string_view text);

}  // namespace trueup
