#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "trueup/report_formats.hpp"
#include "unit/report/sample_report.hpp"

using namespace trueup;

// What a host says goes through every format here, broken UTF-8 included; tests/integration/test_formats.py has readers
// of each format look for what was smuggled in.
TEST_CASE("no format lets a host's control characters or broken bytes through", "[unit][report][hostile]") {
  auto report = sample::report();
  const auto bad = sample::hostile();
  auto& host = report.hosts[0];
  host.name = host.address = host.unverified_source = bad;
  auto& finding = host.assessment.findings[0];
  finding.title = finding.because = finding.about = bad;
  finding.evidence = finding.fixes = finding.references = {bad, bad};
  host.assessment.not_evaluated = {{"gpu.lost", bad, bad}};
  report.hosts[4].error = Error{ErrorKind::unreachable, bad, {}, {bad}, bad};
  report.stopped = Error{ErrorKind::timeout, bad, {}, {}, {}};
  for (const auto& format : pipeline_formats()) {
    CAPTURE(format.name);
    const auto text = format.render(report, sample::checks());
    CHECK(text == valid_utf8(text));
    std::string lines = text;  // line ends are ours, nothing else that printable() would show is there
    std::replace(lines.begin(), lines.end(), '\n', ' ');
    CHECK((printable(lines) == lines));
    CHECK(text.find("\xef\xbf\xbe") == std::string::npos);
    CHECK(format.render(report, sample::checks()) == text);
  }
}

TEST_CASE("GitHub's lines are all our own commands, whatever a host says", "[unit][report][hostile][github]") {
  auto report = sample::report();
  report.hosts[0].name = report.hosts[0].assessment.findings[0].title = sample::hostile();
  report.hosts[0].assessment.findings[0].evidence = {sample::hostile()};
  const auto text = render_github(report);
  const auto clean = render_github(sample::report());
  CHECK(split_lines(text).size() == split_lines(clean).size() + 1);  // a title that differs is one more
  for (const auto line : split_lines(text)) {
    const bool is_ours = line.starts_with("::error title=") || line.starts_with("::warning title=") ||
                         line.starts_with("::notice title=");
    CHECK(is_ours);
  }
}
