#include "run/check_worker.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "check/check_set.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"
#include "support/playbook_text.hpp"

using namespace trueup;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

const json kFacts = {{"unknown", json::object()}, {"os", {{"id", "debian"}}}};

std::vector<Check> checks(const std::string& assertion) {
  const auto check = [](const std::string& id, const std::string& text) {
    return "  " + id + ": {title: t, severity: error, because: b, assert: '" + text + "'}\n";
  };
  return test::playbook("checks:\n" + check("before", "false") + check("culprit", assertion) + check("after", "true"))
      .checks;
}

std::string how_it_ends(const std::string& assertion, std::chrono::milliseconds limit = 300ms) {
  std::vector<Error> errors;
  CheckWorker::Limits limits;
  limits.memory_bytes = 256U << 20U;
  const auto worker = CheckWorker::start(checks(assertion), {}, errors, limits);
  if (!worker) return "refused: " + to_string(errors.front());
  const auto assessment = worker->assess(kFacts, limit);
  if (assessment) return "went through";
  CHECK(worker->assess(kFacts, limit).error() == assessment.error());
  return assessment.error().message;
}

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

}  // namespace

TEST_CASE("the worker says what the check set says", "[process][check_worker]") {
  std::vector<Error> errors;
  const auto list = checks(".os.id == \"debian\"");
  const auto worker = CheckWorker::start(list, {}, errors);
  const auto set = CheckSet::compile(list, errors);
  REQUIRE(errors.empty());
  for (int host = 0; host < 3; ++host) {
    const auto theirs = worker->assess(kFacts, 10s);
    const auto ours = set->assess(kFacts);
    REQUIRE(theirs.has_value());
    REQUIRE(theirs->findings.size() == 1);
    CHECK(theirs->findings.front().key() == ours->findings.front().key());
    CHECK(theirs->held == ours->held);
  }
}

TEST_CASE("the worker brings what fixes propose", "[process][check_worker]") {
  const auto playbook = test::playbook(R"(
checks: {a: {title: t, severity: error, because: b, assert: 'false', fix: f}}
fixes: {f: {title: 'on {{ .os.id }}', steps: [{file: {path: '/etc/{{ .os.id }}'}}]}}
)");
  std::vector<Error> errors;
  const auto worker = CheckWorker::start(playbook.checks, playbook.fixes, errors);
  REQUIRE(errors.empty());
  const auto findings = worker->assess(kFacts, 10s)->findings;
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].proposals ==
        std::vector<Proposal>{{"f", "on debian", Proposal::Fit::yes, "", {{"file", R"({"path":"/etc/debian"})"}}}});
}

TEST_CASE("an expression that never ends is stopped by name", "[process][check_worker]") {
  for (const auto* endless :
       {"def f: f; f", "[recurse(1)] == []", "last(range(0; infinite))", "until(false; .) == 1"}) {
    CAPTURE(endless);
    CHECK_THAT(how_it_ends(endless), ContainsSubstring("check culprit: "));
  }
  CHECK(how_it_ends("def f: f; f") ==
        "check culprit: was still at work after the 300 ms of processor time that all checks of a host have; its "
        "expressions may never end");
  CHECK_FALSE(has_children());
}

TEST_CASE("a process that gets no time is given up by the clock, and no check is blamed", "[process][check_worker]") {
  std::vector<Error> errors;
  CheckWorker::Limits limits;
  limits.least_by_the_clock = 0ms;
  const auto worker = CheckWorker::start(checks("true"), {}, errors, limits);
  REQUIRE(worker.has_value());
  std::ifstream children(fmt::format("/proc/self/task/{}/children", getpid()));
  pid_t pid = 0;
  REQUIRE(children >> pid);
  REQUIRE(kill(pid, SIGSTOP) == 0);
  CHECK(worker->assess(kFacts, 100ms).error().message ==
        "the checks' process was not done after 300 ms: this machine is too busy");
  CHECK(worker->assess(kFacts, 10s).has_value());
}

