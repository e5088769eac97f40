#include <fmt/format.h>

#include <map>

#include "base/text.hpp"
#include "load/inventory_formats.hpp"

namespace trueup {
namespace {

// The names in a list, with their positions. One text stands for a list of one.
std::vector<Mention> mentions(YamlMap& map, std::string_view key) {
  const auto* node = map.get(key);
  std::vector<Mention> mentions;
  if (node == nullptr) return mentions;
  if (node->is_map()) map.error(node->at, fmt::format("'{}': expected a list of names, got a mapping", key));
  if (node->is_scalar()) mentions.push_back({node->scalar, node->at});
  for (const auto& item : node->items) {
    if (item.is_scalar())
      mentions.push_back({item.scalar, item.at});
    else
      map.error(item.at, fmt::format("'{}': expected a name, got {}", key, item.describe()));
  }
  return mentions;
}

}  // namespace

// hosts: {NAME or RANGE: {settings, vars}}   groups: {NAME: {hosts: [..], children: [..], settings, vars}}   defaults:
// {..} The settings are the same everywhere; only a single host has an address.
void InventoryReader::read_ours(const YamlNode& root) const {
  YamlMap top(root, "inventory", settings.errors);

  if (const auto* hosts = top.get("hosts")) {
    YamlMap(*hosts, "hosts", settings.errors);
    std::map<std::string, SourcePos> seen;
    for (std::size_t i = 0; i < hosts->members.size(); ++i) {
      const auto& [name, node] = hosts->members[i];
      const auto& at = hosts->key_positions[i];
      const auto made = draft.hosts(name, at);
      YamlMap map(node, fmt::format("host {}", printable(name)), settings.errors);
      HostSettings said;
      settings.read_ours(map, node, true, said);
      if (const auto* address = node.find("address"); address != nullptr && made.size() > 1)
        map.error(address->at, fmt::format("'address': {} hosts cannot have one address", made.size()));
      map.finish();
      for (auto* host : made) {
        if (const auto [first, is_new] = seen.try_emplace(host->name, at); !is_new)
          settings.error(at, fmt::format("host '{}' stands twice, first at {}", host->name, to_string(first->second)));
        host->own.override_with(said);
      }
    }
  }

  if (const auto* groups = top.get("groups")) {
    YamlMap(*groups, "groups", settings.errors);
    for (std::size_t i = 0; i < groups->members.size(); ++i) {
      const auto& [name, node] = groups->members[i];
      const auto& at = groups->key_positions[i];
      if (name == "all" || name == "ungrouped") {
        settings.error(
            at, fmt::format("group '{}' is always there; what holds for every host stands under 'defaults'", name));
        continue;
      }
      auto* group = draft.defined_group(name, at);
      YamlMap map(node, fmt::format("group {}", printable(name)), settings.errors);
      HostSettings said;
      const auto hosts = mentions(map, "hosts");
      const auto children = mentions(map, "children");
      settings.read_ours(map, node, false, said);
      map.finish();
      if (group == nullptr) continue;
      for (const auto& mention : hosts)
        for (auto& host : draft.expand(mention.name, mention.at)) group->hosts.push_back({std::move(host), mention.at});
      group->children.insert(group->children.end(), children.begin(), children.end());
      group->own.override_with(said);
    }
  }

  if (const auto* defaults = top.get("defaults")) {
    YamlMap map(*defaults, "defaults", settings.errors);
    settings.read_ours(map, *defaults, false, draft.all_groups().front().own);
    map.finish();
  }
  top.finish();
}

}  // namespace trueup
