#include "store/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace trueup {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr int kApplicationId = 0x74727570;  // "trup": whose file this is

// Element n brings schema n to schema n + 1; what was written once stays as it is. Times are milliseconds since 1970.
constexpr std::array kSteps = {
    "CREATE TABLE runs ("
    "  id TEXT PRIMARY KEY, kind TEXT NOT NULL, version TEXT NOT NULL, started INTEGER NOT NULL, finished INTEGER,"
    "  exit INTEGER, plan TEXT NOT NULL);"
    "CREATE INDEX runs_by_start ON runs (started);"
    "CREATE TABLE hosts ("
    "  run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, position INTEGER NOT NULL, name TEXT NOT NULL,"
    "  address TEXT NOT NULL, status TEXT NOT NULL, host_run TEXT NOT NULL, detail TEXT NOT NULL,"
    "  PRIMARY KEY (run, position)) WITHOUT ROWID;",
};
constexpr int kSchema = static_cast<int>(kSteps.size());

tl::unexpected<Error> refuse(std::string message, std::string hint) {
  return fail(Error{ErrorKind::io, std::move(message), {}, {}, std::move(hint)});
}

tl::unexpected<Error> system_failed(const std::string& path) {
  return refuse(fmt::format("cannot use the store '{}': {}", path, std::generic_category().message(errno)),
                "--no-store does without");
}

tl::unexpected<Error> failed(sqlite3* handle, const std::string& path) {
  switch (sqlite3_errcode(handle)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return refuse(fmt::format("the store '{}' has been held by another program for {} s", path, kPatienceMs / 1000),
                    "--no-store does without");
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return refuse(fmt::format("the store '{}' cannot be read: {}", path, sqlite3_errmsg(handle)),
                    "move it away: the next run begins a new one");
    default:
      return refuse(fmt::format("cannot use the store '{}': {}", path, sqlite3_errmsg(handle)),
                    "--no-store does without");
  }
}

/// One statement at a time: its values, its rows.
class Statement {
 public:
  Statement(sqlite3* handle, const std::string& path, const char* sql) : handle_(handle), path_(path) {
    sqlite3_stmt* statement = nullptr;
    ready_ = sqlite3_prepare_v2(handle, sql, -1, &statement, nullptr) == SQLITE_OK;
    statement_.reset(statement);
  }

  Statement& bind(const std::string& text) {
    ready_ = ready_ && sqlite3_bind_text64(statement_.get(), ++bound_, text.data(), text.size(), SQLITE_TRANSIENT,
                                           SQLITE_UTF8) == SQLITE_OK;
    return *this;
  }
  Statement& bind(std::int64_t number) {
    ready_ = ready_ && sqlite3_bind_int64(statement_.get(), ++bound_, number) == SQLITE_OK;
    return *this;
  }
  Statement& bind(const std::optional<std::int64_t>& number) {
    if (number) return bind(*number);
    ready_ = ready_ && sqlite3_bind_null(statement_.get(), ++bound_) == SQLITE_OK;
    return *this;
  }

  /// Whether there is one more row.
  Result<bool> step() {
    if (ready_)
      switch (sqlite3_step(statement_.get())) {
        case SQLITE_ROW:
          return true;
        case SQLITE_DONE:
          return false;
        default:
          break;
      }
    return failed(handle_, path_);
  }
  /// To the end, for statements without rows.
  Result<void> run() {
    if (const auto row = step(); !row) return fail(row.error());
    return {};
  }

