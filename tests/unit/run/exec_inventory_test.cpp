#include "run/exec_inventory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/disk.hpp"
#include "load/inventory.hpp"
#include "support/catch.hpp"

using namespace trueup;

namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trueup-inventory-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string program(const std::string& text, mode_t mode = 0755) const {
    const auto file = path / "program";
    std::ofstream(file) << text;
    chmod(file.c_str(), mode);
    return file.string();
  }
};

std::string error_of(const Result<std::string>& result, const Folder& folder) {
  REQUIRE_FALSE(result.has_value());
  auto text = std::string(to_string(result.error().kind)) + ": " + result.error().message;
  if (!result.error().hint.empty()) text += " (" + result.error().hint + ")";
  for (auto at = text.find(folder.path.string()); at != std::string::npos; at = text.find(folder.path.string()))
    text.replace(at, folder.path.string().size(), "DIR");
  return text;
}

}  // namespace

TEST_CASE("an inventory program is asked with --list, and reads nothing", "[unit][run][inventory]") {
  const Folder folder;
  const auto output = run_inventory_program(folder.program("#!/bin/sh\ncat\necho \"[$#] $1\"; echo noise >&2\n"));
  REQUIRE(output.has_value());
  CHECK(*output == "[1] --list\n");
}

TEST_CASE("what an inventory program gets wrong is said, with its last words", "[unit][run][inventory]") {
  const Folder folder;
  CHECK(error_of(run_inventory_program(folder.program("#!/bin/sh\necho no credentials >&2; exit 3\n")), folder) ==
        "malformed: inventory program 'DIR/program' failed with status 3 (it said: no credentials)");
  CHECK(error_of(run_inventory_program(folder.program("#!/bin/sh\nkill -9 $$\n")), folder) ==
        "malformed: inventory program 'DIR/program' was killed by signal 9");
  CHECK(error_of(run_inventory_program(folder.program("#!/bin/sh\nyes\n"), {.bytes = 1000}), folder) ==
        "limit: inventory program 'DIR/program' printed more than 1000 bytes");
  CHECK(error_of(run_inventory_program(folder.program("echo no interpreter\n")), folder) ==
        "io: cannot run inventory program 'DIR/program': Exec format error "
        "(a script begins with a line such as #!/usr/bin/env python3)");
}

TEST_CASE("an inventory program that hangs is killed with what it started", "[unit][run][inventory]") {
  const Folder folder;
  // The child holds the lock on a file for as long as it lives.
  const auto lock = (folder.path / "lock").string();
  std::ofstream{lock};
  const auto program = folder.program("#!/bin/sh\nflock " + lock + " sleep 600 &\nwait\n");
  CHECK(error_of(run_inventory_program(program, {.time = std::chrono::milliseconds(300)}), folder) ==
        "timeout: inventory program 'DIR/program' did not end within 300ms");
  CHECK(std::system(("flock -w 20 " + lock + " true").c_str()) == 0);
}

TEST_CASE("only programs that nobody else can write are run", "[unit][run][inventory]") {
  const Folder folder;
  const std::string text = "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\n";
  CHECK(error_of(run_inventory_program(folder.program(text, 0757)), folder) ==
        "io: inventory program 'DIR/program' can be written by everybody");
  CHECK(error_of(run_inventory_program(folder.program(text, 0644)), folder) ==
        "io: cannot run inventory program 'DIR/program': Permission denied (chmod +x DIR/program)");
  CHECK(error_of(run_inventory_program((folder.path / "gone").string()), folder) ==
        "not_found: cannot run inventory program 'DIR/gone': No such file or directory");
  CHECK(error_of(run_inventory_program(folder.path.string()), folder) == "io: inventory program 'DIR' is not a file");
  if (geteuid() == 0) {
    const auto program = folder.program(text);
    REQUIRE(chown(program.c_str(), 65534, 65534) == 0);
    CHECK(error_of(run_inventory_program(program), folder) ==
          "io: inventory program 'DIR/program' belongs to uid 65534, neither to you nor to root");
  }
  CHECK_FALSE(std::filesystem::exists(folder.path / "ran"));
}

TEST_CASE("the examples load", "[unit][run][inventory][examples]") {
  const ControllerDisk disk;
  const InventoryInputs inputs{.files = disk,
                               .home = "/home/ops",
                               .read_stdin = [] { return Result<std::string>(""); },
                               .run_program = [](const std::string& path) { return run_inventory_program(path); }};
  const std::string examples = std::string(TRUEUP_SOURCE) + "/examples/";
  const auto names = [&](const std::string& argument, const std::string& pattern) {
    Errors errors;
    const auto inventory = load_inventory({argument}, inputs, errors);
    for (const auto& error : errors) UNSCOPED_INFO(to_string(error));
    REQUIRE(errors.empty());
    std::vector<std::string> selected;
    const auto hosts = select_hosts(inventory, pattern);
    REQUIRE(hosts.has_value());
    for (const auto& host : *hosts) selected.push_back(host.name + "/" + host.user.value_or("-"));
    return join(selected, " ");
  };
  CHECK(names(examples + "inventory.yaml", "inference:!canary") == "gpu002/ops gpu003/ops gpu004/ops");
  CHECK(names(examples + "ansible/hosts.ini", "inference:&rack_a") == "gpu001/deploy gpu002/deploy");
  CHECK(names(examples + "ansible/hosts.yml", "inference:&rack_a") == "gpu001/deploy gpu002/deploy");
  CHECK(names("exec:" + examples + "ansible/program.sh", "inference") == "gpu001/deploy gpu002/deploy");
}
