#include "transport/private_key.hpp"

#include "base/base64.hpp"
#include "support/catch.hpp"
#include "transport/wire.hpp"

using namespace trueup;
using namespace trueup::ssh;

namespace {

const std::string kPublic = wire_string("ssh-ed25519") + wire_string(std::string(32, 'x'));

std::string openssh_key(const std::string& cipher, const std::string& key = kPublic) {
  const auto body = std::string("openssh-key-v1\0", 15) + wire_string(cipher) + wire_string("kdf") +
                    wire_string("options") + wire_number(1) + wire_string(key) + wire_string("the private half");
  auto text = base64_encode(body);
  for (std::size_t at = 70; at < text.size(); at += 71) text.insert(at, "\n");
  return "-----BEGIN OPENSSH PRIVATE KEY-----\n" + text + "\n-----END OPENSSH PRIVATE KEY-----\n";
}

}  // namespace

TEST_CASE("OpenSSH's format tells the public key and whether a passphrase is needed", "[unit][transport][keys]") {
  const auto plain = inspect_private_key(openssh_key("none"));
  REQUIRE(plain);
  CHECK_FALSE(plain->encrypted);
  CHECK(plain->key == kPublic);
  const auto encrypted = inspect_private_key(openssh_key("aes256-ctr"));
  REQUIRE(encrypted);
  CHECK(encrypted->encrypted);
  CHECK(encrypted->key == kPublic);
}

TEST_CASE("PEM tells whether a passphrase is needed", "[unit][transport][keys]") {
  const auto pem = [](const std::string& type, const std::string& headers) {
    return inspect_private_key("-----BEGIN " + type + "-----\n" + headers + "MIIE\n-----END " + type + "-----\n");
  };
  CHECK_FALSE(pem("RSA PRIVATE KEY", "")->encrypted);
  CHECK_FALSE(pem("PRIVATE KEY", "")->encrypted);
  CHECK(pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n")->encrypted);
  CHECK(pem("ENCRYPTED PRIVATE KEY", "")->encrypted);
}

TEST_CASE("what is no private key is refused, every prefix of one included", "[unit][property][transport][keys]") {
  CHECK_FALSE(inspect_private_key(""));
  CHECK_FALSE(inspect_private_key("ssh-ed25519 AAAA comment\n"));
  CHECK_FALSE(inspect_private_key("-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----\n"));
  CHECK_FALSE(inspect_private_key(openssh_key("none", "")));
  const auto whole = openssh_key("none");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto info = inspect_private_key(std::string_view(whole).substr(0, size));
    if (info) CHECK(info->key == kPublic);  // all that we read had come
  }
}

TEST_CASE("a public key file is read only if its type is the key's", "[unit][transport][keys]") {
  CHECK(parse_public_key("ssh-ed25519 " + base64_encode(kPublic) + " someone\n") == kPublic);
  CHECK(parse_public_key("ssh-rsa " + base64_encode(kPublic)).empty());
  CHECK(parse_public_key("ssh-ed25519").empty());
  CHECK(parse_public_key("").empty());
}
