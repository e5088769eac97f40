#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "parse/options.hpp"

namespace trueup::parse {

namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

// RFC 8259. Strings that are not UTF-8 are mended first, so that one bad byte in a log line does not cost the rest. Too
// deep a nesting and a name that stands twice in an object (of which nlohmann keeps the last) are errors.
Result<json> read_document(std::string_view text, const Place& place) {
  std::vector<std::set<std::string>> names;
  std::string problem;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth && problem.empty()) problem = fmt::format("nested deeper than {} levels", kMaxDepth);
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second && problem.empty())
      problem = fmt::format("'{}' stands twice in one object", shorten(printable(parsed.get<std::string>()), 80));
    if (!problem.empty()) throw std::length_error(problem);  // caught below: the one way to stop nlohmann
    return true;
  };
  const auto mended = valid_utf8(text);
  try {
    return json::parse(mended, watch);
  } catch (const std::length_error&) {
    return fail(ErrorKind::malformed, fmt::format("{}: {}", to_string(place), problem));
  } catch (const json::parse_error& error) {
    const auto before = std::string_view(mended).substr(0, error.byte);
    const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
    std::string_view what =
        error.what();  // "[id] parse error at ...: syntax error while ... - unexpected ...; expected ..."
    if (const auto dash = what.find(" - "); dash != what.npos) what.remove_prefix(dash + 3);
    return fail(ErrorKind::malformed,
                fmt::format("{}: not JSON: {}", to_string(Place{place.unit, place.number + lines}),
                            shorten(printable(what), 120)));
  }
}

Result<json> read_record(const Fields& fields, const json& object, const Place& place) {
  if (!object.is_object())
    return fail(ErrorKind::malformed,
                fmt::format("{}: expected an object, got {}", to_string(place), object.type_name()));
  RecordBuilder record(fields);
  for (const auto& [name, value] : object.items())
    if (const auto set = record.set_json(name, value, place); !set) return fail(set.error());
  return record.finish();
}

}  // namespace

// One JSON document. Without `fields` it is the value as it stands. With them it is a list of objects (`single`: one
// object), found under the name `at` of the root where that is given (lsblk -J, findmnt -J).
Parser make_json(Options& options) {
  const auto at = options.text("at");
  const bool single = options.flag("single");
  const bool typed = options.has("fields");
  const auto fields = options.fields(Layout::keyed_once, json::object({{"any", "text"}}));
  return [=](std::string_view text) -> Result<json> {
    auto document = read_document(text, {"line", 1});
    if (!document) return document;
    if (!at.empty()) {
      if (!document->is_object() || !document->contains(at))
        return fail(ErrorKind::malformed, fmt::format("expected an object with '{}' at the root", at));
      json inner = std::move((*document)[at]);
      *document = std::move(inner);
    }
    if (!typed) return document;
    if (single) return read_record(fields, *document, {"item", 1});
    if (!document->is_array())
      return fail(ErrorKind::malformed, fmt::format("expected a list, got {}", document->type_name()));
    Records records(false);
    Place place{"item", 0};
    for (const auto& item : *document) {
      ++place.number;
      auto record = read_record(fields, item, place);
      if (!record) return record;
      if (const auto added = records.add(std::move(*record), place); !added) return fail(added.error());
    }
    return records.finish();
  };
}

// One JSON document a line (journalctl -o json, docker --format '{{json .}}'); blank lines are passed over. Objects,
// where `fields` are given.
Parser make_ndjson(Options& options) {
  const bool single = options.flag("single");
  const bool typed = options.has("fields");
  const auto fields = options.fields(Layout::keyed_once, json::object({{"any", "text"}}));
  return [=](std::string_view text) -> Result<json> {
    Records records(single);
    Place place;
    for (const auto line : split_lines(text)) {
      ++place.number;
      if (trim(line).empty()) continue;
      auto value = read_document(line, place);
      if (value && typed) value = read_record(fields, *value, place);
      if (!value) return value;
      if (const auto added = records.add(std::move(*value), place); !added) return fail(added.error());
    }
    return records.finish();
  };
}

}  // namespace trueup::parse
