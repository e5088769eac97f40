#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "action/host_run.hpp"
#include "action/host_scripts.hpp"
#include "base/text.hpp"
#include "load/playbook.hpp"
#include "probe/scripts.hpp"
#include "support/bundle_process.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"

// Whole runs on this machine, as a host would do them, below a directory of their own; the steps are small, and what
// they do is seen. Between any two things that the executor does it is killed, by tools of the same names that stand
// before the real ones.

using namespace trueup;
using namespace trueup::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr auto kPath = "/usr/sbin:/usr/bin:/sbin:/bin";

const std::vector<Shell>& shells() {
  static const auto found = [] {
    std::vector<Shell> some;
    for (const auto& [program, shell] :
         {std::pair<std::string, Shell>{"/usr/bin/dash", {"dash", {"dash", "-c"}, "dash", kPath}},
          {"/usr/bin/bash", {"bash --posix", {"bash", "--posix", "-c"}, "bash --posix", kPath}},
          {"/usr/bin/busybox", {"busybox sh", {"busybox", "sh", "-c"}, "busybox sh", kPath}}}) {
      if (access(program.c_str(), X_OK) == 0)
        some.push_back(shell);
      else
        WARN("skipped: " << shell.name << ", " << program << " is not here");
    }
    return some;
  }();
  return found;
}

