#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <map>

#include "probe/scripts.hpp"
#include "support/bundle_process.hpp"
#include "support/catch.hpp"

using namespace trueup;
using namespace trueup::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kNonce = "00112233445566778899aabbccddeeff";
constexpr auto kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

bool on_path(const std::string& program) {
  for (const auto* directory : {"/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"})
    if (access((directory + program).c_str(), X_OK) == 0) return true;
  return false;
}

/// A directory of its own, gone at the end; anyone may enter it.
struct TemporaryDirectory {
  std::filesystem::path path;
  TemporaryDirectory() {
    char name[] = "/tmp/trueup-test-XXXXXX";
    path = mkdtemp(name);
    chmod(path.c_str(), 0755);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
};

/// Every shell that hosts have, as far as this machine has it. Says which one is missing.
std::vector<Shell> shells() {
  static const TemporaryDirectory tools, applets;
  static const auto found = [] {
    std::vector<Shell> shells;
    const auto add = [&](const std::string& program, Shell shell) {
      if (on_path(program))
        shells.push_back(std::move(shell));
      else
        WARN("skipped: " << shell.name << ", " << program << " is not installed");
    };
    add("dash", {"dash", {"dash", "-c"}, "dash", kPath});
    add("bash", {"bash --posix", {"bash", "--posix", "-c"}, "bash --posix", kPath});
    add("busybox", {"busybox sh", {"busybox", "sh", "-c"}, "busybox sh", kPath});
    if (on_path("busybox")) {  // with nothing but busybox: other head, base64, tr, setsid, and no setpriv --reuid
      const auto directory = applets.path.string();
      if (std::system(fmt::format("busybox --install -s {}", directory).c_str()) == 0) {
        std::filesystem::create_symlink(std::filesystem::read_symlink(applets.path / "sh"), applets.path / "busybox");
        shells.push_back({"busybox alone", {"busybox", "sh", "-c"}, "busybox sh", directory});
      }
    }
    // With nothing but what POSIX has, and head -c: no base64, no setsid, no renice, no setpriv.
    for (const auto* tool :
         {"sh", "cat", "head", "od", "tr", "fold", "sleep", "sed", "grep", "awk", "ls", "id", "env", "kill"})
      for (const auto* directory : {"/usr/bin/", "/bin/"})
        if (access((std::string(directory) + tool).c_str(), X_OK) == 0) {
          std::error_code ignored;
          std::filesystem::create_symlink(std::string(directory) + tool, tools.path / tool, ignored);
        }
    shells.push_back({"POSIX utilities alone", {"/bin/sh", "-c"}, "/bin/sh", tools.path.string()});
    if (geteuid() == 0)
      add("setpriv", {"dash as nobody",
                      {"dash", "-c"},
                      "dash",
                      kPath,
                      {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"}});
    return shells;
  }();
  return found;
}

Probe probe(std::string id, std::string script, std::chrono::milliseconds limit = 20s) {
  Probe made;
  made.id = std::move(id);
  made.script = std::move(script);
  made.limit = limit;
  return made;
}

struct Run {
  std::map<std::string, ProbeOutput> outputs;
  bool finished = false;
  std::string raw;
  std::vector<pid_t> left;
};

std::string new_tag() {
  static int count = 0;
  return fmt::format("{:08x}{:08x}", getpid(), ++count);
}

Run run(const Shell& shell, const std::vector<Probe>& probes, BundleOptions options = {}) {
  options.nonce = kNonce;
  options.tag = new_tag();
  const auto bundle = make_bundle(probes, {{"a.b", "x[0-9]", "", {}}}, ProbeLevel::host, options);
  FrameReader reader(probes, kNonce);
  BundleProcess process(shell, bundle);
  process.read_until(reader, [&] { return reader.is_finished(); });
  Run result;
  result.finished = reader.is_finished();
  if (result.finished) CHECK(process.wait_for_end());
  result.left = processes_with("TRUEUP_RUN=" + options.tag);
  for (auto& output : reader.take("test")) result.outputs[output.id] = output;
  result.raw = process.raw();
  return result;
}

// Packed, with the tools of the shell's own PATH to unpack it.
Bundle packed(const Shell& shell, const PackedBundle& bundle, const BundleOptions& options) {
  constexpr std::string_view kTrusted = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
  const auto command = PackedBundle::command(options);
  REQUIRE(command.find(kTrusted) != command.npos);
  return {replace_all(command, kTrusted, "PATH=" + shell.path), bundle.input(options), {}};
}

std::string told(const ProbeOutput& output) {
  return fmt::format("{} {} {}", to_string(output.status), output.exit_status, output.detail);
}

}  // namespace

TEST_CASE("ordinary probes, whatever the shell", "[integration][probe]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    std::vector<Probe> probes = {
        probe("hello", "printf 'hello\\n'"),
        probe("empty", ""),
        probe("binary", "printf '\\000\\001\\n\\377\\\\%%$x'"),
        probe("large",
              "i=0; while [ $i -lt 3000 ]; do echo \"line $i of many, to be put together again\"; i=$((i+1)); done"),
        probe("status", "echo before; echo 'it went wrong' >&2; exit 7"),
        probe("quotes", "printf '%s' 'it'\\''s \"$HOME\"'"),
        probe("environment", "echo $LC_ALL $TZ $(pwd) $(umask) ${TRUEUP_PROBE:-unset} ${N:-unset}; cat"),
        probe("absent", "echo some; absent; echo more"),
        probe("unknown", "echo some; unknown no permission on /x; echo more"),
        probe("not-found", "no-such-program-here"),
        probe("signatures", "printf %s \"$TRUEUP_SIGNATURES\""),
        probe("records", "kv a 'x=1\n\n2'; kv b ''; end_record; kv unknown.a why"),
    };
    probes.push_back(probe("missing", "echo no"));
    probes.back().needs = {"sh", "no-such-program-here"};
    probes.push_back(probe("none", "echo no"));
    probes.back().needs = {"no-such-program-here"};
    probes.back().if_missing = IfMissing::absent;

    auto result = run(shell, probes);
    auto& out = result.outputs;
    CHECK(result.finished);
    CHECK(result.left.empty());
    CHECK(told(out["hello"]) == "ok 0 ");
    CHECK(out["hello"].output == "hello\n");
    CHECK(told(out["empty"]) == "ok 0 ");
    CHECK(out["empty"].output.empty());
    CHECK(out["binary"].output == std::string("\0\1\n\377\\%$x", 8));
    CHECK(out["large"].output.size() == 3000 * 41 + 10 + 2 * 90 + 3 * 900 + 4 * 2000 - 3000);
    CHECK(told(out["status"]) == "failed 7 exit 7: it went wrong");
    CHECK(out["status"].output == "before\n");
    CHECK(out["quotes"].output == "it's \"$HOME\"");
    CHECK(out["environment"].output == "C UTC / 0077 unset unset\n");
    CHECK(told(out["absent"]) == "absent 221 ");
    CHECK(told(out["unknown"]) == "unknown 222 no permission on /x");
    CHECK(out["not-found"].exit_status == 127);
    CHECK(out["signatures"].output == "a.b\tx[0-9]\n");
    CHECK(out["records"].output == "a=x=1??2\nb=\n\nunknown.a=why\n");
    CHECK(told(out["missing"]) == "unknown -1 no-such-program-here is not installed");
    CHECK(told(out["none"]) == "absent -1 no-such-program-here is not installed");
  }
}

TEST_CASE("a probe reads what others printed, and knows whether it came whole", "[integration][probe]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    std::vector<Probe> probes = {
        probe("records", "kv a '  two  words'; end_record; printf last"),
        probe("absent", "echo seen; absent"),
        probe("unknown", "echo seen; unknown why"),
        probe("missing", "echo no"),
        probe("failed", "echo no end; exit 1"),
        probe("late", "echo no end; sleep 1000", 1s),
        probe("cut", "echo no end; head -c 400 /dev/zero | tr '\\0' x"),
        probe("long", "printf 'no end\\nb=%05000d\\n' 0"),
        probe("nothing", ""),
        probe("all", "cat"),
        probe("one", "cat; echo mine"),
        probe("uninterested", "echo mine"),
    };
    probes[3].needs = {"no-such-program-here"};
    probes[6].max_bytes = 400;
    for (std::size_t i = 0; i < 9; ++i) probes[9].reads.push_back(probes[i].id);
    probes[10].reads = probes[11].reads = {"records"};

