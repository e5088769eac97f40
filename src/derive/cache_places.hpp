#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trueup/derived.hpp"

namespace trueup {

/// Where the libraries of a consumer keep what they built: the caches of `kind`, by its variables, its home and its
/// account. Empty: it has none, or its home is not known. The table is the probes' own (probe/cache_places.txt).
std::vector<std::string> cache_places(std::string_view kind, const Consumer& consumer);

/// Whether `path` is `place` or lies below it.
bool lies_in(std::string_view path, const std::string& place);

/// The one of `places` that `path` lies in; empty: none.
std::string place_of(std::string_view path, const std::vector<std::string>& places);

}  // namespace trueup
