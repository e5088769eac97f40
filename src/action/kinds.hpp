#pragma once

#include <memory>

#include "action/action.hpp"

namespace trueup {

// One file each; registry.cpp has the list.
std::unique_ptr<ActionKind> make_alternatives_kind();
std::unique_ptr<ActionKind> make_cache_kind();
std::unique_ptr<ActionKind> make_command_kind();
std::unique_ptr<ActionKind> make_cuda_toolkit_kind();
std::unique_ptr<ActionKind> make_file_kind();
std::unique_ptr<ActionKind> make_package_kind();
std::unique_ptr<ActionKind> make_service_kind();
std::unique_ptr<ActionKind> make_systemd_override_kind();

}  // namespace trueup
