#include "check/gather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"

namespace trueup {
namespace {

// A host decides how many items there are and how long their texts are; a report must stay a report.
constexpr std::size_t kLongestText = 2000;
constexpr std::size_t kMostEvidence = 200;
constexpr std::size_t kMostFindings = 1000;  // of one check on one host
constexpr std::size_t kMostItems = 10'000;   // of one check on one host
constexpr std::size_t kMostSteps = 1000;         // of one fix for one finding
constexpr std::size_t kLongestParams = 65'536;   // of one step, as JSON

// Cuts between characters, so that a cut text stays UTF-8.
std::string capped(std::string text) {
  if (text.size() <= kLongestText) return text;
  auto end = kLongestText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text + "…";
}

std::string text_of(const nlohmann::json& result, const char* key) {
  const auto found = result.find(key);
  return found != result.end() && found->is_string() ? capped(found->get<std::string>()) : std::string();
}

Proposal::Fit fit_of(std::string_view name) {
  return name == "yes" ? Proposal::Fit::yes : name == "no" ? Proposal::Fit::no : Proposal::Fit::unknown;
}

Proposal proposal_of(const nlohmann::json& result) {
  Proposal proposal{
      text_of(result, "fix"), text_of(result, "title"), fit_of(text_of(result, "fit")), text_of(result, "why"), {}};
  if (proposal.fit == Proposal::Fit::no && proposal.why.empty()) proposal.why = "it does not fit here";
  if (proposal.fit == Proposal::Fit::unknown && proposal.why.empty()) proposal.why = "whether it fits is not known";
  const auto steps = result.find("steps");
  if (proposal.fit != Proposal::Fit::yes || steps == result.end() || !steps->is_array()) return proposal;
  for (const auto& step : *steps) {
    const auto params = step.is_object() ? step.find("params") : step.end();
    auto text = params != step.end() ? params->dump() : std::string();
    if (proposal.steps.size() == kMostSteps || text.size() > kLongestParams) {
      proposal.fit = Proposal::Fit::unknown;
      proposal.why = fmt::format("it has more than {} steps, or one of them more than {} bytes of parameters",
                                 kMostSteps, kLongestParams);
      proposal.steps.clear();
      return proposal;
    }
    proposal.steps.push_back({text_of(step, "kind"), std::move(text)});
  }
  return proposal;
}

std::optional<Severity> severity_of(std::string_view name) {
  for (const auto severity : {Severity::info, Severity::warning, Severity::error})
    if (to_string(severity) == name) return severity;
  return std::nullopt;
}

// Which finding explains which: effects[i] are those that finding i explains.
using Effects = std::vector<std::vector<std::size_t>>;

// Checks may name each other as causes, by mistake or because either may come first. Then the walk from the first
// finding in order keeps its links, and the link that would close the circle is dropped: every finding still follows
// from a root.
class CircleBreaker {
 public:
  explicit CircleBreaker(Effects& effects) : effects_(effects), state_(effects.size(), State::fresh) {}

  void run() {
    std::vector<bool> explained(effects_.size(), false);
    for (const auto& list : effects_)
      for (const auto effect : list) explained[effect] = true;
    for (std::size_t i = 0; i < effects_.size(); ++i)
      if (!explained[i]) walk(i);
    for (std::size_t i = 0; i < effects_.size(); ++i)
      if (state_[i] == State::fresh) walk(i);
  }

 private:
  enum class State { fresh, open, done };

  void walk(std::size_t start) {
    std::vector<std::pair<std::size_t, std::size_t>> path{{start, 0}};
    state_[start] = State::open;
    while (!path.empty()) {
      auto& [node, next] = path.back();
      auto& list = effects_[node];
      if (next == list.size()) {
        state_[node] = State::done;
        path.pop_back();
      } else if (const auto effect = list[next]; state_[effect] == State::open) {
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(next));
      } else {
        ++next;
        if (state_[effect] == State::done) continue;
        state_[effect] = State::open;
        path.emplace_back(effect, 0);
      }
    }
  }

  Effects& effects_;
  std::vector<State> state_;
};

}  // namespace

void Gatherer::not_evaluated(std::size_t check, std::string about, std::string why) {
  gaps_.push_back({check, {checks_[check].id, std::move(about), capped(std::move(why))}});
}

Result<void> Gatherer::add(std::size_t check, std::string_view result) {
  const auto value = result == "true" || result == "false" ? nlohmann::json(result == "true")
                                                           : nlohmann::json::parse(result, nullptr, false);
  if (check >= checks_.size() || !(value.is_object() || value.is_boolean()))
    return fail(ErrorKind::malformed, "not the result of a check");
  if (const auto count = ++results_[check]; count > kMostItems) {
    if (count == kMostItems + 1)
      not_evaluated(check, "", fmt::format("more than {} items; the others were not looked at", kMostItems));
    return {};
  }
  if (value.is_boolean()) {
    ++(value.get<bool>() ? assessment_.held : assessment_.not_applicable);
    return {};
  }
  const auto kind = text_of(value, "kind");
  if (kind == "unknown" || kind == "error")
    not_evaluated(check, text_of(value, "about"),
                  (kind == "error" ? "error in its expression: " : "") + text_of(value, "why"));
  else if (kind == "found")
    add_found(check, value);
  else
    return fail(ErrorKind::malformed, "not the result of a check");
  return {};
}

