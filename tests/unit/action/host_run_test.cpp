#include "action/host_run.hpp"

#include <random>

#include "support/catch.hpp"

using namespace trueup;
using namespace std::chrono_literals;

namespace {

RunState state_of(std::string_view journal, bool lives = false) { return parse_journal(journal, lives).state; }

HostRun run_of(std::size_t steps) {
  HostRun run;
  run.run = "20260301T101500Z-77";
  run.plan = "plan-1";
  run.host = "gpu01";
  run.by = "ann@desk";
  for (std::size_t i = 0; i < steps; ++i)
    run.steps.push_back({"file", "path /etc/x", "old", {"inspect"}, {"apply"}, {"verify"}, {"undo"}, {}});
  return run;
}

ProbeOutput answered(std::string text) {
  ProbeOutput output;
  output.status = ProbeStatus::ok;
  output.output = std::move(text);
  return output;
}

const std::string kApplied =
    "100 start apply\n101 begin 01\n102 done 01\n103 begin 02\n104 done 02\n105 end applied\n";

}  // namespace

TEST_CASE("the state of a run is what its journal ends with", "[unit][action][journal]") {
  CHECK(state_of("") == RunState::interrupted);
  CHECK(state_of("", true) == RunState::running);
  CHECK(state_of("100 start apply\n101 begin 01\n") == RunState::interrupted);
  CHECK(state_of("100 start apply\n101 begin 01\n", true) == RunState::running);
  CHECK(state_of(kApplied) == RunState::applied);
  CHECK(state_of(kApplied, true) == RunState::applied);
  CHECK(state_of(kApplied + "106 verified\n") == RunState::verified);
  CHECK(state_of(kApplied + "106 verified\n107 start undo\n") == RunState::interrupted);
  CHECK(state_of(kApplied + "107 start undo\n108 undo 02\n109 undone 02\n110 end undone\n") == RunState::undone);
  // `verified` is of what was applied, and of nothing else.
  CHECK(state_of(kApplied + "107 start undo\n110 end undone\n111 verified\n") == RunState::undone);
  CHECK(state_of("100 start apply\n101 begin 01\n102 failed 01 x\n103 undo 01\n104 stuck 01 y\n105 end stuck\n") ==
        RunState::stuck);
}

TEST_CASE("a journal names what is touched, and why it went wrong", "[unit][action][journal]") {
  const auto journal = parse_journal(
      "100 start apply\n101 begin 01\n102 done 01\n103 begin 02\n104 failed 02 apply ended with status 5: no room\n"
      "105 undo 02\n106 undone 02\n107 undo 01\n",
      true);
  CHECK(journal.steps == std::map<int, bool>{{1, false}});
  CHECK(journal.undoing);
  CHECK(journal.why == "apply ended with status 5: no room");
  CHECK(journal.why_step == 2);
  CHECK(journal.events.size() == 8);
  CHECK(journal.damaged == 0);
}

TEST_CASE("every cut of a journal says no more than what stood there before", "[unit][action][journal][property]") {
  const std::string whole = kApplied + "106 verified\n107 start undo\n108 undo 02\n109 undone 02\n110 undo 01\n"
                                       "111 stuck 01 it was changed since\n112 end stuck\n";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    CAPTURE(whole.substr(0, cut));
    const auto line_start = cut == 0 ? 0 : whole.rfind('\n', cut - 1) + 1;
    auto before = parse_journal(whole.substr(0, line_start), false);
    // Being written: not there yet.
    CHECK(parse_journal(whole.substr(0, cut), false).events == before.events);
    // Cut by a full disk, and a later event begins on a line of its own: the rest of a line is no other line.
    const auto torn = parse_journal(whole.substr(0, cut) + "\n", false);
    const bool is_reason = torn.events.size() > before.events.size() && torn.events.back().event == "stuck";
    const bool is_whole = whole[cut] == '\n' && cut > line_start;
    if (!is_reason && !is_whole) CHECK(torn.events == before.events);
    CHECK(torn.damaged == (torn.events.size() == before.events.size() ? 1 : 0));
  }
}

