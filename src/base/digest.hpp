#pragma once

#include <string>
#include <string_view>

// The one place that knows libcrypto.

namespace trueup {

/// 32 raw bytes (FIPS 180-4).
std::string sha256(std::string_view bytes);
/// 32 raw bytes (RFC 2104 over SHA-256).
std::string hmac_sha256(std::string_view key, std::string_view bytes);
/// 20 raw bytes (RFC 2104 over SHA-1): hashed names in known_hosts.
std::string hmac_sha1(std::string_view key, std::string_view bytes);

/// Two lower-case digits for each byte.
std::string hex(std::string_view bytes);

/// Whether both are equal, in a time that does not depend on where they differ.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace trueup