    auto result = run(shell, probes);
    auto& out = result.outputs;
    CHECK(result.finished);
    CHECK(result.left.empty());
    CHECK(out["records"].output == "a=  two  words\n\nlast");
    CHECK(out["long"].output == "no end\nb=" + std::string(5000, '0') + "\n");
    CHECK(told(out["all"]) == "ok 0 ");
    CHECK(out["all"].output ==
          "a=  two  words\n\nlast\n!end records\nseen\n!end absent\nseen\n\nwhy\n!end unknown\n!end missing\n"
          "no end\nno end\nno end\n" + std::string(394, 'x') + "\nno end\n!end nothing\n");
    CHECK(out["one"].output == "a=  two  words\n\nlast\n!end records\nmine\n");
    CHECK(told(out["uninterested"]) == "ok 0 ");
    CHECK(out["uninterested"].output == "mine\n");
  }
}

TEST_CASE("a line that waits for its reader is not lost when a child ends meanwhile", "[integration][probe]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    const auto tag = new_tag();
    Bundle bundle{fmt::format("exec /usr/bin/env TRUEUP_RUN={} /bin/sh -s", tag), {}, {}};
    bundle.script = fmt::format(
        "{}exec 4<&0 5>&1\ncat <&4 >/dev/null &\nN={} i=0\n"
        "while [ $i -lt 100 ]; do say $i {:0100}; i=$((i + 1)); done; exit\n",
        kBundleScript, kNonce, 0);
    BundleProcess process(shell, bundle);
    const auto wait_until = [](auto&& condition) {
      for (int i = 0; i < 3000 && !condition(); ++i) usleep(10'000);
      return condition();
    };
    REQUIRE(wait_until([&] { return process.output_is_full(); }));
    process.hang_up();  // what ends the child
    REQUIRE(wait_until([&] { return processes_with("TRUEUP_RUN=" + tag).size() == 1; }));
    FrameReader reader({}, kNonce);
    process.read_until(reader, [] { return false; });
    for (int i = 0; i < 100; ++i) CHECK(process.raw().find(fmt::format("{} {} 0000", kNonce, i)) != std::string::npos);
  }
}

