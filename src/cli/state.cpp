#include "cli/state.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "cli/setup.hpp"

namespace trueup {
namespace {

constexpr auto kElsewhere = "set XDG_STATE_HOME to a directory of your own";

tl::unexpected<Error> refuse(std::string message, std::string hint) {
  return fail(Error{ErrorKind::io, std::move(message), {}, {}, std::move(hint)});
}

/// With its parents, each for this account alone.
bool make_directories(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return true;
  const auto slash = path.rfind('/');
  if (errno != ENOENT || slash == path.npos || slash == 0) return false;
  return make_directories(path.substr(0, slash)) && (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST);
}

}  // namespace

Result<std::string> state_directory() {
  // A relative path is to be ignored (XDG Base Directory Specification): it would mean another place in each directory.
  const char* given = std::getenv("XDG_STATE_HOME");
  std::string path = given != nullptr && *given == '/' ? given : own_account().home;
  if (path.empty() || path.front() != '/')
    return refuse("this account has no home directory to keep anything in", kElsewhere);
  if (given == nullptr || *given != '/') path += "/.local/state";
  path += "/trueup";
  struct stat status {};
  if (!make_directories(path) || stat(path.c_str(), &status) != 0)
    return refuse(fmt::format("cannot make '{}': {}", path, std::generic_category().message(errno)), kElsewhere);
  if (!S_ISDIR(status.st_mode)) return refuse(fmt::format("'{}' is no directory", path), "move it away");
  if (status.st_uid != geteuid())
    return refuse(fmt::format("'{}' belongs to user {}, not to {}", path, status.st_uid, geteuid()), kElsewhere);
  if ((status.st_mode & 022) != 0)
    return refuse(fmt::format("others can write to '{}'", path), fmt::format("chmod 700 '{}'", path));
  return path;
}

}  // namespace trueup
