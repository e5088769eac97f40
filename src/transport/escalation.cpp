#include "transport/escalation.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/text.hpp"

namespace trueup {
namespace {

constexpr std::size_t kMaxBytesBeforeReady = 256 * 1024;  // banners, a lecture, noisy rc files

std::string prompt(const Escalation& escalation) { return fmt::format("trueup-password-{}:", escalation.nonce); }
std::string ready_mark(const Escalation& escalation) { return fmt::format("\ntrueup-ready-{}\n", escalation.nonce); }

std::string_view program(const Escalation& escalation) { return escalation.how == Become::doas ? "doas" : "sudo"; }

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  for (const auto part : parts)
    if (text.find(part) != text.npos) return true;
  return false;
}

// What sudo or doas said at last, prompts taken out, for a person.
std::string last_line(const Escalation& escalation, std::string_view errors) {
  std::string last;
  for (const auto line : split_lines(errors)) {
    auto said = line;
    if (said.starts_with(prompt(escalation))) said.remove_prefix(prompt(escalation).size());
    if (!trim(said).empty()) last = trim(said);
  }
  return shorten(printable(last), 200);
}

}  // namespace

std::string escalated_command(const Escalation& escalation, std::string_view command) {
  // Only single quotes, no backslash and no newline inside them: csh and fish read those differently.
  const auto script = shell_quote(fmt::format("echo; echo trueup-ready-{}; {}", escalation.nonce, command));
  const auto user = shell_quote(escalation.to);
  if (escalation.how == Become::doas) return fmt::format("env LC_ALL=C doas -n -u {} /bin/sh -c {}", user, script);
  const auto ask = escalation.has_password ? fmt::format("-S -p {}", prompt(escalation)) : "-n";
  return fmt::format("env LC_ALL=C sudo {} -H -u {} -- /bin/sh -c {}", ask, user, script);
}

EscalationDialogue::EscalationDialogue(Escalation escalation) : escalation_(std::move(escalation)) {}

Result<EscalationDialogue::Next> EscalationDialogue::feed(std::string_view output, std::string_view errors) {
  output_ += output;
  errors_ += errors;
  const auto mark = ready_mark(escalation_);
  if (const auto at = output_.find(mark); at != output_.npos) {
    output_.erase(0, at + mark.size());
    return Next::ready;
  }
  if (output_.size() + errors_.size() > kMaxBytesBeforeReady)
    return fail(ErrorKind::escalation, fmt::format("{} wrote more than {} KiB and no shell came", program(escalation_),
                                                   kMaxBytesBeforeReady / 1024));
  if (!escalation_.has_password || escalation_.how != Become::sudo) return Next::wait;
  const auto text = prompt(escalation_);
  const auto at = errors_.find(text, prompts_seen_until_);
  if (at == errors_.npos) return Next::wait;
  prompts_seen_until_ = at + text.size();
  if (std::exchange(password_sent_, true))
    return fail(
        Error{ErrorKind::escalation,
              fmt::format("sudo refused the password of {}", escalation_.from),
              {},
              {},
              "give the password of the account that logs in (-K); it was sent once, to spare the account a lock-out"});
  return Next::send_password;
}

Error EscalationDialogue::ended(std::optional<int> exit_status) const {
  const auto said = last_line(escalation_, errors_);
  const auto name = program(escalation_);
  const auto lower = to_lower(errors_);
  const auto error = [&](std::string message, std::string hint) {
    return Error{ErrorKind::escalation, std::move(message), {}, {}, std::move(hint)};
  };
  if (contains_any(lower, {"password is required", "authentication is required", "authentication required",
                           "terminal is required to read the password"})) {
    if (escalation_.how == Become::doas)
      return error(
          fmt::format("doas wants a password for {}, and reads it from a terminal only", escalation_.from),
          fmt::format("add 'permit nopass {} as {}' to doas.conf on the host", escalation_.from, escalation_.to));
    return error(
        fmt::format("sudo wants a password for {}, and none was given", escalation_.from),
        fmt::format("give it with -K or --become-password-file, or add a NOPASSWD rule for {} to sudoers on the host",
                    escalation_.from));
  }
  if (contains_any(lower, {"incorrect password", "try again", "authentication failed"}))
    return error(fmt::format("{} refused the password of {}", name, escalation_.from),
                 "give the password of the account that logs in (-K)");
  if (contains_any(lower, {"must have a tty"}))
    return error(fmt::format("sudo wants a terminal for {} (requiretty)", escalation_.from),
                 fmt::format("add 'Defaults:{} !requiretty' to sudoers on the host", escalation_.from));
  if (contains_any(lower, {"not in the sudoers file", "not allowed to", "may not run", "operation not permitted"}))
    return error(fmt::format("{} may not become {} by {}: {}", escalation_.from, escalation_.to, name, said),
                 fmt::format("allow {} to run /bin/sh as {}, or set another 'become' for the host", escalation_.from,
                             escalation_.to));
  if (contains_any(lower, {"unknown user"}))
    return error(fmt::format("the host has no user {}", escalation_.to), "correct 'become_user' in the inventory");
  if (exit_status == 127 || contains_any(lower, {"not found", "no such file"}))
    return error(fmt::format("the host has no {}: {}", name, said),
                 "install it, log in as root, or set 'become: none' for the host");
  const auto status = exit_status ? fmt::format("status {}", *exit_status) : std::string("no status");
  return error(fmt::format("{} ended with {} and no shell came{}{}", name, status, said.empty() ? "" : ": ", said),
               fmt::format("try it by hand as {}: {} -u {} /bin/sh", escalation_.from, name, escalation_.to));
}

}  // namespace trueup
