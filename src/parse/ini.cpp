#include <fmt/format.h>

#include "base/text.hpp"
#include "parse/options.hpp"

namespace trueup::parse {

// INI as systemd units (systemd.syntax(7)), pyvenv.cfg and Python's configparser write it.
//   text    ::= line*        line ::= blank | ('#' | ';') comment | '[' section ']' | key '=' value
// Blanks around keys and values are not part of them; a line that ends with '\' goes on in the next one, joined by a
// blank. One record for each section, its name in the field `section` where that is declared; what stands before the
// first section is a record of its own. With `single`, one record whose keys are `Section.Key`, or `Key` before any
// section.
Parser make_ini(Options& options) {
  const auto fields = options.fields(Layout::keyed);
  const bool single = options.flag("single");
  return [=](std::string_view text) -> Result<nlohmann::json> {
    Records records(single);
    RecordBuilder record(fields);
    Place place;
    Place begin{"line", 1};
    std::string section, whole;
    bool continued = false;
    const auto end_record = [&]() -> Result<void> {
      if (record.empty()) return {};
      return records.add(record.finish(), begin);
    };
    const auto read_line = [&](std::string_view line) -> Result<void> {
      if (line.front() == '[' && line.back() == ']') {
        section = line.substr(1, line.size() - 2);
        if (single) return {};
        if (const auto ended = end_record(); !ended) return ended;
        begin = place;
        return fields.find("section") ? record.set("section", section, place) : Result<void>();
      }
      const auto equals = line.find('=');
      const auto key = trim(line.substr(0, equals));
      if (equals == line.npos || key.empty())
        return fail(ErrorKind::malformed, fmt::format("{}: expected KEY=VALUE or [SECTION], got '{}'", to_string(place),
                                                      shorten(printable(line.substr(0, 320)), 80)));
      const auto name = single && !section.empty() ? fmt::format("{}.{}", section, key) : std::string(key);
      return record.set(name, trim(line.substr(equals + 1)), place);
    };
    for (const auto raw : split_lines(text)) {
      ++place.number;
      auto line = trim(raw);
      const bool is_comment = line.starts_with('#') || line.starts_with(';');
      if (is_comment || (line.empty() && !continued)) continue;  // comments may stand inside a continued line
      const bool goes_on = line.ends_with('\\');
      if (goes_on) line.remove_suffix(1);
      if (continued && !whole.empty()) whole += ' ';
      whole += trim(line);
      continued = goes_on;
      if (goes_on || whole.empty()) continue;
      if (const auto read = read_line(whole); !read) return fail(read.error());
      whole.clear();
    }
    if (!whole.empty())
      if (const auto read = read_line(whole); !read) return fail(read.error());
    if (const auto ended = end_record(); !ended) return fail(ended.error());
    return records.finish();
  };
}

}  // namespace trueup::parse
