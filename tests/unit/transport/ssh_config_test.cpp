#include "transport/ssh_config.hpp"

#include <map>

#include "support/catch.hpp"

using namespace trueup;
using namespace trueup::ssh;

namespace {

// Files by path; `*` in an Include stands for all that begin alike.
struct Files final : ConfigFiles {
  std::map<std::string, std::string> texts;

  Result<std::string> read(const std::string& path) const override {
    const auto found = texts.find(path);
    if (found == texts.end()) return fail(ErrorKind::not_found, "no such file");
    if (found->second == "refused") return fail(ErrorKind::io, "'" + path + "' can be written by others");
    return found->second;
  }
  std::vector<std::string> glob(const std::string& pattern) const override {
    std::vector<std::string> paths;
    for (const auto& [path, text] : texts)
      if (path.starts_with(pattern.substr(0, pattern.find('*')))) paths.push_back(path);
    return paths;
  }
};

std::vector<std::string> errors_of(const Files& files) {
  std::vector<Error> errors;
  const std::vector<ConfigSource> sources = {{"/home/me/.ssh/config"}, {"/etc/ssh/ssh_config", false, false}};
  SshConfig::load(sources, files, "/home/me", errors);
  std::vector<std::string> texts;
  for (const auto& error : errors) texts.push_back(to_string(error));
  return texts;
}

HostConfig evaluate(const Files& files, const std::string& host, const ConfigOverrides& overrides = {}) {
  std::vector<Error> errors;
  const std::vector<ConfigSource> sources = {{"/home/me/.ssh/config"}, {"/etc/ssh/ssh_config", false, false}};
  const auto config = SshConfig::load(sources, files, "/home/me", errors);
  for (const auto& error : errors) FAIL(to_string(error));
  return config.evaluate(host, "me", overrides);
}

std::vector<std::string> notes(const HostConfig& config) {
  std::vector<std::string> texts;
  for (const auto& note : config.notes) texts.push_back(to_string(note.at) + ": " + note.text);
  return texts;
}

std::string said(const HostConfig& config, Keyword keyword) {
  const auto* setting = config.find(keyword);
  return setting == nullptr ? "nothing" : setting->value + " at " + to_string(setting->at);
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("the user's file comes before the system's, and every value knows its place",
          "[unit][transport][ssh_config]") {
  Files files;
  files.texts["/home/me/.ssh/config"] = "Host gpu1\n  HostName 192.0.2.1\n";
  files.texts["/etc/ssh/ssh_config"] = "Include /etc/ssh/ssh_config.d/*.conf\nHost *\nHostName last\nPort 99\n";
  files.texts["/etc/ssh/ssh_config.d/a.conf"] = "# first\nUser fleet\n";
  const auto config = evaluate(files, "gpu1");
  CHECK(said(config, Keyword::host_name) == "192.0.2.1 at /home/me/.ssh/config:2");
  CHECK(said(config, Keyword::user) == "fleet at /etc/ssh/ssh_config.d/a.conf:2");
  CHECK(said(config, Keyword::port) == "99 at /etc/ssh/ssh_config:4");
  CHECK(said(config, Keyword::proxy_jump) == "nothing");
}

TEST_CASE("what the inventory says comes before the files, and Match sees it", "[unit][transport][ssh_config]") {
  Files files;
  files.texts["/home/me/.ssh/config"] = "User file\nPort 1\nMatch user ops\n HostKeyAlias of-ops\n";
  const auto config = evaluate(files, "gpu1", {"ops", 2222});
  CHECK(said(config, Keyword::user) == "ops at ");
  CHECK(said(config, Keyword::port) == "2222 at ");
  CHECK(said(config, Keyword::host_key_alias) == "of-ops at /home/me/.ssh/config:4");
  CHECK(said(evaluate(files, "gpu1"), Keyword::host_key_alias) == "nothing");
}

TEST_CASE("what is not done is noted for the hosts that it concerns", "[unit][transport][ssh_config]") {
  Files files;
  files.texts["/home/me/.ssh/config"] =
      "Host gpu1\n CertificateFile ~/c\n CanonicalizeHostname no\n StrictHostKeyChecking no\n"
      "Match host gpu* exec \"test -e /x\"\n Port 7\n"
      "Match host gpu* !exec \"test -e /x\"\n Port 7\n"
      "Host *\n ForwardAgent yes\n Prot 8\n StrictHostKeyChecking no\n";
  CHECK(
      notes(evaluate(files, "gpu1")) ==
      Texts{"/home/me/.ssh/config:2: CertificateFile ~/c: libssh2 cannot log in with certificates, plain keys are used",
            "/home/me/.ssh/config:5: 'Match exec' is not evaluated, what stands under it is ignored",
            "/home/me/.ssh/config:7: 'Match !exec' is not evaluated, what stands under it is ignored",
            "/home/me/.ssh/config:11: 'Prot' is not known here and is ignored; did you mean 'Port'?",
            "/home/me/.ssh/config:4: StrictHostKeyChecking no: host keys are checked all the same"});
  CHECK(notes(evaluate(files, "db")) ==
        Texts{"/home/me/.ssh/config:11: 'Prot' is not known here and is ignored; did you mean 'Port'?",
              "/home/me/.ssh/config:12: StrictHostKeyChecking no: host keys are checked all the same"});
}

TEST_CASE("mistakes are told with their place, all of them", "[unit][transport][ssh_config]") {
  Files files;
  files.texts["/home/me/.ssh/config"] =
      "Host a\n Port x\n User \"me\n Port\nMatch host\nMatch all user x\n Port 1 2\n IdentitiesOnly perhaps\n"
      "Match hots x\n";
  CHECK(errors_of(files) == Texts{"/home/me/.ssh/config:2: 'Port': expected a port from 1 to 65535, got 'x'",
                                  "/home/me/.ssh/config:3: 'User': a quote is not closed",
                                  "/home/me/.ssh/config:4: 'Port' has no argument",
                                  "/home/me/.ssh/config:5: 'Match host' has no argument",
                                  "/home/me/.ssh/config:6: 'Match all' cannot be combined with other criteria",
                                  "/home/me/.ssh/config:7: 'Port' takes one argument, '2' is one too many",
                                  "/home/me/.ssh/config:8: 'IdentitiesOnly': expected yes or no, got 'perhaps'",
                                  "/home/me/.ssh/config:9: 'Match hots' is not known; did you mean 'host'?"});
}

TEST_CASE("Include is bounded and keeps to its own directory", "[unit][transport][ssh_config]") {
  Files files;
  SECTION("a file that includes itself") {
    files.texts["/home/me/.ssh/config"] = "Include config\n";
    CHECK(errors_of(files) == Texts{"/home/me/.ssh/config:1: 'Include' is nested more than 16 deep"});
  }
  SECTION("a file that includes itself twice") {
    files.texts["/home/me/.ssh/config"] = "Include config config\n";
    CHECK(errors_of(files) == Texts{"/home/me/.ssh/config:1: 'Include' is nested more than 16 deep"});
  }
  SECTION("the system's files cannot name a user's") {
    files.texts["/etc/ssh/ssh_config"] = "Include ~/x\n";
    CHECK(errors_of(files) ==
          Texts{"/etc/ssh/ssh_config:1: 'Include ~/x': a file of the system cannot name one of a user"});
  }
  SECTION("a file that must not be used is an error, a missing one is not") {
    files.texts["/home/me/.ssh/config"] = "Include conf.d/* other\n";
    files.texts["/home/me/.ssh/conf.d/a"] = "refused";
    CHECK(errors_of(files) == Texts{"'/home/me/.ssh/conf.d/a' can be written by others"});
  }
}

TEST_CASE("hosts that are named one by one are found among many", "[unit][transport][ssh_config]") {
  Files files;
  auto& text = files.texts["/home/me/.ssh/config"];
  for (int i = 0; i < 20'000; ++i)
    text += "Host gpu" + std::to_string(i) + " alias" + std::to_string(i) + "\n Port " + std::to_string(i + 1) + "\n";
  text += "Host gpu*\n User fleet\n";
  std::vector<Error> errors;
  const std::vector<ConfigSource> sources = {{"/home/me/.ssh/config"}};
  const auto config = SshConfig::load(sources, files, "/home/me", errors);
  REQUIRE(errors.empty());
  // Quadratic work would show: this is 400 million patterns.
  for (int i = 0; i < 20'000; ++i) {
    const auto host = config.evaluate("gpu" + std::to_string(i), "me");
    if (host.find(Keyword::port)->value != std::to_string(i + 1) || host.find(Keyword::user)->value != "fleet")
      FAIL("host " << i);
  }
  CHECK(config.evaluate("alias7", "me").find(Keyword::port)->value == "8");
  CHECK(config.evaluate("alias7", "me").find(Keyword::user) == nullptr);
}

TEST_CASE("any bytes and any prefix of a file are answered", "[unit][property][transport][ssh_config]") {
  const std::string text =
      "Host=\"a b\" !c*\n\tPort = 22\r\nMatch host x !user \"y\" exec 'z'\nInclude a b*\nProxyJump u@h:1,ssh://i:2/ # "
      "c\n"
      "User \\\" \xff\x00\n=\n\"\n\"Port\" 7\nUserKnownHostsFile a\\ b 'c' none";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    Files files;
    files.texts["/home/me/.ssh/config"] = text.substr(0, size);
    std::vector<Error> errors;
    const std::vector<ConfigSource> sources = {{"/home/me/.ssh/config"}};
    const auto config = SshConfig::load(sources, files, "/home/me", errors);
    const auto host = config.evaluate("a b", "me");
    CHECK(host.original == "a b");
    for (const auto& error : errors) CHECK(error.at.has_value());
  }
}