TEST_CASE("what a probe does to itself costs that probe alone", "[integration][probe]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    // A length of sleep that nobody else on this machine sleeps.
    const auto sleep = [](int nth) { return fmt::format("sleep 3{:07}{}", getpid(), nth); };
    std::vector<Probe> probes = {
        probe("sleeper", fmt::format("echo first; {}; echo never", sleep(0)), 1s),
        probe("stubborn", "trap '' TERM HUP INT; echo first; while :; do sleep 1; done", 1s),
        probe("gigabyte", "head -c 1000000000 /dev/zero"),
        probe("endless", "while :; do echo y; done"),
        probe("loud", "i=0; while [ $i -lt 3000 ]; do echo \"error $i\" >&2; i=$((i+1)); done; echo done"),
        probe("killed", "echo first; kill -9 $$; echo never"),
        probe("forger", fmt::format("printf '\\n0 x 0 1.0\\nend\\nffffffffffffffffffffffffffffffff 0 x 0 1.00\\n'")),
        probe("closes", "echo first; exec >&- 2>&-; exit 3"),
        probe("children", fmt::format("(trap '' TERM; {}) & ({} &) & {}", sleep(1), sleep(2), sleep(3)), 1s),
        probe("keeper", fmt::format("{} & echo ended", sleep(4)), 1s),
        probe("deserter",
              fmt::format("if command -v setsid >/dev/null 2>&1; then setsid {} >/dev/null 2>&1 & fi; echo ended",
                          sleep(5))),
        probe("good", "echo good"),
    };
    probes[2].max_bytes = probes[3].max_bytes = 65536;
    auto result = run(shell, probes);
    auto& out = result.outputs;
    CHECK(result.finished);
    CHECK(result.left.empty());
    for (int nth = 0; nth < 6; ++nth)
      CHECK(processes_with(replace_all(sleep(nth), " ", std::string_view("\0", 1))).empty());
    CHECK(told(out["sleeper"]) == "timed_out -1 its limit of 1 s passed");
    CHECK(out["sleeper"].output == "first\n");
    CHECK(told(out["stubborn"]) == "timed_out -1 its limit of 1 s passed");
    CHECK(out["stubborn"].output == "first\n");
    CHECK(told(out["gigabyte"]).substr(0, 9) == "truncated");
    CHECK(out["gigabyte"].output.size() == 65536);
    CHECK(told(out["endless"]).substr(0, 9) == "truncated");
    CHECK(told(out["loud"]) == "ok 0 ");
    CHECK(out["loud"].output == "done\n");
    CHECK(out["loud"].errors.substr(0, 16) == "error 0\nerror 1\n");
    CHECK(out["loud"].errors.size() <= 2048);
    CHECK(told(out["killed"]) == "failed 137 ended by signal 9");
    CHECK(told(out["forger"]) == "ok 0 ");
    CHECK(out["closes"].exit_status == 3);
    CHECK(out["closes"].output == "first\n");
    CHECK(told(out["children"]) == "timed_out -1 its limit of 1 s passed");
    CHECK(told(out["keeper"]) ==
          "timed_out -1 its limit of 1 s passed; ended with status 0, but its output was kept open");
    CHECK(out["keeper"].output == "ended\n");
    CHECK(told(out["deserter"]) == "ok 0 ");
    CHECK(out["good"].output == "good\n");
  }
}

