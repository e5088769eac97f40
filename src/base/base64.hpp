#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trueup {

/// RFC 4648, section 4, with padding.
std::string base64_encode(std::string_view bytes);

/// Strict alphabet, padding optional; nothing for anything else.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace trueup
