#include "load/inventory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "load/inventory_formats.hpp"

namespace trueup {
namespace {

constexpr std::string_view kVault = "$ANSIBLE_VAULT";
constexpr std::string_view kProgram = "exec:";
constexpr std::size_t kDeepestJson = 100;

bool is_encrypted(std::string_view text) { return text.rfind(kVault, 0) == 0; }

// The first line that says something in YAML and INI alike: `[group]` or a host in INI, `key:` or `---` or JSON in
// YAML.
bool looks_like_yaml(std::string_view text) {
  for (auto line : split_lines(text)) {
    line = trim(line);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '{' || line.front() == '%' || line.rfind("---", 0) == 0) return true;
    if (line.front() == '[') return false;
    const auto colon = line.find(':');
    return colon != line.npos && (colon + 1 == line.size() || line[colon + 1] == ' ' || line[colon + 1] == '\t') &&
           line.substr(0, colon).find('=') == line.npos;
  }
  return false;
}

enum class YamlFormat { ours, ansible, program };

YamlFormat format_of(const YamlNode& root) {
  if (root.find("_meta") != nullptr) return YamlFormat::program;
  for (const auto* key : {"hosts", "groups", "defaults"})
    if (root.find(key) != nullptr) return YamlFormat::ours;
  for (const auto* key : {"all", "ungrouped", "plugin"})
    if (root.find(key) != nullptr) return YamlFormat::ansible;
  const auto is_group = [](const auto& member) {
    const auto& node = member.second;
    return node.is_null() || node.find("hosts") != nullptr || node.find("children") != nullptr ||
           node.find("vars") != nullptr;
  };
  return std::any_of(root.members.begin(), root.members.end(), is_group) ? YamlFormat::ansible : YamlFormat::ours;
}

bool is_deeper_than(std::string_view json, std::size_t most) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"')
      for (++i; i < json.size() && json[i] != '"'; ++i) i += json[i] == '\\' ? 1 : 0;
    else if (json[i] == '[' || json[i] == '{')
      if (++depth > most) return true;
    if (i < json.size() && (json[i] == ']' || json[i] == '}') && depth > 0) --depth;
  }
  return false;
}

