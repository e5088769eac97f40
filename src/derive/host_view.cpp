#include "derive/host_view.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace trueup {
namespace {

std::string parent(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == path.npos ? std::string() : std::string(path.substr(0, slash));
}

// Merged /usr: /bin and /sbin are links into it on every system that runs a current CUDA.
std::string same_directory(std::string_view directory) {
  auto clean = clean_path(directory);
  return clean == "/bin" || clean == "/sbin" ? "/usr" + clean : clean;
}

bool holds(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

}  // namespace

std::string clean_path(std::string_view path) {
  std::string clean = path.starts_with('/') ? "/" : "";
  for (const auto part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (!clean.empty() && clean.back() != '/') clean += '/';
    clean += part;
  }
  return clean;
}

std::optional<std::string> variable(const Variables& env, const std::string& name) {
  const auto found = env.find(name);
  return found == env.end() ? std::nullopt : std::optional(found->second);
}

std::string date_text(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::string why_unknown(const FieldReasons& reasons, const std::string& field) {
  const auto found = reasons.find(field);
  return found == reasons.end() ? std::string() : found->second;
}

std::string HostView::resolved(std::string_view path) const {
  const auto clean = clean_path(path);
  for (const auto& toolkit : items(environment_.toolkits))
    if (holds(toolkit.reached_by, clean)) return toolkit.path;
  for (const auto& link : items(environment_.cuda_links)) {
    if (clean == link.path) return link.resolved;
    if (!link.resolved.empty() && clean.starts_with(link.path + "/"))
      return link.resolved + clean.substr(link.path.size());
  }
  return clean;
}

const Toolkit* HostView::toolkit_at(std::string_view path) const {
  if (!environment_.toolkits.is_known()) return nullptr;
  auto real = resolved(path);
  if (real.empty() || real == "/") real = clean_path(path).empty() || real == "/" ? "/usr" : real;  // /bin is /usr/bin
  for (const auto& toolkit : *environment_.toolkits)
    if (toolkit.path == real) return &toolkit;
  return nullptr;
}

const Tool* HostView::tool(std::string_view path) const {
  if (!environment_.tools.is_known()) return nullptr;
  const auto found = std::find_if(environment_.tools->begin(), environment_.tools->end(),
                                  [&](const Tool& each) { return each.path == path; });
  return found == environment_.tools->end() ? nullptr : &*found;
}

LibraryFile::LibraryFile(const LibraryDir& directory, const std::string& library) {
  const auto found = directory.libraries.find(library);
  exists = found != directory.libraries.end();
  if (!exists || found->second == library) return;
  const auto& file = found->second;
  const auto so = file.find(".so.");
  if (so == file.npos) return;
  if (auto told = Version::parse(file.substr(so + 4))) version = *std::move(told);
}

const LibraryDir* HostView::library_dir(std::string_view path) const {
  for (const auto& directory : items(environment_.library_dirs))
    if (!path.empty() && clean_path(directory.path) == clean_path(path)) return &directory;
  return nullptr;
}

Nvcc HostView::nvcc_at(const std::string& root) const {
  Nvcc nvcc;
  nvcc.path = (root == "/" ? "" : root) + "/bin/nvcc";
  nvcc.toolkit = toolkit_at(root);
  if (const auto* toolkit = nvcc.toolkit; toolkit != nullptr && toolkit->has_nvcc) {
    nvcc.exists = true;
    nvcc.executable = toolkit->nvcc_executable;
    nvcc.version = toolkit->version;
    nvcc.version_source = toolkit->version_source;
    if (const auto why = why_unknown(toolkit->unknown, "version"); !nvcc.version && !why.empty())
      nvcc.unknown = fmt::format("the version of {} is unknown: {}", nvcc.path, why);
    return nvcc;
  }
  // A link to nvcc in another bin directory: a compiler, though no toolkit lies around it.
  if (const auto* link = tool(nvcc.path); link != nullptr) {
    nvcc.exists = nvcc.executable = true;
    nvcc.version = link->version;
    nvcc.version_source = "nvcc";
    if (!nvcc.version) {
      const auto why = why_unknown(link->unknown, "version");
      nvcc.unknown = fmt::format("the version of {} is unknown{}", nvcc.path, why.empty() ? "" : ": " + why);
    }
    return nvcc;
  }
  for (const auto& python : items(environment_.python_envs))
    if (python.path == clean_path(root) && holds(python.bin, "nvcc")) {
      nvcc.exists = nvcc.executable = true;
      nvcc.unknown = fmt::format("the version of {} was not asked", nvcc.path);
      return nvcc;
    }
  if (environment_.toolkits.is_unknown())
    nvcc.unknown = fmt::format("the host's toolkits are unknown: {}", environment_.toolkits.reason());
  return nvcc;
}

Told<std::optional<Version>> HostView::ptxas_at(std::string_view path) const {
  if (const auto root = parent(parent(path)); !root.empty())
    if (const auto* toolkit = toolkit_at(root); toolkit != nullptr) {
      if (holds(toolkit->lacks, "bin/ptxas")) return {std::nullopt, {}};
      if (toolkit->version) return {toolkit->version, {}};
    }
  return {std::nullopt, fmt::format("{} lies in no toolkit whose version is known", path)};
}

Told<std::string> HostView::program(std::string_view name, std::string_view search_path) const {
  const bool nvcc = name == "nvcc";
  std::string not_seen;
  for (const auto entry : split(search_path, ':')) {
    const auto directory = clean_path(entry);
    if (!directory.starts_with('/')) continue;  // relative to a working directory that is not ours to guess
    if (!was_looked_into(directory)) not_seen = directory;
    const auto here = directory + "/" + std::string(name);
    for (const auto& each : items(environment_.tools))
      if (each.name == name && same_directory(parent(each.path)) == same_directory(directory)) return {here, {}};
    for (const auto& python : items(environment_.python_envs))
      if (holds(python.bin, name) && python.path + "/bin" == directory) return {here, {}};
    if (nvcc && same_directory(directory).ends_with("/bin"))
      if (const auto* toolkit = toolkit_at(parent(same_directory(directory)));
          toolkit != nullptr && toolkit->has_nvcc && toolkit->nvcc_executable)
        return {here, {}};
  }
  if (nvcc && environment_.toolkits.is_unknown())
    return {{}, fmt::format("the host's toolkits are unknown: {}", environment_.toolkits.reason())};
  if (environment_.tools.is_unknown())
    return {{}, fmt::format("the programs on PATH are unknown: {}", environment_.tools.reason())};
  // A compiler elsewhere would be rare; of the small programs any directory may hold one.
  if (!nvcc && !not_seen.empty())
    return {{}, fmt::format("{} was found nowhere, and {} on PATH was not looked into", name, not_seen)};
  return {};
}

bool HostView::was_looked_into(std::string_view directory) const {
  for (const auto standard : split(kDefaultPath, ':'))
    if (directory == standard) return true;
  for (const auto& tool : items(environment_.tools))
    if (parent(tool.path) == directory) return true;
  if (!directory.ends_with("/bin")) return false;
  const auto prefix = parent(directory);
  for (const auto& python : items(environment_.python_envs))
    if (python.path == prefix) return true;
  if (resolved(prefix) != prefix || toolkit_at(prefix) != nullptr) return true;
  // What is not there was looked for: /usr/local/cuda, /usr/local/cuda-*, /opt/cuda*.
  return environment_.toolkits.is_known() &&
         (prefix == kDefaultToolkit ||
          (parent(prefix) == "/usr/local" && prefix.starts_with(fmt::format("{}-", kDefaultToolkit))) ||
          (parent(prefix) == "/opt" && prefix.starts_with("/opt/cuda")));
}

namespace {

struct Device {
  std::string uuid;
  Version compute_cap;
};

// CUDA_VISIBLE_DEVICES as the driver reads it: a list of ordinals and UUID prefixes that ends at the first entry that
// names no device. (CUDA C++ Programming Guide, "Environment Variables".)
Told<std::vector<Device>> select_devices(const std::vector<Device>& all, std::string_view list, bool order_known) {
  std::vector<Device> seen;
  for (const auto part : split(list, ',')) {
    const auto entry = trim(part);
    if (entry.starts_with("MIG-")) {
      const bool alike = std::all_of(
          all.begin(), all.end(), [&](const Device& device) { return device.compute_cap == all.front().compute_cap; });
      if (!alike) return {{}, "CUDA_VISIBLE_DEVICES names a MIG instance, and the host's GPUs differ"};
      seen.push_back(all.front());
      continue;
    }
    if (entry.starts_with("GPU-")) {
      std::vector<Device> hits;
      std::copy_if(all.begin(), all.end(), std::back_inserter(hits),
                   [&](const Device& device) { return device.uuid.starts_with(entry); });
      if (hits.size() != 1) break;
      seen.push_back(hits.front());
      continue;
    }
    int ordinal = -1;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
    if (error != std::errc() || end != entry.data() + entry.size() || ordinal < 0 ||
        static_cast<std::size_t>(ordinal) >= all.size())
      break;
    if (!order_known)
      return {{}, "CUDA_VISIBLE_DEVICES selects by number among different GPUs, whose order CUDA decides by speed"};
    seen.push_back(all[static_cast<std::size_t>(ordinal)]);
  }
  return {seen, {}};
}

}  // namespace

VisibleGpus HostView::visible_gpus(const Variables& env) const {
  VisibleGpus visible;
  if (environment_.gpus.is_unknown()) {
    visible.unknown = fmt::format("the host's GPUs are unknown: {}", environment_.gpus.reason());
    return visible;
  }
  const auto selected = variable(env, "CUDA_VISIBLE_DEVICES");
  std::vector<Device> devices;
  std::string names;
  for (const auto& gpu : items(environment_.gpus)) {
    if (gpu.kernel_driver != "nvidia" && !gpu.kernel_driver.empty()) continue;  // passed through, or another driver's
    const auto compute_cap = gpu.compute_cap ? gpu.compute_cap : knowledge_.product_compute_cap(gpu.name);
    if (!compute_cap) {
      visible.unknown = fmt::format("the compute capability of GPU {} ({}) is unknown", gpu.pci, gpu.name);
      return visible;
    }
    if (names.empty()) names = gpu.name;
    devices.push_back({gpu.uuid, *compute_cap});
  }
  const bool alike = std::all_of(devices.begin(), devices.end(), [&](const Device& device) {
    return device.compute_cap == devices.front().compute_cap;
  });
  const bool by_pci = variable(env, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID";
  if (selected) {
    auto chosen = select_devices(devices, *selected, alike || by_pci);
    visible.unknown = chosen.unknown;
    devices = std::move(chosen.value);
  }
  std::vector<std::pair<Version, int>> counts;
  for (const auto& device : devices) {
    visible.compute_caps.push_back(device.compute_cap);
    if (counts.empty() || counts.back().first != device.compute_cap) counts.emplace_back(device.compute_cap, 0);
    ++counts.back().second;
  }
  std::vector<std::string> parts;
  for (const auto& [compute_cap, count] : counts)
    parts.push_back(fmt::format("{} x compute capability {}", count, compute_cap.text()));
  visible.how = parts.empty() ? "no GPU" : join(parts, ", then ");
  if (counts.size() == 1 && !names.empty()) visible.how += fmt::format(" ({})", names);
  if (selected) visible.how += fmt::format("; CUDA_VISIBLE_DEVICES={}", *selected);
  if (counts.size() > 1 && !by_pci)
    visible.how += " (nvidia-smi's order; CUDA puts the fastest first where CUDA_DEVICE_ORDER is not PCI_BUS_ID)";
  return visible;
}

Told<std::optional<Version>> HostView::first_listed_gpu() const {
  if (environment_.gpus.is_unknown())
    return {std::nullopt, fmt::format("the host's GPUs are unknown: {}", environment_.gpus.reason())};
  const Gpu* first = nullptr;
  for (const auto& gpu : items(environment_.gpus))
    if (gpu.index >= 0 && (first == nullptr || gpu.index < first->index)) first = &gpu;
  if (first == nullptr) return {};
  auto compute_cap = first->compute_cap ? first->compute_cap : knowledge_.product_compute_cap(first->name);
  if (!compute_cap)
    return {std::nullopt, fmt::format("the compute capability of GPU {} ({}) is unknown", first->pci, first->name)};
  return {std::move(compute_cap), {}};
}

Told<Version> HostView::driver() const {
  if (environment_.driver.is_unknown())
    return {{}, fmt::format("the driver is unknown: {}", environment_.driver.reason())};
  if (!environment_.driver.is_known()) return {{}, "the host has no NVIDIA driver"};
  const auto& driver = *environment_.driver;
  if (driver.loaded) return {*driver.loaded, {}};
  // WSL has no kernel module of its own: the library is the driver.
  std::optional<Version> newest;
  if (environment_.host.is_known() && environment_.host->virtualization == "wsl")
    for (const auto& text : driver.library_versions)
      if (const auto version = Version::parse(text); version && (!newest || *newest < *version)) newest = *version;
  if (newest) return {*newest, {}};
  if (const auto why = why_unknown(driver.unknown, "loaded"); !why.empty())
    return {{}, fmt::format("the loaded driver is unknown: {}", why)};
  return {{}, "no NVIDIA kernel module is loaded"};
}

}  // namespace trueup