  std::string text(int column) const {
    const auto* const bytes = sqlite3_column_blob(statement_.get(), column);
    return bytes == nullptr ? std::string()
                            : std::string(static_cast<const char*>(bytes),
                                          static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)));
  }
  std::int64_t number(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::optional<std::int64_t> optional_number(int column) const {
    if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::nullopt;
    return number(column);
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  sqlite3* handle_;
  const std::string& path_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
  bool ready_ = false;
};

Result<void> execute(sqlite3* handle, const std::string& path, const std::string& sql) {
  if (sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) return failed(handle, path);
  return {};
}

Result<std::int64_t> number_of(sqlite3* handle, const std::string& path, const char* sql) {
  Statement statement(handle, path, sql);
  const auto row = statement.step();
  if (!row) return fail(row.error());
  return *row ? statement.number(0) : 0;
}

/// All or nothing. IMMEDIATE: two writers wait for each other at the begin, where waiting works.
class Transaction {
 public:
  static Result<Transaction> begin(sqlite3* handle, const std::string& path) {
    if (const auto begun = execute(handle, path, "BEGIN IMMEDIATE"); !begun) return fail(begun.error());
    return Transaction(handle, path);
  }
  Transaction(Transaction&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), path_(other.path_) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction() {
    if (handle_ != nullptr) sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
  }

  Result<void> commit() {
    if (const auto done = execute(handle_, path_, "COMMIT"); !done) return done;
    handle_ = nullptr;
    return {};
  }

 private:
  Transaction(sqlite3* handle, const std::string& path) : handle_(handle), path_(path) {}

  sqlite3* handle_;
  const std::string& path_;
};

/// Made empty where it is not there, and for its owner alone: SQLite would make it as the umask says, and its journal
/// gets the mode that the file has.
Result<void> make_private(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
  if (file < 0) return system_failed(path);
  struct stat status {};
  const bool known = fstat(file, &status) == 0;
  if (known && S_ISREG(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 077) != 0) fchmod(file, 0600);
  close(file);
  if (!known) return system_failed(path);
  if (!S_ISREG(status.st_mode))
    return refuse(fmt::format("the store '{}' is no file", path), "move it away: the next run begins a new one");
  if (status.st_uid != geteuid())
    return refuse(fmt::format("the store '{}' belongs to user {}, not to {}", path, status.st_uid, geteuid()),
                  "set XDG_STATE_HOME to a directory of your own, or use --no-store");
  return {};
}

/// In one transaction, so that of two that find it old one brings it up to date and the other finds it done.
Result<void> bring_up_to_date(sqlite3* handle, const std::string& path) {
  // In this order another that makes the schema meanwhile is never taken for a stranger: first come tables, then
  // numbers.
  const auto tables = number_of(handle, path, "SELECT count(*) FROM sqlite_master");
  if (!tables) return fail(tables.error());
  const auto version = number_of(handle, path, "PRAGMA user_version");
  if (!version) return fail(version.error());
  const auto owner = number_of(handle, path, "PRAGMA application_id");
  if (!owner) return fail(owner.error());
  if (*owner != kApplicationId && (*owner != 0 || *version != 0 || *tables != 0))
    return refuse(fmt::format("'{}' is a database, but no store of trueup", path),
                  "move it away: the next run begins a new one");
  if (*version > kSchema)
    return refuse(fmt::format("the store '{}' has schema {}, this trueup knows {}", path, *version, kSchema),
                  "use the newer trueup that wrote it, or --no-store");
  if (*version == kSchema) return {};
  auto transaction = Transaction::begin(handle, path);
  if (!transaction) return fail(transaction.error());
  const auto now = number_of(handle, path, "PRAGMA user_version");
  if (!now) return fail(now.error());
  for (auto step = *now; step < kSchema; ++step)
    if (const auto done = execute(handle, path, kSteps.at(static_cast<std::size_t>(step))); !done) return done;
  if (const auto done = execute(handle, path, fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                                          kApplicationId, kSchema));
      !done)
    return done;
  return transaction->commit();
}

std::int64_t to_number(RunRecord::Time time) { return time.time_since_epoch().count(); }
RunRecord::Time to_time(std::int64_t number) { return RunRecord::Time(std::chrono::milliseconds(number)); }

constexpr auto kRun = "SELECT id, kind, version, started, finished, exit, plan FROM runs ";

RunRecord read_run(const Statement& row) {
  RunRecord run{row.text(0), row.text(1), row.text(2), to_time(row.number(3)), {}, {}, row.text(6), {}};
  if (const auto finished = row.optional_number(4)) run.finished = to_time(*finished);
  if (const auto exit = row.optional_number(5)) run.exit = static_cast<int>(*exit);
  return run;
}