TEST_CASE("any bytes are a journal", "[unit][action][journal][property]") {
  std::mt19937 random(7);
  const std::vector<std::string> words = {"start",
                                          "apply",
                                          "begin",
                                          "01",
                                          "99",
                                          "100",
                                          "-1",
                                          "00",
                                          "done",
                                          "end",
                                          "applied",
                                          " ",
                                          "\n",
                                          "\n",
                                          std::string(1, '\0'),
                                          "\xff",
                                          "99999999999999999999999",
                                          "verified",
                                          "stuck"};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += words[random() % words.size()] + (random() % 2 ? " " : "");
    const auto journal = parse_journal(text, false);
    CHECK(journal.events.size() + journal.damaged == journal.lines);
    for (const auto& event : journal.events) CHECK((event.step >= 0 && event.step <= 99));
  }
}

TEST_CASE("a run travels in parts that a host's limits let through", "[unit][action]") {
  auto run = run_of(3);
  const auto small = start_calls(run, {run.run, run.by, "00ff"});
  REQUIRE(small);
  run.steps[1].apply.text = std::string(300'000, '\'');
  run.library = std::string(100'000, 'x');
  const auto large = start_calls(run, {run.run, run.by, "00ff"});
  REQUIRE(large);
  CHECK(large->size() > small->size());
  for (const auto& call : *large) CHECK(call.script.size() < 80'000);
  for (std::size_t i = 1; i + 1 < large->size(); ++i)
    CHECK((*large)[i].reads == std::vector<std::string>{(*large)[i - 1].id});
  CHECK(large->back().reads.size() == large->size() - 1);
}

TEST_CASE("what cannot be a run is refused before a host is asked", "[unit][action]") {
  auto run = run_of(1);
  for (const std::string id : {"", "../x", "a/b", ".hidden", "-n", "a b", "x\ny"}) {
    CAPTURE(id);
    run.run = id;
    CHECK_FALSE(start_calls(run, {id, run.by, "00ff"}));
    auto other = run_of(1);
    other.plan = id;
    CHECK_FALSE(start_calls(other, {other.run, run.by, "00ff"}));
  }
  CHECK_FALSE(start_calls(run_of(100), {"r", "b", "00"}));
  CHECK(start_calls(run_of(99), {"r", "b", "00"}));
}

TEST_CASE("answers of a host", "[unit][action]") {
  CHECK(read_answer(answered("started\n"))->words == "started");
  CHECK(read_answer(answered("already applied\n"))->words == "already applied");
  const auto refused = read_answer(answered("refused lock-held run 7 of ann@desk works here\n"));
  REQUIRE(refused);
  CHECK(refused->kind == CallAnswer::Kind::refused);
  CHECK(refused->code == "lock-held");
  CHECK(refused->words == "run 7 of ann@desk works here");
  CHECK(read_answer(answered("unanswered\n"))->kind == CallAnswer::Kind::unanswered);
  CHECK_FALSE(read_answer(answered("")));
  CHECK_FALSE(read_answer(answered("start")));  // cut
  ProbeOutput lost;
  lost.detail = "the connection was cut";
  REQUIRE_FALSE(read_answer(lost));
  CHECK(read_answer(lost).error().message.find("the connection was cut") != std::string::npos);
}

TEST_CASE("runs of a host", "[unit][action]") {
  const auto runs = read_runs(
      answered("lock yes run=b ...\nrun a\nlives no\nabout run=a\nabout plan=p\nstep 01 file path /etc/x y\njournal "
               "100 start apply\n"
               "journal 101 end undone\nrun b\nlives yes\njournal 100 start apply\noutput 01.apply E: no\x1b[2J\n"));
  REQUIRE(runs);
  REQUIRE(runs->size() == 2);
  CHECK((*runs)[0].journal.state == RunState::undone);
  CHECK((*runs)[0].about.at("plan") == "p");
  CHECK((*runs)[0].steps == std::vector<std::string>{"file path /etc/x y"});
  CHECK((*runs)[1].journal.state == RunState::running);
  CHECK((*runs)[1].outputs == std::vector<std::string>{"01.apply E: no\\x1b[2J"});
  CHECK(read_runs(answered("refused no-state nothing\n"))->empty());
  CHECK_FALSE(read_runs(answered("refused state-unsafe it is a link\n")));
  CHECK(read_pruned(answered("pruned a\nkept b it is stuck\n")) ==
        std::map<std::string, std::string>{{"a", ""}, {"b", "it is stuck"}});
}
