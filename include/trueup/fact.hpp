#pragma once

#include <optional>
#include <string>
#include <utility>

namespace trueup {

/// What we know about a thing on a host. Absent, unknown and a value are three different answers: "we looked and it is
/// not there" must never come from "we could not look".
template <class T>
class Fact {
 public:
  Fact() : reason_("not asked") {}
  Fact(T value) : value_(std::move(value)), state_(State::known) {}  // NOLINT: a value is a fact

  static Fact absent() {
    Fact fact;
    fact.state_ = State::absent;
    fact.reason_.clear();
    return fact;
  }
  static Fact unknown(std::string reason) {
    Fact fact;
    fact.reason_ = std::move(reason);
    return fact;
  }

  bool is_known() const { return state_ == State::known; }
  bool is_absent() const { return state_ == State::absent; }
  bool is_unknown() const { return state_ == State::unknown; }

  const T& operator*() const { return *value_; }
  T& operator*() { return *value_; }
  const T* operator->() const { return &*value_; }

  /// The value, or `otherwise` where there is none (absent or unknown): for lists, mostly.
  T value_or(T otherwise) const { return value_ ? *value_ : std::move(otherwise); }

  /// Why it is unknown; empty otherwise.
  const std::string& reason() const { return reason_; }

  friend bool operator==(const Fact&, const Fact&) = default;

 private:
  enum class State { known, absent, unknown };
  std::optional<T> value_ = {};
  State state_ = State::unknown;
  std::string reason_ = {};
};

}  // namespace trueup
