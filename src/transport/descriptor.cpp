#include "transport/descriptor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/units.hpp"

namespace trueup {
namespace {

tl::unexpected<Error> failed(int code) {
  return fail(code == ENOENT ? ErrorKind::not_found : ErrorKind::io, system_text(code));
}

}  // namespace

void Descriptor::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string system_text(int code) { return std::generic_category().message(code); }

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(ErrorKind::io, fmt::format("cannot make a pipe: {}", system_text(errno)));
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<std::pair<Descriptor, Descriptor>> make_socket_pair(int flags) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, ends.data()) != 0)
    return fail(ErrorKind::io, fmt::format("cannot make a pair of sockets: {}", system_text(errno)));
  return std::pair{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<Descriptor> open_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return failed(errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed(errno);
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::io, "not a regular file");
  return file;
}

Result<std::string> read_to_end(const Descriptor& file, std::size_t most_bytes) {
  std::string text;
  std::array<char, 64 * 1024> buffer;
  for (;;) {
    const auto count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0) return failed(errno);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > most_bytes) return fail(ErrorKind::limit, fmt::format("larger than {}", size_text(most_bytes)));
  }
}

}  // namespace trueup
