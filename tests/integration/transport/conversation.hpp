#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trueup/transport.hpp"

// One command on a host over a transport, from the connection to its end.

namespace trueup::test {

/// False where there is no sshd, which is said aloud.
bool can_run();

struct Outcome {
  std::optional<Error> error;  ///< with the phase as context
  std::string output, errors;
  std::optional<int> status;
};

/// Connects, runs one command, writes `input`, reads to the end. `on_output` gets all output so far.
Outcome run_on(Transport& transport, const Host& host, const std::string& command, const std::string& input = "",
               std::function<void(const std::string&)> on_output = {});

/// The same on several hosts at once, on one event loop.
std::vector<Outcome> run_on_all(Transport& transport, const std::vector<Host>& hosts, const std::string& command,
                                std::function<void(const std::string&)> on_output = {});

}  // namespace trueup::test
