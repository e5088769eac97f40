#include "transport/known_hosts.hpp"

#include "support/cases.hpp"
#include "support/catch.hpp"
#include "transport/fingerprint.hpp"
#include "transport/private_key.hpp"
#include "transport/wire.hpp"

using namespace trueup;
using namespace trueup::ssh;

namespace {

std::string data(const std::string& name) {
  return test::read_file(std::filesystem::path(TRUEUP_TEST_DATA) / "transport" / name);
}

std::string key(const std::string& name) { return parse_public_key(data(name + ".pub")); }

std::vector<KnownHostsFile> files() { return {{"kh", data("known_hosts"), {}}}; }

JudgedHostKey judge(const std::string& host, std::uint16_t port, const std::string& name) {
  const auto read = files();
  return judge_host_key(known_keys(read, host, port), key(name));
}

}  // namespace

TEST_CASE("fingerprints are OpenSSH's", "[unit][transport][known_hosts]") {
  // ssh-keygen -lf a.pub
  CHECK(fingerprint(key("a")) == "SHA256:rSEcWf05MIIkE5d7VGWWu/117sZzxzl+aweHHA3T2DA");
  CHECK(key_type(key("e")) == "ecdsa-sha2-nistp256");
}

TEST_CASE("a host is found by every way to write its name", "[unit][transport][known_hosts]") {
  CHECK(judge("plain.example.org", 22, "a").verdict == HostKeyVerdict::known);
  CHECK(judge("PLAIN.example.org", 22, "a").verdict == HostKeyVerdict::known);
  CHECK(judge("192.0.2.7", 22, "a").verdict == HostKeyVerdict::known);
  CHECK(judge("port.example.org", 2222, "a").verdict == HostKeyVerdict::known);
  CHECK(judge("hashed.example.org", 22, "a").verdict == HostKeyVerdict::known);
  CHECK(judge("hashed.example.org", 2222, "b").verdict == HostKeyVerdict::known);
  CHECK(judge("n7.gpu.example.org", 22, "b").verdict == HostKeyVerdict::known);
  CHECK(judge("two.example.org", 22, "e").verdict == HostKeyVerdict::known);
}

TEST_CASE("each host of a fleet finds its line, and what is added later", "[unit][transport][known_hosts]") {
  const auto first = data("a.pub"), second = data("b.pub");
  const auto line_with = [](const std::string& name, const std::string& key_text) { return name + " " + key_text; };
  KnownHostsFile file{"kh", "# a fleet\n", {}};
  for (int host = 0; host < 300; ++host)
    file.text += line_with("n" + std::to_string(host), host % 2 == 0 ? first : second);
  file.text += line_with("n*", second);
  std::vector<KnownHostsFile> fleet = {file};
  const auto lines_of = [&](const std::string& host) {
    std::vector<int> lines;
    for (const auto& known : known_keys(fleet, host, 22).keys) lines.push_back(known.at.line);
    return lines;
  };
  CHECK(lines_of("n0") == std::vector<int>{2, 302});
  CHECK(lines_of("N299") == std::vector<int>{301, 302});
  CHECK(lines_of("n300") == std::vector<int>{302});
  CHECK(lines_of("m0").empty());
  fleet[0].text += line_with("m0", first);
  CHECK(lines_of("m0") == std::vector<int>{303});
}

TEST_CASE("what is not written is not known", "[unit][transport][known_hosts]") {
  CHECK(judge("port.example.org", 22, "a").verdict == HostKeyVerdict::unknown);
  CHECK(judge("port.example.org", 2223, "a").verdict == HostKeyVerdict::unknown);
  CHECK(judge("login.gpu.example.org", 22, "b").verdict == HostKeyVerdict::unknown);  // negated
  CHECK(judge("gpu.example.org", 22, "b").verdict == HostKeyVerdict::unknown);
  CHECK(judge("n7.gpu.example.org", 22, "c").verdict == HostKeyVerdict::changed);  // a CA's key is no host's key
  CHECK(judge("elsewhere.example.org", 22, "a").verdict == HostKeyVerdict::unknown);
}

TEST_CASE("another key of a known type is a change, and says where the old one stands",
          "[unit][transport][known_hosts]") {
  const auto judged = judge("plain.example.org", 22, "b");
  CHECK(judged.verdict == HostKeyVerdict::changed);
  REQUIRE(judged.against);
  CHECK(judged.against->at == SourcePos{"kh", 2, 0});
  CHECK(judged.against->key == key("a"));

  const auto other = judge("plain.example.org", 22, "e");
  CHECK(other.verdict == HostKeyVerdict::other_type);
  REQUIRE(other.against);
  CHECK(other.against->key == key("a"));
}

TEST_CASE("a plain name confirms a key on another port and accuses none", "[unit][transport][known_hosts]") {
  CHECK(judge("plain.example.org", 2200, "a").verdict == HostKeyVerdict::known);
  CHECK(judge("plain.example.org", 2200, "b").verdict == HostKeyVerdict::unknown);
  CHECK(judge("hashed.example.org", 2222, "a").verdict == HostKeyVerdict::changed);
}

TEST_CASE("a revoked key is refused whoever shows it", "[unit][transport][known_hosts]") {
  CHECK(judge("plain.example.org", 22, "r").verdict == HostKeyVerdict::revoked);
  CHECK(judge("elsewhere.example.org", 2222, "r").verdict == HostKeyVerdict::revoked);
  // Also when another file vouches for it.
  auto read = files();
  read.push_back({"more", "plain.example.org " + data("r.pub"), {}});
  CHECK(judge_host_key(known_keys(read, "plain.example.org", 22), key("r")).verdict == HostKeyVerdict::revoked);
}

