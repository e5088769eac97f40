#pragma once

#include <string>
#include <vector>

#include "derive/consumers.hpp"
#include "derive/host_view.hpp"
#include "trueup/derived.hpp"

namespace trueup {

/// What the host's files tell of why a library that does not work now may have worked before, one line each: what was
/// built for another release, target, toolkit or environment than it uses now, when its packages came, links that were
/// moved. Alike for every library; what a cache tells depends on its kind.
std::vector<std::string> history_of(const HostView& host, const Claim& claim, const Resolution& resolution);

}  // namespace trueup
