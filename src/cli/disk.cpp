#include "cli/disk.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace trueup {
namespace {

constexpr off_t kLargestFile = off_t{64} << 20;  // inventories of tens of thousands of hosts have a few

}  // namespace

Result<std::string> ControllerDisk::read(const std::string& path) const {
  struct stat status {};
  stat(path.c_str(), &status);  // what is not there, opening tells
  if (S_ISDIR(status.st_mode)) return fail(ErrorKind::io, fmt::format("'{}' is a directory", path));
  // What others can write is not ours to trust: it decides what runs as root on every host.
  if (S_ISREG(status.st_mode) && (status.st_mode & S_IWOTH) != 0)
    return fail(Error{ErrorKind::io, fmt::format("'{}' can be written by everyone", path), {}, {}, "chmod o-w it"});
  if (S_ISCHR(status.st_mode) || (S_ISREG(status.st_mode) && status.st_size > kLargestFile))
    return fail(ErrorKind::limit, fmt::format("'{}' is no file of at most {} MiB", path, kLargestFile >> 20));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    const auto cause = std::error_code(errno != 0 ? errno : EIO, std::generic_category());
    return fail(cause.value() == ENOENT ? ErrorKind::not_found : ErrorKind::io,
                fmt::format("cannot read '{}': {}", path, cause.message()));
  }
  return std::move(text).str();
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
