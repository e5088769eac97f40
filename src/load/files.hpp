#pragma once

#include <string>
#include <vector>

#include "trueup/result.hpp"

namespace trueup {

/// How loaders reach files: the edge gives them the disk, tests give them a map. Loaders stay pure.
struct FileAccess {
  virtual ~FileAccess() = default;
  /// Errors: not_found, or io with the system's text and the path.
  virtual Result<std::string> read(const std::string& path) const = 0;
  /// Names in a directory, sorted; empty where there is none.
  virtual std::vector<std::string> list(const std::string& directory) const = 0;
  virtual bool is_directory(const std::string& path) const { return !list(path).empty(); }
};

}  // namespace trueup