void write(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

/// Who dies at a chosen point.
enum class Death {
  executor,  ///< what the executor just started works on: a process was killed
  all,       ///< nothing does: the host went down
};

/// A host: its state, and what the steps change.
class World {
 public:
  explicit World(const Shell& shell) : shell_(shell) {
    char name[] = "/tmp/trueup-executor-XXXXXX";
    path_ = mkdtemp(name);
    fs::create_directories(path_ / "tools");
  }
  ~World() {
    if (mounted_) umount2(state().c_str(), MNT_DETACH);
    fs::remove_all(path_);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  fs::path path() const { return path_; }
  fs::path state() const { return path_ / "state"; }
  std::string file(int step) const { return slurp(path_ / std::to_string(step)); }
  bool is(std::string_view what, int steps) const {
    for (int i = 1; i <= steps; ++i)
      if (file(i) != what) return false;
    return true;
  }
  std::vector<std::string> log() const {
    std::vector<std::string> lines;
    const auto text = slurp(path_ / "log");
    for (const auto line : split_lines(text)) lines.emplace_back(line);
    return lines;
  }

  /// A step that turns its file from old to new, by way of half of it.
  RunStep step(int number) {
    write(path_ / std::to_string(number), "old");
    const auto at = fmt::format("{}/{}", path_.string(), number);
    const auto put = [&](std::string_view what) {
      return fmt::format("printf {0} >{1}.next && mv {1}.next {1} || exit\n", what, at);
    };
    RunStep made;
    made.kind = "file";
    made.object = "path " + at;
    made.expected = "content=old\n";
    made.inspect.text = fmt::format("printf 'content=%s\\n' \"$(cat {})\"\n", at);
    made.apply.text = fmt::format("echo apply {0} ${{TRUEUP_RESUMED:-0}} >>{1}/log\necho >record\n{2}{3}", number,
                                  path_.string(), put("half"), put("new"));
    made.verify.text = fmt::format("[ \"$(cat {})\" = new ]\n", at);
    made.undo.text = fmt::format("echo undo {} >>{}/log\n{}", number, path_.string(), put("old"));
    return made;
  }

  HostRun run(int steps, const std::string& id = "run-1", const std::string& plan = "plan-1") {
    HostRun made;
    made.run = id;
    made.plan = plan;
    made.host = "here";
    made.by = "ann@desk";
    made.library = std::string(kProbeLibrary);
    for (int i = 1; i <= steps; ++i) made.steps.push_back(step(i));
    return made;
  }

  RunCall call(const std::string& run = "run-1") {
    return {run, "ann@desk", fmt::format("{:08x}{:08x}", getpid(), ++calls_), state().string()};
  }

  std::vector<ProbeOutput> ask(const std::vector<Probe>& probes) {
    BundleOptions options;
    options.nonce = "00112233445566778899aabbccddeeff";
    options.tag = fmt::format("{:08x}{:08x}", getpid(), ++calls_);
    auto bundle = make_bundle(probes, {}, ProbeLevel::host, options);
    // Our tools first, for the executor and its steps; nobody waits long for one that is to be killed.
    bundle.script = replace_all(bundle.script, "PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C",
                                fmt::format("PATH={}:{} LC_ALL=C", (path_ / "tools").string(), kPath));
    if (is_deadly_) bundle.script = replace_all(bundle.script, "-le 250 ]", "-le 20 ]");
    bundle.script = replace_all(bundle.script, "/etc/kubernetes", path_.string());
    BundleProcess process(shell_, bundle);
    FrameReader reader(probes, options.nonce);
    process.read_until(reader, [&] { return reader.is_finished(); });
    CHECK(process.wait_for_end());
    return reader.take("the bundle ended");
  }

  CallAnswer start(const HostRun& run) {
    const auto calls = start_calls(run, call(run.run));
    REQUIRE(calls);
    const auto outputs = ask(*calls);
    for (const auto& output : outputs) {
      INFO(output.id << ": " << to_string(output.status) << " " << output.detail << output.errors);
      CHECK((output.status == ProbeStatus::ok || output.status == ProbeStatus::failed));
    }
    const auto answer = read_answer(outputs.back());
    REQUIRE(answer);
    return *answer;
  }

  CallAnswer carry_on(Continue what, const std::string& run = "run-1") {
    const auto answer = read_answer(ask({continue_call(call(run), what)}).back());
    REQUIRE(answer);
    return *answer;
  }

  /// Until nothing works on the run any more.
  RunJournal follow(const std::string& run = "run-1") {
    std::string text;
    for (int round = 0; round < 20; ++round) {
      const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
      const auto runs = read_runs(ask({follow_call(call(run), lines, 10s)}).back());
      REQUIRE(runs);
      if (runs->empty()) return parse_journal(text, false);
      text += runs->front().journal_text;
      if (!runs->front().lives) break;
    }
    return parse_journal(text, false);
  }

  std::vector<RunOnHost> look() {
    const auto runs = read_runs(ask({look_call(call(), {})}).back());
    REQUIRE(runs);
    return *runs;
  }

  /// Each use of one of these tools is a point; at the one chosen the executor dies, before the tool does its work.
  void die_at(int point, Death death) {
    is_deadly_ = true;
    write(path_ / "point", "0\n");
    write(path_ / "died", "");
    for (const std::string tool : {"sync", "ln", "mv", "timeout"}) {
      const auto script = path_ / "tools" / tool;
      write(script, fmt::format(R"(#!/bin/sh
w={0}
read -r n <$w/point
n=$((n + 1))
echo $n >$w/point
if [ $n = {1} ]; then
  echo {2} "$@" >$w/died
  victim=
  for word in $(cat $w/state/lock 2>/dev/null); do case $word in pid=*) victim=${{word#pid=}} ;; esac; done
  if tr '\0' ' ' </proc/$PPID/cmdline | grep -q /executor; then victim=$PPID; fi
  kill -9 $victim
  [ {3} = executor ] || {{ [ $PPID = $victim ] || kill -9 $PPID; exit 137; }}
fi
PATH={4}
exec {2} "$@"
)",
                                path_.string(), point, tool, death == Death::all ? "all" : "executor", kPath));
      chmod(script.c_str(), 0755);
    }
  }
  bool died() const { return !slurp(path_ / "died").empty(); }
  std::string where() const { return slurp(path_ / "died"); }
  void heal() {
    is_deadly_ = false;
    for (const auto& entry : fs::directory_iterator(path_ / "tools")) fs::remove(entry);
  }

  bool mount_small() {
    fs::create_directory(state());
    chmod(state().c_str(), 0700);
    mounted_ = mount("tmpfs", state().c_str(), "tmpfs", 0, "size=400k,mode=700") == 0;
    return mounted_;
  }

 private:
  Shell shell_;
  fs::path path_;
  int calls_ = 0;
  bool is_deadly_ = false;
  bool mounted_ = false;
};

std::vector<std::string> events_of(const RunJournal& journal) {
  std::vector<std::string> events;
  for (const auto& event : journal.events)
    events.push_back(event.event + (event.step ? fmt::format(" {}", event.step) : " " + event.detail));
  return events;
}

using Events = std::vector<std::string>;

}  // namespace

TEST_CASE("a run is applied, seen, verified, rolled back and pruned", "[integration][executor]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    World world(shell);
    auto run = world.run(2);
    run.steps[0].prune.text = fmt::format("echo prune >>{}/log\n", world.path().string());
    CHECK(world.start(run).words == "started");
    const auto journal = world.follow();
    CHECK(events_of(journal) == Events{"start apply", "begin 1", "done 1", "begin 2", "done 2", "end applied"});
    CHECK(journal.state == RunState::applied);
    CHECK(world.is("new", 2));
    CHECK(world.look().front().about.at("by") == "ann@desk");
    CHECK(world.look().front().steps.front() == run.steps[0].kind + " " + run.steps[0].object);
    CHECK_FALSE(fs::exists(world.state() / "lock"));
    CHECK(world.start(run).words == "already applied");
    auto again = world.run(1, "run-2");
    CHECK(world.start(again).code == "used");
    CHECK(world.carry_on(Continue::resume).words == "already applied");
    CHECK(read_answer(world.ask({verified_call(world.call())}).back())->words == "verified");
    CHECK(world.look().front().journal.state == RunState::verified);

    write(world.path() / "1", "new");  // world.run() above wrote the old ones anew
    CHECK(world.carry_on(Continue::undo).words == "started");
    CHECK(world.follow().state == RunState::undone);
    CHECK(world.is("old", 2));
    CHECK(world.carry_on(Continue::undo).words == "already undone");
    CHECK(read_answer(world.ask({verified_call(world.call())}).back())->code == "not-applied");
    CHECK(read_pruned(world.ask({prune_call(world.call(), {"run-1"})}).back()) ==
          std::map<std::string, std::string>{{"run-1", ""}});
    CHECK(world.look().empty());
    CHECK(world.log().back() == "prune");
    CHECK(world.carry_on(Continue::undo).code == "no-run");
    // Nothing of ours stays but the directory, its mark of the plan, and nothing hidden.
    for (const auto& entry : fs::recursive_directory_iterator(world.state()))
      CHECK((entry.is_directory() || entry.path().filename() == "plan-1"));
  }
}

