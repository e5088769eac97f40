#include "load/inventory_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/text.hpp"

namespace trueup {
namespace {

constexpr std::string_view kAlphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

bool is_alphanumeric(char c) { return kAlphanumeric.find(c) != kAlphanumeric.npos; }

// Empty: `text` may be a name of `what` kind.
std::string why_no_name(std::string_view what, std::string_view text, std::string_view also_first,
                        std::string_view also) {
  const auto shown = shorten(printable(text), 60);
  if (text.empty()) return fmt::format("{} is empty", what);
  if (text.front() == '-') return fmt::format("{} '{}' begins with '-'", what, shown);
  for (const char& c : text)
    if (!is_alphanumeric(c) && (&c == text.data() ? also_first : also).find(c) == also.npos)
      return fmt::format("{} '{}': '{}' cannot stand there", what, shown, printable(std::string_view(&c, 1)));
  return {};
}

// A value that only Ansible itself could turn into one, and where it stands.
struct Unusable {
  std::string_view what;
  SourcePos at;
};

std::optional<Unusable> find_unusable(const YamlNode& node) {
  if (node.tag.rfind("!vault", 0) == 0 || node.scalar.rfind("$ANSIBLE_VAULT", 0) == 0)
    return Unusable{"an encrypted (vault) value", node.at};
  if (node.tag != "!unsafe" &&
      (node.scalar.find("{{") != std::string::npos || node.scalar.find("{%") != std::string::npos))
    return Unusable{"a Jinja expression", node.at};
  for (const auto& item : node.items)
    if (auto found = find_unusable(item)) return found;
  for (const auto& [key, member] : node.members)
    if (auto found = find_unusable(member)) return found;
  return std::nullopt;
}

// One setting as it stands in an inventory.
struct Value {
  std::string_view name;  // as it is spelled there
  const YamlNode& node;
  bool ours;
  const SettingsReader& reader;

  void error(const SourcePos& at, std::string_view expected, const YamlNode& found) const {
    reader.error(at, fmt::format("'{}': expected {}, got {}", name, expected, found.describe()));
  }

  std::optional<std::string> text(std::string_view expected) const {
    if (node.is_scalar()) return node.scalar;
    error(node.at, expected, node);
    return std::nullopt;
  }

  std::optional<bool> flag() const {
    const auto word = to_lower(node.scalar);
    for (const std::string_view yes : {"true", "yes", "on", "1"})
      if (word == yes) return true;
    for (const std::string_view no : {"false", "no", "off", "0"})
      if (word == no) return false;
    error(node.at, "true or false", node);
    return std::nullopt;
  }

  std::optional<std::string> account() const {
    auto name_given = text("a user name");
    if (!name_given) return std::nullopt;
    if (const auto why = why_no_user_name(*name_given); !why.empty()) {
      reader.error(node.at, fmt::format("'{}': {}", name, why));
      return std::nullopt;
    }
    return name_given;
  }

  // In our files a relative path starts at the file; in Ansible's, as with ansible itself, at the working directory.
  std::string path(const std::string& given, const SourcePos& at) const {
    if (given == "~" || given.rfind("~/", 0) == 0) return reader.home + given.substr(1);
    const auto slash = at.file.rfind('/');
    if (!ours || given.rfind('/', 0) == 0 || slash == std::string::npos) return given;
    return at.file.substr(0, slash + 1) + given;
  }

