#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "probe/bundle.hpp"
#include "probe/frames.hpp"

// Runs a bundle as a host would: a login shell gets the command, the script arrives on its standard input.

namespace trueup::test {

struct Shell {
  std::string name;
  std::vector<std::string> login;        ///< takes the command: `dash -c`
  std::string sh;                        ///< what stands in for /bin/sh: `busybox sh`
  std::string path;                      ///< PATH
  std::vector<std::string> prefix = {};  ///< before it all: `setpriv ...`
};

inline std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

/// As much of a file as can be read: those of a process may vanish meanwhile, which a stream tells by throwing.
inline std::string slurp(const std::filesystem::path& path) {
  std::string text;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(file, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  close(file);
  return text;
}

struct Process {
  pid_t pid;
  std::string cmdline;
  std::string environ;
  char state;
};

inline std::vector<Process> all_processes() {
  std::vector<Process> processes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    const auto stat = slurp(entry.path() / "stat");
    const auto state = stat.rfind(") ");
    if (state == stat.npos) continue;
    processes.push_back(
        {std::stoi(name), slurp(entry.path() / "cmdline"), slurp(entry.path() / "environ"), stat[state + 2]});
  }
  return processes;
}

/// Living processes whose environment or arguments hold `mark`.
inline std::vector<pid_t> processes_with(std::string_view mark) {
  std::vector<pid_t> found;
  for (const auto& process : all_processes())
    if (process.state != 'Z' &&
        (process.environ.find(mark) != std::string::npos || process.cmdline.find(mark) != std::string::npos))
      found.push_back(process.pid);
  return found;
}

class BundleProcess {
 public:
  BundleProcess(const Shell& shell, const Bundle& bundle) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    fcntl(out[0], F_SETPIPE_SZ, 4096);  // little on its way, as on a slow line
    auto words = shell.prefix;
    words.insert(words.end(), shell.login.begin(), shell.login.end());
    words.push_back(replace_all(bundle.command, "/bin/sh", shell.sh));
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::vector<std::string> variables = {"PATH=" + shell.path, "HOME=/nonexistent", "TMPDIR=/nonexistent",
                                          "N=exported"};
    std::vector<char*> envp;
    for (auto& variable : variables) envp.push_back(variable.data());
    envp.push_back(nullptr);
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) {
      setsid();
      signal(SIGPIPE, SIG_DFL);  // the test ignores it
      dup2(in[0], 0);
      dup2(out[1], 1);
      execvpe(argv[0], argv.data(), envp.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = out[0];
    signal(SIGPIPE, SIG_IGN);
    send(replace_all(bundle.script, "/bin/sh", shell.sh));
  }
  BundleProcess(const BundleProcess&) = delete;
  BundleProcess& operator=(const BundleProcess&) = delete;
  ~BundleProcess() {
    hang_up();
    if (out_ >= 0) close(out_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  /// Reads into `reader` until `done()`; false at the end of the output, or after half a minute.
  bool read_until(FrameReader& reader, const std::function<bool()>& done) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
      pollfd ready{out_, POLLIN, 0};
      if (poll(&ready, 1, 1000) == 0) {
        if (std::chrono::steady_clock::now() > give_up) return false;
        continue;
      }
      char buffer[65536];
      const auto count = read(out_, buffer, sizeof buffer);
      if (count <= 0) return false;
      raw_.append(buffer, static_cast<std::size_t>(count));
      reader.feed({buffer, static_cast<std::size_t>(count)});
    }
    return true;
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      const auto count = write(in_, text.data(), text.size());
      if (count < 0) return;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  /// Whether the next frame would have to wait for us to read.
  bool output_is_full() const {
    int waiting = 0;
    return ioctl(out_, FIONREAD, &waiting) == 0 && fcntl(out_, F_GETPIPE_SZ) - waiting < 512;
  }

  /// The connection goes: standard input ends.
  void hang_up() {
    if (in_ >= 0) close(in_);
    in_ = -1;
  }

  /// Waits for the shell to end; false after half a minute.
  bool wait_for_end() {
    for (int i = 0; i < 3000; ++i) {
      if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        return true;
      }
      usleep(10'000);
    }
    return false;
  }

  const std::string& raw() const { return raw_; }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  std::string raw_;
};

}  // namespace trueup::test
