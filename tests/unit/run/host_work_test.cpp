#include "run/host_work.hpp"

#include <fmt/format.h>

#include "support/catch.hpp"

using namespace trueup;
using namespace std::chrono_literals;

namespace {

using Goal = HostWork::Goal;

// A host that says what the test has it say.
struct Stage {
  std::vector<std::string> said;
  HostReport found;
  HostWork::Clock::time_point now{};

  HostWork work(Goal goal, bool keep = false) {
    WorkSettings settings;
    settings.call.run = "run-1";
    settings.nonce = [] { return std::string("00"); };
    settings.reconnect_for = 60s;
    settings.audit = std::make_shared<const ProbeLoad>(Playbook{});
    settings.assess = [this](HostProbing, HostReport& report) {
      report = found;
      return std::nullopt;
    };
    settings.say = [this](std::string_view line) { said.emplace_back(line); };
    settings.keep = keep;
    Probe start;
    start.id = "start";
    return {std::move(settings), goal, {start}, {"a.b@u", "c.d"}, {"e.f"}};
  }

  static std::string id_of(const Call& call) { return call.load->order.empty() ? "audit" : call.load->order.back(); }

  /// The answer of the host to `call`; the id of what it is asked next, or `end`.
  std::string answer(HostWork& work, const std::string& id, const std::string& text) {
    HostProbing probing;
    if (id != "audit") {
      ProbeOutput output;
      output.id = id;
      output.status = ProbeStatus::ok;
      output.output = text;
      probing.outputs = {output};
    }
    return next(work, std::move(probing));
  }
  std::string lose(HostWork& work, const std::string& doing, ErrorKind kind = ErrorKind::unreachable) {
    HostProbing probing;
    probing.error = Error{kind, "the connection was cut", {}, {doing}, {}};
    return next(work, std::move(probing));
  }

 private:
  std::string next(HostWork& work, HostProbing probing) {
    const auto call = work.next(std::move(probing), now);
    REQUIRE(call);
    CHECK(work.is_finished() == !call->has_value());
    if (!*call) return "end";
    now += (*call)->pause;
    return id_of(**call);
  }
};

const std::string kBegun = "lives yes\njournal 1 start apply\njournal 2 begin 01\n";
const std::string kDone = "lives no\njournal 3 done 01\njournal 4 end applied\n";

Finding finding(const std::string& check, const std::string& about = "", Severity severity = Severity::error) {
  Finding made;
  made.check = check;
  made.about = about;
  made.severity = severity;
  return made;
}

}  // namespace

TEST_CASE("a host is started, followed, looked at and marked", "[unit][run][apply]") {
  Stage stage;
  auto work = stage.work(Goal::apply);
  CHECK(Stage::id_of(work.begin(stage.now)) == "start");
  CHECK(stage.answer(work, "start", "started\n") == "follow");
  CHECK(stage.answer(work, "follow", kBegun) == "follow");
  CHECK(stage.answer(work, "follow", kDone) == "audit");
  stage.found.assessment.findings = {finding("e.f"), finding("g.h", "", Severity::warning)};
  CHECK(stage.answer(work, "audit", "") == "mark");
  CHECK(stage.answer(work, "mark", "verified\n") == "end");
  CHECK(work.result().outcome == WorkOutcome::verified);
  CHECK(stage.said == std::vector<std::string>{"start apply", "begin step 1", "done step 1", "end applied",
                                               "looking at the host again"});
}

TEST_CASE("a connection that is lost is asked for again, and what began is not given up", "[unit][run][apply]") {
  Stage stage;
  auto work = stage.work(Goal::apply);
  work.begin(stage.now);
  CHECK(stage.lose(work, "probing") == "follow");  // whether it began is not known
  CHECK(stage.lose(work, "connecting") == "follow");
  CHECK(stage.answer(work, "follow", kBegun) == "follow");
  CHECK(stage.lose(work, "probing", ErrorKind::timeout) == "follow");
  CHECK(stage.answer(work, "follow", kDone) == "audit");
  CHECK(stage.lose(work, "probing") == "audit");
  CHECK(stage.answer(work, "audit", "") == "mark");
  CHECK(stage.lose(work, "probing") == "mark");
  CHECK(stage.answer(work, "mark", "verified\n") == "end");
  CHECK(work.result().outcome == WorkOutcome::verified);
}

TEST_CASE("what was not sent did not begin, and what is lost for good is at work", "[unit][run][apply]") {
  Stage stage;
  auto unreached = stage.work(Goal::apply);
  unreached.begin(stage.now);
  CHECK(stage.lose(unreached, "connecting") == "end");
  CHECK(unreached.result().outcome == WorkOutcome::failed);
  CHECK(unreached.result().code == "unreachable");

  auto not_begun = stage.work(Goal::apply);
  not_begun.begin(stage.now);
  CHECK(stage.lose(not_begun, "probing") == "follow");
  CHECK(stage.answer(not_begun, "follow", "refused no-run there is none\n") == "end");
  CHECK(not_begun.result().outcome == WorkOutcome::failed);
  CHECK(not_begun.result().why.find("it did not begin") == 0);

  auto gone = stage.work(Goal::apply);
  gone.begin(stage.now);
  stage.answer(gone, "start", "started\n");
  stage.answer(gone, "follow", kBegun);
  int times = 0;
  while (stage.lose(gone, "connecting") != "end") REQUIRE(++times < 100);
  CHECK(times > 3);
  CHECK(gone.result().outcome == WorkOutcome::at_work);
  CHECK(gone.result().hint.find("trueup status run-1") != std::string::npos);

  auto locked_out = stage.work(Goal::apply);
  locked_out.begin(stage.now);
  stage.answer(locked_out, "start", "started\n");
  CHECK(stage.lose(locked_out, "becoming root", ErrorKind::escalation) == "end");
  CHECK(locked_out.result().outcome == WorkOutcome::at_work);

  auto left = stage.work(Goal::apply);
  left.begin(stage.now);
  stage.answer(left, "start", "started\n");
  left.abandon({ErrorKind::interrupted, "interrupted", {}, {}, {}});
  CHECK(left.result().outcome == WorkOutcome::at_work);
  auto waiting = stage.work(Goal::apply);
  waiting.abandon({ErrorKind::interrupted, "interrupted", {}, {}, {}});
  CHECK(waiting.result().outcome == WorkOutcome::not_begun);
}

