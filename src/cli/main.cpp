#include "cli/commands.hpp"

int main(int argc, char** argv) { return trueup::run_command_line(argc, argv); }