// A program's output is not a file that somebody edits: names say where something stands, not lines.
YamlNode to_node(const nlohmann::json& value, const SourcePos& at) {
  YamlNode node{.at = at};
  if (value.is_object()) {
    node.kind = YamlNode::Kind::map;
    for (const auto& [key, member] : value.items()) {
      node.members.emplace_back(key, to_node(member, at));
      node.key_positions.push_back(at);
    }
  } else if (value.is_array()) {
    node.kind = YamlNode::Kind::sequence;
    for (const auto& item : value) node.items.push_back(to_node(item, at));
  } else if (!value.is_null()) {
    node.kind = YamlNode::Kind::scalar;
    node.quoted = value.is_string();
    node.scalar = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return node;
}

Result<YamlNode> parse_json(std::string_view text, const std::string& name) {
  const SourcePos at{name, 0, 0};
  if (is_deeper_than(text, kDeepestJson))
    return fail(ErrorKind::limit, fmt::format("nested deeper than {}", kDeepestJson), at);
  try {
    return to_node(nlohmann::json::parse(text), at);
  } catch (const nlohmann::json::exception& error) {
    const std::string_view what = error.what();  // `[json.exception.parse_error.101] parse error at line 1, ...`
    return fail(ErrorKind::malformed, fmt::format("not JSON: {}", printable(what.substr(what.find(' ') + 1))), at);
  }
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

class InventoryLoader {
 public:
  InventoryLoader(const InventoryInputs& inputs, Errors& errors)
      : inputs_(inputs),
        errors_(errors),
        settings_{inputs.home, errors},
        draft_(settings_),
        reader_{draft_, settings_} {}

  void add(const std::string& argument) {
    if (argument.rfind(kProgram, 0) == 0) return add_program(argument);
    if (argument == "-") return add_text(inputs_.read_stdin(), "<stdin>");
    if (argument.find(',') != argument.npos)
      return in_format("a list of hosts", [&] { reader_.read_list(argument, "<command line>"); });
    if (inputs_.files.is_directory(argument))
      return report({ErrorKind::unsupported,
                     fmt::format("inventory '{}' is a directory; name the files in it", printable(argument))});
    auto text = inputs_.files.read(argument);
    if (!text && text.error().kind == ErrorKind::not_found)
      text.error().hint = fmt::format("a host instead of a file is written with a comma: -i {},", printable(argument));
    add_text(std::move(text), argument);
  }

  Inventory finish() {
    for (const auto& directory : vars_directories_) add_vars_files(directory);
    auto inventory = draft_.finish();
    inventory.notes = std::move(notes_);
    return inventory;
  }

 private:
  template <class Read>
  void in_format(std::string_view format, Read read) {
    const auto before = errors_.size();
    read();
    for (auto i = before; i < errors_.size(); ++i) errors_[i].context.push_back(fmt::format("read as {}", format));
  }

  void report(Error error) { errors_.push_back(std::move(error)); }

  void add_program(const std::string& argument) {
    auto output = inputs_.run_program(argument.substr(kProgram.size()));
    if (!output) return report(std::move(output.error()));
    in_format("an inventory program's JSON", [&] {
      auto root = parse_json(*output, argument);
      if (!root) return report(std::move(root.error()));
      reader_.read_ansible_json(*root);
    });
    remember_vars_beside(argument.substr(kProgram.size()));
  }

  void add_text(Result<std::string> text, const std::string& name) {
    if (!text) return report(std::move(text.error()));
    if (is_encrypted(*text))
      return report({ErrorKind::unsupported,
                     "the inventory is encrypted with ansible-vault, which trueup cannot read",
                     SourcePos{name, 1, 1},
                     {},
                     "decrypt it, or give its host names as -i host1,host2,"});
    if (!looks_like_yaml(*text)) {
      in_format("Ansible's INI", [&] { reader_.read_ansible_ini(*text, name); });
      return remember_vars_beside(name);
    }
    auto root = parse_yaml(*text, name);
    if (!root) return in_format("YAML", [&] { report(std::move(root.error())); });
    switch (format_of(*root)) {
      case YamlFormat::ours:
        return in_format("trueup's YAML", [&] { reader_.read_ours(*root); });
      case YamlFormat::ansible:
        in_format("Ansible's YAML", [&] { reader_.read_ansible_yaml(*root); });
        break;
      case YamlFormat::program:
        in_format("an inventory program's JSON", [&] { reader_.read_ansible_json(*root); });
        break;
    }
    remember_vars_beside(name);
  }

  void remember_vars_beside(const std::string& path) {
    const auto directory = directory_of(path);
    if (path != "<stdin>" &&
        std::find(vars_directories_.begin(), vars_directories_.end(), directory) == vars_directories_.end())
      vars_directories_.push_back(directory);
  }

  void add_vars_files(const std::string& directory) {
    const auto add_all = [&](const std::string& folder, auto& things) {
      const auto names = inputs_.files.list(folder);
      const std::set<std::string> present(names.begin(), names.end());
      for (auto& thing : things) {
        // The first that exists counts, as with Ansible.
        for (const auto* extension : {"", ".yml", ".yaml", ".json"}) {
          const auto name = thing.name + extension;
          if (!present.contains(name)) continue;
          add_vars(folder + "/" + name, thing.from_files);
          break;
        }
      }
    };
    add_all(directory + "group_vars", draft_.all_groups());
    add_all(directory + "host_vars", draft_.all_hosts());
  }

  // A file of variables, or a directory of such files and directories.
  void add_vars(const std::string& path, HostSettings& settings, int depth = 0) {
    constexpr int kDeepest = 20;
    if (inputs_.files.is_directory(path) && depth < kDeepest) {
      for (const auto& name : inputs_.files.list(path)) {
        const auto dot = name.rfind('.');
        const auto extension = dot == name.npos ? std::string() : name.substr(dot);
        const bool readable = extension.empty() || extension == ".yml" || extension == ".yaml" || extension == ".json";
        if (readable && name.front() != '.' && name.back() != '~') add_vars(path + "/" + name, settings, depth + 1);
      }
      return;
    }
    const auto text = inputs_.files.read(path);
    if (!text) return report(text.error());
    if (is_encrypted(*text)) {
      notes_.push_back(fmt::format("{}: encrypted with ansible-vault, not read", path));
      return;
    }
    in_format("Ansible's variables", [&] {
      const auto root = parse_yaml(*text, path);
      if (!root) return report(root.error());
      settings_.read_ansible(ansible_vars(*root, "variables", settings_), settings);
    });
  }

  const InventoryInputs& inputs_;
  Errors& errors_;
  SettingsReader settings_;
  InventoryDraft draft_;
  InventoryReader reader_;
  std::vector<std::string> vars_directories_;
  std::vector<std::string> notes_;
};

}  // namespace

Inventory load_inventory(const std::vector<std::string>& arguments, const InventoryInputs& inputs, Errors& errors) {
  if (arguments.empty()) return local_inventory();
  InventoryLoader loader(inputs, errors);
  for (const auto& argument : arguments) loader.add(argument);
  return loader.finish();
}

}  // namespace trueup
