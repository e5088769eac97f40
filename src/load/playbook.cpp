#include "load/playbook.hpp"

#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "parse/parser.hpp"
#include "trueup/environment.hpp"

namespace trueup {
namespace {

constexpr std::chrono::milliseconds kLongestProbe = std::chrono::minutes(10);
constexpr std::uint64_t kMostProbeBytes = 64U << 20U;

bool is_name_of(std::string_view name, std::string_view more) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto allowed = [&](char c) { return plain(c) || more.find(c) != more.npos; };
  return !name.empty() &&
         (plain(name.front()) || (name.front() >= 'A' && name.front() <= 'Z' && more.find('A') != more.npos)) &&
         std::all_of(name.begin(), name.end(), allowed);
}

bool is_id(std::string_view name) { return is_name_of(name, "._-"); }
bool is_program(std::string_view name) { return is_name_of(name, "._-+ABCDEFGHIJKLMNOPQRSTUVWXYZ"); }

constexpr std::string_view kIdRule = "expected lower-case letters, digits, '.', '_' and '-', not beginning with a sign";

class Loader {
 public:
  Loader(const FileAccess& files, Errors& errors) : files_(files), errors_(errors) {}

  Playbook run(const std::vector<std::string>& paths) {
    for (const auto& path : paths) file(normal(path), std::nullopt);
    check_references();
    return std::move(playbook_);
  }

 private:
  static std::string normal(const std::string& path) { return std::filesystem::path(path).lexically_normal().string(); }

  void error(const SourcePos& at, std::string message) {
    errors_.push_back(Error{ErrorKind::malformed, std::move(message), at, {}, {}});
  }

  void file(const std::string& path, const std::optional<SourcePos>& included_at) {
    if (const auto circle = std::find(open_.begin(), open_.end(), path); circle != open_.end()) {
      std::vector<std::string> files(circle, open_.end());
      files.push_back(path);
      return error(*included_at, fmt::format("includes go round in a circle: {}", join(files, " -> ")));
    }
    if (std::find(playbook_.files.begin(), playbook_.files.end(), path) != playbook_.files.end()) return;
    const auto text = files_.read(path);
    if (!text) {
      auto problem = text.error();
      if (included_at) problem.at = included_at;
      errors_.push_back(std::move(problem));
      return;
    }
    auto digest = hex(sha256(*text));
    // By whatever path it is named, a file counts once: a relative one, one through a link, a copy.
    const bool is_known = std::any_of(playbook_.digests.begin(), playbook_.digests.end(),
                                      [&](const auto& read) { return read.second == digest; });
    if (!is_known) {
      playbook_.files.push_back(path);
      playbook_.digests[path] = std::move(digest);
    }
    const auto root = parse_yaml(*text, path);
    if (!root) {
      errors_.push_back(root.error());
      return;
    }
    open_.push_back(path);
    lines_ = split_lines(*text);
    YamlMap map(*root, "playbook", errors_);
    const auto take = [&](std::string_view key, auto&& read) {
      if (is_known)
        map.get(key);
      else
        entries(map, key, read);
    };
    take("probes", [&](const auto& id, const auto& at, const auto& node) { probe(id, at, node); });
    take("checks", [&](const auto& id, const auto& at, const auto& node) { check(id, at, node); });
    take("signatures", [&](const auto& id, const auto& at, const auto& node) { signature(id, at, node); });
    take("fixes", [&](const auto& id, const auto& at, const auto& node) { fix(id, at, node); });
    const auto includes = texts_at(map, "include");
    map.finish();
    const auto folder = std::filesystem::path(path).parent_path();
    for (const auto& include : includes) file(normal(folder / include.text), include.at);
    open_.pop_back();
  }

  template <class Read>
  void entries(YamlMap& map, std::string_view key, Read&& read) {
    const auto* node = map.get(key);
    if (node == nullptr) return;
    if (!node->is_map())
      return map.error(node->at, fmt::format("'{}': expected a mapping from ids, got {}", key, node->describe()));
    for (std::size_t i = 0; i < node->members.size(); ++i)
      read(node->members[i].first, node->key_positions[i], node->members[i].second);
  }

