#include "transport/tokens.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/text.hpp"

namespace trueup::ssh {

Result<std::string> expand(std::string_view text, const Tokens& tokens, const std::optional<Variables>& variables) {
  std::string expanded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (++i == text.size()) return fail(ErrorKind::malformed, "a lone '%' stands at the end");
      const auto token = tokens.find(text[i]);
      if (token == tokens.end()) {
        std::vector<std::string> known;
        for (const auto& [letter, value] : tokens) known.push_back(fmt::format("%{}", letter));
        return fail(ErrorKind::unsupported, fmt::format("'%{}' means nothing there; there are {}",
                                                        printable(text.substr(i, 1)), join(known, ", ")));
      }
      expanded += token->second;
    } else if (variables && text.substr(i).starts_with("${")) {
      const auto end = text.find('}', i);
      if (end == text.npos) return fail(ErrorKind::malformed, "'${' is not closed");
      const std::string name(text.substr(i + 2, end - i - 2));
      const auto value = *variables ? (*variables)(name) : std::nullopt;
      if (!value) return fail(ErrorKind::not_found, fmt::format("the variable {} is not set", printable(name)));
      expanded += *value;
      i = end;
    } else {
      expanded += text[i];
    }
  }
  return expanded;
}

}  // namespace trueup::ssh