TEST_CASE("facts that keep a check busy cost no other host its judgement", "[process][check_worker]") {
  std::vector<Error> errors;
  const auto worker =
      CheckWorker::start(checks("if .os.id == \"debian\" then true else (def f: f; f) end"), {}, errors);
  REQUIRE(worker.has_value());
  auto endless = kFacts;
  endless["os"]["id"] = "other";
  for (int lost = 1; lost <= 5; ++lost) {
    CHECK_FALSE(worker->is_spent());
    CHECK(worker->assess(kFacts, 10s).has_value());
    CHECK_THAT(worker->assess(endless, 100ms).error().message, ContainsSubstring("check culprit: was still at work"));
  }
  for (int in_a_row = 2; in_a_row <= 3; ++in_a_row) {
    CHECK_FALSE(worker->is_spent());
    CHECK_THAT(worker->assess(endless, 100ms).error().message, ContainsSubstring("check culprit: was still at work"));
  }
  CHECK(worker->is_spent());
  CHECK_THAT(worker->assess(kFacts, 10s).error().message, ContainsSubstring("check culprit: was still at work"));
  CHECK_FALSE(has_children());
}

TEST_CASE("hosts that keep a check busy on purpose end the run at last", "[process][check_worker]") {
  std::vector<Error> errors;
  const auto worker =
      CheckWorker::start(checks("if .os.id == \"debian\" then true else (def f: f; f) end"), {}, errors);
  REQUIRE(worker.has_value());
  auto endless = kFacts;
  endless["os"]["id"] = "other";
  for (int lost = 1; lost <= 20; ++lost) {
    CHECK_FALSE(worker->is_spent());
    CHECK(worker->assess(kFacts, 10s).has_value());
    CHECK_FALSE(worker->assess(endless, 50ms).has_value());
  }
  CHECK(worker->is_spent());
}

TEST_CASE("an expression that eats memory or crashes libjq is stopped by name", "[process][check_worker]") {
#ifndef __SANITIZE_ADDRESS__
  CHECK_THAT(how_it_ends("[range(1e9)] == []", 60s),
             ContainsSubstring("check culprit: ran out of memory (more than 256.0 MiB) or crashed libjq"));
#endif
  CHECK_THAT(how_it_ends("reduce range(10000000) as $i (null; [.]) | tojson == null", 60s),
             ContainsSubstring("check culprit: "));
  CHECK_FALSE(has_children());
}

TEST_CASE("expressions that reach for the controller are refused by name", "[process][check_worker]") {
  CHECK(
      how_it_ends("$ENV.SECRET == null") ==
      "refused: p.yaml:3:61: check culprit: assert: '$ENV' is not for checks: it would read trueup's own environment");
  CHECK_THAT(how_it_ends("import \"/etc/passwd\" as x; true"), ContainsSubstring("'import' is not for checks"));
  CHECK_THAT(how_it_ends("input == null"), ContainsSubstring("'input' is not for checks"));
}

TEST_CASE("nothing of ours is left in the worker to leak", "[process][check_worker]") {
  ::setenv("TRUEUP_TEST_SECRET", "hunter2", 1);
  const int file = ::dup(1);
  std::vector<Error> errors;
  const auto worker = CheckWorker::start(checks("true"), {}, errors);
  REQUIRE(worker.has_value());
  // Our only child; its state is read the way anyone could.
  std::string children = test::read_file("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  const auto proc = "/proc/" + std::to_string(std::stol(children));
  std::vector<std::string> open;
  DIR* directory = ::opendir((proc + "/fd").c_str());
  REQUIRE(directory != nullptr);
  while (const auto* entry = ::readdir(directory))
    if (entry->d_name[0] != '.') {
      char target[200] = {};
      REQUIRE(::readlink((proc + "/fd/" + entry->d_name).c_str(), target, sizeof target - 1) > 0);
      open.emplace_back(std::string(target).substr(0, 7));
    }
  ::closedir(directory);
  ::close(file);
  CHECK(open == std::vector<std::string>{"/dev/nu", "/dev/nu", "/dev/nu", "socket:"});
  CHECK_THAT(test::read_file(proc + "/limits"), ContainsSubstring("Max open files            0 "));
}
