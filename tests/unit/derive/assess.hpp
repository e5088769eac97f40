#pragma once

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "check/check_set.hpp"
#include "load/playbook.hpp"
#include "unit/derive/derive_cases.hpp"

// From facts to findings with everything that is shipped: knowledge, derivation, playbooks.

namespace trueup::test {

struct ShippedFiles : FileAccess {
  Result<std::string> read(const std::string& path) const override { return read_file(path); }
  std::vector<std::string> list(const std::string&) const override { return {}; }
};

inline const CheckSet& shipped_checks() {
  static const auto kChecks = [] {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(TRUEUP_PLAYBOOKS))
      if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
    Errors errors;
    const auto playbook = load_playbooks(paths, ShippedFiles(), errors);
    auto checks = CheckSet::compile(playbook.checks, errors);
    std::string text;
    for (const auto& error : errors) text += to_string(error) + "\n";
    if (!errors.empty() || !checks) throw std::runtime_error(text);
    return *std::move(checks);
  }();
  return kChecks;
}

/// What the shipped checks say of facts with `derived` in them.
inline Assessment assess(const nlohmann::json& facts) {
  auto assessment = shipped_checks().assess(facts);
  if (!assessment) throw std::runtime_error(to_string(assessment.error()));
  return *std::move(assessment);
}

/// The same of a case, derived here.
inline Assessment assess(const DeriveCase& c) {
  static const auto kKnowledge = shipped_knowledge();
  const auto environment = environment_from_json(c.facts);
  if (!environment) throw std::runtime_error(to_string(environment.error()));
  auto facts = environment_to_json(*environment);
  facts["derived"] = derived_to_json(derive(*environment, c.declared, kKnowledge));
  return assess(facts);
}

inline std::string summary(const Assessment& assessment) {
  std::string text;
  for (const auto& finding : assessment.findings) {
    text += std::string(to_string(finding.severity)) + " " + finding.key() + (finding.root ? " (root): " : ": ") +
            finding.title + "\n";
    for (const auto& line : finding.evidence) text += "    " + line + "\n";
  }
  for (const auto& each : assessment.not_evaluated)
    text += "not evaluated " + each.check + " " + each.about + ": " + each.why + "\n";
  return text;
}

inline const Finding* find(const Assessment& assessment, const std::string& key) {
  const auto found = std::find_if(assessment.findings.begin(), assessment.findings.end(),
                                  [&](const Finding& each) { return each.key() == key; });
  return found == assessment.findings.end() ? nullptr : &*found;
}

}  // namespace trueup::test
