#include "transport/agent.hpp"

#include "support/catch.hpp"
#include "transport/wire.hpp"

using namespace trueup;
using namespace trueup::ssh;

namespace {

// RFC 4252 section 7: what a public key login signs.
std::string signed_data(const std::string& algorithm) {
  return wire_string("session") + '\x32' + wire_string("root") + wire_string("ssh-connection") +
         wire_string("publickey") + '\x01' + wire_string(algorithm) + wire_string("key");
}

}  // namespace

TEST_CASE("the algorithm to sign with is read from the data", "[unit][transport][agent]") {
  CHECK(signature_algorithm(signed_data("rsa-sha2-512")) == "rsa-sha2-512");
  CHECK(signature_algorithm("") == "");
  CHECK(signature_algorithm(signed_data("ssh-ed25519").substr(0, 40)) == "");
}

TEST_CASE("an agent's keys are read, and a list that is cut short is an error", "[unit][property][transport][agent]") {
  const auto answer = '\x0c' + wire_number(2) + wire_string("key one") + wire_string("first") + wire_string("key two") +
                      wire_string("");
  const auto keys = parse_agent_keys(answer);
  REQUIRE(keys);
  REQUIRE(keys->size() == 2);
  CHECK(keys->front().key == "key one");
  CHECK(keys->front().comment == "first");
  for (std::size_t size = 5; size < answer.size(); ++size) CHECK_FALSE(parse_agent_keys(answer.substr(0, size)));
  CHECK_FALSE(parse_agent_keys('\x0c' + wire_number(0xffffffff)));
  CHECK_FALSE(parse_agent_keys("\x05"));  // SSH_AGENT_FAILURE
}

TEST_CASE("an agent's signature is taken only in the algorithm that was asked for", "[unit][transport][agent]") {
  const auto answer = '\x0e' + wire_string(wire_string("ssh-ed25519") + wire_string("raw"));
  CHECK(parse_agent_signature(answer, "ssh-ed25519") == std::string("raw"));
  CHECK(parse_agent_signature(answer, "rsa-sha2-512").error().message ==
        "the agent signed with ssh-ed25519, not rsa-sha2-512");
  CHECK_FALSE(parse_agent_signature("\x05", "ssh-ed25519"));
  CHECK_FALSE(parse_agent_signature(answer.substr(0, 15), "ssh-ed25519"));
}
