#include "cli/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.hpp"

namespace trueup {

bool is_terminal(int fd) { return isatty(fd) == 1; }

std::size_t terminal_width(int fd) {
  constexpr std::size_t kDefault = 100, kReadable = 120;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefault;
  return std::min<std::size_t>(size.ws_col, kReadable);
}

bool wants_color(std::string_view choice, int fd) {
  if (choice != "auto") return choice == "always";
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return is_terminal(fd) && (no_color == nullptr || *no_color == '\0') &&
         (term == nullptr || std::string_view(term) != "dumb");
}

namespace {

void print_message(std::string_view kind, const Error& error) {
  fmt::print(stderr, "{}: {}\n", kind, printable(to_string(error)));
  if (!error.hint.empty()) fmt::print(stderr, "{:{}}{}\n", "", kind.size() + 2, printable(error.hint));
}

}  // namespace

void print_error(const Error& error) { print_message("error", error); }
void print_warning(const Error& error) { print_message("warning", error); }

Result<Secret> ask_secret(const std::string& prompt) {
  const int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
  if (tty < 0)
    return fail(Error{ErrorKind::usage,
                      "there is no terminal to ask for the password on",
                      {},
                      {},
                      "use --become-password-file PATH"});
  termios before{};
  tcgetattr(tty, &before);
  termios silent = before;
  silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  tcsetattr(tty, TCSAFLUSH, &silent);
  std::string line;
  if (write(tty, prompt.data(), prompt.size()) >= 0)
    for (char c = 0; read(tty, &c, 1) == 1 && c != '\n';) line += c;
  tcsetattr(tty, TCSAFLUSH, &before);
  if (write(tty, "\n", 1) < 0) {
    // The answer was read; the missing line end is cosmetic.
  }
  close(tty);
  return Secret(std::move(line));
}

ProgressLine::ProgressLine(bool quiet, std::size_t hosts)
    : quiet_(quiet), terminal_(is_terminal(STDERR_FILENO) && std::getenv("CI") == nullptr), hosts_(hosts) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(const Progress& progress) {
  if (quiet_ || !terminal_) return;
  auto text = fmt::format("{}/{} hosts done", progress.done, progress.hosts);
  if (progress.running != 0) text += fmt::format(", {} running", progress.running);
  if (progress.failed != 0) text += fmt::format(", {} not reached", progress.failed);
  if (!progress.slowest_host.empty()) text += fmt::format("  {}: {}", progress.slowest_host, progress.slowest_doing);
  fmt::print(stderr, "\r\x1b[K{}", shorten(printable(text), terminal_width(STDERR_FILENO) - 1));
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::host_done(std::string_view name, std::string_view outcome) {
  ++done_;
  if (quiet_ || terminal_ || hosts_ < 2) return;
  fmt::print(stderr, "{}: {} ({} of {})\n", printable(name), outcome, done_, hosts_);
}

void ProgressLine::clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace trueup