  // False: the entry is to be left out.
  bool take_id(std::string_view kind, const std::string& id, const SourcePos& at) {
    if (!is_id(id)) error(at, fmt::format("{} '{}': {}", kind, printable(id), kIdRule));
    const auto [first, fresh] = ids_.try_emplace(fmt::format("{} {}", kind, id), at);
    if (!fresh)
      error(at, fmt::format("{} '{}' is already defined at {}", kind, printable(id), to_string(first->second)));
    return fresh;
  }

  // The text of a scalar begins behind its quote, or below its `|`. Column 0 where folding has moved the columns.
  SourcePos text_start(const YamlNode& node) const {
    auto at = node.at;
    if (at.line < 1 || static_cast<std::size_t>(at.line) > lines_.size()) return at;
    const auto line = lines_[static_cast<std::size_t>(at.line) - 1];
    const char mark = at.column >= 1 && static_cast<std::size_t>(at.column) <= line.size()
                          ? line[static_cast<std::size_t>(at.column) - 1]
                          : '\0';
    if (node.quoted && (mark == '"' || mark == '\'')) ++at.column;
    if (node.quoted && (mark == '|' || mark == '>')) {
      for (auto next = static_cast<std::size_t>(at.line); next < lines_.size(); ++next) {
        const auto indent = lines_[next].find_first_not_of(' ');
        if (indent == std::string_view::npos) continue;
        at.line = static_cast<int>(at.line + 1);
        at.column = mark == '|' ? static_cast<int>(indent) + 1 : 0;
        return at;
      }
    }
    return at;
  }

  std::optional<Expression> expression(YamlMap& map, std::string_view key) {
    const auto* node = map.get(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_scalar()) {
      map.error(node->at, fmt::format("'{}': expected a text, got {}", key, node->describe()));
      return std::nullopt;
    }
    return Expression{node->scalar, text_start(*node)};
  }

  Expression required_expression(YamlMap& map, std::string_view key) {
    return map.required(key) != nullptr ? expression(map, key).value_or(Expression{}) : Expression{};
  }

  // One text or a list of texts, each with its place.
  std::vector<Expression> texts_at(YamlMap& map, std::string_view key) {
    std::vector<Expression> texts;
    const auto* node = map.get(key);
    if (node == nullptr) return texts;
    if (!node->is_scalar() && !node->is_sequence()) {
      map.error(node->at, fmt::format("'{}': expected a text or a list of texts, got {}", key, node->describe()));
      return texts;
    }
    const auto add = [&](const YamlNode& item) {
      if (item.is_scalar())
        texts.push_back({item.scalar, text_start(item)});
      else
        map.error(item.at, fmt::format("'{}': expected a text, got {}", key, item.describe()));
    };
    if (node->is_scalar())
      add(*node);
    else
      std::for_each(node->items.begin(), node->items.end(), add);
    return texts;
  }

  template <class Accept>
  std::vector<std::string> names(YamlMap& map, std::string_view key, Accept&& accept, std::string_view rule) {
    std::vector<std::string> names;
    for (const auto& [text, at] : texts_at(map, key)) {
      if (!accept(text)) map.error(at, fmt::format("'{}': '{}': {}", key, printable(text), rule));
      names.push_back(text);
    }
    return names;
  }

  // `limit` and `max_bytes`: read by `parse`, at most `most` (which `most_text` names).
  template <class T>
  void measure(YamlMap& map, std::string_view key, T& into, T most, std::string_view most_text,
               const std::function<Result<T>(std::string_view)>& parse) {
    const auto text = map.text(key);
    if (!text) return;
    const auto value = parse(*text);
    if (!value) return map.error(map.get(key)->at, fmt::format("'{}': {}", key, value.error().message));
    if (*value > most)
      return map.error(map.get(key)->at, fmt::format("'{}': at most {}, got '{}'", key, most_text, *text));
    into = *value;
  }