  std::vector<std::string> paths() const {
    std::vector<std::string> paths;
    const auto add = [&](const YamlNode& item) {
      if (!item.is_scalar() || item.scalar.empty() || item.scalar.front() == '-')
        error(item.at, "a path", item);
      else
        paths.push_back(path(item.scalar, item.at));
    };
    if (node.is_sequence())
      std::for_each(node.items.begin(), node.items.end(), add);
    else
      add(node);
    return paths;
  }
};

void read_address(const Value& value, HostSettings& settings) {
  const auto address = value.text("a host name or address");
  if (!address) return;
  if (const auto why = why_no_host_name(*address); !why.empty())
    return value.reader.error(value.node.at, fmt::format("'{}': {}", value.name, why));
  settings.address = *address;
}

void read_port(const Value& value, HostSettings& settings) {
  const auto& text = value.node.scalar;
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0)
    return value.error(value.node.at, "a port from 1 to 65535", value.node);
  settings.port = port;
}

void read_user(const Value& value, HostSettings& settings) {
  if (auto user = value.account()) settings.user = std::move(user);
}

void read_key(const Value& value, HostSettings& settings) { settings.keys = value.paths(); }

void read_known_hosts(const Value& value, HostSettings& settings) { settings.known_hosts = value.paths(); }

void read_become_method(const Value& value, HostSettings& settings) {
  const auto method = value.text("sudo or doas");
  if (!method) return;
  const auto word = method->substr(method->rfind('.') + 1);  // community.general.doas
  if (word == "sudo" || word == "doas")
    settings.become_method = word == "sudo" ? Become::sudo : Become::doas;
  else
    settings.said["become_method"] = fmt::format("{}: '{}' is '{}', and trueup knows sudo and doas",
                                                 to_string(value.node.at), value.name, printable(*method));
}

void read_become(const Value& value, HostSettings& settings) {
  if (value.ours && value.node.is_scalar()) {
    const auto& word = value.node.scalar;
    if (word == "sudo" || word == "doas") {
      settings.become = true;
      settings.become_method = word == "sudo" ? Become::sudo : Become::doas;
      settings.said["become_method"] = "";
      return;
    }
    if (word == "none") {
      settings.become = false;
      return;
    }
    if (const auto flag = to_lower(word); flag != "true" && flag != "false" && flag != "yes" && flag != "no")
      return value.reader.error(
          value.node.at,
          fmt::format("'become': expected one of none, sudo, doas, true, false, got {}{}", value.node.describe(),
                      did_you_mean(word, std::array<std::string, 3>{"none", "sudo", "doas"})));
  }
  if (const auto flag = value.flag()) settings.become = flag;
}

void read_become_user(const Value& value, HostSettings& settings) {
  if (auto user = value.account()) settings.become_user = std::move(user);
}

void read_transport(const Value& value, HostSettings& settings) {
  const auto kind = value.text("ssh or local");
  if (!kind) return;
  const auto word = value.ours ? *kind : kind->substr(kind->rfind('.') + 1);  // ansible.builtin.ssh
  if (word == "local")
    settings.transport = TransportKind::local;
  else if (word == "ssh" || (!value.ours && (word == "smart" || word == "paramiko" || word == "paramiko_ssh")))
    settings.transport = TransportKind::ssh;
  else if (value.ours)
    value.error(value.node.at, "ssh or local", value.node);
  else
    settings.said["transport"] = fmt::format("{}: '{}' is '{}', and trueup knows ssh and local",
                                             to_string(value.node.at), value.name, printable(*kind));
}

// Options for the ssh program, which we are not. What says nothing about the way to the host is left aside (host keys
// are checked strictly, whatever stands here); the rest would lead elsewhere, so it is refused.
void read_ssh_arguments(const Value& value, HostSettings& settings) {
  constexpr std::array<std::string_view, 10> kHarmless = {
      "stricthostkeychecking", "controlmaster", "controlpersist", "controlpath",    "serveraliveinterval",
      "serveralivecountmax",   "loglevel",      "compression",    "connecttimeout", "identitiesonly"};
  const auto arguments = value.text("options of ssh");
  if (!arguments) return;
  std::string_view rest = trim(*arguments);
  const auto next_word = [&] {
    const auto word = rest.substr(0, rest.find_first_of(" \t\r\n"));
    rest = trim(rest.substr(word.size()));
    return word;
  };
  while (!rest.empty()) {
    auto word = next_word();
    if (word == "-C") continue;
    if (word == "-o")
      word = next_word();
    else if (word.rfind("-o", 0) == 0)
      word.remove_prefix(2);
    const auto equals = word.find('=');
    const auto option = to_lower(word.substr(0, equals));
    if (equals != word.npos && option == "userknownhostsfile") {
      if (word.substr(equals + 1) == "/dev/null") continue;
      settings.known_hosts = {value.path(std::string(word.substr(equals + 1)), value.node.at)};
      settings.said["known_hosts"] = "";
    } else if (equals == word.npos || std::find(kHarmless.begin(), kHarmless.end(), option) == kHarmless.end()) {
      settings.said[std::string(value.name)] =
          fmt::format("{}: '{}' has '{}', which trueup takes from ~/.ssh/config only", to_string(value.node.at),
                      value.name, printable(word));
      return;
    }
  }
}

void read_consumers(const Value& value, HostSettings& settings) {
  if (!value.node.is_sequence()) return value.error(value.node.at, "a list of mappings", value.node);
  auto& consumers = settings.consumers.emplace();
  std::set<std::string> names;
  for (const auto& item : value.node.items) {
    YamlMap map(item, "consumer", value.reader.errors);
    DeclaredConsumer consumer;
    consumer.name = map.required_text("name");
    if (!consumer.name.empty() && !names.insert(consumer.name).second)
      map.error(item.find("name")->at, fmt::format("'{}' stands twice", printable(consumer.name)));
    consumer.python = map.required_text("python");
    if (!consumer.python.empty() && consumer.python.front() != '/')
      map.error(item.find("python")->at,
                fmt::format("'python': expected an absolute path, got '{}'", printable(consumer.python)));
    if (const auto* user = map.get("user"))
      consumer.user = Value{"user", *user, value.ours, value.reader}.account().value_or("");
    if (const auto* env = map.get("env")) {
      if (!env->is_map()) map.error(env->at, fmt::format("'env': expected a mapping, got {}", env->describe()));
      for (const auto& [name, text] : env->members) {
        if (!text.is_scalar() && !text.is_null())
          map.error(text.at, fmt::format("'env': '{}': expected a text, got {}", printable(name), text.describe()));
        consumer.env[name] = text.scalar;
      }
    }
    map.finish();
    consumers.push_back(std::move(consumer));
  }
}

// Of several spellings Ansible takes the last that has a value: `vars` in its ssh, sudo and doas plugins.
struct Setting {
  std::string_view name;  // ours, and the key in Host::refused
  void (*read)(const Value&, HostSettings&);
  bool in_ours;
  std::array<std::string_view, 2> in_ansible;
};

constexpr std::array<Setting, 13> kSettings = {{
    {"address", read_address, true, {"ansible_host", "ansible_ssh_host"}},
    {"port", read_port, true, {"ansible_port", "ansible_ssh_port"}},
    {"user", read_user, true, {"ansible_user", "ansible_ssh_user"}},
    {"key", read_key, true, {"ansible_private_key_file", "ansible_ssh_private_key_file"}},
    {"known_hosts", read_known_hosts, true, {}},
    {"become", read_become, true, {"ansible_become", "ansible_sudo"}},
    {"become_method", read_become_method, false, {"ansible_become_method"}},
    {"become_user", read_become_user, true, {"ansible_become_user", "ansible_sudo_user"}},
    {"transport", read_transport, true, {"ansible_connection"}},
    {"consumers", read_consumers, true, {"trueup_consumers"}},
    {"ansible_ssh_args", read_ssh_arguments, false, {"ansible_ssh_args"}},
    {"ansible_ssh_common_args", read_ssh_arguments, false, {"ansible_ssh_common_args"}},
    {"ansible_ssh_extra_args", read_ssh_arguments, false, {"ansible_ssh_extra_args"}},
}};

void read(const Setting& setting, const Value& value, HostSettings& settings) {
  HostSettings nearer;
  if (const auto unusable = find_unusable(value.node))
    nearer.said[std::string(setting.name)] =
        fmt::format("{}: '{}' is {}, which trueup cannot read", to_string(unusable->at), value.name, unusable->what);
  else
    setting.read(value, nearer);
  nearer.said.try_emplace(std::string(setting.name));
  settings.override_with(nearer);
}

}  // namespace

