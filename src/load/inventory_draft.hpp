#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "load/inventory_settings.hpp"
#include "trueup/inventory.hpp"

namespace trueup {

/// A name used where it should be known.
struct Mention {
  std::string name;
  SourcePos at;
};

struct DraftHost {
  std::string name;
  SourcePos at;
  HostSettings own;         ///< beside its name
  HostSettings from_files;  ///< host_vars/
};

struct DraftGroup {
  std::string name;
  SourcePos at;
  bool defined = false;  ///< false: only variables were given to it so far
  long priority = 1;     ///< ansible_group_priority
  std::vector<Mention> hosts;
  std::vector<Mention> children;
  HostSettings own;         ///< in the inventory itself
  HostSettings from_files;  ///< group_vars/
};

/// Where all formats and all files of a run meet: hosts and groups as they were named, not yet checked against each
/// other.
class InventoryDraft {
 public:
  explicit InventoryDraft(const SettingsReader& reader);

  /// The names that `pattern` stands for; what is wrong with it is reported, and gives none.
  std::vector<std::string> expand(std::string_view pattern, const SourcePos& at);
  /// The hosts that `pattern` stands for, made where they are new.
  std::vector<DraftHost*> hosts(std::string_view pattern, const SourcePos& at);
  /// The group of that name, made where it is new; null for a name that no group can have (reported).
  DraftGroup* group(std::string_view name, const SourcePos& at);
  DraftGroup* defined_group(std::string_view name, const SourcePos& at);

  std::deque<DraftHost>& all_hosts() { return hosts_; }
  std::deque<DraftGroup>& all_groups() { return groups_; }

  /// Checks that all names are known and no group contains itself, and applies the precedence.
  Inventory finish();

 private:
  struct Family;
  void report_overfull(std::string message, const SourcePos& at);
  void check_names();
  bool find_parents(Family& family);

  const SettingsReader& reader_;
  std::deque<DraftHost> hosts_;
  std::deque<DraftGroup> groups_;  ///< `all` and `ungrouped` first
  std::unordered_map<std::string, std::size_t> host_index_;
  std::unordered_map<std::string, std::size_t> group_index_;
  std::size_t names_ = 0;  ///< expanded so far, hosts named twice included
  bool overfull_ = false;  ///< more than we take; reported
};

}  // namespace trueup