  void probe(const std::string& id, const SourcePos& at, const YamlNode& node) {
    Probe probe;
    probe.id = id;
    probe.at = at;
    YamlMap map(node, "probe " + printable(id), errors_);
    if (const auto into = map.required_text("into"); !into.empty()) {
      probe.into = into;
      const auto& sections = environment_sections();
      const auto& into_at = map.get("into")->at;
      if (std::find(sections.begin(), sections.end(), into) == sections.end()) {
        map.error(into_at, fmt::format("'into': the environment has no section '{}'{}", printable(into),
                                       did_you_mean(into, sections)));
      } else if (const auto [first, fresh] = filled_.try_emplace(into, std::pair(id, at));
                 !fresh && first->second.first != id) {
        map.error(into_at, fmt::format("section '{}' is already filled by probe '{}' at {}", into, first->second.first,
                                       to_string(first->second.second)));
      }
    }
    probe.needs = names(map, "needs", is_program, "expected the name of a program, without a path");
    if (map.choice("if_missing", {"absent", "unknown"}) == "absent") probe.if_missing = IfMissing::absent;
    for (const auto& [read, place] : texts_at(map, "reads")) {
      reads_.push_back({id, read, place});
      probe.reads.push_back(read);
    }
    if (map.choice("level", {"host", "login"}) == "login") probe.level = ProbeLevel::login;
    probe.deep = map.flag("deep").value_or(false);
    measure<std::chrono::milliseconds>(map, "limit", probe.limit, kLongestProbe, "10m", parse_duration);
    measure<std::uint64_t>(map, "max_bytes", probe.max_bytes, kMostProbeBytes, "64MiB", parse_size);
    const auto script = required_expression(map, "script");
    probe.script = script.text;
    if (const auto braces = script.text.find("{{");
        braces != script.text.npos && script.text.find("}}", braces) != script.text.npos) {
      auto place = map.get("script")->at;
      if (script.at.column > 0 && script.at.line > 0) {
        const auto before = std::string_view(script.text).substr(0, braces);
        const auto start = before.rfind('\n');
        place = script.at;
        place.line += static_cast<int>(std::count(before.begin(), before.end(), '\n'));
        place.column += static_cast<int>(start == before.npos ? braces : braces - start - 1);
      }
      map.error(
          place,
          "'script': scripts get no interpolation; where a program wants two braces, keep them apart: '{''{.ID}''}'");
    }
    if (const auto nul = script.text.find('\0'); nul != script.text.npos)
      map.error(map.get("script")->at, "'script': a script cannot hold the character NUL");
    if (const auto* parse = map.required("parse"); parse != nullptr) {
      const auto declaration = yaml_to_json(*parse);
      probe.parser = declaration.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      if (const auto parser = make_parser(declaration); !parser)
        map.error(parse->at, fmt::format("'parse': {}", to_string(parser.error())));
    }
    map.finish();
    if (take_id("probe", id, at)) playbook_.probes.push_back(std::move(probe));
  }

  void check(const std::string& id, const SourcePos& at, const YamlNode& node) {
    Check check;
    check.id = id;
    check.at = at;
    YamlMap map(node, "check " + printable(id), errors_);
    check.title = required_expression(map, "title");
    check.severity = required_expression(map, "severity");
    if (!check.severity.text.empty() && check.severity.text.find("{{") == std::string::npos)
      map.choice("severity", {"error", "warning", "info"});
    auto sections = environment_sections();
    sections.emplace_back("derived");
    for (const auto& [section, place] : texts_at(map, "needs")) {
      if (std::find(sections.begin(), sections.end(), section) == sections.end())
        map.error(place, fmt::format("'needs': the environment has no section '{}'{}", printable(section),
                                     did_you_mean(section, sections)));
      check.needs.push_back(section);
    }
    check.for_each = expression(map, "for_each");
    check.when = expression(map, "when");
    check.assertion = required_expression(map, "assert");
    check.unknown_because = expression(map, "unknown_because");
    check.about = expression(map, "about");
    check.because = required_expression(map, "because");
    check.evidence = texts_at(map, "evidence");
    for (const auto& [caused, place] : texts_at(map, "causes")) {
      if (caused == id) map.error(place, "'causes': a check does not explain itself");
      causes_.push_back({id, caused, place});
      check.causes.push_back(caused);
    }
    for (const auto& [wanted, place] : texts_at(map, "fix")) {
      wanted_fixes_.push_back({id, wanted, place});
      check.fixes.push_back(wanted);
    }
    check.references = map.texts("references");
    check.tags = names(map, "tags", is_id, kIdRule);
    map.finish();
    if (take_id("check", id, at)) playbook_.checks.push_back(std::move(check));
  }

