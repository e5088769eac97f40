#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <limits>

namespace trueup {

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::string_view take_word(std::string_view& text) {
  const auto word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

namespace {

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestName = 200;  // the distance is quadratic; names are short, hostile input is not
  if (name.size() > kLongestName) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  const auto lower = to_lower(name);
  for (const auto& candidate : candidates) {
    if (candidate.size() > kLongestName) continue;
    const auto distance = edit_distance(lower, to_lower(candidate));
    if (distance < best_distance && distance <= std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3)) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const auto best = nearest(name, candidates);
  return best ? fmt::format("; did you mean '{}'?", *best) : std::string();
}

std::string count(std::size_t number, std::string_view thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

std::string shell_quote(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./-";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const auto& word : words) quoted.push_back(shell_quote(word));
  return join(quoted, " ");
}

namespace {

struct Decoded {
  std::uint32_t code = 0;
  std::size_t length = 0;  // 0: not valid UTF-8
};

Decoded decode_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 && lead <= 0xf4 ? 4 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length == 0 || lead > 0xf4 || text.size() < length) return {};
  std::uint32_t code = lead & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return {};
    code = (code << 6U) | (byte(i) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
  return {code, length};
}

// Characters that move, hide or reorder what follows (Unicode "Cf" in practice, and the line separators), and what is no
// character: XML cannot carry U+FFFE and U+FFFF, and no reader shows them.
bool is_deceptive(std::uint32_t code) {
  return code == 0xad || code == 0x61c || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) ||
         (code >= 0xe0000 && code <= 0xe007f) || (code & 0xfffeU) == 0xfffeU;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const auto [code, length] = decode_utf8(text);
    if (length == 0) {
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    if (code == '\n')
      safe += "\\n";
    else if (code == '\t')
      safe += ' ';
    else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
      safe += fmt::format("\\x{:02x}", code);
    else if (is_deceptive(code))
      safe += fmt::format("\\u{:04x}", code);
    else
      safe += text.substr(0, length);
    text.remove_prefix(length);
  }
  return safe;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const auto [code, length] = decode_utf8(text);
    if (length == 0 || code == 0)
      valid += "\xef\xbf\xbd";
    else
      valid += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return valid;
}

std::string shorten(std::string_view text, std::size_t width) {
  std::size_t columns = 0, cut = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto length = std::max<std::size_t>(1, decode_utf8(text.substr(i)).length);
    if (columns + 1 < width) cut = i + length;
    if (++columns > width) return std::string(text.substr(0, cut)) + "…";
    i += length;
  }
  return std::string(text);
}

bool glob_match(std::string_view pattern, std::string_view text) {
  const auto one = [](std::string_view& p, char c) {  // matches and consumes one pattern element other than '*'
    if (p.front() == '?') {
      p.remove_prefix(1);
      return true;
    }
    const auto close = p.front() == '[' ? p.find(']', p.size() > 1 && p[1] == '!' ? 3 : 2) : p.npos;
    if (close == p.npos) {
      const bool same = p.front() == c;
      p.remove_prefix(1);
      return same;
    }
    auto set = p.substr(1, close - 1);
    p.remove_prefix(close + 1);
    const bool negated = set.front() == '!';
    if (negated) set.remove_prefix(1);
    bool in = false;
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (i + 2 < set.size() && set[i + 1] == '-') {
        in |= set[i] <= c && c <= set[i + 2];
        i += 2;
      } else {
        in |= set[i] == c;
      }
    }
    return in != negated;
  };
  // The classic two-pointer walk: on a mismatch go back to the last star and let it take one character more.
  std::string_view star_pattern, star_text;
  bool starred = false;
  while (!text.empty()) {
    if (!pattern.empty() && pattern.front() == '*') {
      pattern.remove_prefix(1);
      starred = true;
      star_pattern = pattern;
      star_text = text;
      continue;
    }
    if (auto rest = pattern; !rest.empty() && one(rest, text.front())) {
      pattern = rest;
      text.remove_prefix(1);
      continue;
    }
    if (!starred) return false;
    star_text.remove_prefix(1);
    pattern = star_pattern;
    text = star_text;
  }
  return pattern.find_first_not_of('*') == pattern.npos;
}

}  // namespace trueup
