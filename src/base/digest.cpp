#include "base/digest.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <stdexcept>

namespace trueup {
namespace {

using Buffer = std::array<unsigned char, EVP_MAX_MD_SIZE>;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string text_of(const Buffer& buffer, unsigned length) {
  return {reinterpret_cast<const char*>(buffer.data()), length};
}

// libcrypto refuses an algorithm only where its configuration forbids it: nothing of ours can go on then.
[[noreturn]] void refused(const char* algorithm) {
  throw std::runtime_error(std::string("libcrypto does not compute ") + algorithm);
}

std::string hmac(const EVP_MD* algorithm, const char* name, std::string_view key, std::string_view bytes) {
  Buffer buffer{};
  unsigned length = 0;
  if (HMAC(algorithm, key.data(), static_cast<int>(key.size()), bytes_of(bytes), bytes.size(), buffer.data(),
           &length) == nullptr)
    refused(name);
  return text_of(buffer, length);
}

}  // namespace

std::string sha256(std::string_view bytes) {
  Buffer buffer{};
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), buffer.data(), &length, EVP_sha256(), nullptr) != 1) refused("SHA-256");
  return text_of(buffer, length);
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  return hmac(EVP_sha256(), "HMAC-SHA256", key, bytes);
}

std::string hmac_sha1(std::string_view key, std::string_view bytes) {
  return hmac(EVP_sha1(), "HMAC-SHA1", key, bytes);
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0xfU];
  }
  return text;
}

bool is_same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace trueup
