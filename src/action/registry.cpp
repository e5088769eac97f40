#include "action/kinds.hpp"

namespace trueup {
namespace {

// To add a kind: a file of its own, its functions in a .sh beside it, and a row here.
std::vector<std::unique_ptr<ActionKind>> make_kinds() {
  std::vector<std::unique_ptr<ActionKind>> kinds;
  kinds.push_back(make_cuda_toolkit_kind());
  kinds.push_back(make_package_kind());
  kinds.push_back(make_alternatives_kind());
  kinds.push_back(make_file_kind());
  kinds.push_back(make_systemd_override_kind());
  kinds.push_back(make_cache_kind());
  kinds.push_back(make_command_kind());
  kinds.push_back(make_service_kind());
  return kinds;
}

}  // namespace

std::span<const std::unique_ptr<ActionKind>> action_kinds() {
  static const auto kKinds = make_kinds();
  return kKinds;
}

const ActionKind* find_action(std::string_view name) {
  for (const auto& kind : action_kinds())
    if (kind->name() == name) return kind.get();
  return nullptr;
}

}  // namespace trueup
