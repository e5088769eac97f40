#include <fmt/format.h>

#include "base/text.hpp"
#include "parse/options.hpp"

namespace trueup::parse {

// K=V records, as `systemctl show` prints them (systemctl(1)) and our probes' `kv` and `end_record`.
//   text   ::= record (blank-line+ record)*      record ::= (key separator value '\n')+
// The value is the rest of the line, exactly, and may hold the separator; with a separator other than '='
// (/proc/meminfo, /proc/PID/status) blanks around it are not part of it. Keys may repeat where the field is a list.
Parser make_kv(Options& options) {
  const auto fields = options.fields(Layout::keyed);
  const auto separator = options.character("separator", '=');
  const bool single = options.flag("single");
  return [=](std::string_view text) -> Result<nlohmann::json> {
    Records records(single);
    RecordBuilder record(fields);
    Place place;
    Place begin;
    const auto end_record = [&]() -> Result<void> {
      if (record.empty()) return {};
      return records.add(record.finish(), begin);
    };
    for (const auto line : split_lines(text)) {
      ++place.number;
      if (trim(line).empty()) {
        if (const auto ended = end_record(); !ended) return fail(ended.error());
        continue;
      }
      const auto at = line.find(separator);
      auto key = line.substr(0, at);
      auto value = at == line.npos ? std::string_view() : line.substr(at + 1);
      if (separator != '=') {
        key = trim(key);
        value = trim(value);
      }
      if (at == line.npos || key.empty())
        return fail(ErrorKind::malformed, fmt::format("{}: expected KEY{}VALUE, got '{}'", to_string(place), separator,
                                                      shorten(printable(line.substr(0, 320)), 80)));
      if (record.empty()) begin = place;
      if (const auto set = record.set(key, value, place); !set) return fail(set.error());
    }
    if (const auto ended = end_record(); !ended) return fail(ended.error());
    return records.finish();
  };
}

}  // namespace trueup::parse