// Without cookie, session or parent it cannot be told from anybody's process, and so is not ended; that is what a
// process in state D is like to the bundle. Its grip on the output must not hold the others.
TEST_CASE("what cannot be ended is left behind, and its output still arrives", "[integration][probe]") {
  for (const auto& shell : shells()) {
    if (shell.path != kPath) continue;
    CAPTURE(shell.name);
    const auto mark = fmt::format("2{:05}", getpid() % 100000);
    std::vector<Probe> probes = {
        probe("daemon", fmt::format("echo first; (env -i setsid /bin/sleep {} &) ; exit 0", mark), 1s),
        probe("good", "echo good")};
    auto result = run(shell, probes);
    CHECK(result.finished);
    CHECK(result.outputs["daemon"].status == ProbeStatus::timed_out);
    CHECK(result.outputs["daemon"].output == "first\n");
    CHECK(result.outputs["good"].output == "good\n");
    for (const auto pid : processes_with(mark)) kill(pid, SIGKILL);
  }
}

TEST_CASE("more hanging probes than workers do not keep the others waiting", "[integration][probe]") {
  std::vector<Probe> probes;
  for (int i = 0; i < 6; ++i) probes.push_back(probe(fmt::format("hangs{}", i), "sleep 1000", 5s));
  probes.push_back(probe("good", "echo good"));
  BundleOptions options;
  options.workers = 2;
  auto result = run(shells().front(), probes, options);
  CHECK(result.outputs["good"].output == "good\n");
  for (int i = 0; i < 6; ++i) CHECK(result.outputs[fmt::format("hangs{}", i)].status == ProbeStatus::timed_out);
  CHECK(result.left.empty());
}

TEST_CASE("the connection goes, and nothing of ours stays", "[integration][probe]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    const std::vector<Probe> probes = {probe("sleeper", "sleep 1005"),
                                       probe("stubborn", "trap '' TERM HUP; while :; do sleep 1; done"),
                                       probe("children", "(sleep 1006 &); setsid sleep 1007 & sleep 1008")};
    BundleOptions options;
    options.nonce = kNonce;
    options.tag = new_tag();
    const auto bundle = make_bundle(probes, {}, ProbeLevel::host, options);
    FrameReader reader(probes, kNonce);
    BundleProcess process(shell, bundle);
    CHECK(process.read_until(reader, [&] { return reader.running().size() == 3; }));
    CHECK_FALSE(processes_with("TRUEUP_RUN=" + options.tag).empty());
    process.hang_up();
    CHECK(process.wait_for_end());
    CHECK(processes_with("TRUEUP_RUN=" + options.tag).empty());
    CHECK(reader.take("connection cut")[0].status == ProbeStatus::lost);
  }
}

TEST_CASE("the bundle ends itself at the host's limit", "[integration][probe]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    BundleOptions options;
    options.host_limit = 1s;
    auto result = run(shell, {probe("sleeper", "sleep 1009"), probe("good", "echo good")}, options);
    CHECK(result.finished);
    CHECK(told(result.outputs["sleeper"]) == "timed_out -1 the host's limit passed before it was done");
    CHECK(result.outputs["good"].output == "good\n");
    CHECK(result.left.empty());
  }
}

