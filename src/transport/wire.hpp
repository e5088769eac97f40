#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// The data types of RFC 4251 section 5 that keys and the agent's protocol are made of.

namespace trueup::ssh {

/// Takes values off the front of a message. Once a value is not whole, that and all that follow are empty.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  std::optional<std::uint8_t> byte() {
    const auto bytes = take(1);
    return bytes ? std::optional(static_cast<std::uint8_t>(bytes->front())) : std::nullopt;
  }
  std::optional<std::uint32_t> number() {
    const auto bytes = take(4);
    if (!bytes) return std::nullopt;
    std::uint32_t value = 0;
    for (const char byte : *bytes) value = (value << 8U) | static_cast<unsigned char>(byte);
    return value;
  }
  std::optional<std::string_view> string() {
    const auto size = number();
    return size ? take(*size) : std::nullopt;
  }

 private:
  std::optional<std::string_view> take(std::size_t size) {
    if (broken_ || rest_.size() < size) {
      broken_ = true;
      return std::nullopt;
    }
    const auto taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool broken_ = false;
};

inline std::string wire_number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes += static_cast<char>((value >> static_cast<unsigned>(shift)) & 0xffU);
  return bytes;
}

inline std::string wire_string(std::string_view text) {
  return wire_number(static_cast<std::uint32_t>(text.size())) + std::string(text);
}

/// `ssh-ed25519`: the type that a public key in wire format begins with; empty: it is none.
inline std::string key_type(std::string_view key) { return std::string(WireReader(key).string().value_or("")); }

}  // namespace trueup::ssh
