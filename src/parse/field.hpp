#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/result.hpp"

// What all parsers share: typed fields, records made of them, options. See README.md for what a playbook writes.

namespace trueup::parse {

/// What the text of one field means.
///   type    ::= (scalar | 'list' ['<' scalar '>'] ['(' separator ')'] | 'map' ['(' separator ')']) ['?']
///   scalar  ::= 'text' | 'int' | 'float' | 'bool' | 'version' | 'bytes' | 'KiB' | 'MiB' | 'GiB' | 'epoch'
struct FieldType {
  enum class Kind { text, integer, number, boolean, version, bytes, kib, mib, gib, epoch, list, map, records };

  Kind kind = Kind::text;
  Kind element = Kind::text;   ///< of a list
  std::string separator = {};  ///< of a list, map or records; empty: one element for each time the field is given
  bool optional = false;
};

/// Errors: unknown type, with the nearest right one.
Result<FieldType> parse_type(std::string_view text);

struct Field {
  std::string name;  ///< in the environment
  std::string key;   ///< in the tool's output
  FieldType type;
  nlohmann::json otherwise = {};    ///< value where nothing is given, and null for an optional field
  std::vector<Field> members = {};  ///< of records
};

/// Where a value stands in the output: "line 3", "item 7".
struct Place {
  const char* unit = "line";
  std::size_t number = 0;
};

std::string to_string(const Place& place);

/// How the fields of a record may be told apart.
enum class Layout {
  keyed,       ///< by key, which may repeat: a list without separator takes one element from each
  keyed_once,  ///< by key, each at most once
  ordered,     ///< by position: the declaration must be a list
};

/// The declared fields of a record.
class Fields {
 public:
  /// `declaration`: `{name: type}`, or `[{name: type}, ...]` where order matters; a type is a text or
  /// `{type | records, key, default}`.
  static Result<Fields> parse(const nlohmann::json& declaration, Layout layout, bool ignore_unknown);

  std::size_t size() const { return fields_.size(); }
  const Field& operator[](std::size_t index) const { return fields_[index]; }
  bool ignores_unknown() const { return ignore_unknown_; }
  std::optional<std::size_t> find(std::string_view key) const;
  bool has_name(std::string_view name) const;
  std::vector<std::string> keys() const;

 private:
  std::vector<Field> fields_;
  std::map<std::string, std::size_t, std::less<>> by_key_;
  bool ignore_unknown_ = false;
};

/// Makes one record. Values that stand for "not told" (`[N/A]`, `ERR!`, ...) become null, or an empty text or list, and
/// the record's `unknown` says why; they are never a number.
class RecordBuilder {
 public:
  explicit RecordBuilder(const Fields& fields) : fields_(&fields), seen_(fields.size(), false) {}

  /// Errors: undeclared key, a scalar given twice, a value that is not of its type; with place, field, found and
  /// expected.
  Result<void> set(std::string_view key, std::string_view text, const Place& place);
  Result<void> set(std::size_t index, std::string_view text, const Place& place);
  Result<void> set_json(std::string_view key, const nlohmann::json& value, const Place& place);

  bool empty() const { return touched_ == 0; }
  nlohmann::json finish();

 private:
  nlohmann::json& slot(const Field& field, nlohmann::json::value_t type);
  Result<void> set_scalar(const Field& field, std::string_view text, const Place& place);
  Result<void> add_to_list(const Field& field, std::string_view text, const Place& place);
  Result<void> add_to_map(const Field& field, std::string_view text, const Place& place);
  Result<void> add_record(const Field& field, std::string_view text, const Place& place);
  Result<void> undeclared(std::string_view key, const Place& place) const;

  const Fields* fields_;
  std::vector<bool> seen_;
  nlohmann::json record_ = nlohmann::json::object();
  nlohmann::json unknown_ = nlohmann::json::object();
  std::size_t touched_ = 0;
};

/// The records of one output; with `single` there must be exactly one, and it stands for itself.
class Records {
 public:
  explicit Records(bool single) : single_(single) {}

  Result<void> add(nlohmann::json record, const Place& place);
  Result<nlohmann::json> finish();

 private:
  bool single_;
  nlohmann::json list_ = nlohmann::json::array();
};

/// Why `text` gives no value although it stands where one should: nvidia-smi's `[N/A]`, systemd's `[not set]`, ...
/// Nothing where it is an ordinary value.
std::optional<std::string> why_not_told(std::string_view text, FieldType::Kind kind);

/// `text` as a value of a scalar type; nothing where it is none.
std::optional<nlohmann::json> read_scalar(FieldType::Kind kind, std::string_view text);

}  // namespace trueup::parse
