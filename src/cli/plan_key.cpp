#include "cli/plan_key.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/text.hpp"
#include "cli/disk.hpp"
#include "cli/output.hpp"
#include "cli/state.hpp"
#include "run/probe_hosts.hpp"

namespace trueup {
namespace {

constexpr std::size_t kKeyBytes = 32;

tl::unexpected<Error> refuse(std::string message, std::string hint) {
  return fail(Error{ErrorKind::io, std::move(message), {}, {}, std::move(hint)});
}

std::string errno_text() { return std::generic_category().message(errno); }

Result<Secret> read_key(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    return refuse(fmt::format("cannot read the plan key '{}': {}", path, errno_text()),
                  "--plan-key names a file that holds one");
  if (!S_ISREG(status.st_mode)) return refuse(fmt::format("the plan key '{}' is no file", path), "");
  if ((status.st_mode & 077U) != 0)
    return refuse(fmt::format("the plan key '{}' can be read or written by others", path),
                  fmt::format("chmod 600 {}", shell_quote(path)));
  const auto text = ControllerDisk().read(path);
  if (!text) return fail(text.error());
  const auto key = trim(*text);
  if (key.size() < 2 * kKeyBytes)
    return refuse(fmt::format("'{}' holds no plan key: expected at least {} characters", path, 2 * kKeyBytes),
                  "`openssl rand -hex 32` makes one");
  return Secret(std::string(key));
}

/// Two that make it at the same time get the same one: the first to give it its name.
Result<void> make_key(const std::string& path) {
  const auto fresh = fmt::format("{}.{}", path, getpid());
  if (auto written = write_file(fresh, random_hex(kKeyBytes) + "\n"); !written) return written;
  const bool is_there = link(fresh.c_str(), path.c_str()) == 0 || errno == EEXIST;
  const auto why = errno_text();
  unlink(fresh.c_str());
  if (!is_there) return refuse(fmt::format("cannot make the plan key '{}': {}", path, why), "");
  return {};
}

}  // namespace

Result<Secret> load_plan_key(const std::string& path) {
  if (!path.empty()) return read_key(path);
  const auto directory = state_directory();
  if (!directory) return fail(directory.error());
  const auto own = *directory + "/plan.key";
  if (access(own.c_str(), F_OK) != 0)
    if (const auto made = make_key(own); !made) return fail(made.error());
  return read_key(own);
}

}  // namespace trueup
