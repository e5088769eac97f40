#include "store/store.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/catch.hpp"

using namespace trueup;

namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trueup-store-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string store() const { return (path / "store.db").string(); }
};

RunRecord::Time at(int seconds) { return RunRecord::Time(std::chrono::seconds(1'700'000'000 + seconds)); }

RunRecord audit_of(const std::string& id, int seconds) {
  return {id, "audit", "0.1.0", at(seconds), at(seconds + 5), 3, "", {{"ct200", "192.0.2.1", "audited", "", "{}"}}};
}

RunRecord apply_of(const std::string& id, int seconds) {
  return {
      id,
      "apply",
      "0.1.0",
      at(seconds),
      {},
      {},
      "plan-1",
      {{"b", "", "running", id, R"({"text":"caf\u00e9 ' -- \"; DROP TABLE runs"})"}, {"a", "", "waiting", "", "{}"}}};
}

std::vector<std::string> ids(Store& store) {
  const auto runs = store.runs();
  REQUIRE(runs.has_value());
  std::vector<std::string> ids;
  for (const auto& run : *runs) ids.push_back(run.id);
  return ids;
}

/// Another program's hands on the file.
void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
  char* message = nullptr;
  const int done = sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, &message);
  INFO((message != nullptr ? message : ""));
  sqlite3_close(handle);
  CHECK(done == SQLITE_OK);
}

std::string error_of(const Result<Store>& result) {
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().kind == ErrorKind::io);
  CHECK_FALSE(result.error().hint.empty());
  return result.error().message;
}

}  // namespace

TEST_CASE("the store gives back what was put there, newest first", "[unit][store]") {
  const Folder folder;
  const auto audit = audit_of("A", 10);
  const auto apply = apply_of("B", 20);
  {
    auto store = Store::open(folder.store());
    REQUIRE(store.has_value());
    CHECK(ids(*store).empty());
    REQUIRE(store->put(apply).has_value());
    REQUIRE(store->put(audit).has_value());
  }
  auto store = Store::open(folder.store());
  REQUIRE(store.has_value());
  CHECK(*store->runs() == std::vector<RunRecord>{apply, audit});
  CHECK(*store->find("A") == std::optional(audit));
  CHECK(*store->find("nowhere") == std::nullopt);
}

TEST_CASE("a run that ends takes the place of the one that began", "[unit][store]") {
  const Folder folder;
  auto store = Store::open(folder.store());
  REQUIRE(store.has_value());
  auto run = apply_of("A", 10);
  REQUIRE(store->put(run).has_value());
  run.finished = at(400);
  run.exit = 0;
  run.hosts = {{"b", "", "applied", "A", "{}"}};
  REQUIRE(store->put(run).has_value());
  CHECK(*store->runs() == std::vector<RunRecord>{run});
}

TEST_CASE("prune keeps the newest runs, and those that have not ended", "[unit][store]") {
  const Folder folder;
  auto store = Store::open(folder.store());
  REQUIRE(store.has_value());
  REQUIRE(store->put(apply_of("open", 1)).has_value());
  for (int i = 2; i < 7; ++i) REQUIRE(store->put(audit_of(std::to_string(i), i)).has_value());
  CHECK(*store->prune(2) == 3);
  CHECK(ids(*store) == std::vector<std::string>{"6", "5", "open"});
  CHECK(*store->prune(0) == 2);
  CHECK(*store->prune(0) == 0);
  CHECK((*store->find("open"))->hosts.size() == 2);
}

TEST_CASE("what the store remembers is its owner's alone", "[unit][store]") {
  const Folder folder;
  const auto mode = [&] {
    struct stat status {};
    REQUIRE(stat(folder.store().c_str(), &status) == 0);
    return status.st_mode & 07777;
  };
  const auto before = umask(0);
  { REQUIRE(Store::open(folder.store()).has_value()); }
  umask(before);
  CHECK(mode() == 0600);
  REQUIRE(chmod(folder.store().c_str(), 0644) == 0);
  CHECK(Store::open(folder.store()).has_value());
  CHECK(mode() == 0600);
}

TEST_CASE("what is no store of ours is refused, and stays as it is", "[unit][store]") {
  const Folder folder;
  const auto path = folder.store();
  SECTION("no database") {
    std::ofstream(path) << "dear diary, this is longer than the header of a database would be. "
                        << std::string(200, 'x');
    CHECK_THAT(error_of(Store::open(path)), ContainsSubstring("cannot be read: file is not a database"));
  }
  SECTION("cut off") {
    { REQUIRE(Store::open(path)->put(audit_of("A", 1)).has_value()); }
    std::filesystem::resize_file(path, 4096 + 100);
    auto store = Store::open(path);
    const auto error = store ? store->runs().error() : store.error();
    CHECK_THAT(error.message, ContainsSubstring("cannot be read: database disk image is malformed"));
  }
  SECTION("another program's") {
    run_sql(path, "CREATE TABLE cookies (a)");
    CHECK_THAT(error_of(Store::open(path)), ContainsSubstring("is a database, but no store of trueup"));
    run_sql(path, "INSERT INTO cookies VALUES (1)");
  }
  SECTION("another program's, which says so") {
    run_sql(path, "PRAGMA application_id = 7");
    CHECK_THAT(error_of(Store::open(path)), ContainsSubstring("is a database, but no store of trueup"));
  }
  SECTION("a newer trueup's") {
    { REQUIRE(Store::open(path).has_value()); }
    run_sql(path, "PRAGMA user_version = 1000");
    CHECK_THAT(error_of(Store::open(path)), ContainsSubstring("has schema 1000, this trueup knows 1"));
  }
  SECTION("a directory") {
    std::filesystem::create_directory(path);
    CHECK_THAT(error_of(Store::open(path)), ContainsSubstring("Is a directory"));
  }
  SECTION("a pipe") {
    REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    CHECK_THAT(error_of(Store::open(path)), ContainsSubstring("is no file"));
  }
  SECTION("in no directory") {
    CHECK_THAT(error_of(Store::open(path + "/below")), ContainsSubstring("No such file or directory"));
  }
}

// Two that begin at the same time both make the schema, else one of them finds a half-made database.
TEST_CASE("many processes write at once and none of their runs is lost", "[unit][store]") {
  const Folder folder;
  constexpr int kWriters = 8, kRuns = 5;
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    const pid_t child = fork();
    if (child == 0) {
      for (int run = 0; run < kRuns; ++run) {
        auto store = Store::open(folder.store());
        if (!store || !store->put(audit_of(std::to_string(writer) + "-" + std::to_string(run), run))) _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const auto child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  auto store = Store::open(folder.store());
  REQUIRE(store.has_value());
  CHECK(ids(*store).size() == kWriters * kRuns);
}