TEST_CASE("a step that fails is undone with those before it, unless they are kept", "[integration][executor]") {
  for (const auto& shell : shells())
    for (const bool keep : {false, true}) {
      CAPTURE(shell.name, keep);
      World world(shell);
      auto run = world.run(3);
      run.keep = keep;
      run.steps[1].apply.text += "echo 'E: password=hunter22 is wrong' >&2; exit 5\n";
      CHECK(world.start(run).words == "started");
      auto journal = world.follow();
      CHECK(journal.why_step == 2);
      CHECK(journal.why == "apply ended with status 5: E: password=*** is wrong");
      if (!keep) {
        CHECK(events_of(journal) == Events{"start apply", "begin 1", "done 1", "begin 2", "failed 2", "undo 2",
                                           "undone 2", "undo 1", "undone 1", "end undone"});
        CHECK(world.is("old", 3));
        CHECK(world.look().front().outputs.empty() == false);
        continue;
      }
      CHECK(events_of(journal) ==
            Events{"start apply", "begin 1", "done 1", "begin 2", "failed 2", "stuck 2", "end stuck"});
      CHECK(world.file(1) == "new");
      // What stood in its way is gone: on it goes, and the first step is not done again.
      write(world.state() / "runs/run-1/step/02/apply", run.steps[2].apply.text);
      write(world.state() / "runs/run-1/step/02/verify", "true\n");
      CHECK(world.carry_on(Continue::resume).words == "started");
      CHECK(world.follow().state == RunState::applied);
      const auto log = world.log();
      CHECK(std::count(log.begin(), log.end(), "apply 1 0") == 1);
    }
}

TEST_CASE("a host that is no longer as planned is not touched", "[integration][executor]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    World world(shell);
    const auto run = world.run(2);
    write(world.path() / "2", "other");
    CHECK(world.start(run).words == "started");
    const auto journal = world.follow();
    CHECK(events_of(journal) ==
          Events{"start apply", "begin 1", "done 1", "changed 2", "undo 1", "undone 1", "end undone"});
    CHECK(journal.why == "expected 'content=old', found 'content=other'");
    CHECK(world.file(1) == "old");
    CHECK(world.file(2) == "other");
    const auto log = world.log();
    CHECK(std::count(log.begin(), log.end(), "undo 2") == 0);
  }
}

