#pragma once

#include <string>
#include <string_view>

namespace trueup {

/// A password or passphrase. Prints `***`, always; wipes its memory when it goes. Only `reveal()` shows it, and each
/// call of that is a place to look at in a review.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string value) : value_(std::move(value)) {}
  Secret(const Secret&) = default;
  Secret(Secret&& other) noexcept;
  Secret& operator=(const Secret&) = default;
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  bool empty() const { return value_.empty(); }
  std::string_view reveal() const { return value_; }

 private:
  void wipe();
  std::string value_;
};

inline std::string_view to_string(const Secret&) { return "***"; }

}  // namespace trueup
