#include "model/schema.hpp"

#include <nlohmann/json.hpp>

#include "support/cases.hpp"
#include "support/catch.hpp"
#include "trueup/derived.hpp"
#include "trueup/environment.hpp"

using namespace trueup;
using nlohmann::json;

namespace {

/// Where `document` is not what `shape` says; empty: nowhere.
std::string mismatch(const json& document, const Shape& shape, const std::string& at) {
  const auto all = [&](const Shape& element) {
    for (const auto& [key, value] : document.items())
      if (auto found = mismatch(value, element, at + "/" + key); !found.empty()) return found;
    return std::string();
  };
  if (document.is_null()) return shape.nullable ? "" : at;
  switch (shape.kind) {
    case Shape::Kind::list:
      return document.is_array() ? all(shape.element[0]) : at;
    case Shape::Kind::map:
      return document.is_object() ? all(shape.element[0]) : at;
    case Shape::Kind::scalar:
      return (shape.type == "integer"   ? document.is_number_integer()
              : shape.type == "boolean" ? document.is_boolean()
                                        : document.is_string())
                 ? ""
                 : at;
    case Shape::Kind::record:
      break;
  }
  if (!document.is_object() || document.size() != shape.fields.size()) return at;
  for (const auto& [name, field] : shape.fields) {
    if (!document.contains(name)) return at + "/" + name;
    if (auto found = mismatch(document[name], field, at + "/" + name); !found.empty()) return found;
  }
  return {};
}

/// The part of JSON Schema that ours uses, against the table in fields.hpp: names, types, what is required.
std::string disagreement(const json& schema, const json& root, const Shape& shape, const std::string& at) {
  if (schema.contains("$ref")) {
    const std::string name = schema["$ref"].get<std::string>().substr(std::string("#/$defs/").size());
    if (!root["$defs"].contains(name)) return at + ": no definition " + name;
    return disagreement(root["$defs"][name], root, shape, at);
  }
  if (schema.contains("anyOf")) {  // a definition, or null
    if (!shape.nullable || schema["anyOf"][1] != json{{"type", "null"}}) return at + ": null";
    Shape plain = shape;
    plain.nullable = false;
    return disagreement(schema["anyOf"][0], root, plain, at);
  }
  std::string type = shape.kind == Shape::Kind::list     ? "array"
                     : shape.kind != Shape::Kind::scalar ? "object"
                     : shape.type == "version"           ? "string"
                                                         : shape.type;
  if (schema["type"] != (shape.nullable ? json{type, "null"} : json(type))) return at + ": type";
  if (shape.kind == Shape::Kind::list) return disagreement(schema["items"], root, shape.element[0], at + "/items");
  if (shape.kind == Shape::Kind::map)
    return disagreement(schema["additionalProperties"], root, shape.element[0], at + "/*");
  if (shape.kind == Shape::Kind::scalar) return {};
  std::vector<std::string> required;
  for (const auto& [name, field] : shape.fields) {
    if (!schema["properties"].contains(name)) return at + ": lacks " + name;
    if (auto found = disagreement(schema["properties"][name], root, field, at + "/" + name); !found.empty())
      return found;
    if (name != "derived") required.push_back(name);
  }
  if (schema["properties"].size() != shape.fields.size()) return at + ": has a property too many";
  return schema["required"] == json(required) ? "" : at + ": required";
}

json file(const std::filesystem::path& path) { return json::parse(test::read_file(path)); }

}  // namespace

TEST_CASE("the shape knows every field of every section and derived record", "[unit][model][schema]") {
  CHECK(schema_has("", "gpus"));
  CHECK(schema_has("", "derived"));
  CHECK(schema_has("gpus", "compute_cap"));
  CHECK(schema_has("host", "boot_id"));
  CHECK(schema_has("python_envs.packages", "version"));
  CHECK(schema_has("derived", "resolutions"));
  CHECK(schema_has("derived.resolutions", "gate_rule"));
  CHECK_FALSE(schema_has("gpus", "compute_cab"));
  CHECK_FALSE(schema_has("gpu", "compute_cap"));
  CHECK(schema_fields("gpu").empty());
  CHECK(schema_fields("cuda_links") == std::vector<std::string>{"path", "target", "resolved", "changed"});
}

TEST_CASE("paths lead through lists and maps", "[unit][model][schema]") {
  REQUIRE(shape_at("services.unit_env.CUDA_HOME"));
  CHECK(shape_at("services.unit_env.CUDA_HOME")->type == "string");
  CHECK(shape_at("services.unit_env")->kind == Shape::Kind::map);
  CHECK(shape_at("gpus")->kind == Shape::Kind::list);
  CHECK(shape_at("gpus.compute_cap")->type == "version");
  CHECK(shape_at("gpus.compute_cap")->nullable);
  CHECK(shape_at("gpus.compute_cap.major") == nullptr);
  CHECK(shape_at("derived.resolutions.targets")->kind == Shape::Kind::list);
}

TEST_CASE("what is written has the shape", "[unit][model][schema]") {
  auto document = file(std::filesystem::path(TRUEUP_TEST_DATA) / "environment" / "full.json");
  Derived derived;
  derived.consumers.emplace_back();
  derived.resolutions.emplace_back();
  derived.caches.emplace_back();
  derived.cuda_versions["driver_max"] = "13.0";
  document["derived"] = derived_to_json(derived);
  CHECK(document["derived"]["resolutions"][0]["outcome"] == "unknown");
  CHECK(mismatch(document, facts_shape(), "") == "");
  document["gpus"][0]["index"] = "0";
  CHECK(mismatch(document, facts_shape(), "") == "/gpus/0/index");
}

TEST_CASE("the JSON Schema for other programs says the same", "[unit][model][schema]") {
  const auto schema = file(std::filesystem::path(TRUEUP_PLAYBOOKS) / "schema" / "environment.schema.json");
  CHECK(disagreement(schema, schema, facts_shape(), "") == "");
  auto wrong = schema;
  wrong["$defs"]["Gpu"]["properties"]["index"]["type"] = "string";
  CHECK(disagreement(wrong, wrong, facts_shape(), "") == "/gpus/items/index: type");
}
