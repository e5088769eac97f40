#include "parse/field.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "trueup/version.hpp"

namespace trueup::parse {

using nlohmann::json;
using Kind = FieldType::Kind;

namespace {

constexpr std::size_t kMaxRecords = 20'000;  // a record of an empty line costs a thousand times its text
constexpr std::size_t kShownWidth = 80;

struct Scalar {
  const char* name;
  Kind kind;
  const char* expected;
};

constexpr Scalar kScalars[] = {
    {"text", Kind::text, "a text"},          {"int", Kind::integer, "an integer"},
    {"float", Kind::number, "a number"},     {"bool", Kind::boolean, "yes or no"},
    {"version", Kind::version, "a version"}, {"bytes", Kind::bytes, "a number of bytes"},
    {"KiB", Kind::kib, "a number of KiB"},   {"MiB", Kind::mib, "a number of MiB"},
    {"GiB", Kind::gib, "a number of GiB"},   {"epoch", Kind::epoch, "seconds since the epoch"},
};

const char* expected(Kind kind) {
  for (const auto& scalar : kScalars)
    if (scalar.kind == kind) return scalar.expected;
  return kind == Kind::list ? "a list" : kind == Kind::map ? "a map" : "a list of records";
}

std::string shown(std::string_view text) {
  return fmt::format("'{}'", shorten(printable(text.substr(0, 4 * kShownWidth)), kShownWidth));
}

tl::unexpected<Error> fail_at(const Place& place, std::string message) {
  return fail(ErrorKind::malformed, fmt::format("{}: {}", to_string(place), message));
}

bool is_blank(std::string_view text) { return trim(text).empty(); }

template <class Number>
std::optional<json> read_number(std::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>)
    if (!std::isfinite(value)) return std::nullopt;
  return json(value);
}

std::optional<json> read_integer(std::string_view text) {
  auto value = read_number<std::int64_t>(text);
  return value ? value : read_number<std::uint64_t>(text);
}

// number ::= digits ['.' digits] [blanks unit]; without a unit it counts `unit_bytes`.
std::optional<json> read_bytes(std::string_view text, double unit_bytes,
                               std::span<const std::pair<const char*, double>> units) {
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  if (const auto unit = trim(text.substr(digits)); !unit.empty()) {
    const auto known = std::find_if(units.begin(), units.end(), [&](const auto& u) { return unit == u.first; });
    if (known == units.end()) return std::nullopt;
    unit_bytes = known->second;
  }
  text = text.substr(0, digits);
  if (const auto whole = read_number<std::uint64_t>(text)) {
    const auto factor = static_cast<std::uint64_t>(unit_bytes);
    const auto count = whole->get<std::uint64_t>();
    if (count > std::numeric_limits<std::uint64_t>::max() / factor) return std::nullopt;
    return json(count * factor);
  }
  const auto fraction = read_number<double>(text);
  if (!fraction || fraction->get<double>() * unit_bytes > 9e18) return std::nullopt;
  return json(static_cast<std::uint64_t>(fraction->get<double>() * unit_bytes));
}

constexpr double kKiB = 1024, kMiB = kKiB * 1024, kGiB = kMiB * 1024, kTiB = kGiB * 1024;

// What tools mean: du, systemd and lsblk write K for KiB; /proc/meminfo writes kB for KiB, so it stands with KiB alone.
constexpr std::array<std::pair<const char*, double>, 13> kByteUnits = {{{"B", 1},
                                                                        {"bytes", 1},
                                                                        {"K", kKiB},
                                                                        {"KiB", kKiB},
                                                                        {"M", kMiB},
                                                                        {"MiB", kMiB},
                                                                        {"G", kGiB},
                                                                        {"GiB", kGiB},
                                                                        {"T", kTiB},
                                                                        {"TiB", kTiB},
                                                                        {"MB", 1e6},
                                                                        {"GB", 1e9},
                                                                        {"TB", 1e12}}};
constexpr std::array<std::pair<const char*, double>, 2> kKibUnits = {{{"KiB", kKiB}, {"kB", kKiB}}};
constexpr std::array<std::pair<const char*, double>, 1> kMibUnits = {{{"MiB", kMiB}}};
constexpr std::array<std::pair<const char*, double>, 1> kGibUnits = {{{"GiB", kGiB}}};

std::optional<json> read_boolean(std::string_view text) {
  const auto lower = to_lower(text);
  for (const auto* yes : {"yes", "true", "on", "1"})
    if (lower == yes) return json(true);
  for (const auto* no : {"no", "false", "off", "0"})
    if (lower == no) return json(false);
  return std::nullopt;
}

// '1700000000', '1700000000.123' (journalctl short-unix), '@1700000000' (systemctl --timestamp=unix),
// '2026-11-30T12:00:00Z' (also with a blank for T, with a fraction, and with ' UTC' or '+00:00' for Z).
std::optional<json> read_epoch(std::string_view text) {
  const auto is_digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
  };
  const auto without_fraction = [&](std::string_view part) {
    const auto dot = part.find('.');
    return dot != part.npos && is_digits(part.substr(dot + 1)) ? part.substr(0, dot) : part;
  };
  if (text.size() < 19 || text[4] != '-') {
    if (text.starts_with('@')) text.remove_prefix(1);
    return read_number<std::int64_t>(without_fraction(text));
  }
  auto zone = text.substr(19);
  if (zone.starts_with('.')) zone.remove_prefix(std::min(zone.find_first_not_of("0123456789", 1), zone.size()));
  if (zone != "Z" && zone != " UTC" && zone != "+00:00") return std::nullopt;
  std::array<int, 6> part{};
  constexpr std::array<std::pair<std::size_t, std::size_t>, 6> kPlaces = {
      {{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}}};
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto digits = text.substr(kPlaces[i].first, kPlaces[i].second);
    if (!is_digits(digits)) return std::nullopt;
    std::from_chars(digits.data(), digits.data() + digits.size(), part[i]);
  }
  const std::chrono::year_month_day day{std::chrono::year(part[0]), std::chrono::month(static_cast<unsigned>(part[1])),
                                        std::chrono::day(static_cast<unsigned>(part[2]))};
  if (text[7] != '-' || (text[10] != 'T' && text[10] != ' ') || text[13] != ':' || text[16] != ':' || !day.ok() ||
      part[3] > 23 || part[4] > 59 || part[5] > 60)
    return std::nullopt;
  return json(std::int64_t{std::chrono::sys_days(day).time_since_epoch().count()} * 86400 + part[3] * 3600 +
              part[4] * 60 + part[5]);
}

