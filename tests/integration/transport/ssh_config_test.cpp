#include <pwd.h>
#include <unistd.h>

#include <iostream>
#include <map>
#include <set>

#include "base/text.hpp"
#include "integration/transport/sshd.hpp"
#include "support/catch.hpp"
#include "transport/config_files.hpp"

using namespace trueup;
using namespace trueup::ssh;
using namespace trueup::test;

// OpenSSH's own client is the oracle: `ssh -G` says what it makes of a file for a host.

namespace {

using Lines = std::map<std::string, std::vector<std::string>>;

LocalSide me() {
  const auto* const account = ::getpwuid(::getuid());
  return local_side(account->pw_name, account->pw_dir);
}

// Keyword to values, in order; empty: ssh refused the file or the host.
std::optional<Lines> asked_of_ssh(const std::string& file, const std::string& host) {
  std::string text;
  try {
    text = run_program({"ssh", "-G", "-F", file, host}, {"TRUEUP_TEST=/from/environment"});
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
  const std::set<std::string> single = {"proxycommand", "hostname", "user", "hostkeyalias"};
  Lines lines;
  for (auto line : split_lines(text)) {
    const std::string keyword(take_word(line));
    auto& values = lines[keyword];
    if (single.contains(keyword) || keyword == "identityfile")
      values.emplace_back(line);
    else
      for (const auto word : split(line, ' ')) values.emplace_back(word);
  }
  return lines;
}

std::string yes_or_true(const std::string& value) { return value == "yes" ? "true" : value == "no" ? "false" : value; }

// The same words from our reader, for what the file says; empty: we refuse it.
std::optional<Lines> asked_of_us(const std::string& file, const std::string& host) {
  std::vector<Error> errors;
  auto local = me();
  const auto environment = local.environment;
  local.environment = [environment](const std::string& name) {
    return name == "TRUEUP_TEST" ? std::optional<std::string>("/from/environment") : environment(name);
  };
  const auto loaded = load_ssh_config(file, local.home, errors);
  for (const auto& error : errors) UNSCOPED_INFO("our error: " << to_string(error));
  if (!errors.empty()) return std::nullopt;
  const auto config = loaded.evaluate(host, local.user);
  const auto route = make_route(config, local);
  if (!route) UNSCOPED_INFO("our error: " << to_string(route.error()));
  if (!route) return std::nullopt;
  Lines lines;
  const auto add = [&](Keyword keyword, const std::string& name, std::vector<std::string> values) {
    if (config.find(keyword) != nullptr) lines[name] = std::move(values);
  };
  lines["hostname"] = {route->address};
  lines["user"] = {route->user};
  lines["port"] = {std::to_string(route->port)};
  const auto raw = [&](Keyword keyword) {
    std::vector<std::string> values;
    if (const auto found = config.settings.find(keyword); found != config.settings.end())
      for (const auto& setting : found->second) values.push_back(setting.value);
    return values;
  };
  for (const auto& [keyword, name] :
       std::map<Keyword, std::string>{{Keyword::address_family, "addressfamily"},
                                      {Keyword::bind_address, "bindaddress"},
                                      {Keyword::connect_timeout, "connecttimeout"},
                                      {Keyword::connection_attempts, "connectionattempts"},
                                      {Keyword::host_key_alias, "hostkeyalias"},
                                      {Keyword::identities_only, "identitiesonly"},
                                      {Keyword::hash_known_hosts, "hashknownhosts"},
                                      {Keyword::identity_file, "identityfile"},
                                      {Keyword::proxy_command, "proxycommand"}})
    add(keyword, name, raw(keyword));
  if (const auto* checking = config.find(Keyword::strict_host_key_checking))
    lines["stricthostkeychecking"] = {yes_or_true(checking->value)};
  if (const auto* command = config.find(Keyword::proxy_command); command != nullptr && command->value == "none")
    lines.erase("proxycommand");
  if (route->user_known_hosts) lines["userknownhostsfile"] = *route->user_known_hosts;
  if (route->global_known_hosts) lines["globalknownhostsfile"] = *route->global_known_hosts;
  std::vector<std::string> hops;
  for (const auto& hop : route->jumps) hops.push_back(to_string(hop));
  if (!hops.empty()) lines["proxyjump"] = {join(hops, ",")};
  return lines;
}

const std::vector<std::string> kKeywords = {"hostname",
                                            "user",
                                            "port",
                                            "addressfamily",
                                            "bindaddress",
                                            "connecttimeout",
                                            "connectionattempts",
                                            "hostkeyalias",
                                            "identitiesonly",
                                            "hashknownhosts",
                                            "identityfile",
                                            "proxycommand",
                                            "proxyjump",
                                            "stricthostkeychecking",
                                            "userknownhostsfile",
                                            "globalknownhostsfile"};

struct Case {
  std::string name;
  std::string text;
};

const std::vector<Case> kCases = {
    {"empty", ""},
    {"comments and blank lines", "# one\n\n   # two\n\t\nHost web1 # three\n  Port 2201 # four\nPort 2202\n"},
    {"a hash inside a word", "Host web1\n User a#b\nHost web2\n HostKeyAlias #none\n"},
    {"first value wins", "Host web1\n Port 1001\nHost web*\n Port 1002\n User other\nHost *\n Port 1003\n User last\n"},
    {"before the first Host", "Port 1000\nUser early\nHost *\n Port 2000\n User late\n"},
    {"wildcards", "Host web?\n Port 1\nHost w*b*\n Port 2\nHost *.example.com\n Port 3\nHost *\n Port 4\n"},
    {"several patterns", "Host db1 web1\tweb2   gpu*\n Port 7\n"},
    {"negation", "Host * !web1\n Port 7\nHost !web2 web*\n Port 8\nHost !*\n Port 9\n"},
    {"negation alone", "Host !web1\n Port 7\nHost !web1 !web2\n User nobody\n"},
    {"commas are no lists in Host", "Host web1,web2\n Port 7\nHost web*,web*\n Port 8\n"},
    {"case", "HOST web1\n pORT 77\n hostNAME WEB9.Example.COM\nHost WEB2\n Port 78\n"},
    {"equals signs",
     "Host=web1\nPort=11\nUser = one\nHostName= h.example.com\nHostKeyAlias =alias\nHost web2\nPort  =  12\n"},
    {"two equals signs", "Host web1\nHostKeyAlias = =x\nHost web2\nHostKeyAlias ==y\n"},
    {"quotes",
     "Host \"web1\" 'web2'\n User \"somebody\"\n HostKeyAlias 'one two'\nHost web3\n HostKeyAlias a\"b c\"d\n"},
    {"escapes",
     "Host web1\n HostKeyAlias a\\ b\nHost web2\n HostKeyAlias a\\\"b\nHost web3\n HostKeyAlias a\\nb\\\\c\n"},
    {"a quoted keyword", "Host web1\n\"Port\" 12\n\"HostKeyAlias\"=x\n"},
    {"carriage returns", "Host web1\r\n\tPort 2201\r\n  User x  \r\nHost *\r\n HostKeyAlias y\t\r\n"},
    {"odd blanks", "\t Host \t web1  web2 \t\n\t\tPort\t\t99\f\n \t User   a  \n"},
    {"no last line end", "Host web1\n Port 5"},
    {"HostName", "Host web1\n HostName 192.0.2.1\nHost web2\n HostName %h.example.com\nHost *\n HostName %h.other\n"},
    {"percent in HostName", "Host web1\n HostName 100%%-%h\nHost web2\n HostName %n\n"},
    {"identities add up",
     "IdentityFile ~/.ssh/first\nHost web*\n IdentityFile /second\n IdentityFile ~/.ssh/first\nHost "
     "web1\n IdentityFile %d/%h-%n-%r\n IdentitiesOnly yes\n"},
    {"IdentityFile none", "Host web1\n IdentityFile none\nHost web2\n IdentityFile none\n IdentityFile /x\n"},
    {"yes and true",
     "Host web1\n IdentitiesOnly true\n HashKnownHosts yes\nHost web2\n IdentitiesOnly no\n "
     "HashKnownHosts false\n"},
    {"Yes is no yes", "Host web1\n IdentitiesOnly Yes\n"},
    {"known hosts",
     "Host web1\n UserKnownHostsFile ~/.ssh/a /b ~/c\n GlobalKnownHostsFile /d /e\nHost web2\n "
     "UserKnownHostsFile /dev/null\n GlobalKnownHostsFile /dev/null\n"},
    {"known hosts in quotes", "UserKnownHostsFile \"/a/b\" '/c'\nHost web1\n UserKnownHostsFile /later\n"},
    {"known hosts none", "Host web1\n UserKnownHostsFile none\nHost web2\n UserKnownHostsFile a none\n"},
    {"tokens",
     "Host web1\n User me\n Port 2022\n HostName %h.example.com\n UserKnownHostsFile "
     "/%%/%h/%n/%p/%r/%u/%i/%L/%l/%k %d/x ~/%h\nHost web2\n HostKeyAlias alias\n User you\n UserKnownHostsFile "
     "/%k/%r/%p/%h\nHost *\n User last\n"},
    {"tokens that are none",
     "Host web1\n User x\n UserKnownHostsFile /%z\nHost web2\n User x\n UserKnownHostsFile /50%\n"},
    {"variables",
     "Host web1\n UserKnownHostsFile ${TRUEUP_TEST}/kh\nHost web2\n UserKnownHostsFile ${TRUEUP_UNSET}/kh\n"
     "Host web3\n UserKnownHostsFile /a$b/{x}\n"},
    {"ProxyJump",
     "Host web1\n ProxyJump bastion\nHost web2\n ProxyJump me@b1:2222,b2,[2001:db8::1]:22\nHost web3\n "
     "ProxyJump none\nHost *\n ProxyJump last\n"},
    {"ProxyJump as a URI", "Host web1\n ProxyJump ssh://me@b1:2222\nHost web2\n ProxyJump b1 # why\n"},
    {"ProxyCommand",
     "Host web1\n ProxyCommand nc -X 5 %h %p # all of it\nHost web2\n ProxyCommand = ssh -W [%h]:%p b\nHost "
     "web3\n ProxyCommand none\nHost *\n ProxyCommand last 'a b'\n"},
    {"the first proxy wins",
     "Host web1\n ProxyCommand nc %h %p\n ProxyJump b\nHost web2\n ProxyJump b\n ProxyCommand nc "
     "%h %p\nHost web3\n ProxyCommand none\n ProxyJump b\nHost *\n ProxyJump none\n"},
    {"Match all", "Host web1\n Port 1\nMatch all\n Port 2\n User everyone\n"},
    {"Match host",
     "Host web1\n HostName other.example.com\nMatch host other.example.com\n Port 3\nMatch host web2,web3\n "
     "Port 4\nMatch host !web*,*\n Port 5\nMatch host *,!web2\n User x\n"},
    {"Match originalhost",
     "Host web1\n HostName other\nMatch originalhost web1\n Port 3\nMatch originalhost other\n Port "
     "4\nMatch originalhost WEB2\n Port 5\nMatch originalhost \"web3\"\n Port 6\n"},
    {"Match user",
     "Host web1\n User alice\nMatch user alice\n Port 3\nMatch user root,nobody\n Port 4\nMatch !user alice\n "
     "HostKeyAlias x\n"},
    {"Match localuser",
     "Match localuser root\n Port 3\nMatch localuser no-such-user\n Port 4\nMatch !localuser root\n "
     "Port 5\n"},
    {"Match with several criteria",
     "Match host web1 user root\n Port 3\nMatch host web1 !user root\n Port 4\nMatch "
     "originalhost web* host=web2\n Port 5\nMatch !host web1 !host web2\n Port 6\n"},
    {"Match spelled oddly",
     "MATCH HOST web1\n Port 3\nMatch  host=web2  # two\n Port 4\nmatch originalhost \"web3\"\n "
     "Port 5\n"},
    {"Match final",
     "Host web1\n HostName other.example.com\nMatch final host other.example.com\n Port 3\nMatch final\n "
     "User later\nHost *\n Port 9\n"},
    {"Match final changes what a later look sees",
     "Match final host other\n Port 3\nHost other\n Port 4\n User of-other\nHost web1\n "
     "HostName other\n IdentityFile /a\nMatch final all\n IdentityFile /b\n"},
    {"Match canonical", "Match canonical\n Port 3\nMatch !canonical\n Port 4\n"},
    {"times", "Host web1\n ConnectTimeout 1m30s\nHost web2\n ConnectTimeout 45\nHost web3\n ConnectTimeout none\n"},
    {"bad time", "Host web1\n ConnectTimeout soon\n"},
    {"numbers",
     "Host web1\n ConnectionAttempts 3\n AddressFamily inet6\n BindAddress 127.0.0.1\nHost web2\n AddressFamily "
     "INET\nHost web3\n AddressFamily any\n"},
    {"strictness",
     "Host web1\n StrictHostKeyChecking no\nHost web2\n StrictHostKeyChecking ACCEPT-NEW\nHost web3\n "
     "StrictHostKeyChecking off\nHost *\n StrictHostKeyChecking ask\n"},
    {"bad port", "Host nobody\n Port 0\n"},
    {"bad port, a word", "Port twenty\n"},
    {"port too large", "Port 65536\n"},
    {"bad flag", "Host nobody\n IdentitiesOnly maybe\n"},
    {"bad family", "AddressFamily ipv4\n"},
    {"no argument", "Host web1\n Port\n"},
    {"no argument but a comment", "Host web1\n Port # 22\n"},
    {"Host without a pattern", "Host\n Port 22\n"},
    {"an empty pattern", "Host \"\"\n Port 22\n"},
    {"two arguments", "Host web1\n Port 22 23\n"},
    {"a quote not closed", "Host web1\n User \"x\n"},
    {"a quote not closed, in a comment", "Host web1\n User x # \"y\n"},
    {"a quote not closed in a command", "Host web1\n ProxyCommand echo \"x\n"},
    {"Match without criteria", "Match\n Port 2\n"},
    {"Match without an argument", "Match host\n Port 2\n"},
    {"Match all with more", "Match all host web1\n Port 2\n"},
    {"Match more with all", "Match host web1 all\n Port 2\n"},
    {"ignored ones",
     "ForwardAgent yes\nSendEnv LANG\nLocalForward 1234 localhost:80\nControlMaster auto\nControlPath "
     "/tmp/%C\nServerAliveInterval 5\nHost web1\n RequestTTY force\n Port 3\n"},
    {"IgnoreUnknown", "IgnoreUnknown New*,other\nNewThing yes\nOTHER 3\nHost web1\n Port 4\n"},
};

const std::vector<std::string> kHosts = {"web1", "web2", "web3", "WEB1", "Web2", "a.example.com", "192.0.2.7"};

bool can_ask() {
  const bool found = ::access("/usr/bin/ssh", X_OK) == 0;
  if (!found) std::cout << "skipped: no /usr/bin/ssh (install openssh-client)" << std::endl;
  return found;
}

void compare(const std::string& file, const std::string& host, const Lines& unsaid) {
  const auto theirs = asked_of_ssh(file, host);
  const auto ours = asked_of_us(file, host);
  CAPTURE(host);
  CHECK(theirs.has_value() == ours.has_value());
  if (!theirs || !ours) return;
  for (const auto& keyword : kKeywords) {
    CAPTURE(keyword);
    const auto value = [&](const Lines& lines) {
      const auto found = lines.find(keyword);
      return found == lines.end() ? std::vector<std::string>() : found->second;
    };
    const bool said = ours->contains(keyword);
    CHECK(value(said ? *ours : unsaid) == value(*theirs));
  }
}

// What ssh answers where no file says anything: its defaults.
auto said_of_nothing(const TemporaryDirectory& directory) {
  const auto nothing = directory.file("nothing");
  write_file(nothing, "");
  return asked_of_ssh(nothing, "web1");
}

}  // namespace

TEST_CASE("ssh_config means what ssh -G says", "[integration][ssh_config]") {
  if (!can_ask()) return;
  TemporaryDirectory directory;
  const auto unsaid = said_of_nothing(directory);
  REQUIRE(unsaid);
  const auto file = directory.file("config");
  for (const auto& one : kCases) {
    CAPTURE(one.name, one.text);
    write_file(file, one.text);
    for (const auto& host : kHosts) compare(file, host, *unsaid);
  }
}

TEST_CASE("Include means what ssh -G says", "[integration][ssh_config]") {
  if (!can_ask()) return;
  TemporaryDirectory directory;
  const auto unsaid = said_of_nothing(directory);
  REQUIRE(unsaid);
  const auto d = directory.file("");
  write_file(directory.file("a.inc"), "Port 11\nHost web2\n Port 12\n User from-a\n");
  write_file(directory.file("b.inc"), "Host web3\n Port 13\nMatch host web1\n User from-b\n");
  write_file(directory.file("nested.inc"), "Host web*\n Include " + d + "b.inc\n HostKeyAlias nested\n");
  write_file(directory.file("final.inc"), "Match final\n Port 14\n");
  write_file(directory.file("open.inc"), "Host *\n Port 15\n");
  std::filesystem::permissions(directory.file("open.inc"), std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  write_file(directory.file("loop.inc"), "Include " + d + "loop.inc\nPort 16\n");
  const std::vector<Case> cases = {
      {"at the top", "Include " + d + "a.inc\nPort 20\nHost web2\n User x\n"},
      {"under a host", "Host web1\n Include " + d + "a.inc\n User after\nHost *\n Port 21\n"},
      {"under a host that is another",
       "Host none\n Include " + d + "a.inc " + d + "b.inc\n User after\nHost *\n Port 22\n"},
      {"by a pattern", "Include " + d + "[ab].inc\nHost *\n Port 23\n User end\n"},
      {"two levels", "Include " + d + "nested.inc\nHost *\n Port 24\n"},
      {"nothing there", "Include " + d + "missing.inc " + d + "*.none\nPort 25\n"},
      {"relative, nothing there", "Include no-such-directory/x\nPort 26\n"},
      {"final in it", "Host none\n Include " + d + "final.inc\nMatch final\n User last\nHost *\n Port 27\n"},
      {"writable by others", "Include " + d + "open.inc\nHost *\n Port 28\n"},
      {"itself", "Include " + d + "loop.inc\n"},
      {"no argument", "Include\n"},
  };
  const auto file = directory.file("config");
  for (const auto& one : cases) {
    CAPTURE(one.name, one.text);
    write_file(file, one.text);
    for (const auto& host : kHosts) compare(file, host, *unsaid);
  }
}
