#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/commands.hpp"

int main(int argc, char** argv) {
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
