#include "trueup/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <tuple>

#include "base/text.hpp"

namespace trueup {
namespace {

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || (!text.empty() && text.front() == '-')) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Takes `[sep]word[sep]`, as PEP 440's normalisation allows between release and suffixes.
bool take_word(std::string_view& text, std::string_view word) {
  auto rest = text;
  if (!rest.empty() && (rest.front() == '.' || rest.front() == '-' || rest.front() == '_')) rest.remove_prefix(1);
  if (!rest.starts_with(word)) return false;
  rest.remove_prefix(word.size());
  if (rest.size() > 1 && (rest.front() == '.' || rest.front() == '-' || rest.front() == '_')) rest.remove_prefix(1);
  text = rest;
  return true;
}

}  // namespace

// version ::= ['v'] number ('.' number)* [('a'|'b'|'rc') number] ['.post' number] ['.dev' number] ['+' local]
// (PEP 440 without epochs, which no package of this field uses, and with its spelling variants).
Result<Version> Version::parse(std::string_view input) {
  constexpr std::size_t kLongest = 128;
  Version version;
  version.text_ = std::string(trim(input));
  const auto bad = [&] {
    return fail(ErrorKind::malformed, fmt::format("expected a version such as 12.8 or 0.6.7.post3, got '{}'",
                                                  shorten(printable(input), 60)));
  };
  if (version.text_.size() > kLongest) return bad();
  std::string lower = to_lower(version.text_);
  std::string_view text = lower;
  if (text.starts_with('v')) text.remove_prefix(1);
  if (const auto plus = text.find('+'); plus != text.npos) {
    version.local_ = std::string(text.substr(plus + 1));
    text = text.substr(0, plus);
  }
  for (int number = 0;;) {
    if (!take_number(text, number)) return bad();
    version.release_.push_back(number);
    if (text.size() < 2 || text.front() != '.' || text[1] < '0' || text[1] > '9') break;
    text.remove_prefix(1);
  }
  const std::pair<std::string_view, int> kinds[] = {{"alpha", 0}, {"beta", 1}, {"preview", 2}, {"pre", 2},
                                                    {"rc", 2},    {"a", 0},    {"b", 1},       {"c", 2}};
  for (const auto& [word, kind] : kinds) {
    if (!take_word(text, word)) continue;
    version.pre_kind_ = kind;
    take_number(text, version.pre_);
    break;
  }
  if (take_word(text, "post")) {
    version.post_ = 0;
    take_number(text, version.post_);
  }
  if (take_word(text, "dev")) {
    version.dev_ = 0;
    take_number(text, version.dev_);
  }
  if (!text.empty()) return bad();
  return version;
}

Version Version::of(std::string_view text) {
  auto version = parse(text);
  assert(version.has_value());
  return *std::move(version);
}

Version Version::major_minor() const { return of(fmt::format("{}.{}", major(), minor())); }

std::strong_ordering operator<=>(const Version& a, const Version& b) {
  for (std::size_t i = 0; i < std::max(a.release_.size(), b.release_.size()); ++i)
    if (const auto order = a.number(i) <=> b.number(i); order != 0) return order;
  // PEP 440: 1.0.dev1 < 1.0a1 < 1.0rc1 < 1.0 < 1.0.post1. A dev release alone sorts before every pre-release.
  const auto rank = [](const Version& v) {
    const int pre_kind = v.pre_kind_ == 3 && v.post_ < 0 && v.dev_ >= 0 ? -1 : v.pre_kind_;
    return std::tuple(pre_kind, v.pre_, v.post_, v.dev_ >= 0 ? 0 : 1, v.dev_);
  };
  return rank(a) <=> rank(b);
}

}  // namespace trueup
