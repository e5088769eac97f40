#include "transport/fingerprint.hpp"

#include "base/base64.hpp"
#include "base/digest.hpp"

namespace trueup::ssh {

std::string fingerprint(std::string_view key) {
  auto text = "SHA256:" + base64_encode(sha256(key));
  while (text.ends_with('=')) text.pop_back();
  return text;
}

}  // namespace trueup::ssh
