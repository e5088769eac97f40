#include <fmt/format.h>

#include "support/catch.hpp"
#include "trueup/report_formats.hpp"
#include "unit/report/sample_report.hpp"

using namespace trueup;

TEST_CASE("Markdown tells a cause of many hosts once, with its evidence folded", "[unit][report][markdown]") {
  const auto text = render_markdown(sample::report());
  CHECK_THAT(text, ContainsSubstring("| 6 | 2 | 1 | 1 | 1 | 4 | 1 | 0 | 3 |"));
  CHECK_THAT(text, ContainsSubstring("### ❌ error: CUDA 12.8 is too old for `sm_120`\n\n"
                                     "on 2 hosts: `gpu[001,002]` · check `toolkit.too-old`"));
  CHECK_THAT(text, ContainsSubstring("```text\n/usr/local/cuda -> /usr/local/cuda-12.8\nnvcc: release 12.8\n```"));
  CHECK_THAT(text, ContainsSubstring("- error: a.service failed (`service.failed`)"));
  CHECK_THAT(text, ContainsSubstring("- <https://docs.nvidia.com/cuda/>"));
}

TEST_CASE("Markdown says what was not looked at, and why", "[unit][report][markdown]") {
  const auto text = render_markdown(sample::report());
  CHECK_THAT(text,
             ContainsSubstring("- **not reached:** `gpu005`\n\n  because: connecting to gpu005: connection refused\n\n"
                               "  do: start sshd\n"));
  CHECK_THAT(text, ContainsSubstring("- **incomplete:** `gpu004`"));
  CHECK_THAT(text, ContainsSubstring("- **1 check not evaluated:** on `gpu003`"));
  CHECK_THAT(render_markdown({}), ContainsSubstring("no host was selected"));
}

TEST_CASE("Markdown stays within its size and says what was cut", "[unit][report][markdown]") {
  RunReport report;
  for (int i = 0; i < 3000; ++i) {
    report.hosts.push_back(sample::broken_host(fmt::format("gpu{:04}", i)));
    report.hosts.back().assessment.findings[0].title = fmt::format("cause {} {}", i, std::string(390, 'x'));
  }
  const auto text = render_markdown(report);
  CHECK(text.size() <= kStepSummaryBytes);
  CHECK(text.size() > kStepSummaryBytes / 2);
  CHECK_THAT(text, ContainsSubstring("**Cut** to stay within 1048576 bytes"));
  CHECK_THAT(text, ContainsSubstring("| 3000 | 3000 |"));
  CHECK(render_markdown(sample::report()).find("**Cut**") == std::string::npos);
}
