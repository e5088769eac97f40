#include "transport/escalation.hpp"

#include "support/catch.hpp"

using namespace trueup;
using Next = EscalationDialogue::Next;

namespace {

Escalation sudo(bool has_password) { return {Become::sudo, "ops", "root", has_password, "c0ffee"}; }

// The dialogue fed one byte at a time: what it first wants other than more.
Next first_wish(EscalationDialogue& dialogue, const std::string& output, const std::string& errors) {
  for (const char byte : errors)
    if (const auto next = dialogue.feed("", std::string(1, byte)); next.value() != Next::wait) return *next;
  for (const char byte : output)
    if (const auto next = dialogue.feed(std::string(1, byte), ""); next.value() != Next::wait) return *next;
  return Next::wait;
}

Error refusal(const Escalation& escalation, const std::string& errors, int status) {
  EscalationDialogue dialogue(escalation);
  CHECK(dialogue.feed("", errors).value() == Next::wait);
  return dialogue.ended(status);
}

}  // namespace

TEST_CASE("the command asks for nothing unless a password can be given", "[unit][transport][escalation]") {
  CHECK(escalated_command(sudo(false), "exec /bin/sh") ==
        "env LC_ALL=C sudo -n -H -u root -- /bin/sh -c 'echo; echo trueup-ready-c0ffee; exec /bin/sh'");
  CHECK(escalated_command(sudo(true), "exec /bin/sh") ==
        "env LC_ALL=C sudo -S -p trueup-password-c0ffee: -H -u root -- /bin/sh -c 'echo; echo trueup-ready-c0ffee; "
        "exec /bin/sh'");
  CHECK(escalated_command({Become::doas, "ops", "root", true, "c0ffee"}, "exec /bin/sh") ==
        "env LC_ALL=C doas -n -u root /bin/sh -c 'echo; echo trueup-ready-c0ffee; exec /bin/sh'");
}

TEST_CASE("the shell is ready at its mark, and what follows is kept", "[unit][transport][escalation]") {
  EscalationDialogue dialogue(sudo(false));
  CHECK(dialogue.feed("noise of an rc file", "a lecture\n").value() == Next::wait);
  CHECK(dialogue.feed("\ntrueup-ready-c0f", "").value() == Next::wait);
  CHECK(dialogue.feed("fee\nframe one\n", "").value() == Next::ready);
  CHECK(dialogue.rest() == "frame one\n");
}

TEST_CASE("a mark that is part of a line, or on standard error, is none", "[unit][transport][escalation]") {
  EscalationDialogue dialogue(sudo(false));
  const std::string echoed =
      "Sorry, user ops is not allowed to execute '/bin/sh -c echo; echo trueup-ready-c0ffee; exec /bin/sh'\n";
  CHECK(dialogue.feed(echoed, "").value() == Next::wait);
  CHECK(dialogue.feed("", "\ntrueup-ready-c0ffee\n").value() == Next::wait);
}

TEST_CASE("the password goes out once, after sudo's own prompt, whatever the chunks", "[unit][transport][escalation]") {
  EscalationDialogue dialogue(sudo(true));
  CHECK(first_wish(dialogue, "", "We trust you have received the usual lecture\n[sudo] password for ops: ") ==
        Next::wait);
  CHECK(first_wish(dialogue, "", "trueup-password-c0ffee:") == Next::send_password);
  CHECK(first_wish(dialogue, "\ntrueup-ready-c0ffee\n", "") == Next::ready);
}

TEST_CASE("a prompt on standard output, or with another nonce, gets no password", "[unit][transport][escalation]") {
  EscalationDialogue dialogue(sudo(true));
  CHECK(first_wish(dialogue, "trueup-password-c0ffee:", "trueup-password-badbad:") == Next::wait);
}

TEST_CASE("a second prompt means that the password was wrong", "[unit][transport][escalation]") {
  EscalationDialogue dialogue(sudo(true));
  CHECK(dialogue.feed("", "trueup-password-c0ffee:").value() == Next::send_password);
  const auto next = dialogue.feed("", "\nSorry, try again.\ntrueup-password-c0ffee:");
  REQUIRE_FALSE(next);
  CHECK(next.error().kind == ErrorKind::escalation);
  CHECK(next.error().message == "sudo refused the password of ops");
}

TEST_CASE("without a password a prompt is not answered", "[unit][transport][escalation]") {
  EscalationDialogue dialogue(sudo(false));
  CHECK(first_wish(dialogue, "", "trueup-password-c0ffee:") == Next::wait);
}

TEST_CASE("a flood instead of a shell is an error", "[unit][transport][escalation]") {
  EscalationDialogue dialogue(sudo(false));
  CHECK(dialogue.feed(std::string(1 << 20, 'x'), "").error().kind == ErrorKind::escalation);
}

TEST_CASE("each refusal has its own words and says what to do", "[unit][transport][escalation]") {
  const Escalation doas{Become::doas, "ops", "root", false, "c0ffee"};
  // Texts: sudo 1.9.13 (Debian 12), sudo-rs 0.2, opendoas 6.8.2.
  const auto wants_password = refusal(sudo(false), "sudo: a password is required\n", 1);
  CHECK(wants_password.kind == ErrorKind::escalation);
  CHECK(wants_password.message == "sudo wants a password for ops, and none was given");
  CHECK_THAT(wants_password.hint, ContainsSubstring("-K") && ContainsSubstring("NOPASSWD"));
  CHECK(refusal(sudo(false), "sudo: interactive authentication is required\n", 1).message == wants_password.message);
  CHECK(refusal(doas, "doas: Authentication required\n", 1).message ==
        "doas wants a password for ops, and reads it from a terminal only");
  CHECK(refusal(sudo(false), "ops is not in the sudoers file.\n", 1).message ==
        "ops may not become root by sudo: ops is not in the sudoers file.");
  CHECK(refusal(doas, "doas: Operation not permitted\n", 1).message ==
        "ops may not become root by doas: doas: Operation not permitted");
  CHECK(refusal(sudo(false), "sudo: sorry, you must have a tty to run sudo\n", 1).message ==
        "sudo wants a terminal for ops (requiretty)");
  CHECK(refusal(sudo(false), "env: 'sudo': No such file or directory\n", 127).message ==
        "the host has no sudo: env: 'sudo': No such file or directory");
  CHECK(refusal(sudo(false), "sudo: unknown user: root\n", 1).message == "the host has no user root");
  CHECK(refusal(sudo(false), "sudo: something new\n\x1b[31m\n", 1).message ==
        "sudo ended with status 1 and no shell came: \\x1b[31m");
}
