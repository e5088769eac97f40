#include "base/secret.hpp"

#include <utility>

namespace trueup {

Secret::Secret(Secret&& other) noexcept : value_(other.value_) { other.wipe(); }

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    wipe();
    value_ = other.value_;
    other.wipe();
  }
  return *this;
}

Secret::~Secret() { wipe(); }

void Secret::wipe() {
  // Through a volatile pointer, so that the compiler cannot call it a dead store. Copies rather than moves above: a
  // moved string may leave its bytes behind in the small buffer.
  for (volatile char* byte = value_.data(); byte != value_.data() + value_.size(); ++byte) *byte = 0;
  value_.clear();
}

}  // namespace trueup
