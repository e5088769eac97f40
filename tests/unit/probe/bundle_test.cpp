#include "probe/bundle.hpp"

#include "support/catch.hpp"

using namespace trueup;
using namespace std::chrono_literals;

namespace {

Probe probe(std::string id, ProbeLevel level = ProbeLevel::host) {
  Probe made;
  made.id = std::move(id);
  made.level = level;
  made.script = "echo 'it is " + made.id + "'";
  made.limit = 1500ms;
  made.max_bytes = 100;
  made.needs = {"lspci", "awk"};
  return made;
}

const BundleOptions kOptions{"00112233445566778899aabbccddeeff", "0123456789abcdef", 4, 60s};

}  // namespace

TEST_CASE("a bundle holds the probes of its level, and no secret in its command", "[unit][probe][bundle]") {
  const auto bundle =
      make_bundle({probe("a"), probe("b", ProbeLevel::login), probe("c")}, {}, ProbeLevel::host, kOptions);
  CHECK(bundle.probe_ids == std::vector<std::string>{"a", "c"});
  CHECK(bundle.command == "exec /usr/bin/env TRUEUP_RUN=0123456789abcdef /bin/sh -s");
  CHECK(bundle.script.find("\nP1='echo '\\''it is c'\\'''\nL1=2 M1=101 D1='lspci awk' U1= F1= E1= O1=\n") !=
        std::string::npos);
  CHECK(bundle.script.find("it is b") == std::string::npos);
  // A cut script must run nothing: the last line is the only one that does.
  CHECK(bundle.script.substr(bundle.script.size() - 6) == "\nmain\n");
}

TEST_CASE("a packed bundle has what differs between hosts in front of what does not", "[unit][probe][bundle]") {
  const std::vector<Probe> probes = {probe("a"), probe("c")};
  const PackedBundle packed(probes, {});
  const auto input = packed.input(kOptions);
  const auto line = input.substr(0, input.find('\n'));
  REQUIRE(line.rfind(kOptions.nonce + " " + kOptions.tag + " 4 60 ", 0) == 0);
  const auto size = std::stoul(line.substr(line.rfind(' ') + 1));
  CHECK(input.substr(line.size() + 1, 2) == "\x1f\x8b");  // gzip's mark
  CHECK(input.substr(line.size() + 1 + size) == "\n" + kOptions.nonce + "\n");
  CHECK(packed.plain(kOptions) == make_bundle(probes, {}, ProbeLevel::host, kOptions).script);
  CHECK(input.size() < packed.plain(kOptions).size() / 2);
  CHECK(PackedBundle::command(kOptions).find(kOptions.nonce) == std::string::npos);
}

TEST_CASE("signatures travel only with probes that look for them", "[unit][probe][bundle]") {
  const std::vector<Signature> signatures = {{"a.b", "it's [0-9]+", "", {}}};
  CHECK(make_bundle({probe("a")}, signatures, ProbeLevel::host, kOptions).script.find("a.b\t") == std::string::npos);
  auto journal = probe("journal");
  journal.script = "printf %s \"$TRUEUP_SIGNATURES\"";
  CHECK(make_bundle({journal}, signatures, ProbeLevel::host, kOptions).script.find("a.b\tit'\\''s [0-9]+\n") !=
        std::string::npos);
}
