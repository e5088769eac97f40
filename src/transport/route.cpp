#include "transport/route.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/text.hpp"
#include "load/inventory_settings.hpp"
#include "transport/tokens.hpp"

namespace trueup::ssh {
namespace {

Result<std::string> expand_path(std::string_view text, const Tokens& tokens, const LocalSide& local) {
  auto path = expand(text, tokens, local.environment);
  if (!path || !path->starts_with('~')) return path;
  if (*path != "~" && !path->starts_with("~/"))
    return fail(ErrorKind::unsupported, "only '~/' is understood, no other account's directory");
  return local.home + path->substr(1);
}

class Maker {
 public:
  Maker(const HostConfig& config, const LocalSide& local) : config_(config), local_(local) {}

  Result<Route> make() {
    for (const auto& [keyword, settings] : config_.settings)
      if (!settings.front().at.file.empty()) route_.said_at[keyword] = settings.front().at;
    const auto name = host_name(config_);
    if (!name) return failed(Keyword::host_name, name.error().message);
    route_.address = to_lower(*name);
    route_.user = text(Keyword::user, local_.user);
    if (const auto* port = find(Keyword::port)) route_.port = static_cast<std::uint16_t>(std::stoi(port->value));
    if (const auto why = why_no_host_name(route_.address); !why.empty()) return failed(Keyword::host_name, why);
    if (const auto why = why_no_user_name(route_.user); !why.empty()) return failed(Keyword::user, why);
    route_.host_key_alias = text(Keyword::host_key_alias, "");
    read_plain_settings();
    fill_tokens();
    if (auto wrong = read_proxy()) return fail(*std::move(wrong));
    tokens_['j'] = route_.jumps.empty() ? "" : route_.jumps.back().host;
    if (auto wrong = read_keys()) return fail(*std::move(wrong));
    if (auto wrong = read_known_hosts(Keyword::user_known_hosts, route_.user_known_hosts)) return fail(*wrong);
    if (auto wrong = read_known_hosts(Keyword::global_known_hosts, route_.global_known_hosts)) return fail(*wrong);
    if (auto wrong = read_methods()) return fail(*std::move(wrong));
    return std::move(route_);
  }

 private:
  const Setting* find(Keyword keyword) const { return config_.find(keyword); }
  bool is_yes(Keyword keyword) const { return text(keyword, "no") == "yes"; }
  std::string text(Keyword keyword, std::string otherwise) const {
    const auto* said = find(keyword);
    return said == nullptr ? std::move(otherwise) : said->value;
  }

  Error wrong(Keyword keyword, const Setting& said, std::string_view why) const {
    return {ErrorKind::malformed,
            fmt::format("'{} {}': {}", to_string(keyword), printable(said.value), why),
            said.at.file.empty() ? std::nullopt : std::optional(said.at),
            {},
            {}};
  }
  tl::unexpected<Error> failed(Keyword keyword, std::string_view why) const {
    const auto* said = find(keyword);
    return fail(said == nullptr ? Error{ErrorKind::malformed, std::string(why), {}, {}, {}}
                                : wrong(keyword, *said, why));
  }

  void read_plain_settings() {
    route_.identities_only = is_yes(Keyword::identities_only);
    route_.hash_known_hosts = is_yes(Keyword::hash_known_hosts);
    route_.bind_address = text(Keyword::bind_address, "");
    if (const auto* timeout = find(Keyword::connect_timeout); timeout != nullptr && timeout->value != "none")
      if (const auto seconds = std::stoll(timeout->value); seconds > 0)
        route_.connect_timeout = std::chrono::seconds(seconds);
    if (const auto* attempts = find(Keyword::connection_attempts))
      route_.connection_attempts = std::max(1, std::stoi(attempts->value));
    const auto family = text(Keyword::address_family, "any");
    route_.family = family == "inet"    ? AddressFamily::ipv4
                    : family == "inet6" ? AddressFamily::ipv6
                                        : AddressFamily::any;
  }

  void fill_tokens() {
    proxy_tokens_ = {{'%', "%"},
                     {'h', route_.address},
                     {'n', config_.original},
                     {'p', std::to_string(route_.port)},
                     {'r', route_.user}};
    tokens_ = proxy_tokens_;
    tokens_['d'] = local_.home;
    tokens_['i'] = std::to_string(local_.uid);
    tokens_['k'] = route_.host_key_alias.empty() ? config_.original : route_.host_key_alias;
    tokens_['L'] = local_.host.substr(0, local_.host.find('.'));
    tokens_['l'] = local_.host;
    tokens_['u'] = local_.user;
  }

  std::optional<Error> read_proxy() {
    if (const auto* command = find(Keyword::proxy_command); command != nullptr && to_lower(command->value) != "none") {
      auto expanded = expand(command->value, proxy_tokens_);
      if (!expanded) return wrong(Keyword::proxy_command, *command, expanded.error().message);
      // A shell reads it.
      auto others = proxy_tokens_;
      others['r'] = "somebody";
      if (route_.user.find_first_of("$\\") != std::string::npos && expand(command->value, others) != expanded)
        return wrong(Keyword::proxy_command, *command,
                     fmt::format("'%r' is {}, which a shell would take for something else", printable(route_.user)));
      route_.proxy_command = *std::move(expanded);
    }
    if (const auto* jump = find(Keyword::proxy_jump); jump != nullptr && to_lower(jump->value) != "none") {
      const auto expanded = expand(jump->value, proxy_tokens_);
      if (!expanded) return wrong(Keyword::proxy_jump, *jump, expanded.error().message);
      auto hops = parse_hops(*expanded);
      if (!hops) return wrong(Keyword::proxy_jump, *jump, hops.error().message);
      route_.jumps = *std::move(hops);
    }
    return std::nullopt;
  }