TEST_CASE("what cannot be undone needs a person, and what came before it stays", "[integration][executor]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    World world(shell);
    auto run = world.run(3);
    const auto undo = run.steps[1].undo.text;
    run.steps[1].undo.text = "echo 'it was changed since' >&2; exit 3\n";
    CHECK(world.start(run).words == "started");
    CHECK(world.follow().state == RunState::applied);
    CHECK(world.carry_on(Continue::undo).words == "started");
    auto journal = world.follow();
    CHECK(journal.state == RunState::stuck);
    CHECK(journal.why == "undo ended with status 3: it was changed since");
    CHECK(world.file(3) == "old");
    CHECK(world.file(1) == "new");
    CHECK(read_pruned(world.ask({prune_call(world.call(), {"run-1"})}).back())->at("run-1") == "it is stuck");
    // Undone only in name.
    write(world.state() / "runs/run-1/step/02/undo", "true\n");
    CHECK(world.carry_on(Continue::undo).words == "started");
    journal = world.follow();
    CHECK(journal.state == RunState::stuck);
    CHECK(journal.why == "expected 'content=old', found 'content=new'");
    write(world.state() / "runs/run-1/step/02/undo", undo);
    CHECK(world.carry_on(Continue::resume).words == "started");  // it was on its way back, and stays so
    CHECK(world.follow().state == RunState::undone);
    CHECK(world.is("old", 3));
  }
}

TEST_CASE("a step that hangs is ended with all that it started", "[integration][executor]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    World world(shell);
    auto run = world.run(2);
    run.steps[1].apply = {"setsid sleep 987 &\nsleep 987\n", 1s};
    CHECK(world.start(run).words == "started");
    const auto journal = world.follow();
    CHECK(journal.state == RunState::undone);
    CHECK(journal.why == "apply took longer than 1 s");
    CHECK(world.is("old", 2));
    CHECK(processes_with("TRUEUP_STEP=" + world.state().string()).empty());
  }
}

TEST_CASE("one run at a time, and a lock that was left behind is told from one that is held", "[integration][executor]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    World world(shell);
    auto run = world.run(2);
    // Until it is let go.
    run.steps[0].apply.text += fmt::format("while [ ! -e {}/go ]; do sleep 0.1; done\n", world.path().string());
    CHECK(world.start(run).words == "started");
    auto other = run;
    other.run = "run-2";
    other.plan = "plan-2";
    other.steps = {world.step(9)};
    const auto held = world.start(other);
    CHECK(held.code == "lock-held");
    CHECK(held.words.find("run run-1 of ann@desk, since ") != std::string::npos);
    CHECK(world.carry_on(Continue::undo).code == "lock-held");
    REQUIRE(world.look().size() == 1);
    CHECK(world.look().front().journal.state == RunState::running);

    // Its executor is killed: interrupted, and nobody else's turn.
    const auto lock = slurp(world.state() / "lock");
    const auto pid = std::stoi(lock.substr(lock.find(" pid=") + 5));
    CHECK(kill(pid, SIGKILL) == 0);
    const auto is_gone = [&] {
      const auto stat = slurp(fmt::format("/proc/{}/stat", pid));
      return stat.empty() || stat.find(") Z") != stat.npos;
    };
    while (!is_gone()) usleep(10'000);
    CHECK(world.look().front().journal.state == RunState::interrupted);
    CHECK(world.start(other).code == "left-behind");
    // Two that resume it at once: one does. Its script is still at work, which is waited for.
    std::vector<CallAnswer> answers(2);
    {
      World& shared = world;
      std::vector<Probe> both = {continue_call(shared.call(), Continue::resume),
                                 continue_call(shared.call(), Continue::resume)};
      both[1].id = "continue-2";
      const auto outputs = shared.ask(both);
      for (std::size_t i = 0; i < 2; ++i) answers[i] = *read_answer(outputs[i]);
    }
    const auto started =
        std::count_if(answers.begin(), answers.end(), [](const auto& answer) { return answer.words == "started"; });
    CHECK(started == 1);
    write(world.path() / "go", "");
    CHECK(world.follow().state == RunState::applied);
    const auto log = world.log();
    CHECK(std::count(log.begin(), log.end(), "apply 1 0") == 1);
    CHECK(std::count(log.begin(), log.end(), "apply 1 1") == 0);  // the script that was left at work had done it
    CHECK(world.start(other).words == "started");
    CHECK(world.follow("run-2").state == RunState::applied);
  }
}

