#pragma once

#include <string>
#include <string_view>

namespace trueup::ssh {

/// `SHA256:...`, as ssh-keygen -l prints it, of a public key in wire format.
std::string fingerprint(std::string_view key);

}  // namespace trueup::ssh
