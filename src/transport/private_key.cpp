#include "transport/private_key.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.hpp"
#include "base/base64.hpp"
#include "transport/descriptor.hpp"
#include "transport/wire.hpp"

namespace trueup::ssh {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 64 * 1024;

Error named(Error error, const std::string& path) {
  if (error.kind == ErrorKind::limit) return {ErrorKind::malformed, fmt::format("'{}' is too long for a key", path)};
  error.message = fmt::format("cannot read key '{}': {}", path, error.message);
  return error;
}

std::string without_line_ends(std::string_view text) {
  std::string joined;
  for (const auto line : split_lines(text)) joined += trim(line);
  return joined;
}

}  // namespace

// openssh ::= 'openssh-key-v1\0' string(cipher) string(kdf) string(kdf options) number(keys) string(public key) ...
Result<PrivateKeyInfo> inspect_private_key(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEndOfBegin = "PRIVATE KEY-----";
  const auto begin = text.find(kBegin);
  const auto header_end = text.find('\n', begin == text.npos ? 0 : begin);
  if (begin == text.npos || header_end == text.npos) return fail(ErrorKind::malformed, "no private key in it");
  const auto header = trim(text.substr(begin, header_end - begin));
  if (!header.ends_with(kEndOfBegin)) return fail(ErrorKind::malformed, "no private key in it");
  const auto body = text.substr(header_end, text.find("-----END", header_end) - header_end);
  if (header != "-----BEGIN OPENSSH PRIVATE KEY-----")
    return PrivateKeyInfo{header == "-----BEGIN ENCRYPTED PRIVATE KEY-----" || body.find("ENCRYPTED") != body.npos, {}};

  constexpr std::string_view kMagic{"openssh-key-v1\0", 15};
  const auto bytes = base64_decode(without_line_ends(body));
  if (!bytes || !bytes->starts_with(kMagic)) return fail(ErrorKind::malformed, "damaged private key");
  WireReader reader(std::string_view(*bytes).substr(kMagic.size()));
  const auto cipher = reader.string();
  reader.string();
  reader.string();
  reader.number();
  const auto key = reader.string();
  if (!key || key_type(*key).empty()) return fail(ErrorKind::malformed, "damaged private key");
  return PrivateKeyInfo{*cipher != "none", std::string(*key)};
}

std::string parse_public_key(std::string_view text) {
  const auto lines = split_lines(text);
  if (lines.empty()) return {};
  const auto fields = split(trim(lines.front()), ' ');
  if (fields.size() < 2) return {};
  const auto key = base64_decode(fields[1]);
  return key && key_type(*key) == fields[0] ? *key : std::string();
}

namespace {

// Empty: no file, or no public key in it.
std::string read_public_key(const std::string& path) {
  const auto file = open_file(path);
  const auto text = file ? read_to_end(*file, kMaxKeyFileBytes) : Result<std::string>();
  return text ? parse_public_key(*text) : std::string();
}

}  // namespace

Result<KeyFile> load_key_file(const std::string& path) {
  const auto file = open_file(path);
  if (!file && file.error().kind == ErrorKind::not_found)
    if (auto key = read_public_key(path + ".pub"); !key.empty()) return KeyFile{path, Secret(""), false, key, true};
  if (!file) return fail(named(file.error(), path));
  struct stat status {};
  if (::fstat(file->get(), &status) != 0) return fail(named({ErrorKind::io, system_text(errno)}, path));
  auto text = read_to_end(*file, kMaxKeyFileBytes);
  if (!text) return fail(named(text.error(), path));
  if (auto key = parse_public_key(*text); !key.empty()) return KeyFile{path, Secret(""), false, key, true};
  if (status.st_uid == ::geteuid() && (status.st_mode & 077U) != 0)
    return fail(Error{ErrorKind::io,
                      fmt::format("key '{}' can be read by others (mode {:04o})", path, status.st_mode & 07777U),
                      {},
                      {},
                      fmt::format("chmod 600 {}", shell_quote(path))});
  const auto info = inspect_private_key(*text);
  if (!info) return fail(ErrorKind::malformed, fmt::format("cannot use key '{}': {}", path, info.error().message));
  KeyFile key{path, Secret(std::move(*text)), info->encrypted, info->key};
  if (key.key.empty()) key.key = read_public_key(path + ".pub");
  return key;
}

}  // namespace trueup::ssh