TEST_CASE("a later run that changed the same is rolled back first", "[integration][executor]") {
  World world(shells().front());
  auto first = world.run(1);
  CHECK(world.start(first).words == "started");
  CHECK(world.follow().state == RunState::applied);
  auto second = first;
  second.run = "run-2";
  second.plan = "plan-2";
  second.steps[0].expected = "content=new\n";
  second.steps[0].undo.text = replace_all(second.steps[0].undo.text, "printf old", "printf new");
  CHECK(world.start(second).words == "started");
  CHECK(world.follow("run-2").state == RunState::applied);
  CHECK(world.carry_on(Continue::undo).code == "later-run");
  CHECK(world.carry_on(Continue::undo, "run-2").words == "started");
  CHECK(world.follow("run-2").state == RunState::undone);
  CHECK(world.carry_on(Continue::undo).words == "started");
  CHECK(world.follow().state == RunState::undone);
}

// A run got stuck, another changed the same since and stands: what the first would put there is no longer wanted.
TEST_CASE("a stuck run does not go on over a later one", "[integration][executor]") {
  World world(shells().front());
  auto first = world.run(1);
  first.keep = true;
  first.steps[0].verify.text = "exit 1\n";
  CHECK(world.start(first).words == "started");
  CHECK(world.follow().state == RunState::stuck);
  auto second = world.run(1, "run-2", "plan-2");
  CHECK(world.start(second).words == "started");
  CHECK(world.follow("run-2").state == RunState::applied);
  write(world.state() / "runs/run-1/step/01/verify", "true\n");
  const auto refused = world.carry_on(Continue::resume);
  CHECK(refused.code == "later-run");
  CHECK(refused.words.find("run run-2 changed the same later") == 0);
  CHECK(world.carry_on(Continue::undo, "run-2").words == "started");
  CHECK(world.follow("run-2").state == RunState::undone);
  CHECK(world.carry_on(Continue::resume).words == "started");
  CHECK(world.follow().state == RunState::applied);
}

// Its executor was killed between the journal's line and the step's first change; then somebody edited what it is
// about.
TEST_CASE("a step that began and did nothing has to find what was planned", "[integration][executor]") {
  for (const auto& shell : shells())
    for (const bool edited : {false, true}) {
      CAPTURE(shell.name, edited);
      World world(shell);
      auto run = world.run(2);
      run.steps[1].apply.text =
          fmt::format("[ \"$TRUEUP_RESUMED\" ] || {{ kill -9 $(sed 's/.* pid=//; s/ .*//' {}/lock); exit 1; }}\n{}",
                      world.state().string(), run.steps[1].apply.text);
      CHECK(world.start(run).words == "started");
      CHECK(world.follow().state == RunState::interrupted);
      if (edited) write(world.path() / "2", "by hand");
      CHECK(world.carry_on(Continue::resume).words == "started");
      const auto journal = world.follow();
      CAPTURE(join(events_of(journal), ", "));
      CHECK(journal.state == (edited ? RunState::undone : RunState::applied));
      CHECK(world.file(1) == (edited ? "old" : "new"));
      CHECK(world.file(2) == (edited ? "by hand" : "new"));
      if (edited) CHECK(journal.why == "expected 'content=old', found 'content=by hand'");
    }
}

TEST_CASE("a node of Kubernetes is one for the plan and for the start, unless it was drained",
          "[integration][executor]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    World world(shell);
    auto run = world.run(1);
    CHECK_FALSE(is_kubernetes_node(world.ask({kubernetes_probe()})));
    write(world.path() / "kubelet.conf", "");
    CHECK(is_kubernetes_node(world.ask({kubernetes_probe()})));
    const auto refused = world.start(run);
    CHECK(refused.code == "kubernetes");
    CHECK(world.is("old", 1));
    CHECK(world.look().empty());
    run.drained = true;
    CHECK(world.start(run).words == "started");
    CHECK(world.follow().state == RunState::applied);
  }
}

