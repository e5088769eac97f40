#include <fmt/format.h>

#include "base/text.hpp"
#include "parse/options.hpp"

namespace trueup::parse {

// One value a line; blank lines are passed over. `type` says what each is (text without it). With `single` there must
// be exactly one, and it stands for itself. With `field`, records of that one field.
Parser make_lines(Options& options) {
  const auto type = options.text("type", "text");
  const auto field = options.text("field", "line");
  const bool records_wanted = options.has("field");
  const bool single = options.flag("single");
  auto fields = Fields::parse(nlohmann::json::array({{{field, type}}}), Layout::ordered, false);
  if (!fields) {
    options.mistake(fields.error().message);
    return {};
  }
  return [=, fields = std::move(*fields)](std::string_view text) -> Result<nlohmann::json> {
    Records records(single);
    RecordBuilder record(fields);
    Place place;
    for (const auto line : split_lines(text)) {
      ++place.number;
      if (trim(line).empty()) continue;
      if (const auto set = record.set(0, line, place); !set) return fail(set.error());
      auto made = record.finish();
      if (const auto added = records.add(records_wanted ? std::move(made) : std::move(made[field]), place); !added)
        return fail(added.error());
    }
    return records.finish();
  };
}

}  // namespace trueup::parse