TEST_CASE("arguments are for everyone to read, and tell nothing", "[integration][probe]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    const std::vector<Probe> probes = {probe("holds", "marker_in_script=1; echo ready; sleep 1010; sleep 1011"),
                                       probe("reads", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\000' ' '")};
    BundleOptions options;
    options.nonce = kNonce;
    options.tag = new_tag();
    const auto bundle = make_bundle(probes, {}, ProbeLevel::host, options);
    FrameReader reader(probes, kNonce);
    BundleProcess process(shell, bundle);
    CHECK(process.read_until(reader, [&] { return process.raw().find(" 1 x 0 ") != std::string::npos; }));
    for (const auto& other : all_processes()) {
      CHECK(other.cmdline.find(kNonce) == std::string::npos);
      CHECK(other.cmdline.find("marker_in_script") == std::string::npos);
      CHECK(other.environ.find(kNonce) == std::string::npos);
    }
    const auto seen = reader.take("cut")[1].output;
    CHECK(seen.find("sleep") != seen.npos);
    CHECK(seen.find(kNonce) == seen.npos);
    CHECK(seen.find("marker_in_script") == seen.npos);
  }
}

namespace {

// Twenty cuts of what `whole` sends, all shorter than `least`, the size from which on it may run.
void check_cuts_run_nothing(const Shell& shell, const Bundle& whole, const std::vector<Probe>& probes,
                            std::size_t least) {
  for (std::size_t size = 0; size < least; size += 1 + least / 20) {
    CAPTURE(size);
    auto cut = whole;
    cut.script.resize(size);
    FrameReader reader(probes, kNonce);
    BundleProcess process(shell, cut);
    process.hang_up();
    CHECK_FALSE(process.read_until(reader, [&] { return reader.is_finished(); }));
    CHECK(process.wait_for_end());
    CHECK(process.raw().empty());
  }
}

}  // namespace

TEST_CASE("a script that is cut on its way runs nothing", "[integration][probe]") {
  for (const auto& shell : shells()) {
    if (shell.path != kPath) continue;
    CAPTURE(shell.name);
    const std::vector<Probe> probes = {probe("hello", "echo hello")};
    BundleOptions options;
    options.nonce = kNonce;
    options.tag = new_tag();
    const auto whole = make_bundle(probes, {}, ProbeLevel::host, options);
    check_cuts_run_nothing(shell, whole, probes, whole.script.size() - 1);
  }
}

TEST_CASE("a packed bundle unpacks itself, or asks for its plain text where there is no gzip", "[integration][probe]") {
  std::vector<Probe> probes = {probe("hello", "echo hello"), probe("nonce", "echo ${N:-unset} ${s:-unset}"),
                               probe("stdin", "cat; echo empty")};
  const PackedBundle bundle(probes, {});
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    BundleOptions options;
    options.nonce = kNonce;
    options.tag = new_tag();
    FrameReader reader(probes, kNonce);
    BundleProcess process(shell, packed(shell, bundle, options));
    int plain = 0;
    process.read_until(reader, [&] {
      if (reader.wants_plain() && plain++ == 0) process.send(replace_all(bundle.plain(options), "/bin/sh", shell.sh));
      return reader.is_finished();
    });
    CHECK(reader.is_finished());
    CHECK((plain > 0) == (shell.name == "POSIX utilities alone"));
    CHECK(process.wait_for_end());
    const auto outputs = reader.take("test");
    CHECK(outputs[0].output == "hello\n");
    CHECK(outputs[1].output == "unset unset\n");
    CHECK(outputs[2].output == "empty\n");
    CHECK(processes_with("TRUEUP_RUN=" + options.tag).empty());
  }
}

TEST_CASE("a packed bundle that is cut on its way runs nothing", "[integration][probe]") {
  const std::vector<Probe> probes = {probe("hello", "echo hello")};
  const PackedBundle bundle(probes, {});
  for (const auto& shell : shells()) {
    if (shell.path != kPath) continue;
    CAPTURE(shell.name);
    BundleOptions options;
    options.nonce = kNonce;
    options.tag = new_tag();
    const auto whole = packed(shell, bundle, options);
    const auto least = whole.script.size() - std::string_view(kNonce).size() - 2;  // all but what gzip is to read
    check_cuts_run_nothing(shell, whole, probes, least);
  }
}

