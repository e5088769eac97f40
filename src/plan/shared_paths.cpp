#include "plan/shared_paths.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "derive/host_view.hpp"

namespace trueup {
namespace {

constexpr std::string_view kPath = "path ";  // what objects that are paths begin with

bool is_network(std::string_view fstype) {
  constexpr std::array<std::string_view, 16> kTypes = {"nfs",    "nfs4",   "cifs",        "smb3",      "smbfs",  "ceph",
                                                       "lustre", "gpfs",   "glusterfs",   "beegfs",    "9p",     "afs",
                                                       "wekafs", "fuse.ceph", "fuse.sshfs", "fuse.glusterfs"};
  return std::find(kTypes.begin(), kTypes.end(), fstype) != kTypes.end();
}

bool is_below(std::string_view path, std::string_view mount) {
  if (mount == "/") return true;
  return path.starts_with(mount) && (path.size() == mount.size() || path[mount.size()] == '/');
}

/// Kind and place of a step's object; empty: it is no path, or one of the host's own.
std::string place_of(const WantedStep& step, const Environment& environment) {
  const auto object = step.kind->object(step.params);
  if (!object.starts_with(kPath)) return {};
  return shared_place(environment, object.substr(kPath.size()));
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
  if (nearest == nullptr || !is_network(nearest->fstype)) return {};
  auto below = path.substr(nearest->mount == "/" ? 0 : nearest->mount.size());
  auto device = nearest->device;
  while (device.ends_with('/')) device.pop_back();
  return device + below;
}

std::map<std::size_t, SharedStep> SharedPlaces::done_before(const PlanDraft& draft,
                                                            const Environment& environment) const {
  std::map<std::size_t, SharedStep> done;
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    const auto& step = draft.steps[i];
    const auto place = place_of(step, environment);
    const auto first = first_.find(key_of(step, place));
    if (place.empty() || first == first_.end()) continue;
    done[i] = {std::string(step.kind->name()), step.kind->object(step.params).substr(kPath.size()), place, first->second};
  }
  return done;
}

void SharedPlaces::take(const HostPlan& plan, const PlanDraft& draft, const Environment& environment) {
  for (const auto& step : draft.steps) {
    const auto place = place_of(step, environment);
    if (place.empty()) continue;
    const auto params = step.params.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    const bool does_it = std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& planned) {
      return planned.kind == step.kind->name() && planned.params == params;
    });
    if (does_it) first_.emplace(key_of(step, place), plan.name);
  }
}

}  // namespace trueup
