#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trueup/result.hpp"

namespace trueup {

/// At which privilege a probe runs. `host` is the highest the host's settings give (root where `become` is set);
/// `login` is the account that logs in, with the environment SSH gives it.
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
  std::vector<std::string> fixes;         ///< in order of preference
  std::vector<std::string> references;
  std::vector<std::string> tags;
  SourcePos at;
};

/// A parameter of a fix's step, as the playbook has it.
struct ParamTree {
  enum class Kind {
    null,
    scalar,  ///< a number or boolean, see `json`
    text,    ///< a template; one that is nothing but `{{ jq }}` gives a value of any type
    list,
    map,
  };

  Kind kind = Kind::null;
  std::string json = {};
  Expression text = {};
  std::vector<ParamTree> items = {};
  std::vector<std::pair<std::string, ParamTree>> members = {};  ///< in order; keys are unique
  SourcePos at = {};                                            ///< of a member of a map: its key's
};

/// One step of a fix: an action kind and its parameters.
struct FixStep {
  std::string kind;
  SourcePos at;
  ParamTree params;                    ///< a map
  std::optional<Expression> for_each;  ///< gives a stream: the step is made for each item, as `.each`
  std::optional<Expression> when;      ///< false: the step is left out; null: whether the fix fits is not known
};

/// Steps that bring a host to where a check holds. Evaluated where that check failed: with its facts and its `.item`.
struct Fix {
  std::string id;
  Expression title;                   ///< template
  std::optional<Expression> when;     ///< true fits, false does not, null is not known
  std::optional<Expression> why_not;  ///< template; shown where `when` is not true
  std::vector<FixStep> steps;
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
  std::vector<Fix> fixes;
  std::vector<std::string> files;              ///< where it came from
  std::map<std::string, std::string> digests;  ///< file -> SHA-256 of its text, as hex digits
};

}  // namespace trueup
