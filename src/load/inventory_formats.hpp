#pragma once

#include <string>
#include <string_view>

#include "load/inventory_draft.hpp"

// One function per format: text or tree in, hosts and groups into the draft. Grammars stand above their definitions.

namespace trueup {

struct InventoryReader {
  InventoryDraft& draft;
  const SettingsReader& settings;

  void read_ours(const YamlNode& root) const;
  void read_ansible_yaml(const YamlNode& root) const;
  /// What an inventory program prints for `--list`.
  void read_ansible_json(const YamlNode& root) const;
  void read_ansible_ini(std::string_view text, const std::string& file) const;
  /// `host1,host2,`
  void read_list(std::string_view list, const std::string& file) const;

  /// Hosts as Ansible's formats name them, `name:port` included, with what stands beside them.
  void add_ansible_host(DraftGroup* group, std::string_view name, const SourcePos& at, const AnsibleVars& vars) const;
  /// A group's variables; `ansible_group_priority` is its own.
  void add_ansible_vars(DraftGroup& group, AnsibleVars vars) const;
};

/// What a vars file or a `vars:` mapping holds; anything else is reported.
AnsibleVars ansible_vars(const YamlNode& node, std::string_view what, const SettingsReader& settings);

}  // namespace trueup