std::string why_no_host_name(std::string_view name) { return why_no_name("host name", name, "_:", "_.-:%"); }

std::string why_no_user_name(std::string_view name) { return why_no_name("user name", name, "_.", "_.-@+$\\"); }

void HostSettings::override_with(const HostSettings& nearer) {
  for (const auto& [name, value] : nearer.vars) vars[name] = value;
  if (nearer.said.empty()) return;
  const auto take = [&](std::string_view name, auto& mine, const auto& theirs) {
    if (nearer.said.contains(std::string(name))) mine = theirs;
  };
  take("address", address, nearer.address);
  take("port", port, nearer.port);
  take("user", user, nearer.user);
  take("key", keys, nearer.keys);
  take("known_hosts", known_hosts, nearer.known_hosts);
  take("become", become, nearer.become);
  take("become_method", become_method, nearer.become_method);
  take("become_user", become_user, nearer.become_user);
  take("transport", transport, nearer.transport);
  take("consumers", consumers, nearer.consumers);
  for (const auto& [name, why] : nearer.said) said[name] = why;
}

void HostSettings::apply_to(Host& host) const {
  host.address = address.value_or(host.name);
  host.port = port.value_or(0);
  host.user = user;
  host.keys = keys.value_or(host.keys);
  host.known_hosts = known_hosts.value_or(host.known_hosts);
  host.transport = transport.value_or(host.transport);
  host.become = become.value_or(false) ? become_method.value_or(Become::sudo) : Become::none;
  host.become_user = become_user.value_or(host.become_user);
  host.consumers = consumers.value_or(host.consumers);
  const auto is_refused = [&](const char* name) {
    const auto found = said.find(name);
    return found != said.end() && !found->second.empty();
  };
  // What a host does not use need not be readable.
  const bool local = host.transport == TransportKind::local && !is_refused("transport");
  const bool becomes = host.become != Become::none || is_refused("become");
  for (const auto& [name, why] : said) {
    const bool of_become = name == "become_method" || name == "become_user";
    const bool of_ssh = !of_become && name != "become" && name != "transport" && name != "consumers";
    if (!why.empty() && !(local && of_ssh) && !(!becomes && of_become)) host.refused[name] = why;
  }
}

void SettingsReader::read_ours(YamlMap& map, const YamlNode& node, bool with_address, HostSettings& settings) const {
  for (const auto& setting : kSettings) {
    if (!setting.in_ours) continue;
    if (setting.name == "address" && !with_address) continue;
    if (const auto* value = map.get(setting.name)) read(setting, Value{setting.name, *value, true, *this}, settings);
  }
  map.get("vars");
  const auto* vars = node.find("vars");
  if (vars == nullptr) return;
  YamlMap(*vars, map.what() + ": vars", errors);
  for (const auto& [name, value] : vars->members) settings.vars[name] = yaml_to_json(value);
}

void SettingsReader::read_ansible(const AnsibleVars& vars, HostSettings& settings) const {
  for (const auto& setting : kSettings)
    for (const auto spelling : setting.in_ansible)
      for (const auto& [name, value] : vars)
        if (!spelling.empty() && name == spelling && !value.is_null())
          read(setting, Value{name, value, false, *this}, settings);
  for (const auto& [name, value] : vars) {
    const bool password = name.rfind("ansible_", 0) == 0 && name.find("pass") != std::string::npos;
    if (!password) settings.vars[name] = yaml_to_json(value);
  }
}

}  // namespace trueup
