#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "derive/knowledge.hpp"
#include "support/cases.hpp"
#include "trueup/derived.hpp"

// tests/data/derive/<case>.json:
//   what          one line
//   environment   the facts; or base: another case's facts, and patch: a JSON Patch (RFC 6902) of them
//   declared      consumers of the inventory
//   resolutions   each must be part of one that is derived for its library (and consumer, where named)
//   caches        each must be part of one verdict
//   findings      exact: keys of all findings at warning or above; roots, severity, not_evaluated: some of them

namespace trueup::test {

struct DeriveCase {
  std::string name;
  nlohmann::json document;
  nlohmann::json facts;
  std::vector<DeclaredConsumer> declared;
};

inline nlohmann::json case_document(const std::string& name) {
  return nlohmann::json::parse(read_file(std::filesystem::path(TRUEUP_TEST_DATA) / "derive" / (name + ".json")));
}

inline nlohmann::json case_facts(const nlohmann::json& document) {
  auto facts = document.contains("base") ? case_facts(case_document(document["base"])) : document.at("environment");
  return document.contains("patch") ? facts.patch(document["patch"]) : facts;
}

inline DeriveCase derive_case(const std::string& name) {
  DeriveCase found{name, case_document(name), {}, {}};
  found.facts = case_facts(found.document);
  for (const auto& each : found.document.value("declared", nlohmann::json::array()))
    found.declared.push_back({each.at("name"), each.at("python"), each.at("user"), each.at("env")});
  return found;
}

inline Knowledge shipped_knowledge() {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& file : std::filesystem::directory_iterator(std::string(TRUEUP_PLAYBOOKS) + "/knowledge"))
    texts.emplace_back(file.path().string(), read_file(file.path()));
  Errors errors;
  auto knowledge = load_knowledge(texts, errors);
  if (!errors.empty()) throw std::runtime_error(to_string(errors.front()));
  return knowledge;
}

/// Whether every field of `part` stands in `whole` with that value.
inline bool is_part(const nlohmann::json& part, const nlohmann::json& whole) {
  if (!part.is_object()) return part == whole;
  return whole.is_object() && std::all_of(part.items().begin(), part.items().end(), [&](const auto& item) {
           return whole.contains(item.key()) && is_part(item.value(), whole.at(item.key()));
         });
}

}  // namespace trueup::test
