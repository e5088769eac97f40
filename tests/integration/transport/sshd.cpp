#include "integration/transport/sshd.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace trueup::test {
namespace {

constexpr const char* kSshd = "/usr/sbin/sshd";

struct Started {
  pid_t pid;
  int output;  // both streams
};

Started start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  std::array<int, 2> pipe;
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  std::vector<char*> argv, envp;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (char** variable = environ; *variable != nullptr; ++variable) envp.push_back(*variable);
  for (const auto& variable : environment) envp.insert(envp.begin(), const_cast<char*>(variable.c_str()));
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], 2);
  pid_t pid = -1;
  const int code = ::posix_spawnp(&pid, argv.front(), &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  if (code != 0) throw std::system_error(code, std::generic_category(), arguments.front());
  return {pid, pipe[0]};
}

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!bound) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

}  // namespace

std::string why_no_sshd() {
  if (::access(kSshd, X_OK) != 0) return "no /usr/sbin/sshd (install openssh-server)";
  // Debian's unit file makes it; sshd as root insists on it.
  if (::geteuid() == 0) std::filesystem::create_directories("/run/sshd");
  return {};
}

std::string run_program(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  const auto [pid, output] = start(arguments, environment);
  std::string said;
  std::array<char, 4096> buffer;
  for (;;) {
    const auto count = ::read(output, buffer.data(), buffer.size());
    if (count <= 0) break;
    said.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(output);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status != 0) throw std::runtime_error(arguments.front() + " failed: " + said);
  return said;
}

Daemon::Daemon(const std::vector<std::string>& arguments, const std::string& ready) {
  const auto started = start(arguments, {});
  pid_ = started.pid;
  output_ = started.output;
  std::string said;
  std::array<char, 1024> buffer;
  while (said.find(ready) == said.npos) {
    const auto count = ::read(output_, buffer.data(), buffer.size());
    if (count <= 0) throw std::runtime_error(arguments.front() + " did not start: " + said);
    said.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

Daemon::~Daemon() {
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  ::close(output_);
}

TemporaryDirectory::TemporaryDirectory() {
  auto name = (std::filesystem::temp_directory_path() / "trueup-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  return text.str();
}

void make_key(const std::string& path, const std::string& type, const std::string& passphrase) {
  run_program({"ssh-keygen", "-q", "-t", type, "-N", passphrase, "-C", "test", "-f", path});
}

Sshd::Sshd(const std::string& more_configuration) : port_(free_port()), user_(::getpwuid(::geteuid())->pw_name) {
  make_key(file("host_key"));
  make_key(key());
  write_file(file("authorized_keys"), read_text(key() + ".pub"));
  write_file(known_hosts(), "[127.0.0.1]:" + std::to_string(port_) + " " + host_key());
  write_file(file("sshd_config"), "ListenAddress 127.0.0.1\nPort " + std::to_string(port_) + "\nHostKey " +
                                      file("host_key") + "\nAuthorizedKeysFile " + file("authorized_keys") +
                                      "\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"
                                      "KbdInteractiveAuthentication no\nPermitRootLogin yes\n" +
                                      more_configuration);
  daemon_.emplace(std::vector<std::string>{kSshd, "-D", "-e", "-f", file("sshd_config")}, "Server listening");
}

std::string Sshd::host_key() const { return read_text(file("host_key.pub")); }

}  // namespace trueup::test
