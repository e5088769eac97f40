#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.hpp"
#include "trueup/report.hpp"

namespace trueup {
namespace {

// `gpu007.rack2` -> stem `gpu`, digits `007`, tail `.rack2`: split at the first run of digits that can be folded.
struct Numbered {
  std::string stem, tail;
  std::string digits;
};

Numbered take_apart(const std::string& name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto begin = name.find_first_of(kDigits);
  if (begin == name.npos) return {name, {}, {}};
  const auto end = std::min(name.find_first_not_of(kDigits, begin), name.size());
  if (end - begin > 9) return {name, {}, {}};
  return {name.substr(0, begin), name.substr(end), name.substr(begin, end - begin)};
}

}  // namespace

std::string fold_hosts(std::vector<std::string> names) {
  // Names fold together when all but one run of digits, and its width, are equal. Order: that of first appearance.
  std::vector<std::pair<std::string, std::vector<std::string>>> families;
  std::map<std::string, std::size_t> index;
  for (const auto& name : names) {
    const auto parts = take_apart(name);
    const auto family = fmt::format("{}\n{}\n{}", parts.stem, parts.digits.size(), parts.tail);
    const auto [at, is_new] = index.emplace(family, families.size());
    if (is_new) families.emplace_back(family, std::vector<std::string>());
    families[at->second].second.push_back(name);
  }
  std::vector<std::string> folded;
  for (auto& [family, members] : families) {
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    const auto parts = take_apart(members.front());
    if (members.size() == 1 || parts.digits.empty()) {
      folded.push_back(members.front());
      continue;
    }
    std::vector<std::string> runs;
    for (std::size_t first = 0; first < members.size();) {
      const auto number = [&](std::size_t i) { return std::stol(take_apart(members[i]).digits); };
      std::size_t last = first;
      while (last + 1 < members.size() && number(last + 1) == number(last) + 1) ++last;
      const auto from = take_apart(members[first]).digits, to = take_apart(members[last]).digits;
      runs.push_back(first == last ? from : fmt::format("{}{}{}", from, last == first + 1 ? "," : "-", to));
      first = last + 1;
    }
    folded.push_back(fmt::format("{}[{}]{}", parts.stem, join(runs, ","), parts.tail));
  }
  return join(folded, ", ");
}

}  // namespace trueup
