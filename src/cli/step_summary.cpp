#include "cli/step_summary.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "cli/output.hpp"
#include "trueup/report_formats.hpp"

namespace trueup {

Result<void> append_step_summary(const RunReport& report) {
  const char* const path = std::getenv("GITHUB_STEP_SUMMARY");
  if (path == nullptr || *path == '\0') return {};
  const auto failed = [&](const std::string& why) {
    return fail(ErrorKind::io, fmt::format("cannot append to the step summary '{}': {}", path, why));
  };
  const auto by_errno = [&] { return failed(std::generic_category().message(errno)); };
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return by_errno();
  struct stat status {};
  const bool is_known = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto used = is_known ? static_cast<std::size_t>(status.st_size) : 0;
  constexpr std::size_t kLeast = 8192;  // less would not hold the counts and what was left out
  if (used + kLeast > kStepSummaryBytes) {
    close(file);
    return failed(fmt::format("it holds {} bytes already, and GitHub takes no more than {}", used, kStepSummaryBytes));
  }
  // A line of its own: the command before may have ended without one.
  const auto text = (used == 0 ? "" : "\n\n") + render_markdown(report, kStepSummaryBytes - used - 2);
  return write_and_close(file, text) ? Result<void>() : by_errno();
}

}  // namespace trueup
