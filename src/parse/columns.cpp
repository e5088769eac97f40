#include <fmt/format.h>

#include "base/text.hpp"
#include "parse/options.hpp"

namespace trueup::parse {

// Columns between runs of blanks, as df -P, lsmod and /proc/mounts print them.
//   text ::= line*      line ::= blank* column (blank+ column)* blank*
// `fields` is a list, in the order of the columns. `skip` lines at the top are a heading. With `rest`, the last field
// takes the rest of the line, blanks and all; otherwise each line has exactly as many columns as there are fields
// (`at_least`: so many suffice, the others are then not given). Blank lines are passed over.
Parser make_columns(Options& options) {
  const auto fields = options.fields(Layout::ordered);
  const auto skip = options.count("skip", 0);
  const auto at_least = options.count("at_least", fields.size());
  const bool rest_wanted = options.flag("rest");
  const bool single = options.flag("single");
  return [=](std::string_view text) -> Result<nlohmann::json> {
    Records records(single);
    RecordBuilder record(fields);
    Place place;
    for (const auto line : split_lines(text)) {
      if (++place.number <= skip) continue;
      auto rest = trim(line);
      if (rest.empty()) continue;
      std::size_t count = 0;
      for (; !rest.empty(); ++count) {
        if (count == fields.size()) {
          if (fields.ignores_unknown()) break;
          return fail(ErrorKind::malformed, fmt::format("{}: expected {} columns, got more: '{}'", to_string(place),
                                                        fields.size(), shorten(printable(rest.substr(0, 320)), 80)));
        }
        const auto end = rest_wanted && count + 1 == fields.size() ? rest.npos : rest.find_first_of(" \t");
        if (const auto set = record.set(count, rest.substr(0, end), place); !set) return fail(set.error());
        rest = end == rest.npos ? std::string_view() : trim(rest.substr(end));
      }
      if (count < at_least)
        return fail(ErrorKind::malformed,
                    fmt::format("{}: expected {} columns, got {}", to_string(place), at_least, count));
      if (const auto added = records.add(record.finish(), place); !added) return fail(added.error());
    }
    return records.finish();
  };
}

}  // namespace trueup::parse
