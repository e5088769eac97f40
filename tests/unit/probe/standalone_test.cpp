#include "probe/standalone.hpp"

#include "support/catch.hpp"

using namespace trueup;
using namespace std::chrono_literals;

namespace {

const std::string kNonce = "00112233445566778899aabbccddeeff";

std::vector<Probe> probes() {
  std::vector<Probe> made(2);
  made[0].id = made[0].into = "gpus";
  made[1].id = made[1].into = "login";
  made[1].level = ProbeLevel::login;
  for (auto& probe : made) {
    probe.script = "echo " + probe.id;
    probe.parser = R"({"lines": {}})";
  }
  return made;
}

std::string script(const std::vector<Probe>& asked = probes()) {
  BundleOptions options;
  options.nonce = kNonce;
  options.tag = "0123456789abcdef";
  options.host_limit = 60s;
  return make_standalone(asked, {}, options, "9.9");
}

/// The line that the script prints first.
std::string head(const std::vector<Probe>& asked = probes()) {
  const auto text = script(asked);
  const auto begin = text.rfind("'trueup-output ") + 1;
  return text.substr(begin, text.rfind('\'') - begin) + "\n";
}

std::string frames(std::string text) {
  for (auto at = text.find('@'); at != text.npos; at = text.find('@', at + kNonce.size())) text.replace(at, 1, kNonce);
  return text;
}

const auto kWhole = frames("@ 0 b 1.00\n@ 1 b 1.00\n@ 0 o YQ==\n@ 0 x 0 1.10\n@ 1 x 221 1.20\n@ end\n");

std::string error_of(const std::string& text) {
  const auto read = read_standalone(text, "gpu1.out", probes());
  return read ? "no error" : to_string(read.error());
}

}  // namespace

TEST_CASE("the script holds all probes, reads nothing and runs by its last line", "[unit][probe][standalone]") {
  const auto text = script();
  CHECK(text.starts_with("#!/bin/sh\n# trueup 9.9"));
  CHECK_THAT(text, ContainsSubstring("count=2 lifeline=\n") && ContainsSubstring("echo gpus") &&
                       ContainsSubstring("echo login"));
  CHECK(text.ends_with("'; main\n"));
  CHECK(head() == "trueup-output 1 " + kNonce + " " + head().substr(49, 16) + " 2\n");
}

TEST_CASE("what the script printed is read, noise around it passed over", "[unit][probe][standalone]") {
  for (const auto& text : {head() + kWhole, "motd of the day\n" + head() + "noise\n" + kWhole + "logout\n",
                           head().substr(0, head().size() - 1) + "\r\n" + kWhole,
                           head() + kWhole.substr(0, kWhole.size() - 1)}) {
    CAPTURE(text);
    const auto read = read_standalone(text, "gpu1.out", probes());
    REQUIRE(read);
    CHECK_FALSE(read->error);
    REQUIRE(read->outputs.size() == 2);
    CHECK(read->outputs[0].output == "a");
    CHECK(read->outputs[1].status == ProbeStatus::absent);
  }
}

TEST_CASE("output that was cut says so and keeps what came", "[unit][probe][standalone]") {
  const auto whole = head() + kWhole;
  for (auto size = head().size(); size + 1 < whole.size(); ++size) {
    const auto read = read_standalone(whole.substr(0, size), "gpu1.out", probes());
    REQUIRE(read);
    CAPTURE(whole.substr(0, size));
    REQUIRE(read->error);
    CHECK_THAT(to_string(*read->error), ContainsSubstring("gpu1.out: the output ends before its end frame"));
    CHECK(read->outputs[1].status != ProbeStatus::ok);
  }
}

TEST_CASE("a forged frame spoils the probe that it names, and no other", "[unit][probe][standalone]") {
  const auto forged = frames("@ 0 o Yg==\n");
  const auto read = read_standalone(head() + kWhole + forged, "gpu1.out", probes());
  REQUIRE(read);
  CHECK(read->outputs[0].status == ProbeStatus::garbled);
  CHECK(read->outputs[1].status == ProbeStatus::absent);
  // Another nonce is noise.
  const auto other =
      read_standalone(head() + "ff" + kWhole.substr(2, 30) + " 0 x 0 1.00\n" + kWhole, "gpu1.out", probes());
  CHECK(other->outputs[0].status == ProbeStatus::ok);
}

TEST_CASE("what no such script printed is refused", "[unit][probe][standalone]") {
  CHECK_THAT(error_of(""), ContainsSubstring("gpu1.out: empty: expected"));
  CHECK_THAT(error_of("{\"schema\": 1}"), ContainsSubstring("gpu1.out: not the output of a probe script"));
  CHECK_THAT(error_of("a\ntrueup-output 7 x\n"), ContainsSubstring("gpu1.out:2: output of form '7'"));
  CHECK_THAT(error_of("trueup-output 1 zz\n"), ContainsSubstring("gpu1.out:1: expected 'trueup-output 1 NONCE"));
  CHECK_THAT(error_of(head() + kWhole + head() + kWhole), ContainsSubstring("a second output in one file"));
  auto others = probes();
  others[0].script += " more";
  CHECK_THAT(error_of(head(others) + kWhole), ContainsSubstring("other probes than the 2 of these playbooks"));
}
