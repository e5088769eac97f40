#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "transport/connection.hpp"
#include "transport/descriptor.hpp"
#include "trueup/transport.hpp"

namespace trueup::ssh {

/// A program whose input and output are the way to a host's sshd (ProxyCommand of ssh_config(5)). It runs in a session
/// of its own, without our terminal, and ends with this.
class ProxyCommand final : public Carrier {
 public:
  /// `command` for the user's shell, tokens filled in; `socket`: our end. Errors: io.
  static Result<std::unique_ptr<ProxyCommand>> start(std::string command, const std::string& shell, Descriptor& socket);
  ~ProxyCommand() override;

  /// How it ended and what it said on standard error; empty while it runs without a word.
  std::string story() override;
  Awaitable<void> settle() override;
  /// Tells it to end, as ssh does, and gives it the time that `watch` leaves.
  Awaitable<void> close(Watch& watch) override;

 private:
  ProxyCommand(pid_t pid, Descriptor errors) : pid_(pid), errors_(std::move(errors)) {}
  bool has_ended();
  Awaitable<void> wait_for_end(std::chrono::milliseconds limit, const Watch* watch);

  pid_t pid_;  // also its process group; -1: it was waited for
  Descriptor errors_;
  std::string said_, end_;
};

}  // namespace trueup::ssh
