#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "load/yaml.hpp"
#include "trueup/inventory.hpp"

namespace trueup {

/// What one place of an inventory (a host, a group, `defaults`, a file of group_vars/) says about hosts.
struct HostSettings {
  std::optional<std::string> address;
  std::optional<std::uint16_t> port;
  std::optional<std::string> user;
  std::optional<std::vector<std::string>> keys;
  std::optional<std::vector<std::string>> known_hosts;
  std::optional<bool> become;
  std::optional<Become> become_method;
  std::optional<std::string> become_user;
  std::optional<TransportKind> transport;
  std::optional<std::vector<DeclaredConsumer>> consumers;
  std::map<std::string, std::string> said;  ///< setting this place has -> why it cannot be used; empty: it can
  std::map<std::string, nlohmann::json> vars;

  /// Takes over what the nearer place says.
  void override_with(const HostSettings& nearer);

  /// Gives a host what was said about it; `vars` stay here.
  void apply_to(Host& host) const;
};

using AnsibleVars = std::vector<std::pair<std::string, YamlNode>>;

/// Reads settings where they stand; what is wrong there goes to `errors`, once.
struct SettingsReader {
  std::string home;  ///< for `~/` in paths
  Errors& errors;

  /// Our own keys and `vars`; marks them as known in `map`. `with_address`: an address may stand here.
  void read_ours(YamlMap& map, const YamlNode& node, bool with_address, HostSettings& settings) const;

  /// Ansible's variables: those we understand become settings, and all but passwords stay variables.
  void read_ansible(const AnsibleVars& vars, HostSettings& settings) const;

  void error(const SourcePos& at, std::string message, ErrorKind kind = ErrorKind::malformed) const {
    errors.push_back(Error{kind, std::move(message), at, {}, {}});
  }
};

/// Why `name` cannot be a host's name or address: what ssh could take for an option, characters no name has. Empty: it
/// can.
std::string why_no_host_name(std::string_view name);
/// The same for the name of an account.
std::string why_no_user_name(std::string_view name);

}  // namespace trueup
