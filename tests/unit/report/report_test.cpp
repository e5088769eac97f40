#include "trueup/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/catch.hpp"

using namespace trueup;

namespace {

HostReport host_with(std::string name, std::vector<Finding> findings) {
  HostReport host;
  host.name = host.address = std::move(name);
  host.assessment.findings = std::move(findings);
  return host;
}

Finding finding(std::string check, Severity severity) {
  Finding f;
  f.check = std::move(check);
  f.severity = severity;
  f.title = "title of " + f.check;
  return f;
}

HostReport unreachable(std::string name) {
  HostReport host;
  host.name = host.address = name;
  host.status = HostStatus::unreachable;
  host.error = Error{ErrorKind::unreachable, "connection refused", {}, {"connecting to " + name}, "start sshd"};
  return host;
}

}  // namespace

TEST_CASE("host lists fold over one run of digits and keep widths apart", "[unit][report]") {
  CHECK(fold_hosts({"gpu001", "gpu002", "gpu003", "gpu007"}) == "gpu[001-003,007]");
  CHECK(fold_hosts({"gpu2", "gpu1"}) == "gpu[1,2]");
  CHECK(fold_hosts({"gpu1", "gpu10", "login"}) == "gpu1, gpu10, login");
  CHECK(fold_hosts({"n1.r1", "n2.r1", "n1.r2"}) == "n[1,2].r1, n1.r2");
  CHECK(fold_hosts({"h123456789012", "h123456789013"}) == "h123456789012, h123456789013");
  CHECK(fold_hosts({}) == "");
}

TEST_CASE("the heaviest exit status wins", "[unit][report][exit]") {
  RunReport report;
  CHECK(exit_status(report) == 4);  // no host at all
  report.hosts.push_back(host_with("a", {}));
  CHECK(exit_status(report) == 0);
  report.hosts.push_back(host_with("b", {finding("x", Severity::warning)}));
  CHECK(exit_status(report) == 0);
  report.fail_on = Severity::warning;
  CHECK(exit_status(report) == 3);
  report.fail_on = Severity::error;
  report.hosts[0].assessment.not_evaluated.push_back({"gap", "", "why"});
  CHECK(exit_status(report) == 4);
  report.allowed_unknown = {"gap"};
  CHECK(exit_status(report) == 0);
  report.hosts.push_back(unreachable("c"));
  CHECK(exit_status(report) == 4);
  report.stopped = Error{ErrorKind::timeout, "deadline"};
  CHECK(exit_status(report) == 124);
  report.hosts.push_back(host_with("d", {finding("y", Severity::error)}));
  CHECK(exit_status(report) == 3);
  report.stopped = Error{ErrorKind::internal, "an expression that never ends"};
  CHECK(exit_status(report) == 1);
  report.stopped = Error{ErrorKind::interrupted, "interrupted"};
  CHECK(exit_status(report) == 130);
}

TEST_CASE("the JSON document has the promised fields and survives bytes that are not UTF-8", "[unit][report][json]") {
  RunReport report;
  report.id = "r1";
  auto cause = finding("cause", Severity::error);
  auto effect = finding("effect", Severity::error);
  effect.root = false;
  effect.caused_by = {"cause"};
  effect.evidence = {"bad \xff byte"};
  report.hosts.push_back(host_with("a", {cause, effect}));
  report.hosts[0].probes.push_back(
      {"gpus", ProbeStatus::timed_out, -1, "", "", "limit", std::chrono::milliseconds(5000)});
  report.hosts[0].assessment.not_evaluated.push_back({"gap", "", "needs gpus"});
  const auto document = nlohmann::json::parse(render_json(report));
  CHECK(document["schema"] == 1);
  CHECK(document["run"]["exit"] == 3);
  const auto& host = document["hosts"][0];
  CHECK(host["findings"][0]["root"] == true);
  CHECK(host["findings"][1]["root"] == false);
  CHECK(host["findings"][1]["caused_by"] == nlohmann::json({"cause"}));
  CHECK(host["not_evaluated"][0]["why"] == "needs gpus");
  CHECK(host["probes"][0]["status"] == "timed_out");
  CHECK(host["probes"][0]["duration_ms"] == 5000);
  CHECK(document["summary"]["root_causes"] == 1);
}

