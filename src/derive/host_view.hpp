#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "derive/knowledge.hpp"
#include "trueup/environment.hpp"

namespace trueup {

/// PATH of system services where nothing sets another: systemd's own on a split /usr.
inline constexpr std::string_view kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
inline constexpr std::string_view kDefaultToolkit = "/usr/local/cuda";

/// The records of a section; none where it is absent or unknown.
template <class T>
const std::vector<T>& items(const Fact<std::vector<T>>& fact) {
  static const std::vector<T> kNone;
  return fact.is_known() ? *fact : kNone;
}

/// An answer that may be "cannot be told": `unknown` then says why.
template <class T>
struct Told {
  T value{};
  std::string unknown = {};
};

/// Why `field` of a record is not known; empty: nothing says that it is not.
std::string why_unknown(const FieldReasons& reasons, const std::string& field);

/// What lies at `<root>/bin/nvcc`.
struct Nvcc {
  std::string path;
  bool exists = false;
  bool executable = false;
  std::optional<Version> version;
  std::string version_source;  ///< `nvcc` or `version.json`
  std::string unknown;         ///< why its version cannot be told
  const Toolkit* toolkit = nullptr;
};

/// A library in a directory: `libcublas.so.12` that leads to libcublas.so.12.4.5.8.
struct LibraryFile {
  bool exists = false;
  std::optional<Version> version;  ///< absent: its file is named like the library and tells none

  LibraryFile() = default;
  LibraryFile(const LibraryDir& directory, const std::string& library);
};

/// The GPUs that a process sees, in CUDA's order.
struct VisibleGpus {
  std::vector<Version> compute_caps;  ///< one per device
  std::string how;                    ///< `8 x 12.0 (NVIDIA RTX PRO 6000 Blackwell)`
  std::string unknown;
};

/// Questions about a host's files and devices that its probes' facts answer. References its arguments.
class HostView {
 public:
  HostView(const Environment& environment, const Knowledge& knowledge)
      : environment_(environment), knowledge_(knowledge) {}

  const Environment& environment() const { return environment_; }

  /// The toolkit whose root `path` names, links followed; null: none that the probes found.
  const Toolkit* toolkit_at(std::string_view path) const;
  /// `path` with the links that the probes know followed.
  std::string resolved(std::string_view path) const;
  Nvcc nvcc_at(const std::string& root) const;
  /// The assembler at `path`: the version of the toolkit it lies in. Absent value: no such file.
  Told<std::optional<Version>> ptxas_at(std::string_view path) const;

  /// The first executable `name` in the directories of `search_path`; empty: none.
  Told<std::string> program(std::string_view name, std::string_view search_path) const;
  const Tool* tool(std::string_view path) const;
  /// The directory that an entry of LD_LIBRARY_PATH names; null: not looked into.
  const LibraryDir* library_dir(std::string_view path) const;

  VisibleGpus visible_gpus(const Variables& env) const;
  /// The compute capability of the first GPU that nvidia-smi lists; absent: it lists none.
  Told<std::optional<Version>> first_listed_gpu() const;
  /// Version of the kernel driver in use (in WSL: of the library that stands for it).
  Told<Version> driver() const;

 private:
  bool was_looked_into(std::string_view directory) const;

  const Environment& environment_;
  const Knowledge& knowledge_;
};

/// One spelling of a path: no doubled, trailing or `.` parts.
std::string clean_path(std::string_view path);

/// A variable's value, or nothing where it is not set.
std::optional<std::string> variable(const Variables& env, const std::string& name);

/// `2026-11-30`, in UTC.
std::string date_text(std::int64_t seconds);

}  // namespace trueup
