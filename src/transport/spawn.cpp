#include "transport/spawn.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/text.hpp"

namespace trueup {

Result<pid_t> spawn_shell(std::string shell, std::string command, const Descriptor& in, const Descriptor& out,
                          const Descriptor& err) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  ::sigfillset(&all);
  ::sigemptyset(&none);
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, out.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, err.get(), 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::string flag = "-c";
  const std::array<char*, 4> arguments = {shell.data(), flag.data(), command.data(), nullptr};
  pid_t pid = -1;
  const int code = ::posix_spawn(&pid, shell.c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (code != 0) return fail(ErrorKind::io, fmt::format("cannot start {}: {}", printable(shell), system_text(code)));
  return pid;
}

}  // namespace trueup
