#pragma once

#include <vector>

#include "derive/consumers.hpp"
#include "derive/host_view.hpp"

namespace trueup {

/// What LD_LIBRARY_PATH puts before the libraries that each consumer's wheels bring. The loader asks it before the
/// RUNPATH of torch's libraries (ld.so(8)).
std::vector<Shadow> find_shadows(const HostView& host, const Knowledge& knowledge, const std::vector<Claim>& claims);

}  // namespace trueup
