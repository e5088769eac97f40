#pragma once

#include <functional>
#include <string>
#include <vector>

#include "load/files.hpp"
#include "load/yaml.hpp"
#include "trueup/inventory.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// What loading an inventory may reach, given by the edge.
struct InventoryInputs {
  const FileAccess& files;
  std::string home;                                 ///< for `~/` in paths of key files
  std::function<Result<std::string>()> read_stdin;  ///< for `-i -`
  std::function<Result<std::string>(const std::string&)>
      run_program;  ///< for `-i exec:PATH`: what `PATH --list` prints
};

/// The inventories that `-i` names, merged in their order; none: local_inventory(). An argument is `-`, `exec:PATH`, a
/// list `host1,host2,` (anything with a comma), or a file: ours, Ansible's YAML or INI, told apart by content. Each
/// file of Ansible's brings the group_vars/ and host_vars/ beside it. Formats, keys, precedence: docs/inventory.md.
/// Fills `errors` with everything that is wrong, each at file:line:column, with the format that was assumed.
Inventory load_inventory(const std::vector<std::string>& arguments, const InventoryInputs& inputs, Errors& errors);

}  // namespace trueup
