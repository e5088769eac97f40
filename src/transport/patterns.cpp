#include "transport/patterns.hpp"

#include "base/text.hpp"

namespace trueup::ssh {

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, n = 0, star = pattern.npos, star_text = 0;
  while (n < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[n])) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++star_text;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool matches_pattern_list(std::string_view list, std::string_view text) {
  bool matched = false;
  for (auto pattern : split(list, ',')) {
    const bool negated = pattern.starts_with('!');
    if (negated) pattern.remove_prefix(1);
    if (pattern.empty() || !matches_pattern(pattern, text)) continue;
    if (negated) return false;
    matched = true;
  }
  return matched;
}

}  // namespace trueup::ssh
