#include <fmt/format.h>

#include <cctype>

#include "base/text.hpp"
#include "parse/options.hpp"

namespace trueup::parse {

namespace {

// The shell's quoting as far as os-release(5) allows it: one word of plain, '...' and "..." parts; in double quotes and
// outside, a backslash takes the next character literally. Nothing where a quote stays open or something follows the
// word.
std::optional<std::string> unquote(std::string_view text) {
  std::string value;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\'' ? c != '\'' : quote == '"' && c != '"' && c != '\\') {
      value += c;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (c == '\\') {
      if (++i == text.size()) return std::nullopt;
      value += text[i];
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == ' ' || c == '\t') {
      return std::nullopt;
    } else {
      value += c;
    }
  }
  return quote == 0 ? std::optional(value) : std::nullopt;
}

bool is_variable_name(std::string_view name) {
  for (const char c : name)
    if (c != '_' && std::isalnum(static_cast<unsigned char>(c)) == 0) return false;
  return !name.empty();
}

}  // namespace

// os-release(5): shell assignments, one a line, comments after '#'. One record. Without `fields`: id, version,
// pretty_name. Distributions add keys as they like, so undeclared ones are passed over unless `ignore_unknown: false`
// is said.
Parser make_os_release(Options& options) {
  static const nlohmann::json kUsual = {
      {"id", {{"type", "text"}, {"key", "ID"}, {"default", "linux"}}},
      {"version", {{"type", "text"}, {"key", "VERSION_ID"}}},
      {"pretty_name", {{"type", "text"}, {"key", "PRETTY_NAME"}, {"default", "Linux"}}}};
  const auto fields = options.fields(Layout::keyed_once, kUsual, true);
  return [=](std::string_view text) -> Result<nlohmann::json> {
    RecordBuilder record(fields);
    Place place;
    for (const auto raw : split_lines(text)) {
      ++place.number;
      const auto line = trim(raw);
      if (line.empty() || line.front() == '#') continue;
      const auto equals = line.find('=');
      const auto value = equals == line.npos ? std::nullopt : unquote(line.substr(equals + 1));
      if (!value || !is_variable_name(line.substr(0, equals)))
        return fail(ErrorKind::malformed, fmt::format("{}: expected KEY=VALUE as a shell reads it, got '{}'",
                                                      to_string(place), shorten(printable(line.substr(0, 320)), 80)));
      if (const auto set = record.set(line.substr(0, equals), *value, place); !set) return fail(set.error());
    }
    if (record.empty()) return fail(ErrorKind::malformed, "no record, where one was expected");
    return record.finish();
  };
}

}  // namespace trueup::parse
