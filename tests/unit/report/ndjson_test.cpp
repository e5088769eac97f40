#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "trueup/report_formats.hpp"
#include "unit/report/sample_report.hpp"

using namespace trueup;

TEST_CASE("each line of NDJSON is a record with its number, and a summary ends them", "[unit][report][ndjson]") {
  const auto report = sample::report();
  const auto text = render_ndjson(report);
  std::vector<nlohmann::json> lines;
  for (const auto line : split_lines(text)) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 6 + 5 + 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CHECK(lines[i]["schema"] == 1);
    CHECK(lines[i]["sequence"] == i + 1);
  }
  CHECK(lines[0]["kind"] == "host");
  CHECK(lines[0]["findings"] == 2);
  CHECK(lines[1]["kind"] == "finding");
  CHECK(lines[1]["host"] == "gpu001");
  CHECK(lines[2]["caused_by"] == nlohmann::json({"toolkit.too-old"}));
  CHECK(lines.back()["kind"] == "summary");
  const auto whole = nlohmann::json::parse(render_json(report));
  CHECK(lines.back()["summary"] == whole["summary"]);
  CHECK(lines.back()["run"] == whole["run"]);
}
