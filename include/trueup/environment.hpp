#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trueup/fact.hpp"
#include "trueup/result.hpp"
#include "trueup/version.hpp"

// The environment of one host: what its probes found, typed. Its JSON form (see `to_json` below and
// playbooks/schema/environment.schema.json) is what checks see and `trueup facts` prints.
//
// In JSON every section is a key of the root: its value, or null. Null sections that could not be looked at are named
// with the reason under the root's `unknown` (a map section -> reason); null and not named there is absent. Records do
// the same for single fields with their own `unknown` map.

namespace trueup {

using FieldReasons = std::map<std::string, std::string>;  ///< field -> why it is unknown

struct HostInfo {
  std::string hostname;
  std::string kernel;           ///< `uname -r`
  std::string arch;             ///< `uname -m`
  std::string boot_id;
  std::string virtualization;   ///< as systemd-detect-virt says: `none`, `kvm`, `docker`, `wsl`, ...; empty: not told
  std::int64_t clock = 0;       ///< the host's clock, seconds since the epoch
  std::int64_t uptime_s = 0;
  std::int64_t units_loaded = 0;  ///< when systemd last read its units (boot, daemon-reload), seconds since the epoch; 0: not told
  int cpus = 0;
  std::string user;             ///< account the bundle ran as
  std::int64_t uid = 0;
  friend bool operator==(const HostInfo&, const HostInfo&) = default;
};

struct Os {
  std::string id;               ///< `debian`, `ubuntu`, `rhel`, as os-release has it
  std::string version;          ///< VERSION_ID; empty on rolling distributions
  std::string pretty_name;
  std::string glibc;            ///< `2.36`; empty: not told (musl)
  friend bool operator==(const Os&, const Os&) = default;
};

struct Memory {
  std::uint64_t total_bytes = 0;
  std::uint64_t available_bytes = 0;
  std::uint64_t swap_total_bytes = 0;
  std::uint64_t swap_free_bytes = 0;
  friend bool operator==(const Memory&, const Memory&) = default;
};

/// One mounted file system of the kind that holds files of ours or of a consumer (no proc, sysfs, cgroup, ...).
struct Disk {
  std::string mount;
  std::string device;
  std::string fstype;
  std::vector<std::string> options;        ///< `ro`, `noexec`, ...
  std::uint64_t size_bytes = 0;            ///< 0 with an entry in `unknown`: a network mount was not asked
  std::uint64_t free_bytes = 0;            ///< available to ordinary users
  FieldReasons unknown;
  friend bool operator==(const Disk&, const Disk&) = default;
};

/// A libcuda.so.1 for forward compatibility, as the cuda-compat packages bring.
struct CompatLibrary {
  std::optional<Version> version;          ///< of the driver that it belongs to
  std::string directory;                   ///< under one of its names; each has a record
  std::string libcuda;                     ///< the file, links resolved
  friend bool operator==(const CompatLibrary&, const CompatLibrary&) = default;
};

struct Driver {
  std::optional<Version> loaded;           ///< of the kernel module in memory; absent: no module loaded
  std::optional<Version> on_disk;          ///< of the module that the next load would take; absent: none found
  std::string flavour;                     ///< `open`, `proprietary`, or empty where no module is loaded
  std::vector<std::string> library_versions;  ///< of libcuda.so.* in the system's library directories, each once
  bool nvidia_smi = false;                 ///< nvidia-smi answered
  std::string nvidia_smi_error;            ///< what it said instead
  std::string libcuda;                     ///< the libcuda.so.1 of the loader's cache, links resolved; empty: none in it
  std::vector<CompatLibrary> compat;
  std::vector<std::string> loader_files;   ///< configuration of the loader that names a compat directory: `FILE: LINE`
  int nvswitches = 0;                      ///< as the kernel driver, else the PCI bus, lists them
  std::optional<Version> fabric_manager;   ///< of the installed fabric manager; asked only where there are NVSwitches
  std::optional<bool> device_links;        ///< /dev/char has links to NVIDIA's devices, as systemd wants them; absent: no device
  FieldReasons unknown;
  friend bool operator==(const Driver&, const Driver&) = default;
};

/// One GPU, from sysfs and nvidia-smi, in PCI order.
struct Gpu {
  int index = -1;                          ///< nvidia-smi's; -1: nvidia-smi does not list it
  std::string pci;                         ///< `0000:01:00.0`, lower case, domain of four digits
  std::string uuid;
  std::string name;
  std::optional<Version> compute_cap;      ///< `12.0`; absent: not told by the driver and not known by name
  std::optional<std::uint64_t> memory_bytes;  ///< absent where nvidia-smi gives no number (unified memory)
  std::string kernel_driver;               ///< bound driver: `nvidia`, `vfio-pci`, `nouveau`, or empty
  std::string persistence_mode;            ///< `Enabled`, `Disabled`; empty: not told
  std::string mig_mode;                    ///< `Enabled`, `Disabled`; empty: it has none, or not told
  std::vector<std::string> mig_devices;    ///< identifiers of its MIG instances: `MIG-...`
  std::optional<std::int64_t> ecc_uncorrected;  ///< since the driver was loaded; absent: no ECC, or not told
  std::optional<bool> remap_pending;       ///< rows wait for a reset to be remapped; absent: not told
  std::optional<bool> remap_failure;       ///< a row could not be remapped; absent: not told
  FieldReasons unknown;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// One CUDA toolkit, wherever it lies. Unique by `path`.
struct Toolkit {
  std::string path;                        ///< root, links resolved: `/usr/local/cuda-12.8`
  std::vector<std::string> reached_by;     ///< names that lead here: `/usr/local/cuda`, `/usr/local/cuda-12`
  std::string kind;                        ///< `local`, `distribution`, `wheel`, `conda`, `hpc_sdk`, `named` (only an environment names it)
  std::optional<Version> version;          ///< nvcc's own answer, else its manifest; absent: neither, or nvcc fails (see unknown)
  std::string version_source;              ///< `nvcc`, `version.json`, `dist-info` (of its wheel), or empty
  bool has_nvcc = false;                   ///< `bin/nvcc` exists
  bool nvcc_executable = false;            ///< it has an x bit; FlashInfer fails differently without
  std::vector<std::string> lacks;          ///< of: include/cuda_runtime.h, lib64/libcudart.so, bin/ptxas, nvvm/bin/cicc, ...
  std::optional<int> max_gcc;              ///< from include/crt/host_config.h
  FieldReasons unknown;                    ///< e.g. version: "not trusted to run as root: owned by uid 1000"
  friend bool operator==(const Toolkit&, const Toolkit&) = default;
};

/// A link that decides which toolkit is meant: /usr/local/cuda, /etc/alternatives/cuda, ...
struct CudaLink {
  std::string path;
  std::string target;                      ///< as readlink says
  std::string resolved;                    ///< where it ends; empty: dangling
  std::int64_t changed = 0;                ///< mtime of the link itself, seconds since the epoch
  friend bool operator==(const CudaLink&, const CudaLink&) = default;
};

/// A program that JIT libraries call by name: gcc, g++, c++, clang, ninja, which, nvcc, nvidia-smi.
struct Tool {
  std::string name;
  std::string path;                        ///< absolute, as found; links not resolved
  std::optional<Version> version;
  FieldReasons unknown;
  friend bool operator==(const Tool&, const Tool&) = default;
};

struct PythonPackage {
  std::string name;                        ///< normalised: lower case, '-'
  std::string version;                     ///< as dist-info has it, local part included
  std::int64_t installed = 0;              ///< mtime of the dist-info directory, seconds since the epoch; 0: not told
  friend bool operator==(const PythonPackage&, const PythonPackage&) = default;
};

/// A CUDA library that an extension module of an environment is linked to.
struct PythonLink {
  std::string file;                        ///< below site-packages: `vllm/_C.abi3.so`
  std::string needs;                       ///< as its ELF header names it: `libcudart.so.13`
  friend bool operator==(const PythonLink&, const PythonLink&) = default;
};

struct PythonEnv {
  std::string path;                        ///< prefix: `/root/venv_sglang211`
  std::string site_packages;
  std::string python;                      ///< `3.12`
  std::string owner;                       ///< account
  std::vector<PythonPackage> packages;     ///< those that matter to GPU work, by name
  std::optional<std::string> torch_cuda;   ///< torch.version.cuda as text; `none`: a CPU build; absent: no torch
  std::string flashinfer_gate;             ///< CUDA version that the installed source demands for SM 12.x (`12.9`), `none`: it
                                           ///< has no gate; empty: could not be read or no FlashInfer
  std::map<std::string, std::string> ptxas;   ///< file in triton/backends/nvidia/bin -> its version
  std::vector<PythonLink> links;           ///< of the extension modules of engines, from their ELF headers
  std::vector<std::string> bin;            ///< of: ninja, nvcc, python3 in its bin directory
  bool python_h = false;                   ///< Python.h of its interpreter is there
  FieldReasons unknown;

