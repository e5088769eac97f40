#include "load/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_set>

#include "base/text.hpp"

namespace trueup {
namespace {

constexpr int kMostNodes = 200'000;
constexpr int kDeepest = 100;

SourcePos position(const std::string& file, const YAML::Mark& mark) {
  if (mark.is_null()) return {file, 0, 0};
  return {file, mark.line + 1, mark.column + 1};
}

// Builds the tree while yaml-cpp parses, so that a bound is met before the memory is gone. YAML::LoadAll has no bounds,
// and never returns for `,a]` (0.7 and 0.8): what cannot follow a document is another, empty document to it, again and
// again.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) {}

  struct Refused {  // thrown: the parser offers no other way out
    Error error;
  };

  YamlNode take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(started_, true))
      refuse(ErrorKind::malformed, "expected the end: a file holds one YAML document", position(file_, mark));
    root_.at = position(file_, mark);
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add({.at = position(file_, mark)}, anchor, 1); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = make(YamlNode::Kind::scalar, mark, tag);
    node.scalar = value;
    node.quoted = tag == "!";  // what yaml-cpp calls a scalar in quotes; '?' is a plain one
    add(std::move(node), anchor, 1);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end())
      refuse(ErrorKind::malformed, "an alias stands inside what it names", position(file_, mark));
    count(found->second.nodes, position(file_, mark));
    add(found->second.node, 0, found->second.nodes);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(YamlNode::Kind::sequence, mark, tag), anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(YamlNode::Kind::map, mark, tag), anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor;
    int nodes = 1;         // with all that is below
    bool has_key = false;  // of a map: the key of the next member was seen
    std::unordered_set<std::string> keys = {};
  };
  struct Anchored {
    YamlNode node;
    int nodes;
  };

  [[noreturn]] static void refuse(ErrorKind kind, std::string message, SourcePos at) {
    throw Refused{Error{kind, std::move(message), std::move(at), {}, {}}};
  }

  void count(int nodes, const SourcePos& at) {
    if (nodes_ += nodes; nodes_ > kMostNodes)
      refuse(ErrorKind::limit, fmt::format("more than {} nodes", kMostNodes), at);
  }

  YamlNode make(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag) const {
    YamlNode node{.kind = kind, .at = position(file_, mark)};
    if (tag.size() > 1 && tag.front() == '!') node.tag = tag;
    return node;
  }

  void open(YamlNode node, YAML::anchor_t anchor) {
    if (open_.size() >= kDeepest) refuse(ErrorKind::limit, fmt::format("nested deeper than {}", kDeepest), node.at);
    if (!open_.empty() && open_.back().node.is_map() && !open_.back().has_key) refuse_key(node);
    count(1, node.at);
    open_.push_back({std::move(node), anchor});
  }

  void close() {
    auto done = std::move(open_.back());
    open_.pop_back();
    nodes_ -= 1;  // add() counts it again
    add(std::move(done.node), done.anchor, done.nodes);
  }

  [[noreturn]] static void refuse_key(const YamlNode& node) {
    refuse(ErrorKind::malformed, "expected a plain text as key", node.at);
  }

  void add(YamlNode node, YAML::anchor_t anchor, int nodes) {
    if (nodes == 1) count(1, node.at);
    if (anchor != 0) anchored_.insert_or_assign(anchor, Anchored{node, nodes});
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    auto& parent = open_.back();
    parent.nodes += nodes;
    if (parent.node.is_sequence()) {
      parent.node.items.push_back(std::move(node));
    } else if (std::exchange(parent.has_key, !parent.has_key)) {
      parent.node.members.back().second = std::move(node);
    } else {
      if (!node.is_scalar()) refuse_key(node);
      if (!parent.keys.insert(node.scalar).second)
        refuse(ErrorKind::malformed, fmt::format("key '{}' stands twice", printable(node.scalar)), node.at);
      parent.node.members.emplace_back(std::move(node.scalar), YamlNode{});
      parent.node.key_positions.push_back(std::move(node.at));
    }
  }

  const std::string& file_;
  YamlNode root_;
  bool started_ = false;
  int nodes_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Anchored> anchored_;
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
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == key; });
  return found == members.end() ? nullptr : &found->second;
}

std::string YamlNode::describe() const {
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::scalar:
      return fmt::format("'{}'", shorten(printable(scalar), 60));
    case Kind::sequence:
      return "a list";
    case Kind::map:
      return "a mapping";
  }
  return "nothing";
}

Result<YamlNode> parse_yaml(std::string_view text, const std::string& file) {
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(file);
    while (parser.HandleNextDocument(builder)) continue;
    auto root = builder.take_root();
    if (root.at.line == 0) root.at = {file, 1, 1};
    return root;
  } catch (const TreeBuilder::Refused& refused) {
    return fail(refused.error);
  } catch (const YAML::Exception& error) {
    return fail(ErrorKind::malformed, fmt::format("not YAML: {}", error.msg), position(file, error.mark));
  }
}

nlohmann::json yaml_to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return nullptr;
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
    case YamlNode::Kind::scalar:
      break;
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
  error(member->at,
        fmt::format("'{}': expected a whole number from {} to {}, got {}", key, min, max, member->describe()));
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
