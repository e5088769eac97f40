#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/result.hpp"

// The one place that knows libjq (1.6 to 1.8). libjq is no sandbox and cannot be interrupted: see run/check_worker.hpp
// for where evaluation belongs.

namespace trueup {

/// A JSON document in libjq's form: read once, used by many evaluations.
class JqValue {
 public:
  /// Errors: not JSON.
  static Result<JqValue> parse(std::string_view json);
  ~JqValue();
  JqValue(JqValue&&) noexcept;
  JqValue& operator=(JqValue&&) noexcept;

 private:
  friend class JqProgram;
  struct Value;
  explicit JqValue(std::unique_ptr<Value> value);
  std::unique_ptr<Value> value_;
};

/// A compiled jq program. Not for use by two threads at a time.
class JqProgram {
 public:
  /// What jq has to say about a text that does not compile.
  struct Complaint {
    std::string message;  ///< cleaned: `syntax error, unexpected '|'`, `foo/0 is not defined`
    int line = 0;         ///< of the program, from 1; 0: not told
  };

  /// Errors: `complaints`, at least one.
  static std::unique_ptr<JqProgram> compile(const std::string& text, std::vector<Complaint>& complaints);
  ~JqProgram();

  /// What a program may make of its input beside the facts.
  struct Selection {
    std::size_t number = 0;
    bool alone = false;  ///< that one, not those from it on
  };

  /// Runs with input `{"n": number, "alone": alone, "facts": facts}` and gives each output as JSON text. Errors: jq's
  /// own message, when the program ends with an error that it does not catch.
  Result<void> run(Selection selection, const JqValue& facts,
                   const std::function<void(std::string_view)>& on_output) const;

 private:
  struct State;
  explicit JqProgram(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trueup