TEST_CASE("refusals, failures and interruptions are told apart", "[unit][run][apply]") {
  Stage stage;
  const auto ends = [&](const std::string& answer) {
    auto work = stage.work(Goal::apply);
    work.begin(stage.now);
    CHECK(stage.answer(work, "start", answer) == "end");
    return work.result().outcome;
  };
  CHECK(ends("refused lock-held run x works here\n") == WorkOutcome::refused);
  CHECK(ends("refused used plan p was applied here before\n") == WorkOutcome::refused);
  CHECK(ends("refused disk-full no room\n") == WorkOutcome::failed);
  const auto after = [&](const std::string& journal) {
    auto work = stage.work(Goal::apply);
    work.begin(stage.now);
    stage.answer(work, "start", "started\n");
    CHECK(stage.answer(work, "follow", "lives no\njournal 1 start apply\njournal 2 begin 01\n" + journal) == "end");
    return work.result();
  };
  CHECK(after("").outcome == WorkOutcome::interrupted);
  CHECK(after("").hint == "`trueup resume run-1` or `trueup rollback run-1`");
  const auto failed =
      after("journal 3 failed 01 no room\njournal 4 undo 01\njournal 5 undone 01\njournal 6 end undone\n");
  CHECK(failed.outcome == WorkOutcome::put_back);
  CHECK(failed.why == "step 1: no room");
  CHECK(after("journal 3 failed 01 x\njournal 4 undo 01\njournal 5 stuck 01 y\njournal 6 end stuck\n").outcome ==
        WorkOutcome::stuck);
}

TEST_CASE("what is done and did not help is undone, unless it is kept", "[unit][run][apply]") {
  for (const bool keep : {false, true}) {
    Stage stage;
    auto work = stage.work(Goal::resume, keep);
    CHECK(Stage::id_of(work.begin(stage.now)) == "continue");
    stage.answer(work, "continue", "started\n");
    stage.answer(work, "follow", kBegun);
    stage.answer(work, "follow", kDone);
    stage.found.assessment.findings = {finding("a.b", "u"), finding("x.y")};
    if (keep) {
      CHECK(stage.answer(work, "audit", "") == "end");
      CHECK(work.result().outcome == WorkOutcome::stuck);
      continue;
    }
    CHECK(stage.answer(work, "audit", "") == "continue");
    CHECK(stage.answer(work, "continue", "started\n") == "follow");
    CHECK(stage.answer(
              work, "follow",
              "lives no\njournal 5 start undo\njournal 6 undo 01\njournal 7 undone 01\njournal 8 end undone\n") ==
          "end");
    CHECK(work.result().outcome == WorkOutcome::put_back);
    CHECK(work.result().why == "all steps are done, but still found: a.b@u; found and not planned: x.y");
  }
}

// An applied run that nobody had looked at was undone days later, by a command that was to finish it.
TEST_CASE("a run that is only looked at is not undone", "[unit][run][apply]") {
  Stage stage;
  auto work = stage.work(Goal::verify);
  CHECK(Stage::id_of(work.begin(stage.now)) == "audit");
  stage.found.assessment.findings = {finding("a.b", "u")};
  CHECK(stage.answer(work, "audit", "") == "end");
  CHECK(work.result().outcome == WorkOutcome::stuck);
  CHECK(work.result().why == "all steps are done, but still found: a.b@u");
  CHECK(work.result().hint == "nothing was undone; `trueup rollback run-1` puts everything back");
}

TEST_CASE("what could not be looked at is no agreement", "[unit][run][apply]") {
  HostReport report;
  CHECK(compare_with_plan({"a.b@u"}, {}, report) == Comparison{});
  report.assessment.not_evaluated = {{"a.b", "", "caches: no permission"}, {"other", "", "x"}};
  CHECK(compare_with_plan({"a.b@u", "c.d"}, {}, report).unknown ==
        std::vector<std::string>{"a.b@u: caches: no permission"});
  CHECK(compare_with_plan({"a.b@u"}, {"a.b@u"}, report) == Comparison{});  // was not to be expected either
  report.assessment.not_evaluated = {{"a.b", "v", "x"}};
  CHECK(compare_with_plan({"a.b@u"}, {}, report) == Comparison{});
  report.status = HostStatus::partial;
  CHECK(compare_with_plan({"a.b@u"}, {}, report).unknown.size() == 1);

  Stage stage;
  auto work = stage.work(Goal::verify);
  CHECK(Stage::id_of(work.begin(stage.now)) == "audit");
  stage.found.status = HostStatus::partial;
  CHECK(stage.answer(work, "audit", "") == "end");
  CHECK(work.result().outcome == WorkOutcome::unverified);
}
