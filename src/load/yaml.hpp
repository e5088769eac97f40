#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trueup/result.hpp"

// The one place that knows yaml-cpp: text in, a tree with positions out. Loaders read maps through YamlMap, which
// collects every error instead of stopping at the first, and names unknown keys with the nearest right one.

namespace trueup {

struct YamlNode {
  enum class Kind { null, scalar, sequence, map };

  Kind kind = Kind::null;
  std::string scalar = {};
  bool quoted = false;  ///< a quoted or block scalar: text, whatever it looks like
  std::string tag = {};  ///< an explicit tag such as `!vault`; empty otherwise
  SourcePos at = {};
  std::vector<YamlNode> items = {};                            ///< of a sequence
  std::vector<std::pair<std::string, YamlNode>> members = {};  ///< of a map, in order; keys are unique
  std::vector<SourcePos> key_positions = {};                   ///< of `members`, one each

  bool is_null() const { return kind == Kind::null; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_sequence() const { return kind == Kind::sequence; }
  bool is_map() const { return kind == Kind::map; }

  /// The member of that name, or null.
  const YamlNode* find(std::string_view key) const;
  /// `a mapping`, `a list`, `'text'`, `nothing`: for messages.
  std::string describe() const;
};

/// Errors: not YAML, a key that stands twice, more than 200,000 nodes (aliases count each time), several documents.
Result<YamlNode> parse_yaml(std::string_view text, const std::string& file);

/// Plain scalars become null, bool, integer or number by YAML 1.2's core schema; quoted ones stay text.
nlohmann::json yaml_to_json(const YamlNode& node);

using Errors = std::vector<Error>;

/// Reads one mapping. Each getter marks its key as known; `finish()` reports the others.
class YamlMap {
 public:
  /// `what` names the thing in messages: "check disk.full". A node that is no mapping is reported (null counts as
  /// empty).
  YamlMap(const YamlNode& node, std::string what, Errors& errors);

  /// The member, or null where it is missing or null.
  const YamlNode* get(std::string_view key);
  const YamlNode* required(std::string_view key);

  std::optional<std::string> text(std::string_view key);
  std::string required_text(std::string_view key);
  std::optional<bool> flag(std::string_view key);
  std::optional<long> integer(std::string_view key, long min, long max);
  /// One text or a list of texts.
  std::vector<std::string> texts(std::string_view key);
  /// One of `choices`; reported with the nearest right one otherwise.
  std::optional<std::string> choice(std::string_view key, const std::vector<std::string>& choices);

  void error(const SourcePos& at, std::string message);
  /// Reports unknown keys.
  void finish();

  const SourcePos& at() const { return node_.at; }
  const std::string& what() const { return what_; }

 private:
  const YamlNode& node_;
  std::string what_;
  Errors& errors_;
  std::vector<std::string> known_;
};

}  // namespace trueup
