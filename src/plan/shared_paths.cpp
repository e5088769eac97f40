#include "plan/shared_paths.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "derive/host_view.hpp"

namespace trueup {
namespace {

// Those whose device names the server. Others have a tag or a name that means something else on the next host (9p,
// virtiofs, beegfs, gpfs): there each host sees to its own, and finds it changed. Probes keep away from more than these
// (network_mounts in probe/consumers.sh), since any server may be gone.
bool names_its_server(const Disk& disk) {
  constexpr std::array<std::string_view, 10> kTypes = {"nfs",  "nfs4",      "cifs",           "smb3",       "smbfs",
                                                       "ceph", "glusterfs", "fuse.glusterfs", "fuse.sshfs", "lustre"};
  constexpr std::array<std::string_view, 3> kSelf = {"127.",
                                                     "localhost:", "[::1]"};  // a helper's, on each host another
  return std::find(kTypes.begin(), kTypes.end(), disk.fstype) != kTypes.end() &&
         std::none_of(kSelf.begin(), kSelf.end(), [&](std::string_view self) { return disk.device.starts_with(self); });
}

bool is_below(std::string_view path, std::string_view mount) {
  if (mount == "/") return true;
  return path.starts_with(mount) && (path.size() == mount.size() || path[mount.size()] == '/');
}

std::string key_of(const WantedStep& step, const std::string& place) {
  return std::string(step.kind->name()) + " " + place;
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
