#include "transport/route.hpp"

#include "base/text.hpp"
#include "support/catch.hpp"

using namespace trueup;
using namespace trueup::ssh;

namespace {

LocalSide local() {
  return {"me", "/home/me", "desk.example.com", 1000, [](const std::string& name) {
            return name == "AGENT" ? std::optional<std::string>("/run/agent") : std::nullopt;
          }};
}

HostConfig config(std::map<Keyword, std::string> said) {
  HostConfig config;
  config.original = "GPU1";
  int line = 0;
  for (const auto& [keyword, value] : said) {
    ++line;
    for (const auto word : split(value, '|'))
      config.settings[keyword].push_back({std::string(word), {"config", line, 0}});
  }
  return config;
}

std::string error_of(std::map<Keyword, std::string> said) {
  const auto route = make_route(config(std::move(said)), local());
  return route ? "no error" : to_string(route.error());
}

std::string hops_of(std::string_view text) {
  const auto hops = parse_hops(text);
  if (!hops) return hops.error().message;
  std::string texts;
  for (const auto& hop : *hops) texts += "<" + to_string(hop) + ">";
  return texts;
}

}  // namespace

TEST_CASE("without any setting a route is the name itself, as the account that runs", "[unit][transport][route]") {
  const auto route = make_route(config({}), local());
  REQUIRE(route);
  CHECK(route->address == "gpu1");
  CHECK(route->port == 22);
  CHECK(route->user == "me");
  CHECK_FALSE(route->keys_said);
  CHECK_FALSE(route->agent_socket);
  CHECK_FALSE(route->user_known_hosts);
  CHECK(route->origins({Keyword::host_name, Keyword::port}).empty());
}

TEST_CASE("tokens, home and variables are filled in", "[unit][transport][route]") {
  const auto route = make_route(config({{Keyword::host_name, "%h.example.com"},
                                        {Keyword::identity_agent, "$AGENT"},
                                        {Keyword::identity_file, "~/.ssh/%n|%d/%r-%p|none"},
                                        {Keyword::port, "2222"},
                                        {Keyword::proxy_command, "nc -x %% %h %p %r %n"},
                                        {Keyword::user, "ops"},
                                        {Keyword::user_known_hosts, "~/%k|${AGENT}/%L/%l/%u/%i"}}),
                                local());
  REQUIRE(route);
  CHECK(route->address == "gpu1.example.com");
  CHECK(route->agent_socket == "/run/agent");
  CHECK(route->keys == std::vector<std::string>{"/home/me/.ssh/GPU1", "/home/me/ops-2222"});
  CHECK(route->proxy_command == "nc -x % gpu1.example.com 2222 ops GPU1");
  CHECK(*route->user_known_hosts ==
        std::vector<std::string>{"/home/me/GPU1", "/run/agent/desk/desk.example.com/me/1000"});
  CHECK(route->origins({Keyword::host_name, Keyword::host_key_alias, Keyword::port}) ==
        "HostName from config:1, Port from config:4");
}

TEST_CASE("an agent may be named in five ways", "[unit][transport][route]") {
  const auto socket = [](const std::string& said) {
    const auto route = make_route(config({{Keyword::identity_agent, said}}), local());
    if (!route) return to_string(route.error());
    return route->agent_socket ? "'" + *route->agent_socket + "'" : std::string("the environment's");
  };
  CHECK(socket("SSH_AUTH_SOCK") == "the environment's");
  CHECK(socket("none") == "''");
  CHECK(socket("$AGENT") == "'/run/agent'");
  CHECK(socket("$NO_AGENT") == "''");
  CHECK(socket("~/agent.%u") == "'/home/me/agent.me'");
}

TEST_CASE("what cannot be a route is told with its place", "[unit][transport][route]") {
  CHECK(error_of({{Keyword::identity_file, "/%z"}}) ==
        "config:1: 'IdentityFile /%z': '%z' means nothing there; there are %%, %L, %d, %h, %i, %j, %k, %l, %n, %p, %r, "
        "%u");
  CHECK(error_of({{Keyword::identity_file, "${NO}"}}) == "config:1: 'IdentityFile ${NO}': the variable NO is not set");
  CHECK(error_of({{Keyword::identity_file, "~root/x"}}) ==
        "config:1: 'IdentityFile ~root/x': only '~/' is understood, no other account's directory");
  CHECK(error_of({{Keyword::host_name, "-oProxyCommand=x"}}) ==
        "config:1: 'HostName -oProxyCommand=x': host name '-oproxycommand=x' begins with '-'");
  CHECK(error_of({{Keyword::user, "-x"}}) == "config:1: 'User -x': user name '-x' begins with '-'");
  CHECK(error_of({{Keyword::proxy_jump, "a,-b"}}) == "config:1: 'ProxyJump a,-b': host name '-b' begins with '-'");
  CHECK(error_of({{Keyword::proxy_command, "nc %u"}}) ==
        "config:1: 'ProxyCommand nc %u': '%u' means nothing there; there are %%, %h, %n, %p, %r");
  CHECK(error_of({{Keyword::host_name, "%u.example"}}) ==
        "config:1: 'HostName %u.example': '%u' means nothing there; there are %%, %h");
  CHECK(error_of({{Keyword::user, "a$HOME"}, {Keyword::proxy_command, "nc %r"}}) ==
        "config:1: 'ProxyCommand nc %r': '%r' is a$HOME, which a shell would take for something else");
  CHECK(error_of({{Keyword::user, "a$HOME"}, {Keyword::proxy_command, "nc %h"}}) == "no error");
  CHECK(error_of({{Keyword::pubkey_authentication, "no"}}) ==
        "config:1: 'PubkeyAuthentication no': trueup logs in by key only");
  CHECK(error_of({{Keyword::preferred_authentications, "password,keyboard-interactive"}}) ==
        "config:1: 'PreferredAuthentications password,keyboard-interactive': trueup logs in by key only");
  CHECK(error_of({{Keyword::preferred_authentications, "gssapi-with-mic,publickey"}}) == "no error");
}

TEST_CASE("hops are read as ssh reads them", "[unit][transport][route]") {
  CHECK(hops_of("b") == "<b>");
  CHECK(hops_of("me@b:2222, c") == "<me@b:2222><c>");
  CHECK(hops_of("ssh://me@b:2222/") == "<me@b:2222>");
  CHECK(hops_of("[2001:db8::1]:23,2001:db8::2") == "<[2001:db8::1]:23><2001:db8::2>");
  CHECK(hops_of("a@b@c") == "<a@b@c>");
  CHECK(hops_of("") == "host name is empty");
  CHECK(hops_of("b:0") == "'b:0' has no port from 1 to 65535");
  CHECK(hops_of("[b") == "'[b' lacks a ']'");
  CHECK(hops_of("b,,c") == "host name is empty");
}
