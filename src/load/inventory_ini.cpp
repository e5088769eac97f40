#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "load/inventory_formats.hpp"

// Ansible's INI, which is no usual INI:
//   line     ::= blank | ('#' | ';') anything | '[' group [':' ('hosts' | 'children' | 'vars')] ']' | entry
//   entry    ::= host (name '=' value)*       in [group]: words as a shell splits them, '#' begins a comment
//              | group                        in [group:children]
//              | name '=' value               in [group:vars]: the rest of the line
// A value that is a Python literal is that; anything else is text, '#' and all. Source: ansible.builtin.ini inventory
// plugin.

namespace trueup {
namespace {

struct Word {
  std::string text;
  int column;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

// As Python's shlex.split(line, comments=True). Error: the quote that is not closed.
tl::expected<std::vector<Word>, Word> split_words(std::string_view line) {
  std::vector<Word> words;
  for (std::size_t i = 0; i < line.size() && line[i] != '#';) {
    if (is_blank(line[i])) {
      ++i;
      continue;
    }
    Word word{{}, static_cast<int>(i) + 1};
    while (i < line.size() && !is_blank(line[i]) && line[i] != '#') {
      const char c = line[i++];
      if (c == '\\' && i < line.size()) {
        word.text += line[i++];
      } else if (c == '\'' || c == '"') {
        const int column = static_cast<int>(i);
        for (; i < line.size() && line[i] != c; ++i) {
          if (c == '"' && line[i] == '\\' && i + 1 < line.size() && (line[i + 1] == '"' || line[i + 1] == '\\')) ++i;
          word.text += line[i];
        }
        if (i++ == line.size()) return tl::unexpected(Word{std::string(1, c), column});
      } else {
        word.text += c;
      }
    }
    words.push_back(std::move(word));
  }
  return words;
}

bool is_python_number(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  if (text.empty() || text.find_first_not_of("0123456789.eE+-") != text.npos) return false;
  const bool whole = text.find_first_not_of("0123456789") == text.npos;
  if (whole) return text.size() == 1 || text.front() != '0';  // Python reads no 022
  return text.find_first_of("0123456789") == 0 &&
         yaml_to_json({.kind = YamlNode::Kind::scalar, .scalar = std::string(text)}).is_number();
}

// A value as ast.literal_eval reads it, else the text as it is.
YamlNode value_of(std::string_view text, const SourcePos& at) {
  YamlNode node{.kind = YamlNode::Kind::scalar, .scalar = std::string(text), .quoted = true, .at = at};
  if (text.empty()) return node;
  const auto ends = [](std::string_view rest) { return trim(rest).empty() || trim(rest).front() == '#'; };
  if (text.front() == '\'' || text.front() == '"') {
    std::string content;
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (text[i] == text.front()) {
        if (ends(text.substr(i + 1))) node.scalar = std::move(content);
        break;
      }
      if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '\\' || text[i + 1] == '\'' || text[i + 1] == '"'))
        ++i;
      content += text[i];
    }
    return node;
  }
  const auto head = trim(text.substr(0, text.find('#')));
  if (head.empty()) return node;
  if (head == "None") return {.at = at};
  if (head == "True" || head == "False" || is_python_number(head)) {
    node.scalar = head;
    node.quoted = false;
  } else if ((head.front() == '[' || head.front() == '{') && text.find("{{") == text.npos &&
             text.find("{%") == text.npos) {
    if (auto parsed = parse_yaml(head, at.file); parsed && !parsed->is_scalar()) {
      const auto place = [&](const auto& self, YamlNode& part) -> void {
        part.at = at;
        for (auto& item : part.items) self(self, item);
        for (auto& [key, member] : part.members) self(self, member);
      };
      place(place, *parsed);
      return *std::move(parsed);
    }
  }
  return node;
}

struct IniReader {
  const InventoryReader& reader;
  const std::string& file;
  enum class Kind { hosts, children, vars, skipped } kind = Kind::hosts;
  std::string group = "ungrouped";
  int line_number = 0;

