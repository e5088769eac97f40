#pragma once

#include "load/files.hpp"

namespace trueup {

/// Standard input to its end. Errors: io, limit.
Result<std::string> read_standard_input();

/// The controller's disk, for loaders.
class ControllerDisk final : public FileAccess {
 public:
  Result<std::string> read(const std::string& path) const override;
  std::vector<std::string> list(const std::string& directory) const override;
  bool is_directory(const std::string& path) const override;
};

}  // namespace trueup