  std::optional<Error> read_keys() {
    if (const auto files = config_.settings.find(Keyword::identity_file); files != config_.settings.end())
      for (const auto& file : files->second) {
        route_.keys_said = true;
        if (to_lower(file.value) == "none") continue;
        auto path = expand_path(file.value, tokens_, local_);
        if (!path) return wrong(Keyword::identity_file, file, path.error().message);
        route_.keys.push_back(*std::move(path));
      }
    const auto* agent = find(Keyword::identity_agent);
    if (agent == nullptr || agent->value == "SSH_AUTH_SOCK") return std::nullopt;
    if (to_lower(agent->value) == "none") {
      route_.agent_socket = "";
    } else if (agent->value.starts_with('$') && !agent->value.starts_with("${")) {
      const auto value = local_.environment ? local_.environment(agent->value.substr(1)) : std::nullopt;
      route_.agent_socket = value.value_or("");
    } else {
      auto path = expand_path(agent->value, tokens_, local_);
      if (!path) return wrong(Keyword::identity_agent, *agent, path.error().message);
      route_.agent_socket = *std::move(path);
    }
    return std::nullopt;
  }

  std::optional<Error> read_known_hosts(Keyword keyword, std::optional<std::vector<std::string>>& into) {
    const auto files = config_.settings.find(keyword);
    if (files == config_.settings.end()) return std::nullopt;
    auto& paths = into.emplace();
    for (const auto& file : files->second) {
      if (to_lower(file.value) == "none") continue;
      auto path = keyword == Keyword::user_known_hosts ? expand_path(file.value, tokens_, local_)
                                                       : Result<std::string>(file.value);
      if (!path) return wrong(keyword, file, path.error().message);
      paths.push_back(*std::move(path));
    }
    return std::nullopt;
  }

  // Keys are all that we log in with.
  std::optional<Error> read_methods() const {
    constexpr std::string_view kOnly = "trueup logs in by key only";
    if (const auto* pubkey = find(Keyword::pubkey_authentication);
        pubkey != nullptr && (pubkey->value == "no" || pubkey->value == "false"))
      return wrong(Keyword::pubkey_authentication, *pubkey, kOnly);
    const auto* methods = find(Keyword::preferred_authentications);
    if (methods == nullptr) return std::nullopt;
    const auto list = split(methods->value, ',');
    if (std::find(list.begin(), list.end(), "publickey") != list.end()) return std::nullopt;
    return wrong(Keyword::preferred_authentications, *methods, kOnly);
  }

  const HostConfig& config_;
  const LocalSide& local_;
  Route route_;
  Tokens tokens_, proxy_tokens_;
};

Result<Hop> parse_hop(std::string_view text) {
  const auto given = text;
  Hop hop;
  if (to_lower(text.substr(0, 6)) == "ssh://") text.remove_prefix(6);
  if (text.ends_with('/')) text.remove_suffix(1);
  if (const auto at = text.rfind('@'); at != text.npos) {
    hop.user = text.substr(0, at);
    text.remove_prefix(at + 1);
    if (const auto why = why_no_user_name(*hop.user); !why.empty()) return fail(ErrorKind::malformed, why);
  }
  auto port = std::string_view();
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == text.npos) return fail(ErrorKind::malformed, fmt::format("'{}' lacks a ']'", printable(given)));
    if (text.substr(end + 1).starts_with(':')) port = text.substr(end + 2);
    text = text.substr(1, end - 1);
  } else if (const auto colon = text.find(':'); colon != text.npos && text.find(':', colon + 1) == text.npos) {
    port = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  hop.host = text;
  if (const auto why = why_no_host_name(hop.host); !why.empty()) return fail(ErrorKind::malformed, why);
  if (port.empty()) return hop;
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number == 0)
    return fail(ErrorKind::malformed, fmt::format("'{}' has no port from 1 to 65535", printable(given)));
  hop.port = number;
  return hop;
}

}  // namespace

std::string to_string(const Hop& hop) {
  const bool brackets = hop.port && hop.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}", hop.user ? *hop.user + "@" : "", brackets ? "[" + hop.host + "]" : hop.host,
                     hop.port ? fmt::format(":{}", *hop.port) : "");
}

Result<std::vector<Hop>> parse_hops(std::string_view text) {
  std::vector<Hop> hops;
  for (const auto part : split(text, ',')) {
    auto hop = parse_hop(trim(part));
    if (!hop) return fail(hop.error());
    hops.push_back(*std::move(hop));
  }
  return hops;
}

std::string Route::origins(std::initializer_list<Keyword> keywords) const {
  std::vector<std::string> texts;
  for (const auto keyword : keywords)
    if (const auto at = said_at.find(keyword); at != said_at.end())
      texts.push_back(fmt::format("{} from {}", ssh::to_string(keyword), trueup::to_string(at->second)));
  return join(texts, ", ");
}

Result<Route> make_route(const HostConfig& config, const LocalSide& local) { return Maker(config, local).make(); }

}  // namespace trueup::ssh
