#include "derive/cache_places.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "derive/host_view.hpp"
#include "probe/scripts.hpp"

namespace trueup {
namespace {

constexpr std::string_view kNameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_";

// A name that no home and no account has: places that need what is not known are nowhere.
constexpr std::string_view kNobody = "?";

const std::vector<std::pair<std::string, std::string>>& table() {
  static const auto kTable = [] {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const auto line : split(kCachePlaces, '\n'))
      if (const auto blank = line.find(' '); blank != line.npos)
        rows.emplace_back(line.substr(0, blank), line.substr(blank + 1));
    return rows;
  }();
  return kTable;
}

// `$NAME` and `${NAME:-WORD}`, as cache_places.txt has them.
std::string expand(std::string_view text, const Variables& env) {
  std::string expanded;
  for (auto dollar = text.find('$'); dollar != text.npos; dollar = text.find('$')) {
    expanded += text.substr(0, dollar);
    text.remove_prefix(dollar + 1);
    const bool braced = text.starts_with('{');
    if (braced) text.remove_prefix(1);
    const auto name = text.substr(0, text.find_first_not_of(kNameLetters));
    text.remove_prefix(name.size());
    auto value = variable(env, std::string(name)).value_or("");
    if (braced) {
      std::size_t end = 0;
      for (int depth = 1; depth > 0 && end < text.size(); ++end) depth += (text[end] == '{') - (text[end] == '}');
      if (value.empty()) value = expand(text.substr(2, end - 3), env);  // between `:-` and its own brace
      text.remove_prefix(end);
    }
    expanded += value;
  }
  return expanded += text;
}

}  // namespace

std::vector<std::string> cache_places(std::string_view kind, const Consumer& consumer) {
  auto env = consumer.env;
  if (env["HOME"].empty()) env["HOME"] = consumer.home.empty() ? kNobody : consumer.home;
  auto& user = env["USER"] = consumer.user;
  // As torch writes it into the name of a directory.
  std::replace_if(
      user.begin(), user.end(),
      [](char c) { return std::string_view("\\/:*?\"<>|").find(c) != std::string_view::npos; }, '_');
  if (user.empty()) user = kNobody;
  std::vector<std::string> places;
  for (const auto& [of, place] : table()) {
    if (of != kind) continue;
    auto path = clean_path(expand(place, env));
    if (path.size() > 1 && path.starts_with('/') && path.find(kNobody) == path.npos) places.push_back(std::move(path));
  }
  return places;
}

bool lies_in(std::string_view path, const std::string& place) {
  return path == place || (path.starts_with(place) && path.substr(place.size()).starts_with('/'));
}

std::string place_of(std::string_view path, const std::vector<std::string>& places) {
  const auto found = std::find_if(places.begin(), places.end(), [&](const auto& each) { return lies_in(path, each); });
  return found == places.end() ? std::string() : *found;
}

}  // namespace trueup
