#include "load/yaml.hpp"

#include <nlohmann/json.hpp>

#include "support/catch.hpp"

using namespace trueup;

TEST_CASE("yaml keeps positions and tells text from numbers", "[unit][load][yaml]") {
  const auto node = parse_yaml("a: 1\nb: '1'\nc: [x, true, 1.5, ~]\nd: !vault secret\n", "f.yaml");
  REQUIRE(node.has_value());
  CHECK(yaml_to_json(*node).dump() == R"({"a":1,"b":"1","c":["x",true,1.5,null],"d":"secret"})");
  CHECK(to_string(node->find("b")->at) == "f.yaml:2:4");
  CHECK(node->find("d")->tag == "!vault");
}

TEST_CASE("yaml refuses what would lose data, with the position", "[unit][load][yaml]") {
  const auto message = [](std::string_view text) { return to_string(parse_yaml(text, "f.yaml").error()); };
  CHECK(message("a: 1\na: 2\n") == "f.yaml:2:1: key 'a' stands twice");
  CHECK(message("a: [\n").find("f.yaml:2:1: not YAML") == 0);
  CHECK(message("a: 1\n---\nb: 2\n") == "f.yaml:1:1: expected one YAML document, found several");
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += "*a" + std::to_string(i - 1) + (j < 9 ? "," : "]\n");
  }
  CHECK(message(bomb).find("more than 200000 nodes") != std::string::npos);
}

TEST_CASE("a map reader reports every error and the nearest key", "[unit][load][yaml]") {
  const auto node = parse_yaml("tilte: x\nlimit: ten\nlevel: hots\n", "p.yaml");
  Errors errors;
  YamlMap map(*node, "probe gpus", errors);
  map.required_text("title");
  map.integer("limit", 1, 60);
  map.choice("level", {"host", "login"});
  map.finish();
  std::vector<std::string> texts;
  for (const auto& error : errors) texts.push_back(to_string(error));
  CHECK(texts == std::vector<std::string>{
                     "p.yaml:1:1: probe gpus: 'title' is missing",
                     "p.yaml:2:8: probe gpus: 'limit': expected a whole number from 1 to 60, got 'ten'",
                     "p.yaml:3:8: probe gpus: 'level': expected one of host, login, got 'hots'; did you mean 'host'?",
                     "p.yaml:1:1: probe gpus: unknown key 'tilte'; did you mean 'title'?"});
}
