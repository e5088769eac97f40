#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trueup/inventory.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// From the account that logs in to another one, without a terminal.
struct Escalation {
  Become how = Become::sudo;
  std::string from;  ///< the account that logs in
  std::string to = "root";
  bool has_password = false;  ///< a password can be given to sudo, if it asks
  std::string nonce;          ///< random, for sudo's prompt and the ready mark; no secret, shows in the process list
};

/// `command` as `escalation.to`, for any login shell. The shell says that it is ready, on standard output, before
/// `command` starts.
std::string escalated_command(const Escalation& escalation, std::string_view command);

/// The conversation with sudo or doas until the other account's shell is ready. Pure: bytes in, what to do out.
class EscalationDialogue {
 public:
  explicit EscalationDialogue(Escalation escalation);

  enum class Next {
    wait,           ///< for more bytes
    send_password,  ///< sudo's own prompt was seen, for the first time
    ready,          ///< the shell runs; what it wrote since is in rest()
  };

  /// Errors: escalation, when sudo asks again (the password was wrong) or floods us instead of answering.
  Result<Next> feed(std::string_view output, std::string_view errors);
  /// What it means that the command ended, or that the time is up, before the shell was ready.
  Error ended(std::optional<int> exit_status) const;
  const std::string& rest() const { return output_; }

 private:
  Escalation escalation_;
  std::string output_;  ///< not searched yet
  std::string errors_;
  std::size_t prompts_seen_until_ = 0;
  bool password_sent_ = false;
};

}  // namespace trueup