TEST_CASE("the table folds hosts with one cause, and symptoms under their cause", "[unit][report][table]") {
  RunReport report;
  for (int i = 1; i <= 500; ++i) {
    auto cause = finding("cause", Severity::error);
    cause.evidence = {"seen on \x1b[31mhost"};
    auto effect = finding("effect", Severity::error);
    effect.root = false;
    effect.caused_by = {"cause"};
    report.hosts.push_back(host_with(fmt::format("gpu{:03}", i), {cause, effect}));
  }
  report.hosts.push_back(unreachable("x1"));
  report.hosts.push_back(unreachable("x2"));
  const auto table = render_table(report, {});
  CHECK_THAT(table, ContainsSubstring("500 hosts: gpu[001-500]"));
  CHECK_THAT(table, ContainsSubstring("- title of effect (effect)"));
  CHECK_THAT(table, ContainsSubstring("2 hosts: x[1,2]"));
  CHECK_THAT(table, ContainsSubstring("start sshd"));
  CHECK(table.find('\x1b') == std::string::npos);
  CHECK(std::count(table.begin(), table.end(), '\n') < 20);
}

TEST_CASE("what ended a host's audit is told once, not by all that is missing for it", "[unit][report][table]") {
  const std::string why = "becoming root: sudo wants a password for ops, and none was given";
  RunReport report;
  auto host = host_with("gpu1", {});
  host.status = HostStatus::partial;
  host.error = Error{ErrorKind::escalation, why + "; still running: z", {}, {"on host gpu1"}, "give it with -K"};
  for (int i = 0; i < 30; ++i) {
    ProbeOutput lost;
    lost.id = fmt::format("probe{}", i);
    lost.status = ProbeStatus::lost;
    lost.detail = "did not begin: " + why;
    lost.lost_with = why;
    host.probes.push_back(lost);
    host.assessment.not_evaluated.push_back(
        {fmt::format("check{:02}", i), "",
         fmt::format("section{} is unknown: probe probe{}: lost: {}", i, i, lost.detail)});
  }
  host.assessment.not_evaluated.push_back({"other", "", "something else is unknown"});
  host.assessment.not_evaluated.push_back({"both", "", "needs a: lost: " + why + "; needs b: no permission"});
  report.hosts.push_back(host);
  CHECK_THAT(render_table(report, {}), ContainsSubstring(R"(incomplete  gpu1
  why       on host gpu1: becoming root: sudo wants a password for ops, and none was given; still
            running: z
  do        give it with -K

unknown     checks that could not be evaluated
            - becoming root: sudo wants a password for ops, and none was given: check00, check01,
              check02, check03 and 26 more (gpu1)
            - needs a: lost: becoming root: sudo wants a password for ops, and none was given;
              needs b: no permission: both (gpu1)
            - something else is unknown: other (gpu1)
)"));
  CHECK_THAT(render_table(report, {false, 100, 1}), ContainsSubstring("probe29: lost"));
}

TEST_CASE("who does not look as root is told how to", "[unit][report][table]") {
  RunReport report;
  report.hosts.push_back(host_with("gpu1", {}));
  auto& host = report.hosts.front();
  host.assessment.not_evaluated.push_back({"a", "", "not root"});
  HostInfo info;
  info.uid = 1000;
  host.environment.host = info;
  CHECK_THAT(render_table(report, {}), ContainsSubstring("-b becomes root by sudo"));
  info.uid = 0;
  host.environment.host = info;
  CHECK(render_table(report, {}).find("-b becomes") == std::string::npos);
}

TEST_CASE("warnings are counted where nothing fails", "[unit][report][table]") {
  RunReport report;
  report.hosts.push_back(host_with("gpu1", {finding("a", Severity::warning), finding("b", Severity::warning)}));
  CHECK_THAT(render_table(report, {}), ContainsSubstring("1 host · 2 warnings · "));
}

TEST_CASE("facts that nobody vouches for are marked in every format", "[unit][report][unverified]") {
  RunReport report;
  for (const auto* name : {"gpu1", "gpu2", "gpu3"}) report.hosts.push_back(host_with(name, {}));
  report.hosts[0].unverified_source = report.hosts[1].unverified_source = "facts.json";
  const auto table = render_table(report, {});
  CHECK_THAT(table, ContainsSubstring("unverified  gpu[1,2]: read from facts.json, not from the host"));
  CHECK_THAT(table, ContainsSubstring("2 of unverified source"));
  const auto document = nlohmann::json::parse(render_json(report));
  CHECK(document["hosts"][0]["unverified_source"] == "facts.json");
  CHECK(document["hosts"][2]["unverified_source"].is_null());
}
