#include "base/text.hpp"
#include "support/catch.hpp"
#include "trueup/report_formats.hpp"
#include "unit/report/sample_report.hpp"

using namespace trueup;

TEST_CASE("GitHub gets an annotation for equal findings of many hosts, causes first", "[unit][report][github]") {
  const auto text = render_github(sample::report());
  const auto lines = split_lines(text);
  REQUIRE(lines.size() == 8);
  CHECK(lines[0] ==
        "::error title=CUDA 12.8 is too old for sm_120::on 2 hosts: gpu[001,002]%0Acheck toolkit.too-old%0A"
        "Nothing compiles & nothing runs.%0A- /usr/local/cuda -> /usr/local/cuda-12.8%0A- nvcc: release 12.8"
        "%0Afix: toolkit.install");
  CHECK_THAT(std::string(lines[1]),
             Catch::Matchers::StartsWith("::error title=a.service failed::on 2 hosts: gpu[001,002]"));
  CHECK_THAT(std::string(lines[1]), ContainsSubstring("%0Acaused by toolkit.too-old"));
}

TEST_CASE("GitHub hears what was not looked at, and the counts", "[unit][report][github]") {
  const auto text = render_github(sample::report());
  CHECK_THAT(text,
             ContainsSubstring("::error title=not reached::on gpu005%0Aconnecting to gpu005: connection refused"));
  CHECK_THAT(text, ContainsSubstring("::error title=not looked at to the end::on gpu004"));
  CHECK_THAT(text,
             ContainsSubstring("::warning title=1 check not evaluated::on gpu003%0Aneeds gpus: probe gpus: timed_out"));
  CHECK_THAT(text, ContainsSubstring("::notice title=1 check not evaluated::on gpu003%0Ano journal%0Alog.noise"));
  CHECK_THAT(text,
             ContainsSubstring("::notice title=trueup::6 hosts (2 failing, 1 not reached, 1 incomplete, 1 clean); "
                               "4 errors, 1 warning, 0 infos; 3 checks not evaluated\n"));
}

TEST_CASE("GitHub's findings begin at --fail-on", "[unit][report][github]") {
  auto report = sample::report();
  CHECK(render_github(report).find("/models is nearly full") == std::string::npos);
  report.fail_on = Severity::warning;
  CHECK_THAT(render_github(report), ContainsSubstring("::warning title=/models is nearly full::on gpu003"));
}

TEST_CASE("GitHub's commands escape what would end them", "[unit][report][github]") {
  RunReport report;
  report.hosts = {sample::host("a")};
  report.hosts[0].assessment.findings = {sample::finding("c", Severity::error, "a:b,c%0A\n::error::x")};
  CHECK_THAT(render_github(report),
             Catch::Matchers::StartsWith("::error title=a%3Ab%2Cc%250A\\n%3A%3Aerror%3A%3Ax::on a%0Acheck c\n"));
}