// Parts between separators; a blank as separator stands for any run of blanks.
std::vector<std::string_view> split_list(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  const bool blanks = separator == " ";
  while (!is_blank(text)) {
    if (blanks) text = trim(text);
    const auto end = blanks ? text.find_first_of(" \t") : text.find(separator);
    if (const auto part = trim(text.substr(0, end)); !part.empty()) parts.push_back(part);
    if (end == text.npos) break;
    text.remove_prefix(end + separator.size());
  }
  return parts;
}

json empty_value(const FieldType& type) {
  if (type.optional) return nullptr;
  switch (type.kind) {
    case Kind::text:
      return "";
    case Kind::integer:
    case Kind::number:
    case Kind::bytes:
    case Kind::kib:
    case Kind::mib:
    case Kind::gib:
    case Kind::epoch:
      return 0;
    case Kind::boolean:
      return false;
    case Kind::version:
      return nullptr;
    case Kind::list:
    case Kind::records:
      return json::array();
    case Kind::map:
      return json::object();
  }
  return nullptr;
}

// The text that a JSON scalar would have had in any other format.
std::optional<std::string> text_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  return std::nullopt;
}

// journald writes a message that is no UTF-8 as a list of its bytes.
std::optional<std::string> bytes_of(const json& value) {
  if (!value.is_array() || value.empty()) return std::nullopt;
  std::string bytes;
  for (const auto& byte : value) {
    if (!byte.is_number_unsigned() || byte.get<std::uint64_t>() > 255) return std::nullopt;
    bytes += static_cast<char>(byte.get<std::uint8_t>());
  }
  return bytes;
}

