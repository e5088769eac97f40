#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "report/groups.hpp"
#include "trueup/report_formats.hpp"

// JUnit XML, as Jenkins and GitLab read it (docs/report-formats.md, where the choices are explained).

namespace trueup {
namespace {

/// Text for XML 1.0, in an element or a quoted attribute: one line, markup escaped; what XML cannot carry or a reader
/// would not see (C0, C1, bidi, zero-width, noncharacters, bytes that are not UTF-8) is visible escapes.
std::string xml(std::string_view text) {
  std::string safe;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

/// What became of one test case.
struct Case {
  enum class Outcome { passed, failed, erred, skipped };

  std::string name;
  Outcome outcome = Outcome::passed;
  std::string kind;                ///< of a failure or an error: a severity, an error kind
  std::string message;             ///< one line; raw
  std::vector<std::string> lines;  ///< the whole story; raw
};

void add_finding(Case& test, const Finding& finding) {
  test.lines.push_back(fmt::format("{} {}: {}", to_string(finding.severity), finding.key(), finding.title));
  const auto add = [&](std::string_view label, std::string_view text) {
    test.lines.push_back(fmt::format("  {:<10} {}", label, text));
  };
  if (!finding.because.empty()) add("why", trim(finding.because));
  for (const auto& line : finding.evidence) add("evidence", line);
  for (const auto& cause : finding.caused_by) add("caused by", cause);
  if (!finding.fixes.empty()) add("fix", join(finding.fixes, ", "));
  for (const auto& reference : finding.references) add("see", reference);
}

/// One check on one host. Everything that it found is told, even where one finding alone decides.
Case case_of(const RunReport& report, const HostReport& host, const std::string& check) {
  Case test;
  test.name = check;
  std::size_t failing = 0;
  for (const auto& finding : host.assessment.findings) {
    if (finding.check != check) continue;
    add_finding(test, finding);
    if (finding.severity < report.fail_on) continue;
    test.outcome = Case::Outcome::failed;
    if (failing++ != 0) continue;
    test.kind = to_string(finding.severity);
    test.message = finding.title;
  }
  if (failing > 1) test.message += fmt::format(" (and {} more)", failing - 1);
  const auto& allowed = report.allowed_unknown;
  const bool is_allowed = std::find(allowed.begin(), allowed.end(), check) != allowed.end();
  for (const auto& gap : host.assessment.not_evaluated) {
    if (gap.check != check) continue;
    test.lines.push_back(fmt::format("not evaluated{}{}: {}", gap.about.empty() ? "" : " for ", gap.about, gap.why));
    if (test.outcome != Case::Outcome::passed) continue;
    test.outcome = is_allowed ? Case::Outcome::skipped : Case::Outcome::erred;
    test.kind = "not_evaluated";
    test.message = "not evaluated: " + gap.why;
  }
  return test;
}

/// Whether its checks were asked at all: a host may be reached and its facts still keep the checks from ending.
bool was_judged(const HostReport& host) {
  const auto& [findings, not_evaluated, held, not_applicable] = host.assessment;
  return host.status != HostStatus::unreachable && findings.size() + not_evaluated.size() + held + not_applicable != 0;
}

Case error_case(std::string name, const std::optional<Error>& error) {
  Case test;
  test.name = std::move(name);
  if (!error) return test;
  test.outcome = Case::Outcome::erred;
  test.kind = to_string(error->kind);
  test.message = to_string(*error);
  test.lines = {test.message};
  if (!error->hint.empty()) test.lines.push_back("  do         " + error->hint);
  return test;
}

std::vector<Case> cases_of(const RunReport& report, const HostReport& host, const std::vector<std::string>& checks) {
  std::vector<Case> cases = {error_case("host.looked-at", host.error)};
  const bool judged = was_judged(host);
  if (!judged && !host.error && !checks.empty())
    cases.front() = error_case("host.looked-at", Error{ErrorKind::internal, "no check was asked"});
  for (const auto& check : checks) {
    cases.push_back(judged ? case_of(report, host, check) : Case{check, Case::Outcome::skipped, {}, {}, {}});
    if (!judged) cases.back().message = "not evaluated: see host.looked-at";
  }
  return cases;
}

std::string element_of(const Case& test, std::string_view class_name) {
  const auto head = fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml(class_name), xml(test.name));
  std::string story;
  for (const auto& line : test.lines) story += (story.empty() ? "" : "\n") + xml(line);
  switch (test.outcome) {
    case Case::Outcome::passed:
      if (story.empty()) return head + "/>\n";
      return fmt::format("{}>\n      <system-out>{}</system-out>\n    </testcase>\n", head, story);
    case Case::Outcome::skipped:
      return fmt::format("{}>\n      <skipped message=\"{}\"/>\n      <system-out>{}</system-out>\n    </testcase>\n",
                         head, xml(test.message), story);
    case Case::Outcome::failed:
    case Case::Outcome::erred:
      break;
  }
  const auto* const tag = test.outcome == Case::Outcome::failed ? "failure" : "error";
  return fmt::format("{}>\n      <{} type=\"{}\" message=\"{}\">{}</{}>\n    </testcase>\n", head, tag, xml(test.kind),
                     xml(test.message), story, tag);
}

struct Suite {
  std::string name;
  std::chrono::milliseconds duration{0};
  std::vector<std::pair<std::string, std::string>> properties;
  std::vector<Case> cases;
};

std::size_t number_of(const std::vector<Case>& cases, Case::Outcome outcome) {
  return static_cast<std::size_t>(
      std::count_if(cases.begin(), cases.end(), [&](const Case& test) { return test.outcome == outcome; }));
}

std::string attributes_of(const std::vector<Case>& cases, std::chrono::milliseconds duration) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"", cases.size(),
                     number_of(cases, Case::Outcome::failed), number_of(cases, Case::Outcome::erred),
                     number_of(cases, Case::Outcome::skipped), std::chrono::duration<double>(duration).count());
}

