#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "load/files.hpp"
#include "load/playbook.hpp"

namespace trueup::test {

/// Files of a test, by path.
struct TextFiles final : FileAccess {
  std::map<std::string, std::string> files;

  explicit TextFiles(std::map<std::string, std::string> content) : files(std::move(content)) {}
  Result<std::string> read(const std::string& path) const override {
    const auto found = files.find(path);
    if (found == files.end()) return fail(ErrorKind::not_found, "no such file", SourcePos{path, 0, 0});
    return found->second;
  }
  std::vector<std::string> list(const std::string&) const override { return {}; }
};

inline std::vector<std::string> texts(const std::vector<Error>& errors) {
  std::vector<std::string> result;
  for (const auto& error : errors) result.push_back(to_string(error));
  return result;
}

/// The playbook of one text, `p.yaml`, that must be right.
inline Playbook playbook(const std::string& text) {
  Errors errors;
  auto result = load_playbooks({"p.yaml"}, TextFiles({{"p.yaml", text}}), errors);
  if (!errors.empty()) throw std::runtime_error(to_string(errors.front()));
  return result;
}

}  // namespace trueup::test
