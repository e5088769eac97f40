#include "plan/shared_paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "derive/host_view.hpp"

namespace trueup {
namespace {

// NFS alone: its device is the server's path, also where a directory below it is mounted (bind mounts of CephFS, Lustre
// or CIFS show the device of the whole). Where nobody knows, each host sees to its own, and finds it changed. Probes
// keep away from more file systems than this (network_mounts in probe/consumers.sh), since any server may be gone.
bool names_its_server(const Disk& disk) {
  constexpr std::array<std::string_view, 3> kSelf = {"127.",
                                                     "localhost:", "[::1]"};  // a helper's, on each host another
  return (disk.fstype == "nfs" || disk.fstype == "nfs4") &&
         std::none_of(kSelf.begin(), kSelf.end(), [&](std::string_view self) { return disk.device.starts_with(self); });
}

bool is_below(std::string_view path, std::string_view mount) {
  if (mount == "/") return true;
  return path.starts_with(mount) && (path.size() == mount.size() || path[mount.size()] == '/');
}

// What is to be done, and where, by whatever path a host sees it.
std::string key_of(const WantedStep& step, const std::string& place) {
  auto params = step.params;
  params.erase("path");
  return fmt::format("{} {} {}", step.kind->name(), place,
                     params.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace

std::string shared_place(const Environment& environment, const std::string& path) {
  const Disk* nearest = nullptr;
  for (const auto& disk : items(environment.disks))
    if (is_below(path, disk.mount) && (nearest == nullptr || disk.mount.size() >= nearest->mount.size()))
      nearest = &disk;
  if (path.empty() || nearest == nullptr || !names_its_server(*nearest)) return {};
  auto device = nearest->device;
  while (device.ends_with('/')) device.pop_back();
  return device + path.substr(nearest->mount == "/" ? 0 : nearest->mount.size());
}

std::map<std::size_t, SharedStep> SharedPlaces::done_before(const PlanDraft& draft,
                                                            const Environment& environment) const {
  std::map<std::size_t, SharedStep> done;
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    const auto& step = draft.steps[i];
    const auto path = step.kind->path(step.params);
    const auto place = shared_place(environment, path);
    if (place.empty()) continue;
    if (const auto first = first_.find(key_of(step, place)); first != first_.end())
      done[i] = {std::string(step.kind->name()), path, place, first->second};
  }
  return done;
}

void SharedPlaces::note(const std::string& host, const std::vector<std::size_t>& steps, const PlanDraft& draft,
                        const Environment& environment) {
  for (const auto i : steps) {
    const auto& step = draft.steps[i];
    if (const auto place = shared_place(environment, step.kind->path(step.params)); !place.empty())
      first_.emplace(key_of(step, place), host);
  }
}

}  // namespace trueup