TEST_CASE("a login shell may be csh or fish", "[integration][probe]") {
  for (const std::string login : {"csh", "tcsh", "fish", "bash", "zsh"}) {
    if (!on_path(login)) {
      WARN("skipped: " << login << " is not installed");
      continue;
    }
    CAPTURE(login);
    auto result = run({login, {login, "-c"}, "/bin/sh", kPath}, {probe("hello", "echo hello")});
    CHECK(result.outputs["hello"].output == "hello\n");
    CHECK(result.left.empty());

    const std::vector<Probe> probes = {probe("hello", "echo hello")};
    BundleOptions options;
    options.nonce = kNonce;
    options.tag = new_tag();
    const PackedBundle bundle(probes, {});
    FrameReader reader(probes, kNonce);
    BundleProcess process({login, {login, "-c"}, "/bin/sh", kPath},
                          {PackedBundle::command(options), bundle.input(options), {}});
    process.read_until(reader, [&] { return reader.is_finished(); });
    CHECK(process.wait_for_end());
    CHECK(reader.take("test")[0].output == "hello\n");
  }
}

TEST_CASE("root runs and reads nothing that others decide", "[integration][probe]") {
  if (geteuid() != 0) {
    WARN("skipped: needs root");
    return;
  }
  const TemporaryDirectory directory;
  const auto at = directory.path.string();
  const auto shell_run = [](const std::string& command) { REQUIRE(std::system(command.c_str()) == 0); };
  shell_run(fmt::format(
      "cd {} && mkdir -p mine/bin theirs/bin open sticky/in && printf '#!/bin/sh\\nid -u\\n' >mine/bin/nvcc && chmod "
      "755 "
      "mine/bin/nvcc && cp mine/bin/nvcc theirs/bin/ && cp mine/bin/nvcc open/ && cp mine/bin/nvcc sticky/ && chmod "
      "1777 sticky && chown -R 1234:1234 theirs && "
      "chmod 777 open && ln -s /etc/shadow theirs/link && chown -h 1234 theirs/link && ln -s theirs/bin by-link && "
      "ln -s ../mine/bin mine/self && chmod 755 mine mine/bin theirs theirs/bin",
      at));
  for (const auto& shell : shells()) {
    if (!shell.prefix.empty()) continue;
    CAPTURE(shell.name);
    auto result = run(
        shell,
        {
            probe("owners",
                  fmt::format(
                      "cd {}; for p in mine/bin/nvcc theirs/bin/nvcc open/nvcc theirs/link by-link/nvcc mine/self/nvcc "
                      "mine/../theirs/x mine/none sticky sticky/none sticky/nvcc sticky/../sticky sticky/in/.. "
                      "sticky/in; do echo $p $(owner_uid {}/$p); done",
                      at, at)),
            probe("trusted", fmt::format("for p in mine theirs by-link/..; do may_run {}/$p/bin/nvcc && echo $p; done; "
                                         "may_run /bin/ls && echo ls",
                                         at)),
            probe("as", fmt::format("HOME=/root; export HOME; as_uid 1234 {}/theirs/bin/nvcc; as_uid 1234 /bin/sh -c "
                                    "'echo ${{HOME:-none}} $(id -G)'; "
                                    "as_uid 1234 cat {}/theirs/link",
                                    at, at)),
        });
    auto& out = result.outputs;
    // The sticky bit of /tmp keeps others from replacing what is root's there.
    if (shell.name != "POSIX utilities alone")
      CHECK(out["owners"].output ==
            "mine/bin/nvcc 0\ntheirs/bin/nvcc 1234\nopen/nvcc 65534\ntheirs/link 1234\nby-link/nvcc "
            "1234\nmine/self/nvcc 0\n"
            "mine/../theirs/x 1234\nmine/none 0\nsticky 65534\nsticky/none 65534\nsticky/nvcc 0\n"
            "sticky/../sticky 65534\nsticky/in/.. 65534\nsticky/in 0\n");
    CHECK(out["trusted"].output == "mine\nls\n");
    if (shell.path == kPath) {
      CHECK(out["as"].output == "1234\nnone 65534\n");
      CHECK(out["as"].errors.find("ermission denied") != std::string::npos);
      CHECK(out["as"].exit_status == 1);
    } else {
      CHECK(out["as"].output.empty());
      CHECK(out["as"].exit_status == 126);
    }
  }
}

