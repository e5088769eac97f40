#pragma once

#include <string>
#include <string_view>

// Just enough to read known_hosts and to name keys as OpenSSH does. No secret passes through here.

namespace trueup::ssh {

/// 32 raw bytes (FIPS 180-4).
std::string sha256(std::string_view bytes);
/// 20 raw bytes (RFC 2104 over FIPS 180-4's SHA-1): hashed names in known_hosts.
std::string hmac_sha1(std::string_view key, std::string_view bytes);

/// `SHA256:...`, as ssh-keygen -l prints it, of a public key in wire format.
std::string fingerprint(std::string_view key);

}  // namespace trueup::ssh
