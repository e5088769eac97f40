#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/playbook.hpp"

namespace trueup {

/// One step that a fix proposes: an action kind and its parameters, templates rendered.
struct ProposedStep {
  std::string kind;
  std::string params;  ///< JSON object
  friend bool operator==(const ProposedStep&, const ProposedStep&) = default;
};

/// What a fix would do about one finding.
struct Proposal {
  enum class Fit { yes, no, unknown };

  std::string fix;
  std::string title;
  Fit fit = Fit::unknown;
  std::string why;                  ///< it does not fit, or that it cannot be told
  std::vector<ProposedStep> steps;  ///< where it fits
  friend bool operator==(const Proposal&, const Proposal&) = default;
};

/// A check that does not hold on a host.
struct Finding {
  std::string check;
  Severity severity = Severity::error;
  std::string title;
  std::string because;
  std::string about;                   ///< what it is about: a unit, a path; empty: the host
  std::vector<std::string> evidence;   ///< one line each, from the cause to the symptom
  bool root = true;                    ///< nothing else explains it
  std::vector<std::string> caused_by;  ///< keys of the findings that explain it
  std::vector<std::string> fixes;
  std::vector<Proposal> proposals;     ///< of `fixes`, in their order; only where a plan is being made
  std::vector<std::string> references;
  std::string consumer;                ///< of the derived resolution that the check looked at; empty: it looked at no such
  std::string library;                 ///< likewise

  /// `check` or `check@about`: unique on a host.
  std::string key() const { return about.empty() ? check : check + "@" + about; }
};

/// A check that could not be evaluated on a host. Never a pass.
struct NotEvaluated {
  std::string check;
  std::string about;
  std::string why;
};

/// What all checks say of one host.
struct Assessment {
  std::vector<Finding> findings;   ///< root causes first, by severity; what each explains follows it
  std::vector<NotEvaluated> not_evaluated;
  std::size_t held = 0;            ///< evaluations that hold
  std::size_t not_applicable = 0;
};

std::string_view to_string(Severity severity);

}  // namespace trueup