std::string element_of(const Suite& suite, std::chrono::system_clock::time_point started) {
  auto text = fmt::format("  <testsuite name=\"{}\" {} timestamp=\"{:%Y-%m-%dT%H:%M:%S}\">\n    <properties>\n",
                          xml(suite.name), attributes_of(suite.cases, suite.duration),
                          fmt::gmtime(std::chrono::system_clock::to_time_t(started)));
  for (const auto& [name, value] : suite.properties)
    text += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", xml(name), xml(value));
  text += "    </properties>\n";
  for (const auto& test : suite.cases) text += element_of(test, suite.name);
  return text + "  </testsuite>\n";
}

/// The run itself: what stopped it, and that it selected no host, is no host's fault.
Suite run_suite(const RunReport& report) {
  auto why = report.stopped;
  if (!why && report.hosts.empty()) why = Error{ErrorKind::not_found, "no host was selected"};
  return {"trueup",
          {},
          {{"schema", "1"},
           {"version", report.version},
           {"run", report.id},
           {"exit", fmt::format("{}", exit_status(report))}},
          {error_case("run.complete", why)}};
}

Suite host_suite(const RunReport& report, const HostReport& host, const std::vector<std::string>& checks) {
  const auto counts = counts_of(host, report.fail_on);
  Suite suite{
      host.name, host.duration, {{"address", host.address}, {"status", std::string(to_string(host.status))}}, {}};
  if (!host.unverified_source.empty()) suite.properties.emplace_back("unverified_source", host.unverified_source);
  const std::pair<const char*, std::size_t> numbers[] = {{"errors", counts.errors},
                                                         {"warnings", counts.warnings},
                                                         {"infos", counts.infos},
                                                         {"not_evaluated", counts.not_evaluated}};
  for (const auto& [name, number] : numbers) suite.properties.emplace_back(name, fmt::format("{}", number));
  suite.cases = cases_of(report, host, checks);
  return suite;
}

}  // namespace

std::string render_junit(const RunReport& report, const std::vector<std::string>& checks) {
  std::string suites;
  std::vector<Case> outcomes;  // of all cases, without their stories
  const auto add = [&](const Suite& suite) {
    suites += element_of(suite, report.started);
    for (const auto& test : suite.cases) outcomes.push_back({{}, test.outcome, {}, {}, {}});
  };
  add(run_suite(report));
  for (const auto& host : report.hosts) add(host_suite(report, host, checks));
  const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(report.finished - report.started);
  return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"trueup\" {}>\n{}</testsuites>\n",
                     attributes_of(outcomes, duration), suites);
}

}  // namespace trueup
