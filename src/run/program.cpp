#include "run/program.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "transport/descriptor.hpp"

extern char** environ;

namespace trueup {
namespace {

constexpr std::size_t kMostErrors = 2048;  // bytes of standard error that are kept: the last ones

// The program and its descendants, in a process group of their own; killed unless it was waited for.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    wait();
  }
  /// The status that waitpid gives.
  int wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = 0;
    return status;
  }
  /// Whether it has ended; it can still be waited for.
  bool has_ended() const {
    siginfo_t info{};
    return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }

 private:
  pid_t pid_;
};

// What runs with our rights must not be writable by anybody who has fewer.
Result<void> check_program(const std::string& path, std::string_view what) {
  struct stat info {};
  const auto shown = printable(path);
  if (stat(path.c_str(), &info) != 0)
    return fail(errno == ENOENT ? ErrorKind::not_found : ErrorKind::io,
                fmt::format("cannot run {} '{}': {}", what, shown, system_text(errno)));
  if (!S_ISREG(info.st_mode)) return fail(ErrorKind::io, fmt::format("{} '{}' is not a file", what, shown));
  if (access(path.c_str(), X_OK) != 0) {
    Error error{ErrorKind::io, fmt::format("cannot run {} '{}': {}", what, shown, system_text(errno)), {}, {}, {}};
    error.hint = fmt::format("chmod +x {}", shell_quote(shown));
    return fail(std::move(error));
  }
  if (info.st_uid != 0 && info.st_uid != geteuid())
    return fail(ErrorKind::io, fmt::format("{} '{}' belongs to uid {}, neither to you nor to root", what,
                                           shown, info.st_uid));
  if ((info.st_mode & S_IWOTH) != 0)
    return fail(ErrorKind::io, fmt::format("{} '{}' can be written by everybody", what, shown));
  return {};
}

Result<pid_t> spawn(const Program& program, int output, int errors) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  // We may hold signals back; it is to get them.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  auto words = program.argv;
  auto variables = program.variables;
  std::vector<char*> arguments, environment;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  for (auto& variable : variables) environment.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(nullptr);
  const auto& path = program.argv.front();
  pid_t pid = 0;
  const int error = posix_spawn(&pid, path.c_str(), &files, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    Error failure{ErrorKind::io,
                  fmt::format("cannot run {} '{}': {}", program.what, printable(path), system_text(error)),
                  {},
                  {},
                  {}};
    if (error == ENOEXEC) failure.hint = "a script begins with a line such as #!/usr/bin/env python3";
    return fail(std::move(failure));
  }
  return pid;
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("failed with status {}", WEXITSTATUS(status));
}

}  // namespace

Result<std::string> run_program(const Program& program) {
  const auto& path = program.argv.front();
  if (const auto checked = check_program(path, program.what); !checked) return fail(checked.error());
  auto output_pipe = make_pipe();
  if (!output_pipe) return fail(output_pipe.error());
  auto errors_pipe = make_pipe();
  if (!errors_pipe) return fail(errors_pipe.error());
  const auto pid = spawn(program, output_pipe->writing.get(), errors_pipe->writing.get());
  if (!pid) return fail(pid.error());
  Child child(*pid);
  output_pipe->writing.reset();
  errors_pipe->writing.reset();

  const auto name = fmt::format("{} '{}'", program.what, printable(path));
  const auto deadline = std::chrono::steady_clock::now() + program.time;
  std::string output, errors;
  const auto with_errors = [&](ErrorKind kind, std::string message) {
    Error error{kind, std::move(message), {}, {}, {}};
    if (const auto said = trim(errors); !said.empty()) error.hint = fmt::format("it said: {}", printable(said));
    return fail(std::move(error));
  };
  std::array<pollfd, 2> waits = {pollfd{output_pipe->reading.get(), POLLIN, 0},
                                 pollfd{errors_pipe->reading.get(), POLLIN, 0}};
  // Whatever a daemon that it left behind keeps open: with the program's own end and its pipes read empty, it is done.
  bool ended = false;
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return with_errors(ErrorKind::timeout, fmt::format("{} did not end within {}", name, program.time));
    constexpr std::chrono::milliseconds kLook{100};
    ended = child.has_ended();
    const int ready = poll(waits.data(), waits.size(), ended ? 0 : static_cast<int>(std::min(left, kLook).count()));
    if (ready < 0 && errno != EINTR) return fail(ErrorKind::io, fmt::format("poll: {}", system_text(errno)));
    if (ready == 0 && ended) break;
    for (auto& wait : waits) {
      if (ready <= 0 || wait.fd < 0 || wait.revents == 0) continue;
      std::array<char, 65536> buffer{};
      const auto count = read(wait.fd, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        wait.fd = -1;
        continue;
      }
      auto& text = &wait == &waits[0] ? output : errors;
      text.append(buffer.data(), static_cast<std::size_t>(count));
      if (errors.size() > kMostErrors) errors.erase(0, errors.size() - kMostErrors);
      if (output.size() > program.bytes)
        return with_errors(ErrorKind::limit, fmt::format("{} printed more than {} bytes", name, program.bytes));
    }
  }
  // Both pipes closed, and perhaps it still works on: the deadline holds for that too.
  while (!child.has_ended()) {
    if (std::chrono::steady_clock::now() >= deadline)
      return with_errors(ErrorKind::timeout, fmt::format("{} did not end within {}", name, program.time));
    poll(nullptr, 0, 10);
  }
  if (const int status = child.wait(); !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return with_errors(ErrorKind::malformed, fmt::format("{} {}", name, describe_end(status)));
  return output;
}

}  // namespace trueup
