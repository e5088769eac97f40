#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/commands.hpp"

namespace {

// Started with a standard stream closed, we would open sockets under its number, and read or write those.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0) ::open(stream == STDIN_FILENO ? "/dev/null" : "/dev/full", O_RDWR);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  try {
    const int status = trueup::run_command_line(argc, argv);
    if (std::fflush(stdout) == 0 && std::cout.flush()) return status;
    std::fputs("error: cannot write to standard output\n", stderr);
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: trueup itself failed: %s\n", error.what());
    return 1;
  }
}
