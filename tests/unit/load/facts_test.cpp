#include "load/facts.hpp"

#include "support/catch.hpp"

namespace trueup {
namespace {

constexpr auto kOne = R"({"schema": 1, "name": "gpu1", "gpus": [], "unknown": {"disks": "no df"}, "derived": {}})";

std::string error_of(std::string_view text) {
  const auto facts = load_facts(text, "facts.json");
  return facts ? "no error" : to_string(facts.error());
}

}  // namespace

TEST_CASE("a file of facts holds one host or several", "[unit][load][facts]") {
  const auto one = load_facts(kOne, "facts.json");
  REQUIRE(one);
  REQUIRE(one->size() == 1);
  CHECK(one->front().name == "gpu1");
  CHECK(one->front().environment.gpus.is_known());
  CHECK(one->front().environment.disks.reason() == "no df");
  CHECK(one->front().environment.services.reason() == "not in the facts");

  const std::string two = R"({"schema": 1, "host": {"hostname": "gpu2"}})";
  for (const auto& text : {std::string(kOne) + "\n" + two + "\n", "[" + std::string(kOne) + ",\n" + two + "]",
                           std::string(kOne) + two}) {
    CAPTURE(text);
    const auto both = load_facts(text, "facts.json");
    REQUIRE(both);
    REQUIRE(both->size() == 2);
    CHECK(both->back().name == "gpu2");
  }
  const auto lines = load_facts(std::string(kOne) + "\n\n  " + two, "facts.json");
  CHECK(lines->back().at == SourcePos{"facts.json", 3, 3});
}

TEST_CASE("what is no facts is refused with its place", "[unit][load][facts]") {
  CHECK(error_of("") == "facts.json: empty: expected the facts of a host, as `trueup facts` prints them");
  CHECK_THAT(error_of("{\"schema\": 1,\n \"host\": tru}"),
             ContainsSubstring("facts.json:2:") && ContainsSubstring("not JSON"));
  CHECK_THAT(error_of(std::string(kOne) + "\n{\"schema\": 1, \"gpus\": ["), ContainsSubstring("facts.json:2:"));
  CHECK_THAT(error_of(R"({"schema": 1, "run": {}, "hosts": []})"),
             ContainsSubstring("these are no facts") && ContainsSubstring("hosts, run, schema"));
  CHECK_THAT(error_of(R"({"gpus": []})"), ContainsSubstring("schema: missing"));
  CHECK_THAT(error_of(R"({"schema": 99, "gpus": []})"), ContainsSubstring("schema: 99 is not known here"));
  CHECK_THAT(error_of("[" + std::string(kOne) + ", {\"schema\": 1, \"gpus\": 7}]"),
             ContainsSubstring("facts.json:1:1: [1]: gpus: expected a list, got 7"));
  CHECK_THAT(error_of("7"), ContainsSubstring("expected the facts of a host, got number"));
  CHECK_THAT(error_of(R"({"schema": 1, "gpus": []})"), ContainsSubstring("name: missing"));
  CHECK_THAT(error_of(R"({"schema": 1, "name": "-oProxyCommand", "gpus": []})"), ContainsSubstring("name: "));
}

}  // namespace trueup
