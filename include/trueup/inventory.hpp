#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/result.hpp"

namespace trueup {

enum class TransportKind { ssh, local };
enum class Become { none, sudo, doas };

/// Somebody who would compile or load CUDA code and whom no unit or process shows: a Slurm job, a shared environment.
struct DeclaredConsumer {
  std::string name;
  std::string python;                      ///< absolute path of an interpreter, or of the environment's directory
  std::string user;                        ///< account it runs as; empty: unknown, HOME cannot be told
  std::map<std::string, std::string> env;  ///< what it sets beyond the host's default environment

  friend bool operator==(const DeclaredConsumer&, const DeclaredConsumer&) = default;
};

/// One host, with everything that groups and defaults give it already applied.
struct Host {
  std::string name;                         ///< as the inventory calls it; unique; never begins with '-'
  std::string address;                      ///< name or address to connect to; ssh_config may have another one for it
  std::uint16_t port = 22;                  ///< 0: ssh_config's, else 22
  std::optional<std::string> user;          ///< absent: ssh_config's, else the user who runs trueup
  std::vector<std::string> keys;            ///< private key files; empty: ssh_config's, else the usual ones
  std::vector<std::string> known_hosts;     ///< files; empty: those of ssh_config, else the usual ones
  Become become = Become::none;
  std::string become_user = "root";
  TransportKind transport = TransportKind::ssh;
  std::vector<std::string> groups;          ///< all that contain it, nearest first, `all` left out
  std::vector<DeclaredConsumer> consumers;
  std::map<std::string, std::string> refused;  ///< setting -> why it cannot be used (a vault value, Jinja); not empty:
                                               ///< refused when the host is selected
  SourcePos at;                             ///< where it was first named
};

struct Group {
  std::string name;
  std::vector<std::string> hosts;     ///< direct members
  std::vector<std::string> children;  ///< groups in it
  std::map<std::string, nlohmann::json> vars;  ///< its own, not those of groups around it
};

struct Inventory {
  std::vector<Host> hosts;    ///< in the order of the inventory
  std::vector<Group> groups;  ///< without `all`, which contains every host
  std::map<std::string, nlohmann::json> vars;  ///< host -> its variables, groups applied
  std::vector<std::string> notes;  ///< what was left unread, for people: "group_vars/all/vault.yml: encrypted ..."
};

/// The hosts that `pattern` selects, in inventory order. Pattern: Ansible's. `a,b` or `a:b` union, `:&g` intersection,
/// `:!x` exclusion, `*?[]` globs over host and group names, ranges `gpu[001:100]`, `all`. Errors: a name that is
/// neither host nor group, with the nearest right one.
Result<std::vector<Host>> select_hosts(const Inventory& inventory, std::string_view pattern);

/// The inventory of nothing configured: `localhost` over the local transport.
Inventory local_inventory();

}  // namespace trueup
