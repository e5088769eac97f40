#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "trueup/run.hpp"

using namespace trueup;
using nlohmann::json;

namespace {

RunRecord::Time at(int seconds) { return RunRecord::Time(std::chrono::seconds(1'700'000'000 + seconds)); }

const std::vector<RunRecord> kRuns = {{"20231114T221400Z-7",
                                       "apply",
                                       "0.1.0",
                                       at(40),
                                       {},
                                       {},
                                       "P1",
                                       {{"ct200", "", "running", "20231114T221400Z-7", "{}"}}},
                                      {"20231114T221320Z-7",
                                       "audit",
                                       "0.1.0",
                                       at(0),
                                       at(5),
                                       3,
                                       "",
                                       {{"ct200", "", "audited", "", "{}"},
                                        {"ct201", "", "unreachable", "", "{}"},
                                        {"x\x1b[31m", "", "audited", "", "{}"}}}};

}  // namespace

TEST_CASE("history for people: a line per run", "[unit][report][history]") {
  CHECK(render_history(kRuns, {}) ==
        "RUN                 KIND   STARTED (UTC)         EXIT  HOSTS\n"
        "20231114T221400Z-7  apply  2023-11-14 22:14:00      -  ct200\n"
        "20231114T221320Z-7  audit  2023-11-14 22:13:20      3  ct[200,201], x\\x1b[31m\n");
  CHECK(render_history({}, {}) == "no run is recorded yet\n");
}

TEST_CASE("history for programs", "[unit][report][history]") {
  const auto document = json::parse(render_history_json(kRuns));
  CHECK(document["schema"] == 1);
  CHECK(document["runs"][0] == json{{"id", "20231114T221400Z-7"},
                                    {"kind", "apply"},
                                    {"started", "2023-11-14T22:14:00Z"},
                                    {"finished", nullptr},
                                    {"exit", nullptr},
                                    {"plan", "P1"},
                                    {"hosts", {{{"name", "ct200"}, {"status", "running"}}}}});
  CHECK(document["runs"][1]["exit"] == 3);
  CHECK(document["runs"][1]["hosts"].size() == 3);
  CHECK(json::parse(render_history_json({})) == json{{"schema", 1}, {"runs", json::array()}});
}

TEST_CASE("of an audit its verdicts are remembered, whatever bytes they hold", "[unit][report][history]") {
  RunReport report;
  report.id = "A";
  report.version = "0.1.0";
  report.started = at(0) + std::chrono::microseconds(1'700);
  report.finished = at(5);
  report.hosts.resize(2);
  report.hosts[0].name = "ct200";
  auto& finding = report.hosts[0].assessment.findings.emplace_back();
  finding.check = "a.b";
  finding.title = "bytes \xff";
  finding.about = "u";
  report.hosts[0].assessment.not_evaluated.push_back({"c.d", "", "gpus unknown"});
  report.hosts[1].name = "ct201";
  report.hosts[1].status = HostStatus::unreachable;
  report.hosts[1].error = Error{ErrorKind::timeout, "no answer", {}, {}, {}};
  const auto record = record_of(report, 3);
  CHECK(record.kind == "audit");
  CHECK(record.started == at(0) + std::chrono::milliseconds(1));
  CHECK(record.exit == 3);
  REQUIRE(record.hosts.size() == 2);
  const auto detail = json::parse(record.hosts[0].detail);
  CHECK(detail["findings"][0]["key"] == "a.b@u");
  CHECK(detail["findings"][0]["title"] == "bytes \xef\xbf\xbd");
  CHECK(detail["not_evaluated"][0]["check"] == "c.d");
  CHECK(record.hosts[1].status == "unreachable");
  CHECK(json::parse(record.hosts[1].detail)["error"]["kind"] == "timeout");
}
