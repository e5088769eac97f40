#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trueup/result.hpp"

namespace trueup {

/// At which privilege a probe runs. `host` is the highest the host's settings give (root where `become` is set); `login` is
/// the account that logs in, with the environment SSH gives it.
enum class ProbeLevel { host, login };

/// What the lack of a program that a probe needs means for the fact.
enum class IfMissing { absent, unknown };

/// A read-only POSIX sh script whose output, read by a declared parser, fills one place of the environment.
struct Probe {
  std::string id;                        ///< unique over all playbooks of a run
  std::string into;                      ///< section of the environment, e.g. `gpus`
  std::vector<std::string> needs;        ///< programs it cannot do without
  IfMissing if_missing = IfMissing::unknown;
  std::vector<std::string> reads;        ///< probes whose output it gets on its standard input; it begins when they ended
  ProbeLevel level = ProbeLevel::host;
  bool deep = false;                     ///< runs code of the host's own (imports torch, opens a CUDA context): only when asked for
  std::chrono::milliseconds limit{5000};
  std::size_t max_bytes = 1U << 20U;     ///< output beyond this is cut, and the fact unknown
  std::string script;
  std::string parser;                    ///< JSON text of the parser's declaration: `{"kv": {...}}`
  SourcePos at;
};

enum class Severity { info, warning, error };

/// A jq expression or a text with `{{ jq }}` in it, and where it stands (so that an error can say so).
struct Expression {
  std::string text;
  SourcePos at;
};

/// What must hold on a host.
struct Check {
  std::string id;                         ///< `cuda.toolkit.too-old-for-gpu`
  Expression title;                       ///< template
  Expression severity;                    ///< `error`, `warning`, `info`, or a template that gives one of them
  std::vector<std::string> needs;         ///< sections it rests on; one unknown: the check is not evaluated
  std::optional<Expression> for_each;     ///< gives a stream of items; absent: evaluated once, with item null
  std::optional<Expression> when;         ///< false: not applicable
  Expression assertion;                   ///< true holds, false is a finding, null is unknown
  std::optional<Expression> unknown_because;  ///< template; the reason shown where the assertion gives null
  std::optional<Expression> about;        ///< gives what the finding is about (a unit, a path): links causes to effects
  Expression because;                     ///< template: why it matters, for the operator at three in the morning
  std::vector<Expression> evidence;       ///< templates, one line each; a line that renders empty is left out
  std::vector<std::string> causes;        ///< checks whose findings on the same subject this one explains
  std::vector<std::string> fixes;
  std::vector<std::string> references;
  std::vector<std::string> tags;
  SourcePos at;
};

/// What a log line of a program or the kernel means, to be looked for by the journal probe.
struct Signature {
  std::string id;       ///< `flashinfer.arch-set-empty`
  std::string pattern;  ///< POSIX extended regular expression, matched on the host by grep -E
  std::string meaning;
  SourcePos at;
};

/// Everything one run works with: all playbook files merged, names unique, references checked.
struct Playbook {
  std::vector<Probe> probes;       ///< after those that they read
  std::vector<Check> checks;
  std::vector<Signature> signatures;
  std::vector<std::string> files;  ///< where it came from
};

}  // namespace trueup