  SourcePos at(std::size_t index) const { return {file, line_number, static_cast<int>(index) + 1}; }

  void error(std::size_t index, std::string message) const { reader.settings.error(at(index), std::move(message)); }

  void read_section(std::string_view line, std::size_t indent) {
    kind = Kind::skipped;
    const auto close = line.find(']');
    if (close == line.npos) return error(indent, "section without ']'");
    if (const auto rest = trim(line.substr(close + 1)); !rest.empty() && rest.front() != '#')
      return error(indent + close + 1, fmt::format("unexpected '{}' behind the section", printable(rest)));
    const auto inside = line.substr(1, close - 1);
    const auto colon = inside.find(':');
    const auto name = trim(inside.substr(0, colon));
    group = name;
    const auto kind_name = colon == inside.npos ? std::string("hosts") : std::string(trim(inside.substr(colon + 1)));
    static const std::vector<std::string> kinds = {"hosts", "children", "vars"};
    if (kind_name != "hosts" && kind_name != "children" && kind_name != "vars")
      return error(indent + colon + 2, fmt::format("expected one of hosts, children, vars, got '{}'{}",
                                                   printable(kind_name), did_you_mean(kind_name, kinds)));
    const auto* made = kind_name == "vars" ? reader.draft.group(name, at(indent + 1))
                                           : reader.draft.defined_group(name, at(indent + 1));
    if (made != nullptr)
      kind = kind_name == "hosts" ? Kind::hosts : kind_name == "children" ? Kind::children : Kind::vars;
  }

  void read_host(std::string_view line) const {
    const auto words = split_words(line);
    if (!words)
      return error(static_cast<std::size_t>(words.error().column) - 1,
                   fmt::format("quote {} is not closed", words.error().text));
    if (words->empty()) return;
    AnsibleVars vars;
    for (const auto& word : std::span(*words).subspan(1)) {
      const auto equals = word.text.find('=');
      const auto index = static_cast<std::size_t>(word.column) - 1;
      if (equals == word.text.npos || equals == 0) {
        error(index, fmt::format("expected name=value, got '{}'", shorten(printable(word.text), 60)));
        continue;
      }
      const auto value_at = at(index + equals + 1);
      vars.emplace_back(word.text.substr(0, equals),
                        value_of(std::string_view(word.text).substr(equals + 1), value_at));
    }
    const auto& host = words->front();
    reader.add_ansible_host(reader.draft.group(group, {}), host.text, at(static_cast<std::size_t>(host.column) - 1),
                            vars);
  }

  void read_line(std::string_view line) {
    ++line_number;
    const auto text = trim(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') return;
    const auto indent = static_cast<std::size_t>(text.data() - line.data());
    // `[::1]:22` is a host: what stands behind the bracket tells.
    const auto close = text.find(']');
    if (text.front() == '[' && (close == text.npos || close + 1 == text.size() || text[close + 1] != ':'))
      return read_section(text, indent);
    switch (kind) {
      case Kind::hosts:
        return read_host(line);
      case Kind::children: {
        const auto name = trim(text.substr(0, text.find('#')));
        reader.draft.group(group, {})->children.push_back({std::string(name), at(indent)});
        return;
      }
      case Kind::vars: {
        const auto equals = text.find('=');
        const auto name = trim(text.substr(0, equals));
        if (equals == text.npos || name.empty())
          return error(indent, fmt::format("expected name=value, got '{}'", shorten(printable(text), 60)));
        const auto value = trim(text.substr(equals + 1));
        const auto value_at =
            at(value.empty() ? indent + equals + 1 : static_cast<std::size_t>(value.data() - line.data()));
        return reader.add_ansible_vars(*reader.draft.group(group, {}),
                                       {{std::string(name), value_of(value, value_at)}});
      }
      case Kind::skipped:
        return;
    }
  }
};

}  // namespace

void InventoryReader::read_ansible_ini(std::string_view text, const std::string& file) const {
  IniReader ini{*this, file};
  for (const auto line : split_lines(text)) ini.read_line(line);
}

}  // namespace trueup
