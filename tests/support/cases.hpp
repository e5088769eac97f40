#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Cases are files, runners are generic: tests/data/<folder>/<case>.<extension>.

namespace trueup::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Paths of all files with `extension` (".json") in tests/data/`folder`, sorted. A folder without any is a mistake.
inline std::vector<std::filesystem::path> cases_in(const std::string& folder, const std::string& extension) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TRUEUP_TEST_DATA) / folder))
    if (entry.path().extension() == extension) paths.push_back(entry.path());
  if (paths.empty()) throw std::runtime_error("no cases in tests/data/" + folder);
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace trueup::test