  void fix(const std::string& id, const SourcePos& at, const YamlNode& node) {
    Fix fix;
    fix.id = id;
    fix.at = at;
    YamlMap map(node, "fix " + printable(id), errors_);
    fix.title = required_expression(map, "title");
    fix.when = expression(map, "when");
    fix.why_not = expression(map, "why_not");
    if (const auto* steps = map.required("steps"); steps != nullptr) {
      if (!steps->is_sequence() || steps->items.empty())
        map.error(steps->at, fmt::format("'steps': expected a list of steps, got {}",
                                         steps->is_sequence() ? "an empty list" : steps->describe()));
      for (const auto& item : steps->items)
        if (auto made = step(map, item)) fix.steps.push_back(*std::move(made));
    }
    map.finish();
    if (take_id("fix", id, at)) playbook_.fixes.push_back(std::move(fix));
  }

  // KIND: {PARAMETER: VALUE, ...}, and beside it `for_each` and `when`.
  std::optional<FixStep> step(YamlMap& fix, const YamlNode& node) {
    constexpr std::string_view kExpected =
        "'steps': expected an action with its parameters, as in 'service: {unit: x.service, ...}'";
    if (!node.is_map()) {
      fix.error(node.at, fmt::format("{}, got {}", kExpected, node.describe()));
      return std::nullopt;
    }
    YamlMap map(node, fmt::format("{}: steps", fix.what()), errors_);
    FixStep step;
    step.for_each = expression(map, "for_each");
    step.when = expression(map, "when");
    for (std::size_t i = 0; i < node.members.size(); ++i) {
      const auto& [name, value] = node.members[i];
      if (name == "for_each" || name == "when") continue;
      map.get(name);
      if (!step.kind.empty()) {
        map.error(node.key_positions[i],
                  fmt::format("'{}': a step is one action, and this one is '{}' already", printable(name), step.kind));
        continue;
      }
      step.kind = name;
      step.at = node.key_positions[i];
      if (!value.is_map() && !value.is_null())
        map.error(value.at,
                  fmt::format("'{}': expected a mapping of parameters, got {}", printable(name), value.describe()));
      step.params = param_tree(value);
      step.params.at = step.at;
    }
    if (!step.kind.empty()) return step;
    fix.error(node.at, std::string(kExpected));
    return std::nullopt;
  }

  ParamTree param_tree(const YamlNode& node) const {
    ParamTree tree;
    tree.at = node.at;
    if (node.is_scalar()) {
      const auto value = yaml_to_json(node);
      tree.kind = value.is_string() ? ParamTree::Kind::text
                  : value.is_null() ? ParamTree::Kind::null
                                    : ParamTree::Kind::scalar;
      if (value.is_string())
        tree.text = {node.scalar, text_start(node)};
      else if (!value.is_null())
        tree.json = value.dump();
    } else if (node.is_sequence()) {
      tree.kind = ParamTree::Kind::list;
      for (const auto& item : node.items) tree.items.push_back(param_tree(item));
    } else if (node.is_map()) {
      tree.kind = ParamTree::Kind::map;
      for (std::size_t i = 0; i < node.members.size(); ++i) {
        tree.members.emplace_back(node.members[i].first, param_tree(node.members[i].second));
        tree.members.back().second.at = node.key_positions[i];
      }
    }
    return tree;
  }

