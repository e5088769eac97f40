#include "plan/draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/text.hpp"

namespace trueup {
namespace {

using Findings = std::vector<Finding>;

/// Each root with everything that follows from it, in the assessment's order.
struct Root {
  const Finding* finding = nullptr;
  std::vector<const Finding*> effects;
};

std::vector<Root> roots_of(const Findings& findings) {
  std::map<std::string, std::vector<const Finding*>> caused;  // by the key of the cause
  for (const auto& finding : findings)
    for (const auto& cause : finding.caused_by) caused[cause].push_back(&finding);
  std::vector<Root> roots;
  for (const auto& finding : findings) {
    if (!finding.root) continue;
    std::set<const Finding*> seen;
    for (std::vector<const Finding*> open = {&finding}; !open.empty();) {
      const auto* at = open.back();
      open.pop_back();
      for (const auto* effect : caused[at->key()])
        if (effect != &finding && seen.insert(effect).second) open.push_back(effect);
    }
    Root root{&finding, {}};
    for (const auto& each : findings)
      if (seen.contains(&each)) root.effects.push_back(&each);
    roots.push_back(std::move(root));
  }
  return roots;
}

/// Why a fix cannot be taken, for people.
std::string sentence(const Proposal& proposal) {
  return proposal.fit == Proposal::Fit::no
             ? fmt::format("fix {} does not fit: {}", proposal.fix, proposal.why)
             : fmt::format("whether fix {} fits cannot be told: {}", proposal.fix, proposal.why);
}

class Drafter {
 public:
  Drafter(const PlanWishes& wishes, const FindAction& find_kind) : wishes_(wishes), find_kind_(find_kind) {}

  PlanDraft run(const Findings& findings) {
    const auto roots = roots_of(findings);
    const auto counts = [&](const Finding& finding) { return finding.severity >= wishes_.fail_on; };
    std::set<std::string> explained;  // by a root that counts of its own
    for (const auto& root : roots)
      if (counts(*root.finding))
        for (const auto* effect : root.effects) explained.insert(effect->key());
    for (const auto& root : roots) {
      const bool is_wanted =
          counts(*root.finding) || std::any_of(root.effects.begin(), root.effects.end(), [&](const Finding* effect) {
            return counts(*effect) && !explained.contains(effect->key());
          });
      if (is_wanted) add(root);
    }
    std::stable_sort(draft_.steps.begin(), draft_.steps.end(), [](const WantedStep& a, const WantedStep& b) {
      return a.kind->rank(a.params) < b.kind->rank(b.params);
    });
    return std::move(draft_);
  }

 private:
  static bool names_one(const std::vector<std::string>& names, const Root& root) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return is_named(*root.finding, name) ||
             std::any_of(root.effects.begin(), root.effects.end(),
                         [&](const Finding* effect) { return is_named(*effect, name); });
    });
  }

  void add(const Root& root) {
    const auto leave_out = [&](std::string why) {
      draft_.left_out.push_back({planned(*root.finding), std::move(why)});
    };
    const auto& finding = *root.finding;
    if (std::any_of(wishes_.exclude.begin(), wishes_.exclude.end(),
                    [&](const std::string& name) { return is_named(finding, name); }))
      return leave_out("left out by --exclude");
    if (!wishes_.only.empty() && !names_one(wishes_.only, root)) return leave_out("left out by --only");
    if (finding.proposals.empty()) return leave_out("no fix is known");
    std::vector<std::string> whys;
    for (const auto& proposal : finding.proposals) {
      if (!wishes_.fixes.empty() &&
          std::find(wishes_.fixes.begin(), wishes_.fixes.end(), proposal.fix) == wishes_.fixes.end())
        continue;
      auto why = proposal.fit == Proposal::Fit::yes ? take(proposal, finding.key()) : sentence(proposal);
      if (why.empty()) {
        draft_.cures.push_back(planned(finding));
        for (const auto* effect : root.effects) {
          const auto found = std::find_if(draft_.cures.begin(), draft_.cures.end(),
                                          [&](const PlannedFinding& each) { return each.key == effect->key(); });
          if (found == draft_.cures.end()) draft_.cures.push_back(planned(*effect));
        }
        return;
      }
      whys.push_back(std::move(why));
    }
    leave_out(whys.empty() ? "left out by --fix" : join(whys, "; "));
  }

  /// Adds the steps of a proposal to those that are there. What keeps it from that; empty: it is done.
  std::string take(const Proposal& proposal, const std::string& key) {
    auto steps = draft_.steps;
    for (const auto& proposed : proposal.steps) {
      const auto* kind = find_kind_(proposed.kind);
      if (kind == nullptr)
        return fmt::format("fix {}: there is no action '{}'", proposal.fix, printable(proposed.kind));
      const auto given = nlohmann::json::parse(proposed.params, nullptr, false);
      if (const auto wrong = what_is_wrong(*kind, given); !wrong.empty())
        return fmt::format("fix {}: {}", proposal.fix, wrong);
      for (auto& params : kind->steps(given))
        if (auto why = put(steps, {kind, std::move(params), proposal.fix, {key}}); !why.empty()) return why;
    }
    if (proposal.steps.empty()) return fmt::format("fix {} has no step here", proposal.fix);
    draft_.steps = std::move(steps);
    return {};
  }

  static std::string what_is_wrong(const ActionKind& kind, const Params& params) {
    std::vector<std::string> messages;
    for (const auto& error : check_params(kind, params)) messages.push_back(to_string(error));
    return join(messages, "; ");
  }

  static std::string put(std::vector<WantedStep>& steps, WantedStep step) {
    for (auto& there : steps) {
      if (there.kind != step.kind || there.kind->object(there.params) != step.kind->object(step.params) ||
          there.kind->rank(there.params) != step.kind->rank(step.params))
        continue;
      const auto both = united(there.params, step.params);
      if (!both || !check_params(*step.kind, *both).empty())
        return fmt::format("fix {} wants {} otherwise than fix {} does for {}", step.fix,
                           there.kind->object(there.params), there.fix, join(there.cures, ", "));
      there.params = *both;
      for (auto& key : step.cures)
        if (std::find(there.cures.begin(), there.cures.end(), key) == there.cures.end())
          there.cures.push_back(std::move(key));
      return {};
    }
    steps.push_back(std::move(step));
    return {};
  }

  const PlanWishes& wishes_;
  const FindAction& find_kind_;
  PlanDraft draft_;
};

}  // namespace

bool is_named(const Finding& finding, std::string_view wanted) {
  return finding.check == wanted || finding.key() == wanted;
}

PlannedFinding planned(const Finding& finding) { return {finding.key(), finding.title, finding.severity}; }

std::optional<Params> united(const Params& a, const Params& b) {
  if (a == b) return a;
  if (!a.is_object() || !b.is_object()) return std::nullopt;
  auto both = a;
  for (const auto& [name, value] : b.items()) {
    const auto there = both.find(name);
    if (there == both.end()) {
      both[name] = value;
      continue;
    }
    auto one = united(*there, value);
    if (!one) return std::nullopt;
    *there = *std::move(one);
  }
  return both;
}

PlanDraft draft_plan(const Assessment& assessment, const PlanWishes& wishes, const FindAction& find_kind) {
  return Drafter(wishes, find_kind).run(assessment.findings);
}

}  // namespace trueup