TEST_CASE("a node of Kubernetes is told by its processes, but not from within a pod", "[integration][executor]") {
  const auto is_node = [](const World& world, const Shell& shell) {
    auto probe = kubernetes_probe();
    probe.script = replace_all(probe.script, "/proc/", (world.path() / "proc/").string());
    World elsewhere(shell);
    return is_kubernetes_node(elsewhere.ask({probe}));
  };
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    World world(shell);
    const auto process = [&](const std::string& pid, const std::string& name, const std::string& cgroup) {
      fs::create_directories(world.path() / "proc" / pid);
      write(world.path() / "proc" / pid / "comm", name + "\n");
      write(world.path() / "proc" / pid / "cgroup", "0::" + cgroup + "\n");
    };
    process("1", "systemd", "/init.scope");
    process("20", "sleep", "/system.slice/x.service");
    CHECK_FALSE(is_node(world, shell));
    process("30", "kubelet", "/system.slice/kubelet.service");
    CHECK(is_node(world, shell));
    process("30", "python", "/kubepods.slice/kubepods-burstable.slice/x.scope");  // k3s has no process of that name
    CHECK(is_node(world, shell));
    process("1", "sshd", "/kubepods.slice/kubepods-burstable.slice/x.scope");
    CHECK_FALSE(is_node(world, shell));
  }
}

TEST_CASE("a directory that others could have made is refused", "[integration][executor]") {
  const auto refused = [](const std::function<void(const fs::path&)>& make) {
    World world(shells().front());
    make(world.state());
    const auto answer = world.start(world.run(1));
    CHECK(answer.code == "state-unsafe");
    CHECK(world.is("old", 1));
  };
  refused([](const fs::path& state) {
    fs::create_directory(state.string() + ".real");
    chmod((state.string() + ".real").c_str(), 0700);
    fs::create_symlink(state.string() + ".real", state);
  });
  refused([](const fs::path& state) { fs::create_symlink("/nonexistent", state); });
  refused([](const fs::path& state) { write(state, "a file"); });
  refused([](const fs::path& state) {
    fs::create_directory(state);
    chmod(state.c_str(), 0755);
  });
  if (geteuid() == 0)
    refused([](const fs::path& state) {
      fs::create_directory(state);
      chmod(state.c_str(), 0700);
      CHECK(chown(state.c_str(), 1, 1) == 0);
    });
}

TEST_CASE("a full disk stops a run before it touches anything, and does not silence its journal",
          "[integration][executor]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    World world(shell);
    if (!world.mount_small()) {
      WARN("skipped: no file system can be mounted here");
      return;
    }
    const auto fill = [&] {
      std::ofstream rest(world.state() / "rest", std::ios::app);
      while (rest << std::string(4096, 'x') << std::flush) continue;
    };
    auto run = world.run(2);
    fill();
    const auto answer = world.start(run);
    CHECK(answer.code == "disk-full");
    CHECK(world.is("old", 2));
    CHECK(world.look().empty());
    fs::remove(world.state() / "rest");

    // Full from the first step on: what was put by is enough to say what happened, and to put it back.
    run.steps[0].apply.text += fmt::format("cat /dev/zero >{}/rest\n", world.state().string());
    CHECK(world.start(run).words == "started");
    const auto journal = world.follow();
    CHECK(journal.state == RunState::undone);
    CHECK(journal.why == "apply ended with status 1: no space left on " + world.state().string());
    CHECK(world.is("old", 2));
  }
}

TEST_CASE("a journal that is garbage stops nothing and starts nothing", "[integration][executor]") {
  World world(shells().front());
  const auto run = world.run(2);
  CHECK(world.start(run).words == "started");
  CHECK(world.follow().state == RunState::applied);
  const auto journal = world.state() / "runs/run-1/journal";
  const auto text = slurp(journal);
  write(journal, "\x01\xff garbage $(touch " + world.path().string() + "/x)\n1 begin 01;reboot\n" + text + "200 und");
  CHECK(world.look().front().journal.state == RunState::applied);
  CHECK(world.carry_on(Continue::undo).words == "started");
  CHECK(world.follow().state == RunState::undone);
  CHECK(world.is("old", 2));
  CHECK_FALSE(fs::exists(world.path() / "x"));
}

