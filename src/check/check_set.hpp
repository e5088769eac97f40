#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "trueup/finding.hpp"
#include "trueup/playbook.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// All checks of a run, their expressions compiled as one jq program. Evaluates in this process and without a limit,
/// which is right for tests and for playbooks one wrote oneself; a run uses CheckWorker (run/check_worker.hpp).
class CheckSet {
 public:
  /// With `fixes`, findings carry what these propose; an audit goes without and does not pay for them. Errors (all of
  /// them, each with file:line:column): an expression that does not compile or uses a forbidden name, a path that the
  /// environment's schema does not have, a template that does not end.
  static Result<CheckSet> compile(const std::vector<Check>& checks, const std::vector<Fix>& fixes,
                                  std::vector<Error>& errors);
  static Result<CheckSet> compile(const std::vector<Check>& checks, std::vector<Error>& errors) {
    return compile(checks, {}, errors);
  }

  ~CheckSet();
  CheckSet(CheckSet&&) noexcept;
  CheckSet& operator=(CheckSet&&) noexcept;

  /// Called with the index of the check whose evaluation begins (and no text), then once for each result of it (JSON
  /// text, for `gather`). Checks that share their items take turns.
  using Sink = std::function<void(std::size_t check, std::string_view result)>;

  /// Evaluates all checks on one host's facts, given as JSON text. An error in a check's expression is a result of that
  /// check. Errors: the facts are no JSON.
  Result<void> evaluate(std::string_view facts, const Sink& sink) const;

  /// `facts`: environment_to_json plus `derived`. An error in one check's expression on this host makes that check
  /// not-evaluated.
  Result<Assessment> assess(const nlohmann::json& facts) const;

 private:
  struct State;
  explicit CheckSet(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trueup
