#pragma once

#include <string>
#include <string_view>

// The one place that knows zlib.

namespace trueup {

/// As `gzip -9` would (RFC 1952), without a name or a time.
std::string gzip(std::string_view bytes);

}  // namespace trueup
