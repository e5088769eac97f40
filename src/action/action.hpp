#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "derive/what_if.hpp"
#include "trueup/result.hpp"

// An action kind computes; `run` alone executes. Parameters and what was seen on the host go in, scripts come out.
//
// A script is POSIX sh for the host. It runs as root, from an empty environment (PATH and LC_ALL=C alone), umask 077,
// standard input /dev/null, in the directory of its step below the run's (docs/host-state.md): what undo needs is kept
// there. lib.sh, consumers.sh and the library of actions (scripts.hpp) stand in front of it. Whatever comes from
// parameters or from the host enters a script through shell_quote().

namespace trueup {

struct Script {
  std::string text;
  std::chrono::seconds limit{60};
};

/// What a parameter may be. `text`: one line without control characters. `content`: any text. `texts`: a list of texts.
/// `variables`: names to texts. `object`: checked by the kind.
enum class ParamType { text, content, path, unit, integer, boolean, texts, variables, object };

struct ParamSpec {
  std::string_view name;
  ParamType type = ParamType::text;
  bool required = false;
  std::string_view help = {};                  ///< one line, for docs/actions.md
  std::vector<std::string_view> choices = {};  ///< of a text; empty: any
  std::string_view otherwise = {};             ///< what holds where it is left out, for docs/actions.md; empty: nothing
  std::span<const ParamSpec> members = {};     ///< of an object
};

/// The parameters of one step, templates rendered: an object with the members that the kind's `params()` names.
using Params = nlohmann::json;

/// What the inspect script printed: `key=value` lines in a fixed order, and nothing that changes by itself (no times,
/// pids, free space). Equal texts: the same state. No secret: contents stand there redacted, beside their SHA-256.
using Inspected = std::string;

/// What one step would change.
struct Difference {
  bool needed = false;                ///< false: the host is as wanted, the step is left out
  std::string current, wanted;        ///< one line each, for people: "CUDA_HOME not set", "CUDA_HOME=/usr/local/cuda-13.0"
  std::string diff;                   ///< unified, redacted; empty: nothing that is text
  nlohmann::json data;                ///< what the kind needs beyond params and inspected to make its scripts; computed anew by apply
  std::string irreversible;           ///< what undo cannot bring back; empty: nothing
  std::vector<std::string> refused;   ///< why this must not be done on this host (guards); not empty: no plan for it
  std::vector<std::string> restarts;  ///< units that are down meanwhile
  std::uint64_t download_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::vector<Change> predicted;      ///< for what-if
};

class ActionKind {
 public:
  virtual ~ActionKind() = default;
  virtual std::string_view name() const = 0;
  virtual std::span<const ParamSpec> params() const = 0;

  /// Errors: values that the types alone do not refuse (a path with `..`, a URL without a host).
  virtual Result<void> check(const Params& params) const = 0;
  /// What it acts on: `unit sglang.service`, `path /etc/x`, `toolkit 13.0`. Two steps of one kind on one object are one
  /// step, or a conflict.
  virtual std::string object(const Params& params) const = 0;
  /// The path that it acts on, which a server may show to many hosts. Empty: it is no path.
  virtual std::string path(const Params&) const { return {}; }
  /// Steps of a host are sorted by this; within one rank in the order in which the fix names them.
  virtual int rank(const Params& params) const = 0;
  /// What a fix writes as one step and the host does as several: a restart is a stop and a start, with other steps
  /// between.
  virtual std::vector<Params> steps(const Params& params) const { return {params}; }

  virtual Script inspect(const Params& params) const = 0;                                      ///< read-only
  virtual Result<Difference> diff(const Params& params, const Inspected& inspected) const = 0;
  virtual Script apply(const Params& params, const Difference& change) const = 0;   ///< running twice = running once
  virtual Script verify(const Params& params, const Difference& change) const = 0;  ///< exit 0: it is as wanted
  /// Restores what inspect saw. Exit 0: done, or nothing was there to undo. Exit 3, with the reason as last line: what
  /// it would replace is not what apply made (someone changed it since), and nothing was touched.
  virtual Script undo(const Params& params, const Difference& change) const = 0;
  /// Removes for good what was kept for undo outside the run's directory. Empty: nothing is.
  virtual Script prune(const Params&, const Difference&) const { return {}; }
};

/// All kinds, in the order of the reference: registry.cpp.
std::span<const std::unique_ptr<ActionKind>> action_kinds();
/// Null: there is none of that name.
const ActionKind* find_action(std::string_view name);

/// `params` against the kind's `params()` and `check()`: all that is wrong, each with the nearest right name.
std::vector<Error> check_params(const ActionKind& kind, const Params& params);

/// What is wrong with `value` as that parameter; empty: nothing.
std::string wrong_value(const ParamSpec& spec, const nlohmann::json& value);

}  // namespace trueup
