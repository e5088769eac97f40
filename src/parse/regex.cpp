#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "parse/options.hpp"
#include "parse/pattern.hpp"

namespace trueup::parse {

// Lines that a regular expression (pattern.hpp) takes apart: a record from each line in which `pattern` is found, its
// fields from the named groups. A line without a match is reported, or passed over with `ignore_unknown`.
Parser make_regex(Options& options) {
  const auto text = options.text("pattern");
  const auto fields = options.fields(Layout::keyed_once);
  const bool single = options.flag("single");
  if (text.empty()) options.mistake("pattern: missing");
  const auto pattern = Pattern::compile(text);
  if (!pattern) {
    options.mistake("pattern: " + pattern.error().message);
    return {};
  }
  for (const auto& name : pattern->names())
    if (!fields.find(name))
      options.mistake(fmt::format("group '{}' is no field{}", name, did_you_mean(name, fields.keys())));
  for (const auto& key : fields.keys())
    if (std::find(pattern->names().begin(), pattern->names().end(), key) == pattern->names().end())
      options.mistake(fmt::format("field '{}' is no group of the pattern{}", key, did_you_mean(key, pattern->names())));
  return [fields, single, pattern = *pattern](std::string_view output) -> Result<nlohmann::json> {
    Records records(single);
    RecordBuilder record(fields);
    Place place;
    for (const auto line : split_lines(output)) {
      ++place.number;
      if (trim(line).empty()) continue;
      const auto match = pattern.search(line);
      if (!match.found) {
        if (fields.ignores_unknown()) continue;
        return fail(ErrorKind::malformed, fmt::format("{}: does not match the pattern: '{}'", to_string(place),
                                                      shorten(printable(line.substr(0, 320)), 80)));
      }
      for (std::size_t i = 0; i < match.groups.size(); ++i) {
        if (match.groups[i].data() == nullptr) continue;
        const auto set = record.set(pattern.names()[i], match.groups[i], place);
        if (!set) return fail(set.error());
      }
      if (const auto added = records.add(record.finish(), place); !added) return fail(added.error());
    }
    return records.finish();
  };
}

}  // namespace trueup::parse
