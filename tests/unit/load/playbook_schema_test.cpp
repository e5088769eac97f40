#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/playbook.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"
#include "support/playbook_text.hpp"
#include "trueup/environment.hpp"

using namespace trueup;

// A key that is there in the one and not in the other shows as "unknown key", or as a key that no editor offers.
TEST_CASE("the schema for editors has the loader's keys", "[unit][load][playbook]") {
  const auto schema =
      nlohmann::json::parse(test::read_file(std::string(TRUEUP_PLAYBOOKS) + "/schema/playbook.schema.json"));
  const std::map<std::string, std::string> kinds = {
      {"probe", "probes"}, {"check", "checks"}, {"signature", "signatures"}, {"fix", "fixes"}};
  for (const auto& [kind, key] : kinds) {
    const auto& shape = schema["$defs"][kind];
    std::string all = key + ":\n  all: {";
    for (const auto& [name, value] : shape["properties"].items()) all += name + ": x, ";
    Errors errors;
    load_playbooks({"p.yaml"}, test::TextFiles({{"p.yaml", all + "}\n  none: {}\n"}}), errors);
    std::vector<std::string> missing;
    for (const auto& message : test::texts(errors)) {
      CHECK(message.find("unknown key") == std::string::npos);
      if (message.ends_with("is missing")) {
        const auto begin = message.find('\'') + 1;
        missing.push_back(message.substr(begin, message.find('\'', begin) - begin));
      }
    }
    auto required = shape["required"].get<std::vector<std::string>>();
    std::sort(missing.begin(), missing.end());
    std::sort(required.begin(), required.end());
    CHECK(missing == required);
  }
  CHECK(schema["$defs"]["section"]["enum"] == environment_sections());
}
