#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "trueup/result.hpp"

namespace trueup {

/// `500ms`, `5s`, `2m`, `1h`; a number alone counts seconds; at most a week. Errors: anything else, zero included.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

/// `10 s`, `1.5 s`, `200 ms`: for messages.
std::string duration_text(std::chrono::milliseconds duration);

/// `512B`, `64KiB`, `1MiB`, `2GiB`; a number alone counts bytes; at most 2^50. Errors: anything else, zero included.
Result<std::uint64_t> parse_size(std::string_view text);

/// `97.9 GiB`: for messages.
std::string size_text(std::uint64_t bytes);

}  // namespace trueup
