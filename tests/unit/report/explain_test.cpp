#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "trueup/report.hpp"

using namespace trueup;

namespace {

Finding finding(std::string check, std::string about, bool root = true) {
  Finding made;
  made.check = std::move(check);
  made.about = std::move(about);
  made.title = "title of " + made.check;
  made.because = "because of " + made.check;
  made.root = root;
  return made;
}

/// One cause that a library's resolution stands behind, one symptom of it, and a finding of its own.
RunReport incident() {
  HostReport host;
  host.name = host.address = "gpu1";
  auto cause = finding("lib.broken", "a.service");
  cause.evidence = {"first link", "last link", "journal: it failed", "before: it was built"};
  cause.consumer = "unit a.service";
  cause.library = "lib";
  auto symptom = finding("service.failed", "a.service", false);
  symptom.caused_by = {cause.key()};
  symptom.evidence = {"one", "two", "three", "four"};
  auto disk = finding("disk.full", "/srv");
  disk.severity = Severity::warning;
  disk.evidence = {"free: 0"};
  host.assessment.findings = {cause, symptom, disk};
  Resolution resolution;
  resolution.consumer = "unit a.service";
  resolution.library = "lib";
  resolution.evidence = {"first link", "last link"};
  resolution.history = {"it was built"};
  resolution.next_start = "meets the same";
  resolution.alternatives = {{"pin it", Judgement::proper, "works then"},
                             {"pray", Judgement::rejected, "changes nothing"}};
  host.derived.resolutions = {resolution};
  RunReport report;
  report.kind = "explain";
  report.hosts = {host};
  return report;
}

std::vector<Check> checks() {
  std::vector<Check> made(3);
  made[0].id = "lib.broken";
  made[1].id = "service.failed";
  made[2].id = "disk.full";
  return made;
}

std::string shown(const RunReport& report, const std::string& asked = "", std::size_t width = 100) {
  return render_explanation(report, checks(), asked, TableOptions{false, width, 0});
}

}  // namespace

TEST_CASE("an explanation leads from what was seen to what helps", "[unit][report][explain]") {
  const auto text = shown(incident());
  INFO(text);
  std::size_t at = 0;
  for (const auto* part :
       {"error         gpu1: title of lib.broken", "seen        - title of service.failed (service.failed)", "· three",
        "· 1 more lines", "- journal: it failed", "cause       because of lib.broken", "chain       1 first link",
        "2 last link", "confidence  high: ", "2 observations agree", "before      - it was built",
        "next start  meets the same", "proper      pin it", "works then", "rejected    pray",
        "check       lib.broken@a.service", "warning       gpu1: title of disk.full", "chain       1 free: 0"}) {
    const auto found = text.find(part, at);
    INFO(part);
    REQUIRE(found != std::string::npos);
    at = found;
  }
  CHECK(text.find("before: it was built") == std::string::npos);
}

TEST_CASE("a check narrows the explanation to what causes it", "[unit][report][explain]") {
  for (const auto* asked : {"service.failed", "service.failed@a.service", "lib.broken"}) {
    const auto text = shown(incident(), asked);
    INFO(text);
    CHECK_THAT(text, ContainsSubstring("title of lib.broken"));
    CHECK(text.find("disk.full") == std::string::npos);
  }
  CHECK_THAT(shown(incident(), "other.check"), ContainsSubstring("gpu1: other.check holds, or does not apply"));
  auto report = incident();
  report.hosts[0].assessment.not_evaluated = {{"other.check", "", "no permission"}};
  CHECK_THAT(shown(report, "other.check"), ContainsSubstring("not everything could be evaluated"));
  report.hosts[0].assessment = {};
  CHECK_THAT(shown(report), ContainsSubstring("gpu1: nothing to explain"));
}

TEST_CASE("what was not evaluated does not hold", "[unit][report][explain]") {
  auto report = incident();
  auto& host = report.hosts[0];
  host.assessment = {};
  host.assessment.not_evaluated = {{"other.check", "a.service", "no permission"}, {"whole.check", "", "no journal"}};
  for (const auto* asked : {"", "other.check", "other.check@a.service", "whole.check@b.service"}) {
    CAPTURE(asked);
    CHECK_THAT(shown(report, asked), ContainsSubstring("not everything could be evaluated"));
  }
  CHECK_THAT(shown(report, "other.check@b.service"),
             ContainsSubstring("other.check@b.service holds, or does not apply"));

  host.assessment = {};
  host.error = Error{ErrorKind::timeout, "the host was cut off", {}, {}, {}};
  for (const auto* asked : {"", "other.check"}) {
    CAPTURE(asked);
    CHECK_THAT(shown(report, asked), ContainsSubstring("not everything could be evaluated"));
  }
}

TEST_CASE("how sure an explanation is depends on what it rests on", "[unit][report][explain]") {
  auto report = incident();
  auto& findings = report.hosts[0].assessment.findings;
  findings.erase(findings.begin() + 1);
  findings[0].evidence = {"first link", "last link"};
  CHECK_THAT(shown(report, "lib.broken"),
             ContainsSubstring("medium: ") && ContainsSubstring("nothing on the host shows"));
  auto rests_on_logs = checks();
  rests_on_logs[2].needs = {"journal"};
  CHECK_THAT(render_explanation(report, rests_on_logs, "disk.full", {}),
             ContainsSubstring("low: rests on what a log says"));
  CHECK_THAT(shown(report, "disk.full"), ContainsSubstring("high: was looked at on the host"));
}

TEST_CASE("an explanation keeps to the width and lets no text of a host out raw", "[unit][report][explain]") {
  auto report = incident();
  auto& host = report.hosts[0];
  host.assessment.findings[0].title =
      "\x1b[31mred\x1b[0m and a long title that has to be wrapped into several lines of text";
  host.derived.resolutions[0].alternatives[0].why = "a \x07 bell " + std::string(30, 'x') + " " + std::string(30, 'y');
  for (const std::size_t width : {80U, 120U}) {
    const auto text = shown(report, "", width);
    INFO(text);
    CHECK(text.find('\x1b') == std::string::npos);
    CHECK(text.find('\x07') == std::string::npos);
    for (const auto line : split_lines(text))
      if (line.find('\xc2') == line.npos) CHECK(line.size() <= width);
  }
}

TEST_CASE("the explanation for programs holds the same", "[unit][report][explain][json]") {
  auto report = incident();
  report.hosts[0].unverified_source = "facts.json";
  const auto document = nlohmann::json::parse(render_explanation_json(report, checks(), "service.failed"));
  CHECK(document["schema"] == 1);
  CHECK(document["run"]["kind"] == "explain");
  CHECK(document["asked"] == "service.failed");
  const auto& host = document["hosts"][0];
  CHECK(host["unverified_source"] == "facts.json");
  REQUIRE(host["causes"].size() == 1);
  const auto& cause = host["causes"][0];
  CHECK(cause["finding"]["key"] == "lib.broken@a.service");
  CHECK(cause["library"] == "lib");
  CHECK(cause["symptoms"][0]["check"] == "service.failed");
  CHECK(cause["chain"] == nlohmann::json({"first link", "last link"}));
  CHECK(cause["observed"] == nlohmann::json({"journal: it failed"}));
  CHECK(cause["confidence"]["level"] == "high");
  CHECK(cause["before"] == nlohmann::json({"it was built"}));
  CHECK(cause["alternatives"][0] ==
        nlohmann::json({{"change", "pin it"}, {"verdict", "proper"}, {"why", "works then"}}));
}