TEST_CASE("lines that cannot be read are named", "[unit][transport][known_hosts]") {
  const auto read = files();
  const auto known = known_keys(read, "broken.example.org", 22);
  CHECK(known.keys.empty());
  CHECK(known.unreadable == std::vector<SourcePos>{{"kh", 12, 0}, {"kh", 13, 0}, {"kh", 14, 0}});
}

TEST_CASE("algorithms of known keys come first, certificates not at all", "[unit][transport][known_hosts]") {
  const auto read = files();
  const std::vector<std::string> supported = {"ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256-cert-v01@openssh.com",
                                              "ssh-ed25519", "rsa-sha2-512", "ssh-rsa"};
  CHECK(order_host_key_algorithms(supported, known_keys(read, "plain.example.org", 22)) ==
        std::vector<std::string>{"ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "ssh-rsa"});
  KnownKeys rsa;
  rsa.keys.push_back({"ssh-rsa", "", {}});
  CHECK(order_host_key_algorithms(supported, rsa) ==
        std::vector<std::string>{"rsa-sha2-512", "ssh-rsa", "ecdsa-sha2-nistp256", "ssh-ed25519"});
}

TEST_CASE("each refusal names fingerprints, file and line, and what to do", "[unit][transport][known_hosts]") {
  const auto read = files();
  const auto refusal = [&](const std::string& host, std::uint16_t port, const std::string& name) {
    const auto known = known_keys(read, host, port);
    return host_key_error(judge_host_key(known, key(name)), known, read, host, port, key(name));
  };
  const auto changed = refusal("plain.example.org", 22, "b");
  CHECK(changed.kind == ErrorKind::host_key);
  CHECK(to_string(changed) == "kh:2: the key of plain.example.org has changed: it shows ssh-ed25519 " +
                                  fingerprint(key("b")) + ", known is " + fingerprint(key("a")));
  CHECK_THAT(changed.hint, ContainsSubstring("ssh-keygen -R plain.example.org -f kh"));

  const auto unknown = refusal("elsewhere.example.org", 2222, "a");
  CHECK(to_string(unknown) == "the key of [elsewhere.example.org]:2222 is not known: ssh-ed25519 " +
                                  fingerprint(key("a")) + "; looked in kh; kh:12 is no known_hosts line");
  CHECK_THAT(unknown.hint, ContainsSubstring("ssh-keyscan -t ed25519 -p 2222 elsewhere.example.org >> kh"));

  CHECK(to_string(refusal("plain.example.org", 22, "r")) ==
        "kh:7: the key of plain.example.org is revoked: ssh-ed25519 " + fingerprint(key("r")));
}

TEST_CASE("a line that is written for a key makes it known, hidden or not", "[unit][transport][known_hosts]") {
  const auto port = GENERATE(std::uint16_t{22}, std::uint16_t{2222});
  const auto salt = GENERATE(std::string(), std::string(20, 's'));
  const auto name = known_hosts_name("GPU1.example.com", port);
  const auto line = known_hosts_line(name, key("a"), salt);
  CHECK((line.find("gpu1") == line.npos) == !salt.empty());
  const std::vector<KnownHostsFile> files = {{"kh", line, {}}};
  CHECK(judge_host_key(known_keys(files, "gpu1.example.com", port), key("a")).verdict == HostKeyVerdict::known);
  CHECK(judge_host_key(known_keys(files, "gpu2.example.com", port), key("a")).verdict == HostKeyVerdict::unknown);
}

TEST_CASE("an authority that vouches for a host is named, and not taken for its key",
          "[unit][transport][known_hosts]") {
  const std::vector<KnownHostsFile> files = {{"kh", "@cert-authority *.example.com,!b.* " + data("a.pub"), {}}};
  const auto known = known_keys(files, "a.example.com", 22);
  CHECK(known.authorities == std::vector<SourcePos>{{"kh", 1, 0}});
  CHECK(judge_host_key(known, key("a")).verdict == HostKeyVerdict::unknown);
  CHECK(known_keys(files, "b.example.com", 22).authorities.empty());
  const auto error = host_key_error(judge_host_key(known, key("a")), known, files, "a.example.com", 22, key("a"));
  CHECK_THAT(error.message, ContainsSubstring("kh:1 trusts a certificate authority for it"));
}

TEST_CASE("the way to make a key known asks the host only where it is reached directly",
          "[unit][transport][known_hosts]") {
  const std::vector<KnownHostsFile> files = {{"/dev/null", "", {}}, {"kh", "", {}}};
  const auto known = known_keys(files, "gpu1", 22);
  const auto judged = judge_host_key(known, key("a"));
  const auto direct = host_key_error(judged, known, files, "gpu1", 2222, key("a"));
  CHECK_THAT(direct.hint, ContainsSubstring("-p 2222 gpu1 >> kh"));
  const auto behind = host_key_error(judged, known, files, "gpu1", 2222, key("a"), "", false);
  CHECK_THAT(behind.hint, ContainsSubstring("echo '[gpu1]:2222 " + key_type(key("a")) + " "));
  const auto alias = host_key_error(judged, known, files, "gpu1", 2222, key("a"), "fleet");
  CHECK_THAT(alias.hint, ContainsSubstring("echo 'fleet " + key_type(key("a")) + " "));
  CHECK_THAT(alias.message, ContainsSubstring("the key of fleet is not known"));
}