void Gatherer::add_found(std::size_t check, const nlohmann::json& result) {
  if (const auto count = ++findings_[check]; count > kMostFindings) {
    if (count == kMostFindings + 1)
      not_evaluated(check, "", fmt::format("more than {} findings; the others were left out", kMostFindings));
    return;
  }
  Finding finding;
  finding.check = checks_[check].id;
  finding.about = text_of(result, "about");
  const auto severity = severity_of(text_of(result, "severity"));
  if (!severity)
    return not_evaluated(check, finding.about,
                         fmt::format("severity: expected error, warning or info, got '{}'",
                                     shorten(printable(text_of(result, "severity")), 60)));
  finding.severity = *severity;
  finding.title = text_of(result, "title");
  finding.because = text_of(result, "because");
  finding.consumer = text_of(result, "consumer");
  finding.library = text_of(result, "library");
  if (const auto lines = result.find("evidence"); lines != result.end() && lines->is_array())
    for (const auto& line : *lines) {
      if (!line.is_string() || trim(line.get_ref<const std::string&>()).empty()) continue;
      if (finding.evidence.size() == kMostEvidence) {
        finding.evidence.back() = "… and more";
        break;
      }
      finding.evidence.push_back(capped(line.get<std::string>()));
    }
  finding.fixes = checks_[check].fixes;
  finding.references = checks_[check].references;
  if (const auto proposals = result.find("proposals"); proposals != result.end() && proposals->is_array())
    for (const auto& proposal : *proposals)
      if (proposal.is_object()) finding.proposals.push_back(proposal_of(proposal));
  found_.push_back({std::move(finding), check});
}

Assessment Gatherer::finish() {
  std::stable_sort(gaps_.begin(), gaps_.end(), [](const Gap& a, const Gap& b) { return a.check < b.check; });
  for (auto& gap : gaps_) assessment_.not_evaluated.push_back(std::move(gap.entry));

  // Playbook order is kept among equals.
  std::stable_sort(found_.begin(), found_.end(), [](const Entry& a, const Entry& b) {
    return a.finding.severity != b.finding.severity ? a.finding.severity > b.finding.severity : a.check < b.check;
  });

  std::map<std::string_view, std::vector<std::size_t>> by_check;
  for (std::size_t i = 0; i < found_.size(); ++i) by_check[found_[i].finding.check].push_back(i);
  Effects effects(found_.size());
  for (std::size_t i = 0; i < found_.size(); ++i)
    for (const auto& caused : checks_[found_[i].check].causes)
      for (const auto effect : by_check[caused]) {
        const auto& about = found_[i].finding.about;
        const auto& other = found_[effect].finding.about;
        if (effect != i && (about == other || about.empty() || other.empty())) effects[i].push_back(effect);
      }
  CircleBreaker(effects).run();

  // A key names one finding. Two of a check about the same thing are told apart by number, after they were linked.
  std::map<std::string, int> taken;
  for (auto& [finding, check] : found_)
    if (const int number = ++taken[finding.key()]; number > 1) finding.about += fmt::format("#{}", number);

  for (std::size_t i = 0; i < found_.size(); ++i)
    for (const auto effect : effects[i]) {
      auto& caused_by = found_[effect].finding.caused_by;
      const auto key = found_[i].finding.key();
      if (std::find(caused_by.begin(), caused_by.end(), key) == caused_by.end()) caused_by.push_back(key);
      found_[effect].finding.root = false;
    }

  // A root counts as much as the worst that follows from it.
  std::vector<std::size_t> roots;
  std::vector<Severity> weight(found_.size(), Severity::info);
  std::vector<std::vector<std::size_t>> trees(found_.size());
  for (std::size_t root = 0; root < found_.size(); ++root) {
    if (!found_[root].finding.root) continue;
    roots.push_back(root);
    std::set<std::size_t> seen;
    for (std::vector<std::size_t> open{root}; !open.empty();) {
      const auto at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      trees[root].push_back(at);
      weight[root] = std::max(weight[root], found_[at].finding.severity);
      open.insert(open.end(), effects[at].rbegin(), effects[at].rend());
    }
  }
  std::stable_sort(roots.begin(), roots.end(), [&](auto a, auto b) { return weight[a] > weight[b]; });

  std::vector<bool> placed(found_.size(), false);
  for (const auto root : roots)
    for (const auto at : trees[root])
      if (!placed[at]) {
        placed[at] = true;
        assessment_.findings.push_back(std::move(found_[at].finding));
      }
  return std::move(assessment_);
}

}  // namespace trueup
