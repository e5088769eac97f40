#include "load/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/text.hpp"

namespace trueup {
namespace {

constexpr int kMostNodes = 200'000;
constexpr int kDeepest = 100;

struct YamlReader {
  const std::string& file;
  int nodes = 0;

  SourcePos position(const YAML::Mark& mark) const {
    if (mark.is_null()) return {file, 0, 0};
    return {file, mark.line + 1, mark.column + 1};
  }

  Result<YamlNode> read(const YAML::Node& from, int depth) {
    YamlNode node;
    node.at = position(from.Mark());
    if (++nodes > kMostNodes) return fail(ErrorKind::limit, fmt::format("more than {} nodes", kMostNodes), node.at);
    if (depth > kDeepest) return fail(ErrorKind::limit, fmt::format("nested deeper than {}", kDeepest), node.at);
    const std::string& tag = from.Tag();
    node.quoted = tag == "!";  // what yaml-cpp calls a scalar in quotes; '?' is a plain one
    if (tag.size() > 1 && tag.front() == '!') node.tag = tag;
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null: break;
      case YAML::NodeType::Scalar:
        node.kind = YamlNode::Kind::scalar;
        node.scalar = from.Scalar();
        break;
      case YAML::NodeType::Sequence:
        node.kind = YamlNode::Kind::sequence;
        for (const auto& item : from) {
          auto child = read(item, depth + 1);
          if (!child) return child;
          node.items.push_back(*std::move(child));
        }
        break;
      case YAML::NodeType::Map:
        node.kind = YamlNode::Kind::map;
        for (const auto& member : from) {
          const auto key_at = position(member.first.Mark());
          if (!member.first.IsScalar()) return fail(ErrorKind::malformed, "expected a plain text as key", key_at);
          const auto& key = member.first.Scalar();
          if (node.find(key) != nullptr)
            return fail(ErrorKind::malformed, fmt::format("key '{}' stands twice", printable(key)), key_at);
          auto child = read(member.second, depth + 1);
          if (!child) return child;
          node.members.emplace_back(key, *std::move(child));
          node.key_positions.push_back(key_at);
        }
        break;
    }
    return node;
  }
};

bool is_core_null(std::string_view text) { return text == "~" || text == "null" || text == "Null" || text == "NULL"; }

std::optional<bool> core_bool(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number number{};
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == key; });
  return found == members.end() ? nullptr : &found->second;
}

std::string YamlNode::describe() const {
  switch (kind) {
    case Kind::null: return "nothing";
    case Kind::scalar: return fmt::format("'{}'", shorten(printable(scalar), 60));
    case Kind::sequence: return "a list";
    case Kind::map: return "a mapping";
  }
  return "nothing";
}

Result<YamlNode> parse_yaml(std::string_view text, const std::string& file) {
  try {
    const auto documents = YAML::LoadAll(std::string(text));
    if (documents.empty()) return YamlNode{.at = {file, 1, 1}};
    if (documents.size() > 1)
      return fail(ErrorKind::malformed, "expected one YAML document, found several", SourcePos{file, 1, 1});
    YamlReader reader{file};
    return reader.read(documents.front(), 0);
  } catch (const YAML::Exception& error) {
    return fail(ErrorKind::malformed, fmt::format("not YAML: {}", error.msg), YamlReader{file}.position(error.mark));
  }
}

nlohmann::json yaml_to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null: return nullptr;
    case YamlNode::Kind::sequence: {
      auto list = nlohmann::json::array();
      for (const auto& item : node.items) list.push_back(yaml_to_json(item));
      return list;
    }
    case YamlNode::Kind::map: {
      auto record = nlohmann::json::object();
      for (const auto& [key, value] : node.members) record[key] = yaml_to_json(value);
      return record;
    }
    case YamlNode::Kind::scalar: break;
  }
  const std::string_view text = node.scalar;
  if (node.quoted || !node.tag.empty()) return node.scalar;
  if (text.empty() || is_core_null(text)) return nullptr;
  if (const auto flag = core_bool(text)) return *flag;
  if (const auto number = whole_number<std::int64_t>(text)) return *number;
  if (text.find_first_not_of("+-0123456789.eE") == text.npos && text.find_first_of("0123456789") != text.npos)
    if (const auto number = whole_number<double>(text)) return *number;
  return node.scalar;
}

