#include "trueup/environment.hpp"

#include <nlohmann/json.hpp>

#include "support/cases.hpp"
#include "support/catch.hpp"

using namespace trueup;
using nlohmann::json;

namespace {

json full_sample() {
  return json::parse(test::read_file(std::filesystem::path(TRUEUP_TEST_DATA) / "environment" / "full.json"));
}

/// What set_section says about `value`, and that the section is then unknown for that very reason.
std::string refusal(const std::string& section, const char* value) {
  Environment environment;
  const auto done = set_section(environment, section, json::parse(value));
  REQUIRE_FALSE(done);
  CHECK(environment_to_json(environment)["unknown"][section] == done.error().message);
  return done.error().message;
}

bool has_default(const json& value) {
  return value.is_null() || value == "" || value == 0 || value == false || value == json::array() ||
         value == json::object() || value == -1;
}

}  // namespace

TEST_CASE("an environment with every field set survives JSON", "[unit][model][environment]") {
  const auto sample = full_sample();
  const auto environment = environment_from_json(sample);
  REQUIRE(environment);
  const auto written = environment_to_json(*environment);
  CHECK(written == sample);
  CHECK(environment_from_json(written).value() == *environment);

  // The sample is only worth something while it sets each field: a default would survive by accident.
  for (const auto& section : environment_sections()) {
    const json& record = sample[section].is_array() ? sample[section][0] : sample[section];
    const json empty = environment_to_json([&] {
      Environment one;
      const json nothing = json::object();
      REQUIRE(set_section(one, section, sample[section].is_array() ? json::array({nothing}) : nothing));
      return one;
    }())[section];
    for (const auto& [name, value] : (empty.is_array() ? empty[0] : empty).items()) {
      CAPTURE(section, name);
      REQUIRE(record.contains(name));
      if (!(section == "host" && name == "uid") && !(section == "memory") && !(section == "gpus" && name == "index"))
        CHECK_FALSE(has_default(record[name]));
    }
  }
}

TEST_CASE("absent, unknown and a value are three answers, in JSON too", "[unit][model][environment]") {
  Environment environment;
  set_section_absent(environment, "gpus");
  set_section_unknown(environment, "driver", "exit 9: cannot talk to the driver");
  REQUIRE(set_section(environment, "toolkits", json::array()));

  const auto document = environment_to_json(environment);
  CHECK(document["gpus"].is_null());
  CHECK_FALSE(document["unknown"].contains("gpus"));
  CHECK(document["driver"].is_null());
  CHECK(document["unknown"]["driver"] == "exit 9: cannot talk to the driver");
  CHECK(document["toolkits"] == json::array());
  CHECK(document["unknown"]["services"] == "not asked");

  const auto back = environment_from_json(document);
  REQUIRE(back);
  CHECK(*back == environment);
  CHECK(back->gpus.is_absent());
  CHECK(back->driver.is_unknown());
  CHECK(back->toolkits.is_known());
}

TEST_CASE("a value that does not fit is named with its place", "[unit][model][environment]") {
  CHECK(refusal("gpus", R"([{"pci": "a"}, {"compute_cap": "N/A"}])") ==
        "gpus[1].compute_cap: expected a version, got 'N/A'");
  CHECK(refusal("gpus", R"({"pci": "a"})") == "gpus: expected a list, got a record");
  CHECK(refusal("memory", R"({"total_bytes": -1})") == "memory.total_bytes: expected a number not below zero, got -1");
  CHECK(refusal("host", R"({"cpus": 5000000000})") == "host.cpus: expected a whole number, got 5000000000");
  CHECK(refusal("host", R"({"cpus": 1.5})") == "host.cpus: expected a whole number, got 1.5");
  CHECK(refusal("services", R"([{"unit_env": {"PATH": 1}}])") == "services[0].unit_env.PATH: expected text, got 1");
  CHECK(refusal("services", R"([{"stale": "yes"}])") == "services[0].stale: expected true or false, got 'yes'");
  CHECK(refusal("disks", R"([{"options": "rw"}])") == "disks[0].options: expected a list, got 'rw'");
}

TEST_CASE("a probe cannot give a field that no record has", "[unit][model][environment]") {
  CHECK(refusal("gpus", R"([{"compute_cab": "12.0"}])") ==
        "gpus[0]: no field 'compute_cab'; did you mean 'compute_cap'?");
  CHECK(refusal("gpus", R"([{"unknown": {"compute_cab": "why"}}])") ==
        "gpus[0].unknown: no field 'compute_cab'; did you mean 'compute_cap'?");
  Environment environment;
  CHECK(set_section(environment, "gpu", json::array()).error().message ==
        "no section 'gpu' in the environment; did you mean 'gpus'?");
}

TEST_CASE("null and missing fields are the struct's defaults", "[unit][model][environment]") {
  Environment environment;
  REQUIRE(set_section(environment, "gpus",
                      json::parse(R"([{"pci": "0000:01:00.0", "index": null, "memory_bytes": null}])")));
  Gpu expected;
  expected.pci = "0000:01:00.0";
  CHECK(environment.gpus->front() == expected);
}

TEST_CASE("facts that were not ours, or are newer", "[unit][model][environment]") {
  CHECK(environment_from_json(json::array()).error().message == "facts: expected a record");
  CHECK_THAT(environment_from_json(json::object()).error().message, ContainsSubstring("no facts of trueup"));
  CHECK(environment_from_json({{"schema", 2}}).error().kind == ErrorKind::unsupported);
  CHECK(environment_from_json({{"schema", 1}, {"disks", {{{"mount", 1}}}}}).error().message ==
        "disks[0].mount: expected text, got 1");

  auto sample = full_sample();
  const auto plain = environment_from_json(sample);
  sample["gpus"][0]["field_of_the_future"] = 1;
  sample["section_of_the_future"] = 1;
  sample.erase("login");
  auto newer = environment_from_json(sample);
  REQUIRE(newer);
  CHECK(newer->gpus == plain->gpus);
  CHECK(newer->login.reason() == "not in the facts");
}

TEST_CASE("bytes that are no UTF-8 do not stop the facts from being written", "[unit][model][environment]") {
  Environment environment;
  REQUIRE(set_section(environment, "os", json{{"id", "a\xff"}}));
  CHECK_NOTHROW(environment_to_json(environment).dump(-1, ' ', false, json::error_handler_t::replace));
  CHECK_FALSE(set_section(environment, "os", json{{"id", json::array({"\xff"})}}));
}

TEST_CASE("packages are found by name", "[unit][model][environment]") {
  PythonEnv env;
  env.packages = {{"torch", "2.9.1", 0}, {"triton", "3.5.1", 0}};
  REQUIRE(env.package("triton"));
  CHECK(env.package("triton")->version == "3.5.1");
  CHECK(env.package("vllm") == nullptr);
}
