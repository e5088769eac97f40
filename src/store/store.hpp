#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trueup/result.hpp"
#include "trueup/run.hpp"

struct sqlite3;

namespace trueup {

/// What the controller remembers of its runs: one SQLite file. Every call waits for the disk, and at most ten seconds
/// for another trueup that writes; so none belongs on the event loop.
class Store {
 public:
  /// The store at `path`, made (0600) where there is none; an older schema is brought up to date. Errors: not writable,
  /// not a store of ours, written by a newer trueup, corrupt.
  static Result<Store> open(const std::string& path);

  /// Keeps `run`, in place of what was kept under its id: once when it begins, without an exit status, and once when it
  /// ends.
  Result<void> put(const RunRecord& run);
  /// Newest first.
  Result<std::vector<RunRecord>> runs();
  /// Empty: there is no run of that id.
  Result<std::optional<RunRecord>> find(const std::string& id);
  /// Forgets all but the newest `keep` runs that have ended, and gives the space back to the disk. A run without an
  /// exit status may have to be resumed: it stays. Returns how many were forgotten.
  Result<std::size_t> prune(std::size_t keep);

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  using Handle = std::unique_ptr<sqlite3, Close>;

  Store(std::string path, Handle handle) : path_(std::move(path)), handle_(std::move(handle)) {}

  std::string path_;
  Handle handle_;
};

}  // namespace trueup
