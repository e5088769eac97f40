#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "report/json_parts.hpp"
#include "report/page.hpp"
#include "trueup/report.hpp"

// One host in depth: from what was seen to what causes it, what to expect, and what would help.

namespace trueup {
namespace {

using nlohmann::ordered_json;

/// How sure we are, and what that rests on.
struct Confidence {
  std::string_view level;  ///< `high`, `medium`, `low`
  std::string why;
};

/// One root cause with all that belongs to it.
struct Cause {
  const Finding* finding = nullptr;
  const Resolution* resolution = nullptr;  ///< what its check looked at; null: something else than a library
  std::vector<const Finding*> symptoms;
  std::vector<std::string> chain;     ///< facts, from the first to the failure
  std::vector<std::string> observed;  ///< what logs say of it
  Confidence confidence;
};

const Resolution* resolution_of(const HostReport& host, const Finding& finding) {
  if (finding.library.empty()) return nullptr;
  for (const auto& each : host.derived.resolutions)
    if (each.consumer == finding.consumer && each.library == finding.library) return &each;
  return nullptr;
}

bool holds(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

/// A program's log decides nothing alone; facts that were read agree with what was seen, or foretell what was not.
Confidence confidence_of(const Cause& cause, const std::vector<Check>& checks) {
  const auto agree = cause.symptoms.size() + cause.observed.size();
  const auto seen = agree == 0   ? std::string("nothing on the host shows its effect yet")
                    : agree == 1 ? std::string("one observation agrees")
                                 : fmt::format("{} observations agree", agree);
  if (cause.resolution != nullptr)
    return {agree == 0 ? "medium" : "high", "files, settings and version tables lead here; " + seen};
  const auto check = std::find_if(checks.begin(), checks.end(),
                                  [&](const Check& each) { return each.id == cause.finding->check; });
  if (check != checks.end() && holds(check->needs, "journal"))
    return cause.symptoms.empty() ? Confidence{"low", "rests on what a log says"}
                                  : Confidence{"medium", "rests on what a log says; " + seen};
  return {"high", "was looked at on the host; " + seen};
}

/// Whether a symptom shows that log line already.
bool is_told(const std::vector<const Finding*>& symptoms, std::string_view line) {
  constexpr std::string_view kJournal = "journal: ";
  if (line.starts_with(kJournal)) line.remove_prefix(kJournal.size());
  return std::any_of(symptoms.begin(), symptoms.end(), [&](const Finding* symptom) {
    return std::any_of(symptom->evidence.begin(), symptom->evidence.end(),
                       [&](const std::string& each) { return each.ends_with(line); });
  });
}

Cause make_cause(const HostReport& host, const Finding& finding, const std::vector<Check>& checks) {
  Cause cause;
  cause.finding = &finding;
  cause.resolution = resolution_of(host, finding);
  cause.symptoms = effects_of(host, finding);
  if (cause.resolution == nullptr) {
    cause.chain = finding.evidence;
  } else {
    cause.chain = cause.resolution->evidence;
    for (const auto& line : finding.evidence) {
      const bool is_history = line.starts_with("before: ");
      if (!is_history && !holds(cause.chain, line) && !is_told(cause.symptoms, line)) cause.observed.push_back(line);
    }
  }
  cause.confidence = confidence_of(cause, checks);
  return cause;
}

bool is_about(const Finding& finding, const std::string& asked) {
  return asked.empty() || finding.check == asked || finding.key() == asked;
}

/// The roots of everything that `asked` names (all, where that is empty), in the report's order.
std::vector<Cause> causes_of(const HostReport& host, const std::string& asked, const std::vector<Check>& checks) {
  std::set<std::string> wanted;
  for (const auto& finding : host.assessment.findings)
    if (is_about(finding, asked)) wanted.insert(finding.key());
  for (bool grew = true; grew;) {
    grew = false;
    for (const auto& finding : host.assessment.findings)
      if (wanted.contains(finding.key()))
        for (const auto& cause : finding.caused_by) grew |= wanted.insert(cause).second;
  }
  std::vector<Cause> causes;
  for (const auto& finding : host.assessment.findings)
    if (finding.root && wanted.contains(finding.key())) causes.push_back(make_cause(host, finding, checks));
  return causes;
}

Paint paint_of(Judgement judgement) {
  return judgement == Judgement::proper     ? Paint::green
         : judgement == Judgement::stop_gap ? Paint::yellow
                                            : Paint::red;
}

std::string_view name_of(Judgement judgement) {
  return judgement == Judgement::proper ? "proper" : judgement == Judgement::stop_gap ? "stop-gap" : "rejected";
}

// --- for people ---

void render_symptoms(Page& page, const Cause& cause, const TableOptions& options) {
  constexpr std::size_t kShown = 3;
  std::string_view label = "seen";
  for (const auto* symptom : cause.symptoms) {
    page.paragraph(label, fmt::format("- {} ({})", printable(symptom->title), printable(symptom->check)));
    label = "";
    const auto shown = options.verbosity > 0 ? symptom->evidence.size() : std::min(kShown, symptom->evidence.size());
    for (std::size_t i = 0; i < shown; ++i) page.item(2, "·", printable(symptom->evidence[i]));
    if (shown < symptom->evidence.size())
      page.item(2, "·", fmt::format("{} more lines (-v)", symptom->evidence.size() - shown));
  }
  for (const auto& line : cause.observed) {
    page.paragraph(label, "- " + printable(line));
    label = "";
  }
}

void render_alternatives(Page& page, const Resolution& resolution) {
  for (const auto& each : resolution.alternatives) {
    page.paragraph(name_of(each.verdict), paint_of(each.verdict), printable(each.change), Paint::bold);
    page.item(0, " ", printable(each.why));
  }
}

void render_cause(Page& page, const HostReport& host, const Cause& cause, const TableOptions& options) {
  const auto& finding = *cause.finding;
  page.headline(paint_of(finding.severity), to_string(finding.severity),
                fmt::format("{}: {}", printable(host.name), printable(finding.title)));
  if (finding.severity == Severity::info && options.verbosity == 0 && cause.symptoms.empty()) return;
  render_symptoms(page, cause, options);
  if (!finding.because.empty()) page.paragraph("cause", printable(trim(finding.because)));
  std::string_view label = "chain";
  for (std::size_t i = 0; i < cause.chain.size(); ++i) {
    page.paragraph(label, fmt::format("{} {}", i + 1, printable(cause.chain[i])), 2);
    label = "";
  }
  page.paragraph("confidence", fmt::format("{}: {}", cause.confidence.level, cause.confidence.why));
  if (const auto* resolution = cause.resolution) {
    label = "before";
    for (const auto& line : resolution->history) {
      page.paragraph(label, "- " + printable(line));
      label = "";
    }
    if (!resolution->next_start.empty()) page.paragraph("next start", printable(resolution->next_start));
    render_alternatives(page, *resolution);
  }
  if (!finding.fixes.empty()) page.paragraph("fix", printable(join(finding.fixes, ", ")));
  page.paragraph("check", printable(finding.key()));
  for (const auto& reference : finding.references) page.paragraph("", printable(reference));
  page.line();
}

void render_nothing(Page& page, const HostReport& host, const std::string& asked) {
  const auto at = asked.find('@');
  const auto check = asked.substr(0, at);
  const auto about = at == asked.npos ? std::string() : asked.substr(at + 1);
  // A gap about nothing in particular is about everything of its check, and a host that was cut off is one gap.
  const bool is_unknown =
      host.error.has_value() ||
      std::any_of(host.assessment.not_evaluated.begin(), host.assessment.not_evaluated.end(), [&](const auto& gap) {
        return asked.empty() || (gap.check == check && (about.empty() || gap.about.empty() || gap.about == about));
      });
  const auto what = asked.empty() ? std::string("no check") : printable(asked);
  page.line(
      is_unknown ? fmt::format("{}: nothing was found, and not everything could be evaluated", printable(host.name))
      : asked.empty() ? fmt::format("{}: nothing to explain, every check holds or does not apply", printable(host.name))
                      : fmt::format("{}: {} holds, or does not apply", printable(host.name), what));
  page.line();
}

}  // namespace

std::string render_explanation(const RunReport& report, const std::vector<Check>& checks, const std::string& asked,
                               const TableOptions& options) {
  Page page(options, 14);
  for (const auto& host : report.hosts) {
    if (host.status == HostStatus::unreachable) continue;
    const auto causes = causes_of(host, asked, checks);
    for (const auto& cause : causes) render_cause(page, host, cause, options);
    if (causes.empty()) render_nothing(page, host, asked);
  }
  const auto& last = report.hosts.empty() ? std::vector<Finding>() : report.hosts.back().assessment.findings;
  if (!last.empty() && asked.empty() && last.back().severity == Severity::info && options.verbosity == 0) page.line();
  render_rest(page, report, options);
  return page.take();
}

// --- for programs ---

namespace {

ordered_json cause_json(const Cause& cause) {
  auto symptoms = ordered_json::array();
  for (const auto* symptom : cause.symptoms) symptoms.push_back(finding_json(*symptom));
  auto alternatives = ordered_json::array();
  const auto* resolution = cause.resolution;
  if (resolution != nullptr)
    for (const auto& each : resolution->alternatives)
      alternatives.push_back({{"change", each.change}, {"verdict", to_string(each.verdict)}, {"why", each.why}});
  return {{"finding", finding_json(*cause.finding)},
          {"consumer", cause.finding->consumer},
          {"library", cause.finding->library},
          {"symptoms", std::move(symptoms)},
          {"chain", cause.chain},
          {"observed", cause.observed},
          {"confidence", {{"level", cause.confidence.level}, {"why", cause.confidence.why}}},
          {"before", resolution != nullptr ? ordered_json(resolution->history) : ordered_json::array()},
          {"next_start", resolution != nullptr ? resolution->next_start : std::string()},
          {"alternatives", std::move(alternatives)}};
}

}  // namespace

std::string render_explanation_json(const RunReport& report, const std::vector<Check>& checks,
                                    const std::string& asked) {
  auto hosts = ordered_json::array();
  for (const auto& host : report.hosts) {
    auto causes = ordered_json::array();
    for (const auto& cause : causes_of(host, asked, checks)) causes.push_back(cause_json(cause));
    hosts.push_back({{"name", host.name},
                     {"address", host.address},
                     {"unverified_source", source_json(host)},
                     {"status", to_string(host.status)},
                     {"error", error_json(host.error)},
                     {"causes", std::move(causes)},
                     {"not_evaluated", gaps_json(host.assessment.not_evaluated)}});
  }
  const ordered_json document = {{"schema", kReportSchema},
                                 {"run", run_json(report)},
                                 {"asked", asked.empty() ? ordered_json() : ordered_json(asked)},
                                 {"hosts", std::move(hosts)}};
  return json_text(document);
}

}  // namespace trueup
