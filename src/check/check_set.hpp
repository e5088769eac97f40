#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "trueup/finding.hpp"
#include "trueup/playbook.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// All checks of a run, their expressions compiled as one jq program.
class CheckSet {
 public:
  /// Errors (all of them, each with file:line:column): an expression that does not compile or uses a forbidden name, a path
  /// that the environment's schema does not have, a cause or section that does not exist.
  static Result<CheckSet> compile(const std::vector<Check>& checks, std::vector<Error>& errors);

  ~CheckSet();
  CheckSet(CheckSet&&) noexcept;
  CheckSet& operator=(CheckSet&&) noexcept;

  /// `facts`: environment_to_json plus `derived`. An error in one check's expression on this host makes that check
  /// not-evaluated. Error: a check that took longer than `limit` (its id is in the message); the run must end then, since
  /// libjq cannot be interrupted.
  Result<Assessment> assess(const nlohmann::json& facts, std::chrono::milliseconds limit) const;

 private:
  struct State;
  explicit CheckSet(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trueup
