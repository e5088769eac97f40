#include "model/host_range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.hpp"

namespace trueup {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kLongestPattern = 1000;

std::optional<std::size_t> number_of(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_digits(std::string_view text) { return !text.empty() && text.find_first_not_of(kDigits) == text.npos; }

struct Items {
  std::string_view bracket;
  std::size_t room;  ///< values that may still stand in this bracket
  std::size_t most;  ///< names in all, for the message
  std::vector<std::string> values = {};

  tl::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorKind::malformed, fmt::format("range '[{}]': {}", printable(bracket), what));
  }

  Result<void> add(std::string_view item, bool alone) {
    const auto separator = item.find_first_of(":-");
    if (separator == item.npos) {
      if (alone || !is_digits(item)) return wrong("expected begin:end, such as [001:100] or [a:f]");
      values.emplace_back(item);
      return {};
    }
    const auto begin = separator == 0 ? std::string_view("0") : item.substr(0, separator);
    auto end = item.substr(separator + 1);
    std::size_t step = 1;
    if (const auto colon = end.find(':'); colon != end.npos) {
      const auto given = number_of(end.substr(colon + 1));
      if (!given || *given == 0) return wrong("the step must be a whole number, 1 or more");
      step = *given;
      end = end.substr(0, colon);
    }
    if (begin.size() == 1 && end.size() == 1 && kLetters.find(begin) != kLetters.npos &&
        kLetters.find(end) != kLetters.npos)
      return fill(kLetters.find(begin), kLetters.find(end), step,
                  [](std::size_t i) { return std::string(1, kLetters[i]); });
    if (!is_digits(begin) || !is_digits(end)) return wrong("expected begin:end, such as [001:100] or [a:f]");
    const bool padded = begin.size() > 1 && begin.front() == '0';
    if (padded && begin.size() != end.size())
      return wrong("begin has leading zeros, so begin and end must have the same number of digits");
    const auto first = number_of(begin), last = number_of(end);
    if (!first || !last) return wrong("the number is too large");
    return fill(*first, *last, step,
                [width = padded ? begin.size() : 0](std::size_t i) { return fmt::format("{:0{}}", i, width); });
  }

  template <class Name>
  Result<void> fill(std::size_t first, std::size_t last, std::size_t step, Name name) {
    if (first > last) return wrong("begin lies behind end");
    const auto count = (last - first) / step;  // less one
    if (count >= room - std::min(room, values.size()))
      return fail(ErrorKind::limit, fmt::format("more than {} names", most));
    for (std::size_t i = 0; i <= count; ++i) values.push_back(name(first + i * step));
    return {};
  }
};

}  // namespace

std::vector<std::string_view> split_outside_brackets(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == ']') inside = text[i] == '[';
    if (text[i] != separator || inside) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

Result<std::vector<std::string>> expand_host_range(std::string_view pattern, std::size_t most) {
  if (pattern.size() > kLongestPattern)
    return fail(ErrorKind::limit, fmt::format("a name longer than {} characters", kLongestPattern));
  std::vector<std::string> names = {""};
  while (!pattern.empty()) {
    const auto open = pattern.find('[');
    const auto text = pattern.substr(0, open);
    if (text.find(']') != text.npos) return fail(ErrorKind::malformed, "']' without '['");
    for (auto& name : names) name += text;
    if (open == pattern.npos) break;
    const auto close = pattern.find(']', open);
    if (close == pattern.npos) return fail(ErrorKind::malformed, "'[' without ']'");
    Items items{pattern.substr(open + 1, close - open - 1), most / names.size(), most};
    const auto parts = split(items.bracket, ',');
    for (const auto part : parts)
      if (auto added = items.add(part, parts.size() == 1); !added) return fail(std::move(added.error()));
    if (items.values.size() > items.room) return fail(ErrorKind::limit, fmt::format("more than {} names", most));
    std::vector<std::string> longer;
    longer.reserve(names.size() * items.values.size());
    for (const auto& name : names)
      for (const auto& value : items.values) longer.push_back(name + value);
    names = std::move(longer);
    pattern.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace trueup
