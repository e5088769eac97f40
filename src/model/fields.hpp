#pragma once

#include <tuple>

#include "trueup/derived.hpp"
#include "trueup/environment.hpp"

// The one table of JSON names: each record's fields in the order of its struct. Reading, writing and the shape that
// expressions are linted against all follow from it.

namespace trueup {

template <class Record, class T>
struct Field {
  const char* name;
  T Record::*member;
};
template <class Record, class T>
Field(const char*, T Record::*) -> Field<Record, T>;

template <class Record>
struct Fields;  // has `list`, a tuple of Field; only records have one

template <class T>
concept IsRecord = requires {
  Fields<T>::list;
};

template <>
struct Fields<HostInfo> {
  using R = HostInfo;
  static constexpr auto list = std::tuple{Field{"hostname", &R::hostname},
                                          Field{"kernel", &R::kernel},
                                          Field{"arch", &R::arch},
                                          Field{"boot_id", &R::boot_id},
                                          Field{"virtualization", &R::virtualization},
                                          Field{"clock", &R::clock},
                                          Field{"uptime_s", &R::uptime_s},
                                          Field{"units_loaded", &R::units_loaded},
                                          Field{"cpus", &R::cpus},
                                          Field{"user", &R::user},
                                          Field{"uid", &R::uid}};
};

template <>
struct Fields<Os> {
  using R = Os;
  static constexpr auto list = std::tuple{Field{"id", &R::id}, Field{"version", &R::version},
                                          Field{"pretty_name", &R::pretty_name}, Field{"glibc", &R::glibc}};
};

template <>
struct Fields<Memory> {
  using R = Memory;
  static constexpr auto list =
      std::tuple{Field{"total_bytes", &R::total_bytes}, Field{"available_bytes", &R::available_bytes},
                 Field{"swap_total_bytes", &R::swap_total_bytes}, Field{"swap_free_bytes", &R::swap_free_bytes}};
};

template <>
struct Fields<Disk> {
  using R = Disk;
  static constexpr auto list = std::tuple{Field{"mount", &R::mount},           Field{"device", &R::device},
                                          Field{"fstype", &R::fstype},         Field{"options", &R::options},
                                          Field{"size_bytes", &R::size_bytes}, Field{"free_bytes", &R::free_bytes},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<CompatLibrary> {
  using R = CompatLibrary;
  static constexpr auto list =
      std::tuple{Field{"version", &R::version}, Field{"directory", &R::directory}, Field{"libcuda", &R::libcuda}};
};

template <>
struct Fields<Driver> {
  using R = Driver;
  static constexpr auto list = std::tuple{Field{"loaded", &R::loaded},
                                          Field{"on_disk", &R::on_disk},
                                          Field{"flavour", &R::flavour},
                                          Field{"library_versions", &R::library_versions},
                                          Field{"nvidia_smi", &R::nvidia_smi},
                                          Field{"nvidia_smi_error", &R::nvidia_smi_error},
                                          Field{"libcuda", &R::libcuda},
                                          Field{"compat", &R::compat},
                                          Field{"loader_files", &R::loader_files},
                                          Field{"nvswitches", &R::nvswitches},
                                          Field{"fabric_manager", &R::fabric_manager},
                                          Field{"device_links", &R::device_links},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<Gpu> {
  using R = Gpu;
  static constexpr auto list = std::tuple{Field{"index", &R::index},
                                          Field{"pci", &R::pci},
                                          Field{"uuid", &R::uuid},
                                          Field{"name", &R::name},
                                          Field{"compute_cap", &R::compute_cap},
                                          Field{"memory_bytes", &R::memory_bytes},
                                          Field{"kernel_driver", &R::kernel_driver},
                                          Field{"persistence_mode", &R::persistence_mode},
                                          Field{"mig_mode", &R::mig_mode},
                                          Field{"mig_devices", &R::mig_devices},
                                          Field{"ecc_uncorrected", &R::ecc_uncorrected},
                                          Field{"remap_pending", &R::remap_pending},
                                          Field{"remap_failure", &R::remap_failure},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<Toolkit> {
  using R = Toolkit;
  static constexpr auto list = std::tuple{Field{"path", &R::path},
                                          Field{"reached_by", &R::reached_by},
                                          Field{"kind", &R::kind},
                                          Field{"version", &R::version},
                                          Field{"version_source", &R::version_source},
                                          Field{"has_nvcc", &R::has_nvcc},
                                          Field{"nvcc_executable", &R::nvcc_executable},
                                          Field{"lacks", &R::lacks},
                                          Field{"max_gcc", &R::max_gcc},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<CudaLink> {
  using R = CudaLink;
  static constexpr auto list = std::tuple{Field{"path", &R::path}, Field{"target", &R::target},
                                          Field{"resolved", &R::resolved}, Field{"changed", &R::changed}};
};

template <>
struct Fields<Tool> {
  using R = Tool;
  static constexpr auto list = std::tuple{Field{"name", &R::name}, Field{"path", &R::path},
                                          Field{"version", &R::version}, Field{"unknown", &R::unknown}};
};

template <>
struct Fields<PythonPackage> {
  using R = PythonPackage;
  static constexpr auto list =
      std::tuple{Field{"name", &R::name}, Field{"version", &R::version}, Field{"installed", &R::installed}};
};

template <>
struct Fields<PythonLink> {
  using R = PythonLink;
  static constexpr auto list = std::tuple{Field{"file", &R::file}, Field{"needs", &R::needs}};
};

template <>
struct Fields<PythonEnv> {
  using R = PythonEnv;
  static constexpr auto list = std::tuple{Field{"path", &R::path},
                                          Field{"site_packages", &R::site_packages},
                                          Field{"python", &R::python},
                                          Field{"owner", &R::owner},
                                          Field{"packages", &R::packages},
                                          Field{"torch_cuda", &R::torch_cuda},
                                          Field{"flashinfer_gate", &R::flashinfer_gate},
                                          Field{"ptxas", &R::ptxas},
                                          Field{"links", &R::links},
                                          Field{"bin", &R::bin},
                                          Field{"python_h", &R::python_h},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<CacheDir> {
  using R = CacheDir;
  static constexpr auto list = std::tuple{Field{"kind", &R::kind},
                                          Field{"exists", &R::exists},
                                          Field{"writable", &R::writable},
                                          Field{"read_only", &R::read_only},
                                          Field{"noexec", &R::noexec},
                                          Field{"over_quota", &R::over_quota},
                                          Field{"mount", &R::mount},
                                          Field{"path", &R::path}};
};

template <>
struct Fields<OverriddenVariable> {
  using R = OverriddenVariable;
  static constexpr auto list = std::tuple{Field{"name", &R::name}, Field{"file", &R::file},
                                          Field{"set_in", &R::set_in}, Field{"value", &R::value}};
};

template <>
struct Fields<Service> {
  using R = Service;
  static constexpr auto list = std::tuple{Field{"unit", &R::unit},
                                          Field{"manager", &R::manager},
                                          Field{"state", &R::state},
                                          Field{"sub_state", &R::sub_state},
                                          Field{"result", &R::result},
                                          Field{"exit_code", &R::exit_code},
                                          Field{"exit_status", &R::exit_status},
                                          Field{"restarts", &R::restarts},
                                          Field{"main_pid", &R::main_pid},
                                          Field{"user", &R::user},
                                          Field{"home", &R::home},
                                          Field{"exec", &R::exec},
                                          Field{"command", &R::command},
                                          Field{"python_env", &R::python_env},
                                          Field{"drop_ins", &R::drop_ins},
                                          Field{"unit_env", &R::unit_env},
                                          Field{"overridden", &R::overridden},
                                          Field{"process_env", &R::process_env},
                                          Field{"stale", &R::stale},
                                          Field{"settings", &R::settings},
                                          Field{"libcuda", &R::libcuda},
                                          Field{"groups", &R::groups},
                                          Field{"denied", &R::denied},
                                          Field{"cache_dirs", &R::cache_dirs},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<GpuProcess> {
  using R = GpuProcess;
  static constexpr auto list = std::tuple{Field{"pid", &R::pid},
                                          Field{"uid", &R::uid},
                                          Field{"user", &R::user},
                                          Field{"exe", &R::exe},
                                          Field{"command", &R::command},
                                          Field{"cgroup", &R::cgroup},
                                          Field{"parent", &R::parent},
                                          Field{"container", &R::container},
                                          Field{"scope", &R::scope},
                                          Field{"memory_bytes", &R::memory_bytes},
                                          Field{"libcuda", &R::libcuda},
                                          Field{"python_env", &R::python_env},
                                          Field{"gpus", &R::gpus},
                                          Field{"env", &R::env},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<Login> {
  using R = Login;
  static constexpr auto list = std::tuple{Field{"user", &R::user},
                                          Field{"shell", &R::shell},
                                          Field{"libcuda", &R::libcuda},
                                          Field{"variables", &R::variables}};
};

template <>
struct Fields<JitCache> {
  using R = JitCache;
  static constexpr auto list = std::tuple{Field{"kind", &R::kind},
                                          Field{"path", &R::path},
                                          Field{"owner", &R::owner},
                                          Field{"writable_by", &R::writable_by},
                                          Field{"version", &R::version},
                                          Field{"archs", &R::archs},
                                          Field{"op", &R::op},
                                          Field{"cuda_home", &R::cuda_home},
                                          Field{"targets", &R::targets},
                                          Field{"needed", &R::needed},
                                          Field{"built_by", &R::built_by},
                                          Field{"python_env", &R::python_env},
                                          Field{"built", &R::built},
                                          Field{"empty_set_mark", &R::empty_set_mark},
                                          Field{"locked", &R::locked},
                                          Field{"modified", &R::modified},
                                          Field{"size_bytes", &R::size_bytes},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<LibraryDir> {
  using R = LibraryDir;
  static constexpr auto list =
      std::tuple{Field{"path", &R::path}, Field{"resolved", &R::resolved}, Field{"system", &R::system},
                 Field{"libraries", &R::libraries}, Field{"unknown", &R::unknown}};
};

template <>
struct Fields<JournalLine> {
  using R = JournalLine;
  static constexpr auto list = std::tuple{Field{"signature", &R::signature}, Field{"source", &R::source},
                                          Field{"unit", &R::unit}, Field{"time", &R::time}, Field{"text", &R::text}};
};

template <>
struct Fields<SystemPackage> {
  using R = SystemPackage;
  static constexpr auto list = std::tuple{Field{"name", &R::name},
                                          Field{"version", &R::version},
                                          Field{"held", &R::held}};
};

template <>
struct Fields<Kernel> {
  using R = Kernel;
  static constexpr auto list = std::tuple{Field{"release", &R::release},
                                          Field{"running", &R::running},
                                          Field{"nvidia_module", &R::nvidia_module},
                                          Field{"headers", &R::headers}};
};

template <>
struct Fields<Updates> {
  using R = Updates;
  static constexpr auto list = std::tuple{Field{"automatic", &R::automatic},
                                          Field{"excluded", &R::excluded},
                                          Field{"driver_history", &R::driver_history},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<Container> {
  using R = Container;
  static constexpr auto list = std::tuple{Field{"id", &R::id},
                                          Field{"name", &R::name},
                                          Field{"engine", &R::engine},
                                          Field{"image", &R::image},
                                          Field{"state", &R::state},
                                          Field{"started", &R::started},
                                          Field{"gpus", &R::gpus},
                                          Field{"gpu_devices", &R::gpu_devices},
                                          Field{"cgroup_driver", &R::cgroup_driver},
                                          Field{"log", &R::log},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<PreviousBoot> {
  using R = PreviousBoot;
  static constexpr auto list = std::tuple{Field{"source", &R::source},
                                          Field{"clean", &R::clean},
                                          Field{"last", &R::last},
                                          Field{"signatures", &R::signatures},
                                          Field{"unknown", &R::unknown}};
};

template <>
struct Fields<UnsettledRun> {
  using R = UnsettledRun;
  static constexpr auto list = std::tuple{Field{"id", &R::id},
                                          Field{"state", &R::state},
                                          Field{"plan", &R::plan},
                                          Field{"by", &R::by},
                                          Field{"started", &R::started},
                                          Field{"why", &R::why}};
};

/// The sections, in the order in which `trueup facts` prints them.
template <>
struct Fields<Environment> {
  using R = Environment;
  static constexpr auto list = std::tuple{Field{"host", &R::host},
                                          Field{"os", &R::os},
                                          Field{"memory", &R::memory},
                                          Field{"disks", &R::disks},
                                          Field{"driver", &R::driver},
                                          Field{"gpus", &R::gpus},
                                          Field{"toolkits", &R::toolkits},
                                          Field{"cuda_links", &R::cuda_links},
                                          Field{"tools", &R::tools},
                                          Field{"python_envs", &R::python_envs},
                                          Field{"services", &R::services},
                                          Field{"processes", &R::processes},
                                          Field{"login", &R::login},
                                          Field{"caches", &R::caches},
                                          Field{"library_dirs", &R::library_dirs},
                                          Field{"journal", &R::journal},
                                          Field{"packages", &R::packages},
                                          Field{"kernels", &R::kernels},
                                          Field{"updates", &R::updates},
                                          Field{"containers", &R::containers},
                                          Field{"previous_boot", &R::previous_boot},
                                          Field{"runs", &R::runs}};
};

template <>
struct Fields<EnvDifference> {
  using R = EnvDifference;
  static constexpr auto list = std::tuple{Field{"name", &R::name}, Field{"login", &R::login}, Field{"unit", &R::unit},
                                          Field{"process", &R::process}};
};

template <>
struct Fields<Consumer> {
  using R = Consumer;
  static constexpr auto list = std::tuple{Field{"id", &R::id},
                                          Field{"kind", &R::kind},
                                          Field{"unit", &R::unit},
                                          Field{"user", &R::user},
                                          Field{"home", &R::home},
                                          Field{"python_env", &R::python_env},
                                          Field{"env_source", &R::env_source},
                                          Field{"env", &R::env},
                                          Field{"differences", &R::differences}};
};

template <>
struct Fields<Alternative> {
  using R = Alternative;
  static constexpr auto list =
      std::tuple{Field{"change", &R::change}, Field{"verdict", &R::verdict}, Field{"why", &R::why},
                 Field{"cuda", &R::cuda},     Field{"toolkit", &R::toolkit}, Field{"set", &R::set},
                 Field{"unset", &R::unset},   Field{"caches", &R::caches}};
};

template <>
struct Fields<Resolution> {
  using R = Resolution;
  static constexpr auto list = std::tuple{Field{"consumer", &R::consumer},
                                          Field{"unit", &R::unit},
                                          Field{"claimed", &R::claimed},
                                          Field{"python_env", &R::python_env},
                                          Field{"library", &R::library},
                                          Field{"library_version", &R::library_version},
                                          Field{"env_source", &R::env_source},
                                          Field{"root", &R::root},
                                          Field{"root_resolved", &R::root_resolved},
                                          Field{"rule", &R::rule},
                                          Field{"rule_detail", &R::rule_detail},
                                          Field{"compiler", &R::compiler},
                                          Field{"compiler_version", &R::compiler_version},
                                          Field{"better_toolkit", &R::better_toolkit},
                                          Field{"asked_version", &R::asked_version},
                                          Field{"asked_from", &R::asked_from},
                                          Field{"torch_cuda", &R::torch_cuda},
                                          Field{"gpus_cc", &R::gpus_cc},
                                          Field{"targets", &R::targets},
                                          Field{"dropped", &R::dropped},
                                          Field{"gate", &R::gate},
                                          Field{"gate_rule", &R::gate_rule},
                                          Field{"outcome", &R::outcome},
                                          Field{"reason", &R::reason},
                                          Field{"explanation", &R::explanation},
                                          Field{"evidence", &R::evidence},
                                          Field{"alternatives", &R::alternatives},
                                          Field{"next_start", &R::next_start},
                                          Field{"history", &R::history}};
};

template <>
struct Fields<CacheVerdict> {
  using R = CacheVerdict;
  static constexpr auto list = std::tuple{Field{"path", &R::path},
                                          Field{"kind", &R::kind},
                                          Field{"consumer", &R::consumer},
                                          Field{"unit", &R::unit},
                                          Field{"rule", &R::rule},
                                          Field{"outcome", &R::outcome},
                                          Field{"explanation", &R::explanation},
                                          Field{"evidence", &R::evidence}};
};

template <>
struct Fields<Shadow> {
  using R = Shadow;
  static constexpr auto list =
      std::tuple{Field{"consumer", &R::consumer},     Field{"unit", &R::unit},           Field{"claimed", &R::claimed},
                 Field{"python_env", &R::python_env}, Field{"directory", &R::directory}, Field{"library", &R::library},
                 Field{"found", &R::found},           Field{"package", &R::package},     Field{"shipped", &R::shipped},
                 Field{"outcome", &R::outcome}};
};

template <>
struct Fields<Derived> {
  using R = Derived;
  static constexpr auto list =
      std::tuple{Field{"consumers", &R::consumers}, Field{"resolutions", &R::resolutions}, Field{"caches", &R::caches},
                 Field{"shadows", &R::shadows}, Field{"cuda_versions", &R::cuda_versions}};
};

/// Calls `visit(field)` for each field of `Record`, in order.
template <class Record, class Visit>
void for_each_field(Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, Fields<Record>::list);
}

}  // namespace trueup