  /// The package of that (normalised) name, or null.
  const PythonPackage* package(std::string_view name) const;
  friend bool operator==(const PythonEnv&, const PythonEnv&) = default;
};

/// One variable list, reduced on the host to the names that matter (see playbooks: `env_allow`).
using Variables = std::map<std::string, std::string>;

/// A directory that JIT libraries of a consumer write to, seen with its user's eyes.
struct CacheDir {
  std::string kind;                        ///< `home`, or that of the cache: `flashinfer`, `triton`, ...
  std::optional<bool> exists;              ///< absent: could not be tried
  std::optional<bool> writable;            ///< it, or what is there of the way to it; absent: could not be tried
  bool read_only = false;                  ///< its file system is mounted read-only
  bool noexec = false;                     ///< programs and modules of its file system cannot be loaded
  bool over_quota = false;                 ///< its user's quota there is used up
  std::string mount;                       ///< mount point of its file system
  std::string path;
  friend bool operator==(const CacheDir&, const CacheDir&) = default;
};

/// A variable of Environment= that an EnvironmentFile= sets to another value: files win, wherever they stand
/// (systemd.exec(5)). What counts is in `unit_env`.
struct OverriddenVariable {
  std::string name;
  std::string file;                        ///< the environment file that wins
  std::string set_in;                      ///< unit file or drop-in whose Environment= has no effect; empty: not told
  std::string value;                       ///< what Environment= says
  friend bool operator==(const OverriddenVariable&, const OverriddenVariable&) = default;
};

struct Service {
  std::string unit;                        ///< `vllm.service`; of a user's own systemd `user unit vllm.service of alice`
  std::string manager;                     ///< the user whose own systemd it is; empty: the system's
  std::string state;                       ///< ActiveState
  std::string sub_state;
  std::string result;                      ///< Result: `success`, `signal`, `exit-code`, `oom-kill`, ...
  int exit_code = 0;                       ///< ExecMainCode: 1 exited, 2 killed, 3 dumped, 0 none
  int exit_status = 0;                     ///< exit status, or signal number
  int restarts = 0;
  std::int64_t main_pid = 0;
  std::string user;                        ///< `root` where the unit names none
  std::string home;                        ///< of that account; empty: it has none
  std::string exec;                        ///< first word of ExecStart, absolute
  std::string command;                     ///< ExecStart, redacted
  std::string python_env;                  ///< prefix of the environment it runs, followed through wrappers; empty: none
  std::vector<std::string> drop_ins;
  Variables unit_env;                      ///< as systemd would start it: defaults, Environment, files, drop-ins
  std::vector<OverriddenVariable> overridden;  ///< of the variables that matter here
  std::optional<Variables> process_env;    ///< of MainPID; absent: not running
  bool stale = false;                      ///< NeedDaemonReload
  Variables settings;                      ///< what it limits or hides, where not systemd's default: `MemoryMax`, `ProtectHome`, ...
  std::string libcuda;                     ///< the libcuda.so.1 that LD_LIBRARY_PATH leads to, links resolved; empty: none
  std::vector<std::int64_t> groups;        ///< gids that its processes have; empty: not told
  std::vector<std::string> denied;         ///< device nodes of GPUs that its user may not open
  std::vector<CacheDir> cache_dirs;
  FieldReasons unknown;
  friend bool operator==(const Service&, const Service&) = default;
};

/// A process that names a CUDA toolkit or has a GPU open, and belongs to no unit in `services`.
struct GpuProcess {
  std::int64_t pid = 0;
  std::int64_t uid = 0;
  std::string user;
  std::string exe;
  std::string command;                     ///< redacted
  std::string cgroup;
  std::int64_t parent = 0;
  std::string container;                   ///< id of its container, from the cgroup; empty: none
  std::string scope;                       ///< state of the unit or scope of its cgroup: `active`, `failed`, `inactive`, ...; empty: not told
  std::optional<std::uint64_t> memory_bytes;  ///< GPU memory it holds, as nvidia-smi tells it
  std::string libcuda;                     ///< the libcuda.so.1 that LD_LIBRARY_PATH leads to, links resolved; empty: none
  std::string python_env;                  ///< prefix, empty: none
  std::vector<int> gpus;                   ///< minors of /dev/nvidiaN it has open
  Variables env;
  FieldReasons unknown;
  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

/// What an SSH login of the audit's account sees; `variables` are those of its login shell.
struct Login {
  std::string user;
  std::string shell;
  std::string libcuda;                     ///< the libcuda.so.1 that LD_LIBRARY_PATH leads to, links resolved; empty: none
  Variables variables;
  friend bool operator==(const Login&, const Login&) = default;
};

/// One module or version directory of a JIT cache.
struct JitCache {
  std::string kind;                        ///< `flashinfer`, `torch_extensions`, `triton`, ...
  std::string path;                        ///< the directory this record describes
  std::string owner;
  std::string writable_by;                 ///< who may write it: `owner`, `group 1005` (and owner), `all`; empty: not told
  std::string version;                     ///< FlashInfer, tilelang: version directory; else empty
  std::string archs;                       ///< FlashInfer: `120f`; empty: directly below the version (empty set) or no such part
  std::string op;                          ///< module name; empty: the record is about the version directory itself
  std::string cuda_home;                   ///< from build.ninja
  std::vector<std::string> targets;        ///< `compute_120f` ... from build.ninja
  std::vector<std::string> needed;         ///< CUDA libraries that the module is linked to, from its ELF header
  std::vector<std::string> built_by;       ///< CUDA releases that the artifacts name themselves: `12.8`
  std::string python_env;                  ///< environment whose paths build.ninja names
  bool built = false;                      ///< a module (.so) is there
  bool empty_set_mark = false;             ///< flashinfer_jit.log or generated/ directly below the version directory
  bool locked = false;                     ///< a lock file whose existence alone locks
  std::int64_t modified = 0;               ///< newest mtime, seconds since the epoch
  std::uint64_t size_bytes = 0;
  FieldReasons unknown;                    ///< e.g. targets: "build.ninja is a link that leaves the cache"
  friend bool operator==(const JitCache&, const JitCache&) = default;
};

/// A directory in which the loader or the linker looks for libraries: one that a consumer's LD_LIBRARY_PATH names, or
/// one of the system's own.
struct LibraryDir {
  std::string path;                        ///< as it is named
  std::string resolved;                    ///< links followed; empty: no such directory
  bool system = false;                     ///< the loader looks there without being told
  std::map<std::string, std::string> libraries;  ///< CUDA libraries: name -> the file that it leads to, `libcublas.so.12.4.5.8`
  FieldReasons unknown;
  friend bool operator==(const LibraryDir&, const LibraryDir&) = default;
};

/// A log line that a signature of the playbook matched.
struct JournalLine {
  std::string signature;                   ///< id of the Signature
  std::string source;                      ///< `kernel`, `systemd`, `unit`
  std::string unit;                        ///< empty for kernel lines
  std::int64_t time = 0;                   ///< seconds since the epoch
  std::string text;                        ///< redacted, cut at 400 bytes
  friend bool operator==(const JournalLine&, const JournalLine&) = default;
};

/// An installed package of the distribution that has to do with GPUs, containers or kernels.
struct SystemPackage {
  std::string name;
  std::string version;                     ///< with its revision, as the package manager has it
  bool held = false;                       ///< it is kept at this version
  friend bool operator==(const SystemPackage&, const SystemPackage&) = default;
};

/// An installed kernel.
struct Kernel {
  std::string release;                     ///< `uname -r` of it
  bool running = false;
  bool nvidia_module = false;              ///< a module of the NVIDIA driver is installed for it
  bool headers = false;                    ///< what DKMS needs to build one
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

/// What changes packages without being asked.
struct Updates {
  std::string automatic;                   ///< program that installs updates by itself: `unattended-upgrades`, ...; empty: none
  std::vector<std::string> excluded;       ///< patterns of packages that it leaves alone
  std::vector<std::string> driver_history; ///< its changes of driver packages, from the package manager's log
  FieldReasons unknown;
  friend bool operator==(const Updates&, const Updates&) = default;
};

/// A container, as its engine describes it.
struct Container {
  std::string id;
  std::string name;
  std::string engine;                      ///< `docker`
  std::string image;
  std::string state;                       ///< `running`, `exited`, ...
  std::int64_t started = 0;                ///< seconds since the epoch
  bool gpus = false;                       ///< it asked for GPUs
  bool gpu_devices = false;                ///< its device list names them (by hand or by CDI), so that systemd keeps them
  std::string cgroup_driver;               ///< `systemd`, `cgroupfs`
  std::vector<std::string> log;            ///< its last lines that a signature knows: `SIGNATURE: TEXT`
  FieldReasons unknown;
  friend bool operator==(const Container&, const Container&) = default;
};

/// How the boot before this one ended.
struct PreviousBoot {
  std::string source;                      ///< where that is read: `journal`, `/var/log/kern.log`
  std::optional<bool> clean;               ///< it ended by a shutdown; absent: not told
  std::string last;                        ///< its last kernel message, redacted
  std::vector<std::string> signatures;     ///< of its last 50 kernel messages those that a signature knows: `SIGNATURE: TEXT`
  FieldReasons unknown;
  friend bool operator==(const PreviousBoot&, const PreviousBoot&) = default;
};

/// What a run of `trueup apply` left on this host that is not settled: neither verified nor undone
/// (docs/host-state.md).
struct UnsettledRun {
  std::string id;
  std::string state;                       ///< `running`, `interrupted`, `applied`, `stuck`
  std::string plan;
  std::string by;                          ///< user@controller
  std::int64_t started = 0;                ///< by the host's clock, seconds since the epoch; 0: its journal is empty
  std::string why;                         ///< step and reason of what went wrong last; empty: nothing did
  friend bool operator==(const UnsettledRun&, const UnsettledRun&) = default;
};

/// All sections. Sections stand in the order in which `trueup facts` prints them.
struct Environment {
  Fact<HostInfo> host;
  Fact<Os> os;
  Fact<Memory> memory;
  Fact<std::vector<Disk>> disks;
  Fact<Driver> driver;
  Fact<std::vector<Gpu>> gpus;
  Fact<std::vector<Toolkit>> toolkits;
  Fact<std::vector<CudaLink>> cuda_links;
  Fact<std::vector<Tool>> tools;
  Fact<std::vector<PythonEnv>> python_envs;
  Fact<std::vector<Service>> services;
  Fact<std::vector<GpuProcess>> processes;
  Fact<Login> login;
  Fact<std::vector<JitCache>> caches;
  Fact<std::vector<LibraryDir>> library_dirs;
  Fact<std::vector<JournalLine>> journal;
  Fact<std::vector<SystemPackage>> packages;
  Fact<std::vector<Kernel>> kernels;
  Fact<Updates> updates;
  Fact<std::vector<Container>> containers;
  Fact<PreviousBoot> previous_boot;
  Fact<std::vector<UnsettledRun>> runs;
  friend bool operator==(const Environment&, const Environment&) = default;
};

/// Version of the JSON form; grows when a field changes its meaning.
inline constexpr int kEnvironmentSchema = 1;

/// Names of all sections, in order.
const std::vector<std::string>& environment_sections();

nlohmann::json environment_to_json(const Environment& environment);

/// Errors: a section or field that has the wrong type, with its place; a schema this release does not know. A missing
/// section is unknown ("not in the facts"), a missing field has its default, unknown fields (of newer facts) are passed
/// over.
Result<Environment> environment_from_json(const nlohmann::json& document);

/// Sets section `name` from the JSON that a probe's parser gave. Errors: no such section; a value that does not fit,
/// with its place ("gpus[3].compute_cap: expected a version, got 'N/A'"); a field that no such record has. Fields that
/// are missing or null keep their defaults. On error the section is unknown with that reason.
Result<void> set_section(Environment& environment, std::string_view name, const nlohmann::json& value);
void set_section_absent(Environment& environment, std::string_view name);
void set_section_unknown(Environment& environment, std::string_view name, std::string reason);

}  // namespace trueup