TEST_CASE("who is not root runs what root or they themselves decide", "[integration][probe]") {
  if (geteuid() != 0) {
    WARN("skipped: needs root to make files of others");
    return;
  }
  const TemporaryDirectory directory;
  const auto at = directory.path.string();
  REQUIRE(std::system(fmt::format("cd {} && mkdir root own other open && for d in root own other open; do "
                                  "printf '#!/bin/sh\\n' >$d/x; chmod 755 $d/x; done; chown -R 65534 own && "
                                  "chown -R 1234 other && chmod 777 open",
                                  at)
                          .c_str()) == 0);
  for (const auto& shell : shells()) {
    if (shell.prefix.empty()) continue;
    CAPTURE(shell.name);
    auto result = run(
        shell,
        {probe("trusted", fmt::format("for p in root own other open; do may_run {}/$p/x && echo $p; done; :", at))});
    CHECK(result.outputs["trusted"].output == "root\nown\n");
  }
}

// Variables of a login (/etc/environment, sudo's env_keep) changed what `ls` prints, and with it who decides about a
// path; what they made it print was run as root. None of them is set for probes now, and what is no known name is no
// directory.
TEST_CASE("what a login's environment says of utilities changes nothing", "[integration][probe]") {
  for (const auto& plain : shells()) {
    CAPTURE(plain.name);
    auto shell = plain;
    shell.prefix.insert(shell.prefix.begin(), {"env", "TIME_STYLE=+%ndrwxr-xr-x 1 0 0 /tmp';echo injected;: '%nx",
                                               "QUOTING_STYLE=c", "POSIXLY_CORRECT=1", "root_owned= /tmp "});
    const std::vector<Probe> probes = {
        probe("who",
              "for path in /usr/bin /tmp/x /lib/x /nonexistent; do owner_uid $path; done; echo $root_owned; ls -ld /")};
    const auto without = run(plain, probes), with = run(shell, probes);
    CHECK(with.outputs.at("who").output == without.outputs.at("who").output);
    CHECK(with.outputs.at("who").output.find("injected") == std::string::npos);
  }
}

TEST_CASE("root takes no program from where others put one", "[integration][probe]") {
  if (geteuid() != 0) {
    WARN("skipped: needs root");
    return;
  }
  const TemporaryDirectory directory;
  const auto at = directory.path.string();
  REQUIRE(std::system(fmt::format("cd {} && mkdir theirs mine && printf '#!/bin/sh\\necho planted\\n' >theirs/awk && "
                                  "chmod 755 theirs/awk && cp theirs/awk mine/tool && cp theirs/awk theirs/id && "
                                  "cp theirs/awk theirs/ls && chown -R 1234:1234 theirs",
                                  at)
                          .c_str()) == 0);
  for (auto shell : shells()) {
    if (shell.path != kPath || !shell.prefix.empty()) continue;
    CAPTURE(shell.name);
    shell.path = fmt::format("{0}/theirs:.:/tmp:{0}/mine:{1}", at, kPath);
    auto result = run(shell, {probe("which", "command -v awk; command -v tool; echo $PATH; echo $TRUEUP_LOGIN_PATH")});
    CHECK(result.outputs["which"].output ==
          fmt::format("/usr/bin/awk\n{0}/mine/tool\n{0}/mine:{1}:/usr/bin:/bin\n{2}\n", at, kPath, shell.path));
  }
}

