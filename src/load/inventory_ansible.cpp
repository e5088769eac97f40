#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "load/inventory_formats.hpp"
#include "model/host_range.hpp"

namespace trueup {
namespace {

// `name:port`, `[address]:port`; a bare IPv6 address has more than one colon and so no port.
std::pair<std::string_view, std::optional<std::string_view>> split_port(std::string_view name) {
  const auto parts = split_outside_brackets(name, ':');
  if (parts.size() != 2 || parts[1].empty() || parts[1].find_first_not_of("0123456789") != parts[1].npos)
    return {name, std::nullopt};
  auto host = parts[0];
  if (host.size() > 2 && host.front() == '[' && host.find(']') == host.size() - 1 && host.find(':') != host.rfind(':'))
    host = host.substr(1, host.size() - 2);
  return {host, parts[1]};
}

struct GroupMember {
  std::string name;
  const YamlNode& node;
  SourcePos at;
};

std::vector<GroupMember> members_of(const YamlNode& node) {
  std::vector<GroupMember> members;
  for (std::size_t i = 0; i < node.members.size(); ++i)
    members.push_back({node.members[i].first, node.members[i].second, node.key_positions[i]});
  return members;
}

}  // namespace

AnsibleVars ansible_vars(const YamlNode& node, std::string_view what, const SettingsReader& settings) {
  YamlMap(node, std::string(what), settings.errors);
  return node.members;
}

void InventoryReader::add_ansible_host(DraftGroup* group, std::string_view name, const SourcePos& at,
                                       const AnsibleVars& vars) const {
  const auto [pattern, port] = split_port(name);
  AnsibleVars all;
  if (port)
    all.emplace_back("ansible_port", YamlNode{.kind = YamlNode::Kind::scalar, .scalar = std::string(*port), .at = at});
  all.insert(all.end(), vars.begin(), vars.end());
  HostSettings said;
  settings.read_ansible(all, said);
  for (auto* host : draft.hosts(pattern, at)) {
    host->own.override_with(said);
    if (group != nullptr) group->hosts.push_back({host->name, at});
  }
}

void InventoryReader::add_ansible_vars(DraftGroup& group, AnsibleVars vars) const {
  std::erase_if(vars, [&](const auto& var) {
    if (var.first != "ansible_group_priority") return false;
    const auto& text = var.second.scalar;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), group.priority);
    if (error != std::errc() || end != text.data() + text.size())
      settings.error(var.second.at,
                     fmt::format("'ansible_group_priority': expected a whole number, got {}", var.second.describe()));
    return true;
  });
  settings.read_ansible(vars, group.own);
}

// GROUP: {hosts: {NAME or RANGE: {variables}}, children: {GROUP: ...}, vars: {variables}}; `all` contains every host.
// Source: ansible.builtin.yaml inventory plugin.
void InventoryReader::read_ansible_yaml(const YamlNode& root) const {
  YamlMap(root, "inventory", settings.errors);
  if (const auto* plugin = root.find("plugin"))
    return settings.error(plugin->at,
                          fmt::format("inventory plugin {}: trueup runs no plugins; give it the output of "
                                      "ansible-inventory --list, or a program, as exec:PATH",
                                      plugin->describe()),
                          ErrorKind::unsupported);
  // A group may stand in a group, and so on; parse_yaml bounds the depth.
  const auto read_group = [&](const auto& self, const GroupMember& member) -> void {
    auto* group = draft.defined_group(member.name, member.at);
    YamlMap map(member.node, fmt::format("group {}", printable(member.name)), settings.errors);
    const auto names_in = [&](const char* key) {
      const auto* node = map.get(key);
      std::vector<GroupMember> names;
      if (node == nullptr) return names;
      static const YamlNode nothing;
      if (node->is_scalar()) return std::vector<GroupMember>{{node->scalar, nothing, node->at}};
      YamlMap(*node, fmt::format("{}: '{}'", map.what(), key), settings.errors);
      return members_of(*node);
    };
    const auto hosts = names_in("hosts");
    const auto children = names_in("children");
    const auto* vars = map.get("vars");
    map.finish();
    if (group == nullptr) return;
    for (const auto& host : hosts)
      add_ansible_host(group, host.name, host.at, ansible_vars(host.node, "host " + printable(host.name), settings));
    if (vars != nullptr) add_ansible_vars(*group, ansible_vars(*vars, map.what() + ": 'vars'", settings));
    for (const auto& child : children) {
      group->children.push_back({child.name, child.at});
      self(self, child);
    }
  };
  for (const auto& member : members_of(root)) read_group(read_group, member);
}

// {GROUP: {hosts: [..], vars: {..}, children: [..]} or [host, ...], _meta: {hostvars: {HOST: {variables}}}}
// Source: ansible.builtin.script inventory plugin.
void InventoryReader::read_ansible_json(const YamlNode& root) const {
  YamlMap(root, "inventory", settings.errors);
  for (const auto& member : members_of(root)) {
    if (member.name == "_meta") continue;
    auto* group = draft.defined_group(member.name, member.at);
    if (group == nullptr) continue;
    const auto add_names = [&](const YamlNode& list, const std::string& what, const auto& add) {
      if (!list.is_sequence())
        settings.error(list.at, fmt::format("{}: expected a list of names, got {}", what, list.describe()));
      for (const auto& item : list.items) {
        if (item.is_scalar())
          add(item.scalar, item.at);
        else
          settings.error(item.at, fmt::format("{}: expected a name, got {}", what, item.describe()));
      }
    };
    const auto add_host = [&](const std::string& name, const SourcePos& at) { add_ansible_host(group, name, at, {}); };
    const auto what = fmt::format("group {}", printable(member.name));
    if (member.node.is_sequence()) {
      add_names(member.node, what, add_host);
      continue;
    }
    YamlMap map(member.node, what, settings.errors);
    if (const auto* hosts = map.get("hosts")) add_names(*hosts, what + ": 'hosts'", add_host);
    if (const auto* children = map.get("children"))
      add_names(*children, what + ": 'children'", [&](const std::string& name, const SourcePos& at) {
        draft.defined_group(name, at);
        group->children.push_back({name, at});
      });
    if (const auto* vars = map.get("vars")) add_ansible_vars(*group, ansible_vars(*vars, what + ": 'vars'", settings));
    map.finish();
  }
  const auto* meta = root.find("_meta");
  const auto* hostvars = meta != nullptr ? meta->find("hostvars") : nullptr;
  if (hostvars == nullptr)
    return settings.error(root.at,
                          "'_meta: {hostvars: {...}}' is missing; trueup does not ask for each host with --host");
  YamlMap(*hostvars, "_meta: 'hostvars'", settings.errors);
  for (const auto& host : members_of(*hostvars))
    add_ansible_host(nullptr, host.name, host.at, ansible_vars(host.node, "host " + printable(host.name), settings));
}

void InventoryReader::read_list(std::string_view list, const std::string& file) const {
  for (const auto part : split_outside_brackets(list, ','))
    if (const auto name = trim(part); !name.empty())
      add_ansible_host(nullptr, name, {file, 1, static_cast<int>(name.data() - list.data()) + 1}, {});
}

}  // namespace trueup