std::vector<std::string> type_names() {
  std::vector<std::string> names = {"list", "map"};
  for (const auto& scalar : kScalars) names.emplace_back(scalar.name);
  return names;
}

Result<std::vector<Field>> parse_fields(const json& declaration, Layout layout);

Result<Field> parse_field(const std::string& name, const json& declared, Layout layout) {
  Field field{name, name, {}, nullptr, {}};
  const auto in_field = [&](const std::string& message) {
    return fail(ErrorKind::malformed, fmt::format("{}: {}", printable(name), message));
  };
  std::string type;
  if (declared.is_string()) {
    type = declared.get<std::string>();
  } else if (declared.is_object()) {
    static const std::vector<std::string> kKeys = {"type", "key", "default", "records", "separator"};
    for (const auto& [key, value] : declared.items()) {
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
        return in_field(fmt::format("unknown key '{}'{}", printable(key), did_you_mean(key, kKeys)));
      if (key == "default") {
        field.otherwise = value;
      } else if (key == "records") {
        auto members = parse_fields(value, Layout::ordered);
        if (!members) return in_field("records: " + members.error().message);
        for (const auto& member : *members)
          if (member.type.kind >= Kind::list)
            return in_field(fmt::format("records: '{}' cannot be a list", member.name));
        field.members = std::move(*members);
      } else if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
        return in_field(fmt::format("{}: expected a text, got {}", key, value.dump()));
      } else {
        (key == "type" ? type : key == "key" ? field.key : field.type.separator) = value.get<std::string>();
      }
    }
    if (type.empty() == field.members.empty()) return in_field("expected a type, or a list of members under 'records'");
  } else {
    return in_field(fmt::format("expected a type such as 'int' or 'list(,)', got {}", declared.dump()));
  }
  if (!field.members.empty()) {
    field.type.kind = Kind::records;
    if (field.type.separator.empty()) field.type.separator = " ";
  } else {
    const auto separator = field.type.separator;
    auto parsed = parse_type(type);
    if (!parsed) return in_field(parsed.error().message);
    field.type = std::move(*parsed);
    if (!separator.empty()) field.type.separator = separator;
    const bool is_many = field.type.kind == Kind::list || field.type.kind == Kind::map;
    if (!is_many && !separator.empty()) return in_field(fmt::format("'{}' has no separator", type));
    if (is_many && field.type.separator.empty() && layout != Layout::keyed) field.type.separator = " ";
  }
  if (field.otherwise.is_null()) field.otherwise = empty_value(field.type);
  return field;
}

Result<std::vector<Field>> parse_fields(const json& declaration, Layout layout) {
  std::vector<Field> fields;
  const auto add = [&](const std::string& name, const json& declared) -> Result<void> {
    if (name.empty() || name == "unknown")
      return fail(ErrorKind::malformed, fmt::format("'{}' cannot name a field", name));
    auto field = parse_field(name, declared, layout);
    if (!field) return fail(field.error());
    fields.push_back(std::move(*field));
    return {};
  };
  if (declaration.is_object() && layout != Layout::ordered) {
    for (const auto& [name, declared] : declaration.items())
      if (const auto added = add(name, declared); !added) return fail(added.error());
  } else if (declaration.is_array()) {
    for (const auto& item : declaration) {
      if (!item.is_object() || item.size() != 1)
        return fail(ErrorKind::malformed, fmt::format("expected 'name: type' in the list, got {}", item.dump()));
      if (const auto added = add(item.begin().key(), item.begin().value()); !added) return fail(added.error());
    }
  } else {
    return fail(ErrorKind::malformed, layout == Layout::ordered
                                          ? "expected a list such as [index: int, name: text], for the order counts"
                                          : "expected a mapping from names to types");
  }
  if (fields.empty()) return fail(ErrorKind::malformed, "expected at least one field");
  return fields;
}

}  // namespace

std::string to_string(const Place& place) { return fmt::format("{} {}", place.unit, place.number); }

