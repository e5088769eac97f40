#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "run/host_work.hpp"
#include "trueup/inventory.hpp"

namespace trueup {

/// What the inventory has run on the controller around the changes of one host: argument lists, the first a path.
/// Empty: none.
struct HostPrograms {
  std::vector<std::string> before, after;
  std::chrono::milliseconds limit{600'000};  ///< of each
};

/// From the variables `before_host`, `after_host` and `host_program_limit` of each of these hosts. Errors: values of
/// another kind, paths that are not absolute.
std::vector<HostPrograms> host_programs(const Inventory& inventory, const std::vector<Host>& hosts,
                                        std::vector<Error>& errors);

/// They get TRUEUP_HOST, TRUEUP_ADDRESS and TRUEUP_RUN in their environment, the second TRUEUP_OUTCOME too. False:
/// there is none.
Result<bool> run_before_host(const HostPrograms& programs, const Host& host, const std::string& run);
Result<void> run_after_host(const HostPrograms& programs, const Host& host, const std::string& run,
                            WorkOutcome outcome);
/// For a person: after_host as a command line, or, where there is none, what before_host was.
std::string how_to_bring_back(const HostPrograms& programs, const Host& host, const std::string& run);

}  // namespace trueup
