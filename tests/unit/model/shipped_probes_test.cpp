#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "load/playbook.hpp"
#include "parse/parser.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"
#include "trueup/environment.hpp"

// What the shipped probes printed on real and test hosts (tests/data/environment/probes/PROBE.CASE.txt), read by the
// parsers that the shipped playbooks declare, becomes the section in PROBE.CASE.json. TRUEUP_UPDATE_GOLDEN=1 rewrites
// those.

using namespace trueup;
using nlohmann::json;

namespace {

namespace fs = std::filesystem;

struct SourceTree : FileAccess {
  Result<std::string> read(const std::string& path) const override { return test::read_file(path); }
  std::vector<std::string> list(const std::string&) const override { return {}; }
};

/// Every shipped probe by its id; the shipped playbooks have no error.
std::map<std::string, Probe> shipped_probes() {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(TRUEUP_PLAYBOOKS))
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  Errors errors;
  const auto playbook = load_playbooks(paths, SourceTree(), errors);
  for (const auto& error : errors) FAIL_CHECK(to_string(error));
  std::map<std::string, Probe> probes;
  for (const auto& probe : playbook.probes) probes[probe.id] = probe;
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
    const auto parser = make_parser(json::parse(probe.parser));
    REQUIRE(parser);
    const auto value = (*parser)(test::read_file(path));
    if (!value) FAIL(value.error().message);
    Environment environment;
    const auto done = set_section(environment, probe.into, *value);
    if (!done) FAIL(done.error().message);
    const auto got = environment_to_json(environment)[probe.into];
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
    CHECK(probe.into == id);
    filled.insert(probe.into);
    CHECK(make_parser(json::parse(probe.parser)));
  }
  CHECK(filled == std::multiset<std::string>(environment_sections().begin(), environment_sections().end()));
}
