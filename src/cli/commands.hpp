#pragma once

namespace trueup {

/// The whole program: reads the command line, runs the command, returns the exit status of docs/exit-status.md.
int run_command_line(int argc, char** argv);

}  // namespace trueup
