#include "transport/config_files.hpp"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/text.hpp"
#include "transport/descriptor.hpp"

namespace trueup::ssh {

Result<std::string> DiskConfigFiles::read(const std::string& path) const {
  constexpr std::size_t kMostBytes = 64 * 1024 * 1024;
  const auto problem = [&](const Error& why) {
    return fail(why.kind, fmt::format("cannot read '{}': {}", printable(path), why.message));
  };
  const auto file = open_file(path);
  if (!file) return problem(file.error());
  struct stat status {};
  if (::fstat(file->get(), &status) != 0) return problem({ErrorKind::io, system_text(errno)});
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return problem({ErrorKind::io, fmt::format("it belongs to uid {}, neither to you nor to root", status.st_uid)});
  if ((status.st_mode & 022U) != 0) {
    Error error{ErrorKind::io, fmt::format("'{}' can be written by others (mode {:04o}), and it names programs to run",
                                           printable(path), status.st_mode & 07777U)};
    error.hint = fmt::format("chmod go-w {}", shell_quote(path));
    return fail(std::move(error));
  }
  auto text = read_to_end(*file, kMostBytes);
  if (!text) return problem(text.error());
  return text;
}

std::vector<std::string> DiskConfigFiles::glob(const std::string& pattern) const {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return paths;
}

LocalSide local_side(std::string user, std::string home) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {std::move(user), std::move(home), host.data(), ::getuid(),
          [](const std::string& name) -> std::optional<std::string> {
            const char* const value = std::getenv(name.c_str());
            return value == nullptr ? std::nullopt : std::optional<std::string>(value);
          }};
}

SshConfig load_ssh_config(const std::string& path, const std::string& home, std::vector<Error>& errors) {
  std::vector<ConfigSource> sources;
  if (path.empty()) {
    if (!home.empty()) sources.push_back({home + "/.ssh/config"});
    sources.push_back({"/etc/ssh/ssh_config", false, false});
  } else if (path != "none") {
    sources.push_back({path, true, true});
  }
  return SshConfig::load(sources, DiskConfigFiles(), home, errors);
}

}  // namespace trueup::ssh