  void signature(const std::string& id, const SourcePos& at, const YamlNode& node) {
    Signature signature;
    signature.id = id;
    signature.at = at;
    YamlMap map(node, "signature " + printable(id), errors_);
    signature.pattern = map.required_text("pattern");
    signature.meaning = map.required_text("meaning");
    if (const auto* pattern = map.get("pattern"); pattern != nullptr && pattern->is_scalar()) {
      if (const auto problem = pattern_problem(signature.pattern); !problem.empty())
        map.error(pattern->at, fmt::format("'pattern': {}", problem));
    }
    map.finish();
    if (take_id("signature", id, at)) playbook_.signatures.push_back(std::move(signature));
  }

  // Signatures travel to the host as lines `id<TAB>pattern`.
  static std::string pattern_problem(const std::string& pattern) {
    if (pattern.empty()) return "an empty pattern matches every line";
    if (pattern.find_first_of(std::string_view("\t\n\0", 3)) != pattern.npos)
      return "a pattern holds no tab, newline or NUL";
    regex_t compiled;
    const int status = regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB);
    if (status == 0) {
      const bool matches_nothing = regexec(&compiled, "", 0, nullptr, 0) == 0;
      regfree(&compiled);
      return matches_nothing ? "this pattern matches every line" : "";
    }
    char text[200];
    regerror(status, &compiled, text, sizeof text);
    return fmt::format("not an extended regular expression: {}", text);
  }

  void check_references() {
    std::vector<std::string> ids;
    for (const auto& check : playbook_.checks) ids.push_back(check.id);
    for (const auto& [check, caused, at] : causes_)
      if (std::find(ids.begin(), ids.end(), caused) == ids.end())
        error(at, fmt::format("check {}: 'causes': there is no check '{}'{}", check, printable(caused),
                              did_you_mean(caused, ids)));
    std::vector<std::string> fixes;
    for (const auto& fix : playbook_.fixes) fixes.push_back(fix.id);
    for (const auto& [check, wanted, at] : wanted_fixes_)
      if (std::find(fixes.begin(), fixes.end(), wanted) == fixes.end())
        error(at, fmt::format("check {}: 'fix': there is no fix '{}'{}", check, printable(wanted),
                              did_you_mean(wanted, fixes)));
    check_reads();
  }

  // A probe reads probes that read none, of its own level; so there is an order in which they can run.
  void check_reads() {
    auto& probes = playbook_.probes;
    std::vector<std::string> ids;
    for (const auto& probe : probes) ids.push_back(probe.id);
    const auto find = [&](const std::string& id) {
      return std::find_if(probes.begin(), probes.end(), [&](const Probe& p) { return p.id == id; });
    };
    for (const auto& [probe, read, at] : reads_) {
      const auto source = find(read);
      if (source == probes.end())
        error(at, fmt::format("probe {}: 'reads': there is no probe '{}'{}", probe, printable(read),
                              did_you_mean(read, ids)));
      else if (!source->reads.empty())
        error(at, fmt::format("probe {}: 'reads': probe '{}' reads others itself; expected one that reads none", probe,
                              read));
      else if (const auto reader = find(probe); reader != probes.end() && reader->level != source->level)
        error(at, fmt::format("probe {}: 'reads': probe '{}' runs at another level", probe, read));
    }
    std::stable_partition(probes.begin(), probes.end(), [](const Probe& probe) { return probe.reads.empty(); });
  }

  // What `from` names, and where.
  struct Reference {
    std::string from;
    std::string to;
    SourcePos at;
  };

  const FileAccess& files_;
  Errors& errors_;
  Playbook playbook_ = {};
  std::vector<std::string> open_ = {};         // files being read, outermost first
  std::vector<std::string_view> lines_ = {};   // of the file being read
  std::map<std::string, SourcePos> ids_ = {};  // "check disk.full" -> where it was first defined
  std::map<std::string, std::pair<std::string, SourcePos>> filled_ = {};  // section -> probe
  std::vector<Reference> causes_ = {};
  std::vector<Reference> reads_ = {};
  std::vector<Reference> wanted_fixes_ = {};
};

}  // namespace

Playbook load_playbooks(const std::vector<std::string>& paths, const FileAccess& files, Errors& errors) {
  return Loader(files, errors).run(paths);
}

}  // namespace trueup
