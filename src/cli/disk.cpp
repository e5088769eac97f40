#include "cli/disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace trueup {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20U;  // inventories of tens of thousands of hosts have a few
constexpr int kPatienceMs = 30'000;                           // with a pipe that nothing comes from

tl::unexpected<Error> no_answer(const std::string& name, int cause) {
  return fail(cause == ENOENT ? ErrorKind::not_found : ErrorKind::io,
              fmt::format("cannot read {}: {}", name, std::generic_category().message(cause)));
}

/// All that comes from `fd`, within `patience_ms` from one piece to the next; negative: without end.
Result<std::string> read_all(int fd, const std::string& name, int patience_ms) {
  std::string text;
  for (char chunk[65'536];;) {
    const auto got = ::read(fd, chunk, sizeof chunk);
    if (got == 0) return text;
    if (got < 0 && errno == EAGAIN) {
      pollfd wanted{fd, POLLIN, 0};
      if (::poll(&wanted, 1, patience_ms) == 0)
        return fail(ErrorKind::timeout, fmt::format("nothing was written to {} within {} s", name, patience_ms / 1000));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return no_answer(name, errno);
    text.append(chunk, static_cast<std::size_t>(got));
    if (text.size() > kLargestFile)
      return fail(ErrorKind::limit, fmt::format("{} gives more than {} MiB", name, kLargestFile >> 20U));
  }
}

}  // namespace

Result<std::string> read_standard_input() { return read_all(STDIN_FILENO, "standard input", -1); }

Result<std::string> ControllerDisk::read(const std::string& path) const {
  const auto name = fmt::format("'{}'", path);
  // A pipe with a name opens at once this way, even while nobody writes to it.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return no_answer(name, errno);
  const auto text = [&]() -> Result<std::string> {
    struct stat status {};
    if (::fstat(file, &status) != 0) return no_answer(name, errno);
    if (S_ISDIR(status.st_mode)) return fail(ErrorKind::io, name + " is a directory");
    if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
      return fail(ErrorKind::io, name + " is a device; expected a file or a pipe");
    // What others can write is not ours to trust: it decides what runs as root on every host.
    if (S_ISREG(status.st_mode) && (status.st_mode & S_IWOTH) != 0)
      return fail(Error{ErrorKind::io, name + " can be written by everyone", {}, {}, "chmod o-w it"});
    // At its end already: a pipe that nobody has opened for writing yet says so too, and that one is waited for.
    if (pollfd wanted{file, POLLIN, 0}; S_ISFIFO(status.st_mode) && ::poll(&wanted, 1, kPatienceMs) == 0)
      return fail(ErrorKind::timeout, fmt::format("nothing was written to {} within {} s", name, kPatienceMs / 1000));
    return read_all(file, name, kPatienceMs);
  }();
  ::close(file);
  return text;
}

std::vector<std::string> ControllerDisk::list(const std::string& directory) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool ControllerDisk::is_directory(const std::string& path) const {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

}  // namespace trueup
