// How many states one match may visit before it gives up by throwing. Boost backtracks; the default lets one hostile
// line run for seconds. Generous for any honest pattern: a 100 kB line needs about one state a character.
#define BOOST_REGEX_MAX_STATE_COUNT 1000000
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"  // Boost casts the macro above, which is ours
#include <boost/regex.hpp>
#pragma GCC diagnostic pop

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/text.hpp"
#include "parse/options.hpp"

namespace trueup::parse {

namespace {

// Lines that needed more than their share of backtracking add up; this bounds all of them.
constexpr std::size_t kMaxLine = 256 * 1024;

// `(?<name>` and `(?P<name>` are named groups; `(?<=` and `(?<!` look behind.
std::vector<std::string> named_groups(std::string_view pattern) {
  std::vector<std::string> names;
  for (auto at = pattern.find("(?<"); at != pattern.npos; at = pattern.find("(?<", at + 1)) {
    const auto end = pattern.find('>', at);
    if (end == pattern.npos || pattern[at + 3] == '=' || pattern[at + 3] == '!') continue;
    names.emplace_back(pattern.substr(at + 3, end - at - 3));
  }
  return names;
}

}  // namespace

// Lines that a regular expression (Perl's, by Boost.Regex) takes apart; a record from each line in which `pattern` is
// found, its fields from the named groups. A line without a match is reported, or passed over with `ignore_unknown`.
Parser make_regex(Options& options) {
  const auto pattern = options.text("pattern");
  const auto fields = options.fields(Layout::keyed_once);
  const bool single = options.flag("single");
  if (pattern.empty()) options.mistake("pattern: missing");
  const auto groups = named_groups(pattern);
  for (const auto& group : groups)
    if (!fields.find(group))
      options.mistake(fmt::format("group '{}' is no field{}", group, did_you_mean(group, fields.keys())));
  for (const auto& key : fields.keys())
    if (std::find(groups.begin(), groups.end(), key) == groups.end())
      options.mistake(fmt::format("field '{}' is no group of the pattern{}", key, did_you_mean(key, groups)));
  auto regex = std::make_shared<boost::regex>();
  try {
    regex->assign(pattern);
  } catch (const std::exception& error) {
    options.mistake(fmt::format("pattern: {}", error.what()));
  }
  return [=](std::string_view text) -> Result<nlohmann::json> {
    Records records(single);
    RecordBuilder record(fields);
    Place place;
    boost::cmatch match;
    for (const auto line : split_lines(text)) {
      ++place.number;
      if (trim(line).empty()) continue;
      bool found = false;
      try {
        found = line.size() <= kMaxLine && boost::regex_search(line.data(), line.data() + line.size(), match, *regex);
      } catch (const std::exception&) {
        return fail(ErrorKind::limit, fmt::format("{}: the pattern takes too long on '{}'", to_string(place),
                                                  shorten(printable(line.substr(0, 320)), 80)));
      }
      if (!found) {
        if (fields.ignores_unknown()) continue;
        return fail(ErrorKind::malformed, fmt::format("{}: does not match the pattern: '{}'", to_string(place),
                                                      shorten(printable(line.substr(0, 320)), 80)));
      }
      for (const auto& group : groups) {
        const auto& part = match[group];
        if (!part.matched) continue;
        const auto set =
            record.set(group, std::string_view(part.first, static_cast<std::size_t>(part.length())), place);
        if (!set) return fail(set.error());
      }
      if (const auto added = records.add(record.finish(), place); !added) return fail(added.error());
    }
    return records.finish();
  };
}

}  // namespace trueup::parse
