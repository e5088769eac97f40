#include "run/exec_inventory.hpp"

#include "run/program.hpp"

namespace trueup {

Result<std::string> run_inventory_program(const std::string& path, const InventoryProgramLimits& limits) {
  return run_program({"inventory program", {path, "--list"}, {}, limits.time, limits.bytes});
}

}  // namespace trueup