std::optional<std::string> why_not_told(std::string_view text, Kind kind) {
  text = trim(text);
  if (text.empty() || text.size() > 64) return std::nullopt;
  static constexpr std::string_view kMarks[] = {
      "n/a",       "not supported",      "unknown error", "gpu is lost", "err!",          "insufficient permissions",
      "not found", "gpu requires reset", "not set",       "unknown",     "not available", "no data"};
  const bool bracketed = text.front() == '[' && text.back() == ']' && text.size() > 2;
  const auto lower = to_lower(bracketed ? text.substr(1, text.size() - 2) : text);
  const bool is_mark = std::find(std::begin(kMarks), std::end(kMarks), lower) != std::end(kMarks);
  // A plain word may well be somebody's text; in brackets, or where a number belongs, it is not.
  const bool certain = bracketed || kind != Kind::text || lower == "n/a" || lower == "err!";
  const bool words_for_number =
      bracketed && kind != Kind::text && lower.find_first_not_of("abcdefghijklmnopqrstuvwxyz /'!-") == lower.npos;
  if (!(is_mark && certain) && !words_for_number) return std::nullopt;
  return fmt::format("the host's tool says '{}'", printable(text));
}

std::optional<json> read_scalar(Kind kind, std::string_view text) {
  if (kind == Kind::text) return json(valid_utf8(text));
  text = trim(text);
  switch (kind) {
    case Kind::integer:
      return read_integer(text);
    case Kind::number:
      return read_number<double>(text);
    case Kind::boolean:
      return read_boolean(text);
    case Kind::version:
      return Version::parse(text) ? std::optional<json>(json(text)) : std::nullopt;
    case Kind::bytes:
      return read_bytes(text, 1, kByteUnits);
    case Kind::kib:
      return read_bytes(text, kKiB, kKibUnits);
    case Kind::mib:
      return read_bytes(text, kMiB, kMibUnits);
    case Kind::gib:
      return read_bytes(text, kGiB, kGibUnits);
    case Kind::epoch:
      return read_epoch(text);
    default:
      return std::nullopt;
  }
}

Result<FieldType> parse_type(std::string_view text) {
  FieldType type;
  auto rest = text;
  if (rest.ends_with('?')) {
    type.optional = true;
    rest.remove_suffix(1);
  }
  const auto scalar = [](std::string_view name) {
    return std::find_if(std::begin(kScalars), std::end(kScalars), [&](const Scalar& s) { return s.name == name; });
  };
  const auto unknown = [&](std::string_view name) {
    return fail(ErrorKind::malformed,
                fmt::format("unknown type '{}'{}", printable(name), did_you_mean(name, type_names())));
  };
  if (const auto known = scalar(rest); known != std::end(kScalars)) {
    type.kind = known->kind;
    return type;
  }
  const auto name = rest.substr(0, rest.find_first_of("<("));
  if (name != "list" && name != "map") return unknown(name);
  type.kind = name == "list" ? Kind::list : Kind::map;
  rest.remove_prefix(name.size());
  if (type.kind == Kind::list && rest.starts_with('<')) {
    const auto close = rest.find('>');
    const auto element = rest.substr(1, close == rest.npos ? close : close - 1);
    const auto known = scalar(element);
    if (known == std::end(kScalars)) return unknown(element);
    type.element = known->kind;
    rest.remove_prefix(std::min(rest.size(), element.size() + 2));
  }
  if (rest.size() > 2 && rest.front() == '(' && rest.back() == ')') {
    type.separator = rest.substr(1, rest.size() - 2);
    rest = {};
  }
  if (!rest.empty())
    return fail(ErrorKind::malformed, fmt::format("cannot read type '{}' at '{}'; a list is written list<int>(,)",
                                                  printable(text), printable(rest)));
  return type;
}

Result<Fields> Fields::parse(const json& declaration, Layout layout, bool ignore_unknown) {
  auto parsed = parse_fields(declaration, layout);
  if (!parsed) return fail(parsed.error());
  Fields fields;
  fields.fields_ = std::move(*parsed);
  fields.ignore_unknown_ = ignore_unknown;
  for (std::size_t i = 0; i < fields.fields_.size(); ++i)
    if (!fields.by_key_.emplace(fields.fields_[i].key, i).second)
      return fail(ErrorKind::malformed, fmt::format("key '{}' stands twice", printable(fields.fields_[i].key)));
  return fields;
}

