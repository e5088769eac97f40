#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "load/yaml.hpp"
#include "parse/parser.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"
#include "trueup/environment.hpp"

// What the shipped probes printed on real and test hosts (tests/data/environment/probes/PROBE.CASE.txt), read by the parsers
// that the shipped playbooks declare, becomes the section in PROBE.CASE.json. TRUEUP_UPDATE_GOLDEN=1 rewrites those.

using namespace trueup;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

/// Every shipped probe: its id, and what the playbook says of it.
std::map<std::string, json> shipped_probes() {
  std::map<std::string, json> probes;
  for (const auto& entry : fs::directory_iterator(TRUEUP_PLAYBOOKS)) {
    if (entry.path().extension() != ".yaml") continue;
    const auto yaml = parse_yaml(test::read_file(entry.path()), entry.path().string());
    REQUIRE(yaml);
    const auto declared = yaml_to_json(*yaml).value("probes", json::object());
    for (const auto& [id, probe] : declared.items()) probes[id] = probe;
  }
  return probes;
}

}  // namespace

TEST_CASE("what shipped probes printed becomes their sections", "[unit][model][environment][probes]") {
  const auto probes = shipped_probes();
  const bool update = std::getenv("TRUEUP_UPDATE_GOLDEN") != nullptr;
  for (const auto& path : test::cases_in("environment/probes", ".txt")) {
    const auto name = path.stem().string();
    CAPTURE(name);
    const auto& probe = probes.at(name.substr(0, name.find('.')));
    const auto parser = make_parser(probe["parse"]);
    REQUIRE(parser);
    const auto value = (*parser)(test::read_file(path));
    if (!value) FAIL(value.error().message);
    const auto section = probe["into"].get<std::string>();
    Environment environment;
    const auto done = set_section(environment, section, *value);
    if (!done) FAIL(done.error().message);
    const auto got = environment_to_json(environment)[section];
    const auto expected = fs::path(path).replace_extension(".json");
    if (update) {
      std::ofstream(expected) << got.dump(1) << '\n';
      CHECK(!"golden files were rewritten: look at them");
    } else {
      CHECK(got == json::parse(test::read_file(expected)));
    }
  }
}

TEST_CASE("each section has exactly one shipped probe, and its parser fits", "[unit][model][environment][probes]") {
  std::multiset<std::string> filled;
  for (const auto& [id, probe] : shipped_probes()) {
    CAPTURE(id);
    CHECK(probe["into"] == id);
    filled.insert(probe["into"].get<std::string>());
    CHECK(make_parser(probe["parse"]));
  }
  CHECK(filled == std::multiset<std::string>(environment_sections().begin(), environment_sections().end()));
}
