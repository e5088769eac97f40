#pragma once

#include <string>
#include <string_view>

#include "base/secret.hpp"
#include "trueup/result.hpp"

namespace trueup::ssh {

/// What a private key file shows without its passphrase.
struct PrivateKeyInfo {
  bool encrypted = false;
  std::string key;  ///< public key in wire format; empty: the format does not show it
};

/// Formats: OpenSSH's (PROTOCOL.key) and PEM. Errors: malformed, for text that is neither.
Result<PrivateKeyInfo> inspect_private_key(std::string_view text);

/// The key of a one-line public key file (`ssh-ed25519 AAAA... comment`) in wire format; empty: it holds none.
std::string parse_public_key(std::string_view text);

struct KeyFile {
  std::string path;
  Secret text;
  bool encrypted = false;
  std::string key;  ///< public key in wire format, from the file or from PATH.pub; empty: not known
  bool is_public = false;  ///< only that is there: it says which of the agent's keys is meant
};

/// Reads `path`, or where that is missing PATH.pub. Errors, each naming the path: not_found; io (unreadable, or others
/// may read it, which ssh(1) refuses as well); malformed.
Result<KeyFile> load_key_file(const std::string& path);

}  // namespace trueup::ssh