std::optional<std::size_t> Fields::find(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? std::nullopt : std::optional(found->second);
}

bool Fields::has_name(std::string_view name) const {
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& field) { return field.name == name; });
}

std::vector<std::string> Fields::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, index] : by_key_) keys.push_back(key);
  return keys;
}

Result<void> RecordBuilder::undeclared(std::string_view key, const Place& place) const {
  if (fields_->ignores_unknown()) return {};
  const auto near = did_you_mean(key, fields_->keys());
  return fail_at(place, fmt::format("undeclared field {}{}", shown(key), near));
}

// An undeclared key `F.NAME` adds NAME to the map F, and `unknown.F` says why F is not known.
Result<void> RecordBuilder::set(std::string_view key, std::string_view text, const Place& place) {
  if (const auto index = fields_->find(key)) return set(*index, text, place);
  ++touched_;
  const auto dot = key.find('.');
  const auto head = key.substr(0, dot);
  const auto tail = dot == key.npos ? std::string_view() : key.substr(dot + 1);
  if (tail.empty()) return undeclared(key, place);
  if (head == "unknown") {
    if (!fields_->has_name(tail.substr(0, tail.find('.')))) return undeclared(tail, place);
    unknown_[valid_utf8(tail)] = valid_utf8(text);
    return {};
  }
  const auto index = fields_->find(head);
  if (!index || (*fields_)[*index].type.kind != Kind::map) return undeclared(key, place);
  seen_[*index] = true;
  slot((*fields_)[*index], json::value_t::object)[valid_utf8(tail)] = valid_utf8(text);
  return {};
}

Result<void> RecordBuilder::set(std::size_t index, std::string_view text, const Place& place) {
  ++touched_;
  const auto& field = (*fields_)[index];
  const bool again = seen_[index];
  seen_[index] = true;
  switch (field.type.kind) {
    case Kind::list:
      return add_to_list(field, text, place);
    case Kind::map:
      return add_to_map(field, text, place);
    case Kind::records:
      return add_record(field, text, place);
    default:
      if (again) return fail_at(place, fmt::format("field '{}' is given twice", field.name));
      return set_scalar(field, text, place);
  }
}

json& RecordBuilder::slot(const Field& field, json::value_t type) {
  auto& value = record_[field.name];
  if (value.type() != type) value = json(type);
  return value;
}

Result<void> RecordBuilder::set_scalar(const Field& field, std::string_view text, const Place& place) {
  const bool has_default = field.otherwise != empty_value(field.type);
  const bool may_lack = field.type.optional || has_default || field.type.kind == Kind::text;
  auto reason = why_not_told(text, field.type.kind);
  if (may_lack && (reason || is_blank(text))) {
    record_[field.name] = field.otherwise;
    if (reason) unknown_[field.name] = std::move(*reason);
    return {};
  }
  auto value = read_scalar(field.type.kind, text);
  if (!value)
    return fail_at(place,
                   fmt::format("field '{}': expected {}, got {}", field.name, expected(field.type.kind), shown(text)));
  record_[field.name] = std::move(*value);
  return {};
}

Result<void> RecordBuilder::add_to_list(const Field& field, std::string_view text, const Place& place) {
  auto& list = slot(field, json::value_t::array);
  if (auto reason = why_not_told(text, field.type.element)) {
    unknown_[field.name] = std::move(*reason);
    return {};
  }
  const auto& separator = field.type.separator;
  const auto parts = !separator.empty() ? split_list(text, separator)
                     : is_blank(text)   ? std::vector<std::string_view>()
                                        : std::vector<std::string_view>{text};
  for (const auto part : parts) {
    auto value = read_scalar(field.type.element, part);
    if (!value)
      return fail_at(
          place, fmt::format("field '{}': expected {}, got {}", field.name, expected(field.type.element), shown(part)));
    list.push_back(std::move(*value));
  }
  return {};
}

