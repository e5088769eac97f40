#include "transport/digest.hpp"

#include <array>
#include <bit>
#include <cstdint>

#include "base/base64.hpp"

namespace trueup::ssh {
namespace {

constexpr std::size_t kBlock = 64;

// The padding that SHA-1 and SHA-256 share: a one bit, zeros, the length in bits as 64 bits.
std::string padded(std::string_view bytes) {
  std::string message(bytes);
  message += '\x80';
  while (message.size() % kBlock != kBlock - 8) message += '\0';
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8)
    message += static_cast<char>((bits >> static_cast<unsigned>(shift)) & 0xffU);
  return message;
}

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t word = 0;
  for (const char byte : bytes.substr(0, 4)) word = (word << 8U) | static_cast<unsigned char>(byte);
  return word;
}

template <std::size_t N>
std::string to_bytes(const std::array<std::uint32_t, N>& words) {
  std::string bytes;
  for (const auto word : words)
    for (int shift = 24; shift >= 0; shift -= 8)
      bytes += static_cast<char>((word >> static_cast<unsigned>(shift)) & 0xffU);
  return bytes;
}

std::string sha1(std::string_view bytes) {
  std::array<std::uint32_t, 5> hash = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  const auto message = padded(bytes);
  for (std::size_t offset = 0; offset < message.size(); offset += kBlock) {
    std::array<std::uint32_t, 80> w{};
    for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(std::string_view(message).substr(offset + 4 * i));
    for (std::size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = hash;
    for (std::size_t i = 0; i < 80; ++i) {
      const std::uint32_t f = i < 20   ? (b & c) | (~b & d)
                              : i < 40 ? b ^ c ^ d
                              : i < 60 ? (b & c) | (b & d) | (c & d)
                                       : b ^ c ^ d;
      constexpr std::array<std::uint32_t, 4> k = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
      const std::uint32_t next = std::rotl(a, 5) + f + e + k[i / 20] + w[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    hash = {hash[0] + a, hash[1] + b, hash[2] + c, hash[3] + d, hash[4] + e};
  }
  return to_bytes(hash);
}

}  // namespace

std::string sha256(std::string_view bytes) {
  constexpr std::array<std::uint32_t, 64> k = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  std::array<std::uint32_t, 8> hash = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto message = padded(bytes);
  for (std::size_t offset = 0; offset < message.size(); offset += kBlock) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(std::string_view(message).substr(offset + 4 * i));
    for (std::size_t i = 16; i < 64; ++i) {
      const auto s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3U);
      const auto s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10U);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = hash;
    for (std::size_t i = 0; i < 64; ++i) {
      const auto s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const auto t1 = h + s1 + ((e & f) ^ (~e & g)) + k[i] + w[i];
      const auto s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const auto t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    hash = {hash[0] + a, hash[1] + b, hash[2] + c, hash[3] + d, hash[4] + e, hash[5] + f, hash[6] + g, hash[7] + h};
  }
  return to_bytes(hash);
}

std::string hmac_sha1(std::string_view key, std::string_view bytes) {
  std::string inner(key.size() > kBlock ? sha1(key) : std::string(key));
  inner.resize(kBlock, '\0');
  std::string outer = inner;
  for (auto& byte : inner) byte = static_cast<char>(byte ^ 0x36);
  for (auto& byte : outer) byte = static_cast<char>(byte ^ 0x5c);
  return sha1(outer + sha1(inner + std::string(bytes)));
}

std::string fingerprint(std::string_view key) {
  auto text = "SHA256:" + base64_encode(sha256(key));
  while (text.ends_with('=')) text.pop_back();
  return text;
}

}  // namespace trueup::ssh
