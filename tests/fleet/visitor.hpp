#pragma once

#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "answer.hpp"
#include "fault.hpp"

namespace trueup::fleet {

using Clock = std::chrono::steady_clock;

/// What all hosts share.
struct World {
  ssh_bind right_key = nullptr;
  ssh_bind wrong_key = nullptr;
  ssh_key user_key = nullptr;
  std::vector<Answer> answers;         ///< host I gives number I % size
  std::chrono::milliseconds lasts{0};  ///< from the first piece of an answer to the last
};

/// One connection to one of the hosts: an SSH server of libssh, driven by whoever has its socket watched.
class Visitor {
 public:
  /// Owns `fd`.
  Visitor(const World& world, std::size_t host, const Fault& fault, int fd);
  ~Visitor();
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  int fd() const { return fd_; }
  /// False: libssh has closed the descriptor, and its number may be another's by now.
  bool is_open() const { return session_ == nullptr || ssh_get_fd(session_) == fd_; }
  std::chrono::milliseconds latency() const;
  /// Something can be read or written. False: the connection is over.
  bool drive();
  /// When `speak` is to be called; max: not at all.
  Clock::time_point next_word() const { return next_word_; }
  /// Says the next piece of the answer. False: the connection is over.
  bool speak();
  bool wants_write() const;
  /// It hangs: its socket is to be watched for its end alone.
  bool is_deaf() const { return deaf_; }
  /// The bundle came whole, and was answered whole.
  bool answered() const { return answered_; }

 private:
  static int on_service(ssh_session, const char*, void* self);
  static int on_key(ssh_session, const char*, ssh_key_struct* key, char state, void* self);
  static ssh_channel on_channel(ssh_session, void* self);
  static int on_exec(ssh_session, ssh_channel, const char*, void* self);
  static int on_data(ssh_session, ssh_channel, void* data, std::uint32_t size, int is_error, void* self);

  void greet();
  void reach(Phase phase);
  bool strike();
  void begin_answer(const std::string& nonce);
  bool say(std::string_view text);
  void end_shell(int status);
  std::string garbage(std::size_t bytes);

  const World& world_;
  const std::size_t host_;
  const Fault fault_;
  const int fd_;
  ssh_session session_ = nullptr;  // owns fd_ once it is there
  ssh_event event_ = nullptr;
  ssh_channel channel_ = nullptr;  // the session's
  ssh_server_callbacks_struct server_calls_{};
  ssh_channel_callbacks_struct channel_calls_{};
  std::string script_;
  std::vector<std::string> pieces_;
  std::size_t said_ = 0;
  Clock::time_point next_word_ = Clock::time_point::max();
  Clock::duration between_words_{0};
  std::mt19937 random_;
  bool keys_exchanged_ = false;
  bool struck_ = false;  // the blow is due
  bool deaf_ = false;
  bool answered_ = false;
};

}  // namespace trueup::fleet
