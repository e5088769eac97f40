#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trueup/environment.hpp"
#include "trueup/inventory.hpp"

// What-if: derivation is pure, so a proposed change can be made to the model and everything derived again.

namespace trueup {

/// `NAME=VALUE` in what a consumer starts with (a drop-in of its unit, the inventory's entry), after its next start.
struct SetVariable {
  std::string consumer;              ///< Consumer::id
  std::string name;
  std::optional<std::string> value;  ///< absent: taken out
};

/// The unit's next start: what it runs with is what systemd would give it now.
struct Restart {
  std::string unit;
};

/// A toolkit beside the others; the links that lead to them stay as they are.
struct AddToolkit {
  Toolkit toolkit;
};

/// Everything at and below `path` in the JIT caches.
struct RemoveCache {
  std::string path;
};

/// A link such as /usr/local/cuda leads to another toolkit.
struct MoveLink {
  std::string link;
  std::string toolkit;  ///< its path
};

/// FlashInfer's version gate, patched out of the source that is installed in an environment.
struct RemoveGate {
  std::string python_env;
};

/// Another build of the torch that an environment has: `+cu130` for CUDA 13.0.
struct UseTorchBuild {
  std::string python_env;
  Version cuda;
};

/// Another kernel driver, loaded.
struct UseDriver {
  Version version;
};

using Change =
    std::variant<SetVariable, Restart, AddToolkit, RemoveCache, MoveLink, RemoveGate, UseTorchBuild, UseDriver>;

/// The host after `change`. What is not known stays unknown.
Environment with_change(Environment environment, const Change& change);
/// The inventory's consumers after it.
std::vector<DeclaredConsumer> with_change(std::vector<DeclaredConsumer> declared, const Change& change);

}  // namespace trueup
