#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// What the tests of the edge run: programs, a real sshd on loopback, a real ssh-agent; each ended by whoever started
// it.

namespace trueup::test {

/// Why the tests cannot run here; empty: they can.
std::string why_no_sshd();

/// Runs a program to its end. Throws, with what it said, if it fails.
std::string run_program(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

/// A program that runs until this is destroyed. Waits until it has printed a line that contains `ready`.
class Daemon {
 public:
  Daemon(const std::vector<std::string>& arguments, const std::string& ready);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

/// A directory that goes with this.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);
/// Makes PATH and PATH.pub.
void make_key(const std::string& path, const std::string& type = "ed25519", const std::string& passphrase = "");

/// sshd on 127.0.0.1 with a configuration, a host key and an authorized key of its own.
class Sshd {
 public:
  explicit Sshd(const std::string& more_configuration = "");

  std::uint16_t port() const { return port_; }
  const std::string& user() const { return user_; }
  std::string file(const std::string& name) const { return directory_.file(name); }
  std::string key() const { return file("user_key"); }
  std::string known_hosts() const { return file("known_hosts"); }
  /// `ssh-ed25519 AAAA...`
  std::string host_key() const;

 private:
  TemporaryDirectory directory_;
  std::uint16_t port_ = 0;
  std::string user_;
  std::optional<Daemon> daemon_;
};

}  // namespace trueup::test
