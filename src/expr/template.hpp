#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trueup/playbook.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// One part of a template: fixed text, or the jq expression between `{{` and `}}`.
struct TemplatePart {
  bool is_expression = false;
  std::string text;
  std::size_t offset = 0;  ///< of `text` in the template
};

/// template ::= (text | '{{' jq '}}')*. The `}}` that ends an expression stands outside its brackets and strings, so
/// `{{ {a: {b: 1}} | keys[0] }}` is one expression. Errors: an expression without an end or with nothing in it.
Result<std::vector<TemplatePart>> split_template(const Expression& text);

/// The place of byte `offset` of an expression whose first byte stands at `text.at`.
SourcePos position_in(const Expression& text, std::size_t offset);

}  // namespace trueup
