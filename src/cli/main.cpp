#include <cstdio>
#include <exception>

#include "cli/commands.hpp"

int main(int argc, char** argv) {
  try {
    return trueup::run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: trueup itself failed: %s\n", error.what());
    return 1;
  }
}
