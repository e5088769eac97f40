#include "transport/private_key.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/text.hpp"
#include "transport/digest.hpp"
#include "transport/wire.hpp"

namespace trueup::ssh {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 64 * 1024;

class File {
 public:
  explicit File(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Error system_error(const std::string& path, int code) {
  const auto kind = code == ENOENT ? ErrorKind::not_found : ErrorKind::io;
  return {kind, fmt::format("cannot read key '{}': {}", path, std::generic_category().message(code))};
}

std::string without_line_ends(std::string_view text) {
  std::string joined;
  for (const auto line : split_lines(text)) joined += trim(line);
  return joined;
}

Result<std::string> read_whole(const File& file, const std::string& path) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const auto count = ::read(file.descriptor(), buffer.data(), buffer.size());
    if (count < 0) return fail(system_error(path, errno));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kMaxKeyFileBytes)
      return fail(ErrorKind::malformed, fmt::format("'{}' is too long for a key", path));
  }
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

Result<KeyFile> load_key_file(const std::string& path) {
  const File file(path);
  if (file.descriptor() < 0) return fail(system_error(path, errno));
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) return fail(system_error(path, errno));
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::io, fmt::format("key '{}' is not a regular file", path));
  if (status.st_uid == ::geteuid() && (status.st_mode & 077U) != 0)
    return fail(Error{ErrorKind::io,
                      fmt::format("key '{}' can be read by others (mode {:04o})", path, status.st_mode & 07777U),
                      {},
                      {},
                      fmt::format("chmod 600 {}", shell_quote(path))});
  auto text = read_whole(file, path);
  if (!text) return fail(text.error());
  const auto info = inspect_private_key(*text);
  if (!info) return fail(ErrorKind::malformed, fmt::format("cannot use key '{}': {}", path, info.error().message));
  KeyFile key{path, Secret(std::move(*text)), info->encrypted, info->key};
  if (key.key.empty()) {
    const File public_file(path + ".pub");
    if (const auto public_text = read_whole(public_file, path); public_text) key.key = parse_public_key(*public_text);
  }
  return key;
}

}  // namespace trueup::ssh
