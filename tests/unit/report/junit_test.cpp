#include <algorithm>
#include <string>

#include "support/catch.hpp"
#include "trueup/report_formats.hpp"
#include "unit/report/sample_report.hpp"

using namespace trueup;

namespace {

std::size_t times(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++found;
  return found;
}

std::string case_of(const std::string& xml, const std::string& host, const std::string& name) {
  const auto begin = xml.find("<testcase classname=\"" + host + "\" name=\"" + name + "\"");
  if (begin == xml.npos) return "";
  const auto end = std::min(xml.find("</testcase>", begin), xml.find("/>\n    <testcase", begin));
  return xml.substr(begin, end - begin);
}

}  // namespace

TEST_CASE("JUnit has a case for each check on each host, whatever was found", "[unit][report][junit]") {
  const auto report = sample::report();
  const auto xml = render_junit(report, sample::checks());
  const auto hosts = report.hosts.size(), each = sample::checks().size() + 1;  // and host.looked-at
  CHECK(times(xml, "<testsuite ") == hosts + 1);
  CHECK(times(xml, "<testcase ") == hosts * each + 1);
  for (const auto& host : report.hosts)
    for (const auto& check : sample::checks()) CHECK_FALSE(case_of(xml, host.name, check).empty());
}

TEST_CASE("in JUnit an error fails with all that is known of it", "[unit][report][junit]") {
  const auto test = case_of(render_junit(sample::report(), sample::checks()), "gpu002", "toolkit.too-old");
  CHECK_THAT(test, ContainsSubstring("<failure type=\"error\" message=\"CUDA 12.8 is too old for sm_120\">"));
  CHECK_THAT(test, ContainsSubstring("why        Nothing compiles &amp; nothing runs."));
  CHECK_THAT(test, ContainsSubstring("evidence   /usr/local/cuda -&gt; /usr/local/cuda-12.8"));
  CHECK_THAT(test, ContainsSubstring("fix        toolkit.install"));
}

TEST_CASE("a warning fails a JUnit case from --fail-on on, and is told in any case", "[unit][report][junit]") {
  auto report = sample::report();
  const auto passed = case_of(render_junit(report, sample::checks()), "gpu003", "disk.full");
  CHECK_THAT(passed, ContainsSubstring("<system-out>warning disk.full: /models is nearly full</system-out>"));
  report.fail_on = Severity::warning;
  CHECK_THAT(case_of(render_junit(report, sample::checks()), "gpu003", "disk.full"),
             ContainsSubstring("<failure type=\"warning\""));
}

TEST_CASE("what was not looked at never passes in JUnit", "[unit][report][junit]") {
  const auto xml = render_junit(sample::report(), sample::checks());
  CHECK_THAT(case_of(xml, "gpu003", "gpu.lost"),
             ContainsSubstring("<error type=\"not_evaluated\" message=\"not evaluated: needs gpus"));
  CHECK_THAT(case_of(xml, "gpu003", "log.noise"), ContainsSubstring("<skipped "));  // --allow-unknown
  CHECK_THAT(case_of(xml, "gpu004", "host.looked-at"), ContainsSubstring("<error type=\"timeout\""));
  CHECK_THAT(case_of(xml, "gpu005", "host.looked-at"), ContainsSubstring("start sshd"));
  for (const auto& check : sample::checks()) CHECK_THAT(case_of(xml, "gpu005", check), ContainsSubstring("<skipped "));
}

TEST_CASE("JUnit is red where the exit status is not 0, and nowhere else", "[unit][report][junit]") {
  const auto is_red = [](const RunReport& report) {
    const auto xml = render_junit(report, sample::checks());
    return times(xml, "<failure ") + times(xml, "<error ") != 0;
  };
  RunReport report;
  CHECK(is_red(report));  // no host at all
  report.hosts = {sample::host("a")};
  CHECK_FALSE(is_red(report));
  for (const auto& host : sample::report().hosts) {
    report.hosts = {host};
    CAPTURE(host.name);
    CHECK(is_red(report) == (exit_status(report) != 0));
  }
  report.hosts = {sample::host("a")};
  report.stopped = Error{ErrorKind::timeout, "the deadline of 1 s passed"};
  CHECK(is_red(report));
}

TEST_CASE("a host whose facts kept the checks from ending passes none of them in JUnit", "[unit][report][junit]") {
  RunReport report;
  report.hosts = {sample::host("a")};
  report.hosts[0].status = HostStatus::partial;
  report.hosts[0].error = Error{ErrorKind::internal, "the check did not end"};
  report.hosts[0].assessment = {};
  CHECK(times(render_junit(report, sample::checks()), "<skipped ") == sample::checks().size());
}
