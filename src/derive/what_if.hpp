#pragma once

#include <string>
#include <variant>

#include "trueup/environment.hpp"

// What-if: derivation is pure, so a proposed change can be made to the model and everything derived again.

namespace trueup {

/// `Environment=NAME=VALUE` in a drop-in of `unit`, after its next start.
struct SetVariable {
  std::string unit;
  std::string name;
  std::string value;
};

/// A toolkit beside the others; the links that lead to them stay as they are.
struct AddToolkit {
  Toolkit toolkit;
};

/// Everything at and below `path` in the JIT caches.
struct RemoveCache {
  std::string path;
};

using Change = std::variant<SetVariable, AddToolkit, RemoveCache>;

/// The host after `change`. What is not known stays unknown.
Environment with_change(Environment environment, const Change& change);

}  // namespace trueup
