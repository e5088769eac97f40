#pragma once

#include <vector>

#include "derive/consumers.hpp"
#include "derive/host_view.hpp"
#include "trueup/derived.hpp"

namespace trueup {

/// What is wrong or telling about each JIT cache that the probes found, with the consumer that would use it.
std::vector<CacheVerdict> judge_caches(const HostView& host, const Knowledge& knowledge,
                                       const std::vector<Claim>& claims, const std::vector<Resolution>& resolutions);

}  // namespace trueup