TEST_CASE("secrets stay on the host", "[integration][probe]") {
  for (const auto& shell : shells()) {
    CAPTURE(shell.name);
    auto result = run(
        shell,
        {probe("redact",
               R"(printf '%s\n' 'HF_TOKEN=abc def' 'serve --api-key s3cret --port 8' 'Environment="MY_SECRET=a b" X=1' \
  '--max-total-tokens 4096 --tokenizer-path /m/x' 'Authorization: Bearer abcdefgh.ij' 'http://u:p@h/x' '{"api_key": "zz"}' \
  "serve --api-key 'a b' --x" 'serve --api-key "a \"b" --x' 'serve --api-key -sek --x' 'serve --api-keys k1 k2 --x 1' 'x --api-key "cut' \
  'password: hunter2' '--hf-token=hf_abcdefghijkl --x' "KeyError: 'name'" \
  "{'api_key': 'S3'}" "api_key=['S3', 'S4'] x" 'https://u:S3/x@h/p' 'https://h/x?sig=S3&b=S4 x' 'the password is S3 x' \
  'SGLANG_AUTH=S3' 'VLLM_PWD=S3' 'token eyJhbGciOi.S3.abc x' | redact)"),
         probe(
             "arguments",
             R"(printf '%s\n' '/v/bin/python -m sglang.launch_server --model-path a/B-3 --tp 8 --host 0.0.0.0 --log-level info' \
  '/v/bin/vllm serve a/B --api-key k1 k2 --served-model-name a b --hf-token= X --dtype=bfloat16' \
  'curl -H Authorization: Bearer abc -u user:pa55 https://u:p@h/x?sig=12 --header "Cookie: a=b" -k x' \
  "/usr/bin/bash -c export MY=abc CUDA_HOME=/c; exec /v/python -u -m vllm.api --model /m/x?s=1 --auth user:x" \
  "mysql -psecret --db-password 'two WORDS' --password=hunter2 --dsn postgres://u:p@h/d" \
  'echo hunter2 | sudo -S x' 'torchrun --nproc-per-node 8 train.py --wandb-api hunter2 --config c.yaml' |
  redact_arguments)"),
         probe("allow",
               "printf '%s\\n' PATH=/x FOO=1 'VLLM_API_KEY=two words' CUDA_HOME=/c HOME=/h AWS_SECRET=z | env_allow")});
    CHECK(result.outputs["redact"].output ==
          "HF_TOKEN=***\nserve --api-key *** --port 8\nEnvironment=\"MY_SECRET=***\" X=1\n"
          "--max-total-tokens 4096 --tokenizer-path /m/x\nAuthorization: *** ***\nhttp://***@h/x\n{\"api_key\": "
          "\"***\"}\n"
          "serve --api-key *** --x\nserve --api-key *** --x\nserve --api-key *** --x\nserve --api-keys *** --x 1\n"
          "x --api-key ***\npassword: ***\n--hf-token=*** --x\nKeyError: 'name'\n"
          "{'api_key': '***'}\napi_key=***\nhttps://***@h/p\nhttps://h/x?*** x\nthe password is *** x\n"
          "SGLANG_AUTH=***\nVLLM_PWD=***\ntoken *** x\n");
    CHECK(result.outputs["arguments"].output ==
          "/v/bin/python -m sglang.launch_server --model-path a/B-3 --tp 8 --host 0.0.0.0 --log-level info\n"
          "/v/bin/vllm serve a/B --api-key *** --served-model-name a b --hf-token= *** --dtype=bfloat16\n"
          "curl -H *** *** *** -u *** *** --header *** a=*** -k ***\n"
          "/usr/bin/bash -c export MY=*** CUDA_HOME=/c; exec /v/python -u -m vllm.api --model *** --auth ***\n"
          "mysql -p*** --db-password *** *** --password=*** --dsn ***\n"
          "echo *** | sudo -S ***\ntorchrun --nproc-per-node 8 train.py --wandb-api *** --config c.yaml\n");
    CHECK(result.outputs["allow"].output == "PATH=/x\nVLLM_API_KEY=***\nCUDA_HOME=/c\nHOME=/h\n");
  }
}

TEST_CASE("many probes come through, and what travels with them stays small", "[integration][probe]") {
  std::vector<Probe> probes;
  for (int i = 0; i < 40; ++i) probes.push_back(probe(fmt::format("p{}", i), "echo hello"));
  auto result = run(shells().front(), probes);
  for (int i = 0; i < 40; ++i) CHECK(result.outputs[fmt::format("p{}", i)].output == "hello\n");
  BundleOptions options;
  options.nonce = kNonce;
  CHECK(make_bundle({}, {}, ProbeLevel::host, options).script.size() < 45'000);
}