YamlMap::YamlMap(const YamlNode& node, std::string what, Errors& errors)
    : node_(node), what_(std::move(what)), errors_(errors) {
  if (!node.is_map() && !node.is_null()) error(node.at, fmt::format("expected a mapping, got {}", node.describe()));
}

const YamlNode* YamlMap::get(std::string_view key) {
  known_.emplace_back(key);
  const auto* member = node_.find(key);
  return member != nullptr && !member->is_null() ? member : nullptr;
}

const YamlNode* YamlMap::required(std::string_view key) {
  const auto* member = get(key);
  if (member == nullptr) error(node_.at, fmt::format("'{}' is missing", key));
  return member;
}

std::optional<std::string> YamlMap::text(std::string_view key) {
  const auto* member = get(key);
  if (member == nullptr) return std::nullopt;
  if (member->is_scalar()) return member->scalar;
  error(member->at, fmt::format("'{}': expected a text, got {}", key, member->describe()));
  return std::nullopt;
}

std::string YamlMap::required_text(std::string_view key) {
  return required(key) != nullptr ? text(key).value_or("") : std::string();
}

std::optional<bool> YamlMap::flag(std::string_view key) {
  const auto* member = get(key);
  if (member == nullptr) return std::nullopt;
  if (const auto flag = core_bool(member->scalar); flag && !member->quoted) return flag;
  // Ansible and older YAML write yes and no.
  if (member->scalar == "yes" || member->scalar == "on") return true;
  if (member->scalar == "no" || member->scalar == "off") return false;
  error(member->at, fmt::format("'{}': expected true or false, got {}", key, member->describe()));
  return std::nullopt;
}

std::optional<long> YamlMap::integer(std::string_view key, long min, long max) {
  const auto* member = get(key);
  if (member == nullptr) return std::nullopt;
  if (const auto number = whole_number<long>(member->scalar); number && *number >= min && *number <= max) return number;
  error(member->at, fmt::format("'{}': expected a whole number from {} to {}, got {}", key, min, max, member->describe()));
  return std::nullopt;
}

std::vector<std::string> YamlMap::texts(std::string_view key) {
  const auto* member = get(key);
  if (member == nullptr) return {};
  if (member->is_scalar()) return {member->scalar};
  std::vector<std::string> texts;
  if (!member->is_sequence()) {
    error(member->at, fmt::format("'{}': expected a text or a list of texts, got {}", key, member->describe()));
    return texts;
  }
  for (const auto& item : member->items) {
    if (item.is_scalar())
      texts.push_back(item.scalar);
    else
      error(item.at, fmt::format("'{}': expected a text, got {}", key, item.describe()));
  }
  return texts;
}

std::optional<std::string> YamlMap::choice(std::string_view key, const std::vector<std::string>& choices) {
  auto chosen = text(key);
  if (chosen && std::find(choices.begin(), choices.end(), *chosen) == choices.end()) {
    error(node_.find(key)->at, fmt::format("'{}': expected one of {}, got '{}'{}", key, join(choices, ", "),
                                           printable(*chosen), did_you_mean(*chosen, choices)));
    return std::nullopt;
  }
  return chosen;
}

void YamlMap::error(const SourcePos& at, std::string message) {
  errors_.push_back(Error{ErrorKind::malformed, fmt::format("{}: {}", what_, message), at, {}, {}});
}

void YamlMap::finish() {
  for (std::size_t i = 0; i < node_.members.size(); ++i) {
    const auto& key = node_.members[i].first;
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      error(node_.key_positions[i], fmt::format("unknown key '{}'{}", printable(key), did_you_mean(key, known_)));
  }
}

}  // namespace trueup
