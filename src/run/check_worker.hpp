#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "trueup/finding.hpp"
#include "trueup/playbook.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// Compiles and evaluates checks in a process of its own, so that an expression that never ends, eats memory or crashes
/// libjq costs that process and nothing else. The process has no environment variables, no open files but the line to
/// us, can open none, and dies with us.
class CheckWorker {
 public:
  struct Limits {
    std::chrono::milliseconds compile{30'000};             ///< of processor time
    std::chrono::milliseconds least_by_the_clock{20'000};  ///< for whatever has a limit of processor time
    std::size_t memory_bytes = std::size_t{1} << 30U;      ///< beyond what this process has when it starts
    std::size_t answer_bytes = std::size_t{64} << 20U;     ///< of one host
  };

  /// Starts the process and waits until it has compiled all checks. To be called before threads and connections exist.
  /// Errors: those of CheckSet::compile, all in `errors`; io; a compilation that did not end.
  static Result<CheckWorker> start(const std::vector<Check>& checks, const std::vector<Fix>& fixes,
                                   std::vector<Error>& errors, const Limits& limits);
  static Result<CheckWorker> start(const std::vector<Check>& checks, const std::vector<Fix>& fixes,
                                   std::vector<Error>& errors) {
    return start(checks, fixes, errors, Limits{});
  }

  ~CheckWorker();
  CheckWorker(CheckWorker&&) noexcept;
  CheckWorker& operator=(CheckWorker&&) noexcept;

  /// `facts`: environment_to_json plus `derived`. Error: all checks together took longer than `limit` (processor time)
  /// on this host, or one ended the process; the id of the check is in the message. The next call starts another
  /// process: one host's facts cost no other host its judgement. Until it `is_spent`: then every call gives the last
  /// error.
  Result<Assessment> assess(const nlohmann::json& facts, std::chrono::milliseconds limit) const;

  /// So many processes were lost that it is the checks' fault, not the hosts': the run must end, with what it has.
  bool is_spent() const;

 private:
  struct State;
  explicit CheckWorker(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trueup