namespace {

struct PlaybookFiles : FileAccess {
  Result<std::string> read(const std::string& path) const override { return test::read_file(path); }
  std::vector<std::string> list(const std::string&) const override { return {}; }
};

/// Whole ones, every cut of one, and any lines that look like some.
std::vector<std::string> journals() {
  const std::string whole =
      "100 start apply\n101 begin 01\n102 done 01\n103 begin 02\n104 failed 02 apply ended with status 5: no room\n"
      "105 undo 02\n106 undone 02\n107 undo 01\n108 stuck 01 it was changed since\n109 end stuck\n110 start undo\n"
      "111 undo 01\n112 undone 01\n113 end undone\n";
  std::vector<std::string> all = {
      "", "100 start apply\n101 begin 01\n102 done 01\n103 end applied\n104 verified\n",
      "100 start apply\n101 begin 01\n102 done 01\n103 end applied\n104 verified\n105 start undo\n106 undo 01\n",
      "100 start apply\n101 begin 01\n102 failed 01 x\n103 stuck 01 kept as it is\n104 end stuck\n105 start resume\n",
      "100 start apply\n101 changed 01 expected 'a', found 'b'\n102 end undone\n"};
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    all.push_back(whole.substr(0, cut));
    all.push_back(whole.substr(0, cut) + "\n200 end applied\n");
  }
  const std::vector<std::string> times = {"100", "100", "100", "100", "-1", "", " ", "x", "1234567890123456789"};
  const std::vector<std::string> events = {
      "start apply",  "start resume", "start undo", "start",       "start x",  "end applied",
      "end applied ", "end undone",   "end stuck",  "end",         "verified", "verified x",
      "begin 01",     "begin 02",     "begin 1",    "begin 00",    "begin",    "begin  01",
      "done 01",      "done 02 ",     "done 99",    "failed 01 x", "failed",   "failed 02 a b",
      "changed 02 y", "undo 01",      "undo 02",    "undone 01",   "undone 2", "stuck 01 z",
      "stuck 02",     "\\",           "$(id)",      "*",           "'",        "\xff\xfe"};
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (std::size_t lines = random() % 12; lines > 0; --lines)
      text += times[random() % times.size()] + (random() % 8 ? " " : "") + events[random() % events.size()] +
              (random() % 8 ? "\n" : "\n\n");
    all.push_back(text);
  }
  return all;
}

}  // namespace

// The executor, the audit and the controller each read it for themselves (docs/host-state.md).
TEST_CASE("all that read a journal read the same", "[integration][executor][property]") {
  const auto all = journals();
  Errors errors;
  const auto playbook = load_playbooks({TRUEUP_PLAYBOOKS "/trueup.yaml"}, PlaybookFiles(), errors);
  REQUIRE(errors.empty());
  for (const auto& shell : shells()) {
    World world(shell);
    const auto name = [](std::size_t number) { return fmt::format("run-{:04}", number); };
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto run = world.state() / "runs" / name(i);
      fs::create_directories(run);
      write(run / "about", "plan=p\nby=b\n");
      write(run / "steps", "01 file a\n02 file b\n");
      write(run / "journal", all[i]);
    }
    chmod(world.state().c_str(), 0700);
    auto audit = playbook.probes.front();
    audit.script = replace_all(audit.script, "/var/lib/trueup", world.state().string());
    audit.limit = 100s;
    Probe executor;
    executor.id = "executor";
    executor.limit = 100s;
    executor.script = fmt::format(
        "state={}\n{}for dir in \"$state\"/runs/*; do replay \"$dir\"\n"
        "printf '%s\\n' \"$ended|$direction|$S_01|$S_02\"; done\n",
        world.state().string(), kHostStateScript);
    const auto outputs = world.ask({audit, executor});
    std::map<std::string, std::map<std::string, std::string>> audited;
    std::string id;
    for (const auto line : split_lines(outputs[0].output)) {
      const auto equals = line.find('=');
      if (equals == line.npos) continue;
      if (line.starts_with("id=")) id = line.substr(3);
      audited[id][std::string(line.substr(0, equals))] = line.substr(equals + 1);
    }
    const auto replayed = split_lines(outputs[1].output);
    REQUIRE(replayed.size() == all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(shell.name, all[i]);
      const auto journal = parse_journal(all[i], false);
      const bool back = journal.undoing ||
                        std::any_of(journal.events.begin(), journal.events.end(),
                                    [](const auto& each) { return each.event == "failed" || each.event == "changed"; });
      const auto step = [&](int number) {
        const auto found = journal.steps.find(number);
        return found == journal.steps.end() ? "" : found->second ? "done" : "begun";
      };
      const auto ended = journal.state == RunState::verified      ? to_string(RunState::applied)
                         : journal.state == RunState::interrupted ? std::string_view()
                                                                  : to_string(journal.state);
      CHECK(replayed[i] == fmt::format("{}|{}|{}|{}", ended, back ? "undo" : "apply", step(1), step(2)));
      const bool is_settled = journal.state == RunState::verified || journal.state == RunState::undone;
      REQUIRE(audited.contains(name(i)) == !is_settled);
      if (is_settled) continue;
      const auto& said = audited.at(name(i));
      CHECK(said.at("state") == to_string(journal.state));
      const auto why = journal.why_step == 0
                           ? std::string()
                           : std::string(trim(fmt::format("{:02} {}", journal.why_step, journal.why)));
      CHECK(trim(said.at("why")) == why);
      const auto start = std::find_if(journal.events.begin(), journal.events.end(),
                                      [](const auto& each) { return each.event == "start"; });
      CHECK(said.at("started") == std::to_string(start == journal.events.end() ? 0 : start->at));
    }
  }
}

