#include "expr/template.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "expr/jq_text.hpp"

namespace trueup {

Result<std::vector<TemplatePart>> split_template(const Expression& text) {
  std::vector<TemplatePart> parts;
  const std::string_view all = text.text;
  for (std::size_t at = 0; at < all.size();) {
    const auto open = std::min(all.find("{{", at), all.size());
    if (open > at) parts.push_back({false, std::string(all.substr(at, open - at)), at});
    if (open == all.size()) break;
    const auto length = find_braces_end(all.substr(open + 2));
    if (length == all.npos)
      return fail(ErrorKind::malformed, "'{{' has no '}}' that ends it (brackets and quotes must be closed before)",
                  position_in(text, open));
    const auto inside = all.substr(open + 2, length);
    if (trim(inside).empty())
      return fail(ErrorKind::malformed, "nothing between '{{' and '}}'", position_in(text, open));
    parts.push_back({true, std::string(inside), open + 2});
    at = open + 2 + length + 2;
  }
  return parts;
}

SourcePos position_in(const Expression& text, std::size_t offset) {
  SourcePos at = text.at;
  if (at.line == 0) return at;
  const auto before = std::string_view(text.text).substr(0, offset);
  at.line += static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  if (at.column == 0) return at;
  const auto line_start = before.rfind('\n');
  // The lines of a block stand under each other.
  at.column += static_cast<int>(line_start == before.npos ? offset : offset - line_start - 1);
  return at;
}

}  // namespace trueup