Result<void> read_hosts(sqlite3* handle, const std::string& path, RunRecord& run) {
  Statement rows(handle, path,
                 "SELECT name, address, status, host_run, detail FROM hosts WHERE run = ? ORDER BY position");
  rows.bind(run.id);
  for (;;) {
    const auto row = rows.step();
    if (!row) return fail(row.error());
    if (!*row) return {};
    run.hosts.push_back({rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4)});
  }
}

}  // namespace

void Store::Close::operator()(sqlite3* handle) const { sqlite3_close(handle); }

Result<Store> Store::open(const std::string& path) {
  if (const auto made = make_private(path); !made) return fail(made.error());
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE, nullptr);
  Handle handle(raw);
  if (opened != SQLITE_OK) return failed(handle.get(), path);
  sqlite3_busy_timeout(handle.get(), kPatienceMs);
  // A file that another made says what its triggers and views run: nothing but plain SQL.
  sqlite3_db_config(handle.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  if (const auto done = execute(handle.get(), path, "PRAGMA foreign_keys = ON"); !done) return fail(done.error());
  if (const auto done = bring_up_to_date(handle.get(), path); !done) return fail(done.error());
  return Store(path, std::move(handle));
}

Result<void> Store::put(const RunRecord& run) {
  auto* const handle = handle_.get();
  auto transaction = Transaction::begin(handle, path_);
  if (!transaction) return fail(transaction.error());
  if (const auto done = Statement(handle, path_, "DELETE FROM runs WHERE id = ?").bind(run.id).run(); !done)
    return done;
  std::optional<std::int64_t> finished, exit;
  if (run.finished) finished = to_number(*run.finished);
  if (run.exit) exit = *run.exit;
  if (const auto done = Statement(handle, path_, "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)")
                            .bind(run.id)
                            .bind(run.kind)
                            .bind(run.version)
                            .bind(to_number(run.started))
                            .bind(finished)
                            .bind(exit)
                            .bind(run.plan)
                            .run();
      !done)
    return done;
  std::int64_t position = 0;
  for (const auto& host : run.hosts)
    if (const auto done = Statement(handle, path_, "INSERT INTO hosts VALUES (?, ?, ?, ?, ?, ?, ?)")
                              .bind(run.id)
                              .bind(position++)
                              .bind(host.name)
                              .bind(host.address)
                              .bind(host.status)
                              .bind(host.host_run)
                              .bind(host.detail)
                              .run();
        !done)
      return done;
  return transaction->commit();
}

Result<std::vector<RunRecord>> Store::runs() {
  Statement rows(handle_.get(), path_, (std::string(kRun) + "ORDER BY started DESC, id DESC").c_str());
  std::vector<RunRecord> runs;
  for (;;) {
    const auto row = rows.step();
    if (!row) return fail(row.error());
    if (!*row) break;
    runs.push_back(read_run(rows));
  }
  for (auto& run : runs)
    if (const auto read = read_hosts(handle_.get(), path_, run); !read) return fail(read.error());
  return runs;
}

Result<std::optional<RunRecord>> Store::find(const std::string& id) {
  Statement rows(handle_.get(), path_, (std::string(kRun) + "WHERE id = ?").c_str());
  const auto row = rows.bind(id).step();
  if (!row) return fail(row.error());
  if (!*row) return std::nullopt;
  auto run = read_run(rows);
  if (const auto read = read_hosts(handle_.get(), path_, run); !read) return fail(read.error());
  return run;
}

Result<std::size_t> Store::prune(std::size_t keep) {
  auto* const handle = handle_.get();
  if (const auto done = Statement(handle, path_,
                                  "DELETE FROM runs WHERE exit IS NOT NULL AND id NOT IN (SELECT id FROM runs"
                                  " WHERE exit IS NOT NULL ORDER BY started DESC, id DESC LIMIT ?)")
                            .bind(static_cast<std::int64_t>(keep))
                            .run();
      !done)
    return fail(done.error());
  const auto forgotten = static_cast<std::size_t>(sqlite3_changes(handle));
  if (const auto done = execute(handle, path_, "VACUUM"); !done) return fail(done.error());
  return forgotten;
}

}  // namespace trueup