TEST_CASE("wherever it is killed, a run ends old or new, and what is done is not done again",
          "[integration][executor][slow]") {
  // Each point under one shell, in one of the four ways; with TRUEUP_FULL in every way. The other shells differ in how
  // they read and write, not in the order.
  const bool is_full = std::getenv("TRUEUP_FULL") != nullptr;
  int way = 0;
  for (const auto& shell : shells())
    for (const auto death : {Death::executor, Death::all})
      for (const bool fails : {false, true}) {
        const bool is_first = &shell == &shells().front();
        if (!is_first && (fails || death == Death::all)) continue;
        for (int point = is_full ? 1 : 1 + way++ % 4;; point += is_full && is_first   ? 1
                                                                : is_full || is_first ? 4
                                                                                      : 12) {
          const auto after =
              (is_full ? point : point / 4) % 2 == (death == Death::all) ? Continue::resume : Continue::undo;
          World world(shell);
          auto run = world.run(2);
          if (fails) run.steps[1].verify.text = "exit 1\n";
          world.die_at(point, death);
          const auto answer = world.start(run);
          world.follow();
          CAPTURE(shell.name, death == Death::all, fails, after == Continue::undo, point, world.where(), answer.words);
          const bool died = world.died();
          world.heal();
          auto runs = world.look();
          if (runs.empty()) {
            // It never became a run: the plan is new or used, nothing was touched.
            CHECK(world.is("old", 2));
            const auto again = world.start(run);
            CHECK((again.words == "started" || again.code == "used"));
            const auto journal = world.follow();
            CHECK(world.is(journal.state == RunState::applied ? "new" : "old", 2));
          } else {
            const auto before = runs.front().journal;
            const auto log_before = world.log();
            CAPTURE(join(events_of(before), ", "));
            CHECK(before.state == (before.events.empty() || before.events.back().event != "end" ? RunState::interrupted
                                   : fails                                                     ? RunState::undone
                                                                                               : RunState::applied));
            world.carry_on(after);
            const auto journal = world.follow();
            CAPTURE(join(events_of(journal), ", "));
            const bool back = after == Continue::undo || fails;
            CHECK(journal.state == (back ? RunState::undone : RunState::applied));
            CHECK(world.is(back ? "old" : "new", 2));
            // A step whose end is journaled is not done again.
            const auto log = world.log();
            for (const auto& [step, done] : before.steps)
              if (done)
                for (std::size_t i = log_before.size(); i < log.size(); ++i)
                  CHECK(log[i].find(fmt::format("apply {}", step)) == std::string::npos);
            CHECK_FALSE(fs::exists(world.state() / "lock"));
          }
          if (!died) {
            CHECK(point > 15);
            break;
          }
        }
      }
}
