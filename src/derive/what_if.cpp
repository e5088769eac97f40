#include "derive/what_if.hpp"

#include <algorithm>

namespace trueup {
namespace {

void apply(Environment& environment, const SetVariable& change) {
  if (!environment.services.is_known()) return;
  for (auto& service : *environment.services) {
    if (service.unit != change.unit) continue;
    service.unit_env[change.name] = change.value;
    if (service.process_env) (*service.process_env)[change.name] = change.value;
  }
}

void apply(Environment& environment, const AddToolkit& change) {
  if (environment.toolkits.is_unknown()) return;
  auto toolkits = environment.toolkits.value_or({});
  std::erase_if(toolkits, [&](const Toolkit& each) { return each.path == change.toolkit.path; });
  toolkits.push_back(change.toolkit);
  environment.toolkits = std::move(toolkits);
}

void apply(Environment& environment, const RemoveCache& change) {
  if (!environment.caches.is_known()) return;
  std::erase_if(*environment.caches, [&](const JitCache& cache) {
    return cache.path == change.path || cache.path.starts_with(change.path + "/");
  });
}

}  // namespace

Environment with_change(Environment environment, const Change& change) {
  std::visit([&](const auto& each) { apply(environment, each); }, change);
  return environment;
}

}  // namespace trueup