Result<void> RecordBuilder::add_to_map(const Field& field, std::string_view text, const Place& place) {
  auto& map = slot(field, json::value_t::object);
  const auto& separator = field.type.separator;
  const auto parts = !separator.empty() ? split_list(text, separator)
                     : is_blank(text)   ? std::vector<std::string_view>()
                                        : std::vector<std::string_view>{text};
  for (const auto part : parts) {
    const auto equals = part.find('=');
    if (equals == part.npos || equals == 0)
      return fail_at(place, fmt::format("field '{}': expected NAME=VALUE, got {}", field.name, shown(part)));
    map[valid_utf8(part.substr(0, equals))] = valid_utf8(part.substr(equals + 1));
  }
  return {};
}

// The members in order; the last takes the rest, blanks and all.
Result<void> RecordBuilder::add_record(const Field& field, std::string_view text, const Place& place) {
  auto& list = slot(field, json::value_t::array);
  if (is_blank(text)) return {};
  json record = json::object();
  auto rest = text;
  for (std::size_t i = 0; i < field.members.size(); ++i) {
    const auto& member = field.members[i];
    const auto end = i + 1 < field.members.size() ? rest.find(field.type.separator) : rest.npos;
    const auto part = rest.substr(0, end);
    rest = end == rest.npos ? std::string_view() : rest.substr(end + field.type.separator.size());
    auto value = is_blank(part) || why_not_told(part, member.type.kind) ? std::optional(member.otherwise)
                                                                        : read_scalar(member.type.kind, part);
    if (!value)
      return fail_at(place, fmt::format("field '{}.{}': expected {}, got {}", field.name, member.name,
                                        expected(member.type.kind), shown(part)));
    record[member.name] = std::move(*value);
  }
  list.push_back(std::move(record));
  return {};
}

Result<void> RecordBuilder::set_json(std::string_view key, const json& value, const Place& place) {
  const auto index = fields_->find(key);
  if (!index) {
    ++touched_;
    return undeclared(key, place);
  }
  const auto& field = (*fields_)[*index];
  const auto wrong = [&] {
    return fail_at(place, fmt::format("field '{}': expected {}, got {}", field.name, expected(field.type.kind),
                                      shown(value.dump(-1, ' ', false, json::error_handler_t::replace))));
  };
  if (value.is_null()) {
    ++touched_;
    return {};
  }
  if (const auto text = text_of(value)) return set(*index, *text, place);
  if (field.type.kind == Kind::text)
    if (const auto bytes = bytes_of(value)) return set(*index, *bytes, place);
  ++touched_;
  seen_[*index] = true;
  if (field.type.kind == Kind::list && value.is_array()) {
    auto& list = slot(field, json::value_t::array);
    for (const auto& item : value) {
      const auto text = text_of(item);
      auto element = text ? read_scalar(field.type.element, *text) : std::nullopt;
      if (!element) return wrong();
      list.push_back(std::move(*element));
    }
    return {};
  }
  if (field.type.kind == Kind::map && value.is_object()) {
    auto& map = slot(field, json::value_t::object);
    for (const auto& [name, item] : value.items()) {
      const auto text = text_of(item);
      if (!text) return wrong();
      map[valid_utf8(name)] = valid_utf8(*text);
    }
    return {};
  }
  return wrong();
}

json RecordBuilder::finish() {
  for (std::size_t i = 0; i < seen_.size(); ++i)
    if (!seen_[i]) record_[(*fields_)[i].name] = (*fields_)[i].otherwise;
  if (!unknown_.empty()) record_["unknown"] = std::move(unknown_);
  json record = std::move(record_);
  *this = RecordBuilder(*fields_);
  return record;
}

Result<void> Records::add(json record, const Place& place) {
  if (single_ && !list_.empty()) return fail_at(place, "a second record, where one was expected");
  if (list_.size() == kMaxRecords) return fail(ErrorKind::limit, fmt::format("more than {} records", kMaxRecords));
  list_.push_back(std::move(record));
  return {};
}

Result<json> Records::finish() {
  if (!single_) return std::move(list_);
  if (list_.empty()) return fail(ErrorKind::malformed, "no record, where one was expected");
  return std::move(list_.front());
}

}  // namespace trueup::parse
