#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "parse/options.hpp"

namespace trueup::parse {

namespace {

struct Row {
  std::vector<std::string> cells;
  std::size_t line = 1;
};

// Takes one row from `text`; false: a quoted cell has no end.
bool take_row(std::string_view& text, char separator, std::size_t& line, Row& row) {
  row.cells.clear();
  row.line = line;
  for (;;) {
    const auto begin = text.find_first_not_of(" \t");
    if (begin != text.npos && text[begin] == '"') {
      text.remove_prefix(begin + 1);
      std::string cell;
      for (;;) {
        const auto quote = text.find('"');
        if (quote == text.npos) return false;
        cell += text.substr(0, quote);
        text.remove_prefix(quote + 1);
        if (!text.starts_with('"')) break;
        cell += '"';
        text.remove_prefix(1);
      }
      for (const char c : cell) line += c == '\n' ? 1 : 0;
      row.cells.push_back(std::move(cell));
      const auto end = text.find_first_not_of(" \t\r");
      text.remove_prefix(std::min(end, text.size()));
      if (!text.empty() && text.front() != separator && text.front() != '\n') return false;
    } else {
      const auto end = std::min(text.find_first_of(std::string{separator, '\n'}), text.size());
      row.cells.emplace_back(trim(text.substr(0, end)));
      text.remove_prefix(end);
    }
    const bool more = !text.empty() && text.front() == separator;
    if (!text.empty()) text.remove_prefix(1);
    if (!more) break;
  }
  ++line;
  return true;
}

}  // namespace

// CSV as RFC 4180 has it, and as `nvidia-smi --format=csv` prints it: ", " between cells, nothing quoted.
//   text ::= row*      row ::= cell (separator cell)* '\n'      cell ::= '"' (char | '""')* '"' | plain
// Blanks around cells are not part of them; blank lines are passed over. `fields` is a list in the order of the
// columns; with `header` the first row names them, and `fields` may be a mapping.
Parser make_csv(Options& options) {
  const bool header = options.flag("header");
  const auto fields = options.fields(header ? Layout::keyed_once : Layout::ordered);
  const auto separator = options.character("separator", ',');
  const bool single = options.flag("single");
  return [=](std::string_view text) -> Result<nlohmann::json> {
    Records records(single);
    RecordBuilder record(fields);
    std::vector<std::string> names;
    Row row;
    std::size_t line = 1;
    while (!text.empty()) {
      if (!take_row(text, separator, line, row))
        return fail(ErrorKind::malformed, fmt::format("line {}: a quoted cell does not end with its quote", row.line));
      if (row.cells.size() == 1 && row.cells.front().empty()) continue;
      const Place place{"line", row.line};
      if (header && names.empty()) {
        names = row.cells;
        for (const auto& key : fields.keys())
          if (std::find(names.begin(), names.end(), key) == names.end() && !fields[*fields.find(key)].type.optional)
            return fail(ErrorKind::malformed,
                        fmt::format("{}: no column '{}'{}", to_string(place), key, did_you_mean(key, names)));
        continue;
      }
      const auto width = header ? names.size() : fields.size();
      const bool fits = row.cells.size() == width || (!header && fields.ignores_unknown() && row.cells.size() > width);
      if (!fits)
        return fail(ErrorKind::malformed,
                    fmt::format("{}: expected {} cells, got {}: '{}'", to_string(place), width, row.cells.size(),
                                shorten(printable(join(row.cells, ", ").substr(0, 320)), 80)));
      for (std::size_t i = 0; i < width; ++i) {
        const auto set = header ? record.set(names[i], row.cells[i], place) : record.set(i, row.cells[i], place);
        if (!set) return fail(set.error());
      }
      if (const auto added = records.add(record.finish(), place); !added) return fail(added.error());
    }
    return records.finish();
  };
}

}  // namespace trueup::parse
