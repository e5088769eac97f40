#include "derive/what_if.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "derive/consumers.hpp"

namespace trueup {
namespace {

void set(Variables& variables, const SetVariable& change) {
  if (change.value)
    variables[change.name] = *change.value;
  else
    variables.erase(change.name);
}

void restart(Service& service) {
  service.process_env.reset();
  service.main_pid = 0;
  service.unknown.erase("process_env");
}

void apply(Environment& environment, const Restart& change) {
  if (!environment.services.is_known()) return;
  for (auto& service : *environment.services)
    if (service.unit == change.unit) restart(service);
}

void apply(Environment& environment, const SetVariable& change) {
  if (environment.services.is_known())
    for (auto& service : *environment.services) {
      if (consumer_id(service) != change.consumer) continue;
      set(service.unit_env, change);
      if (!service.unknown.contains("unit_env"))
        restart(service);
      else if (service.process_env)
        set(*service.process_env, change);
    }
  if (environment.processes.is_known())
    for (auto& process : *environment.processes)
      if (consumer_id(process) == change.consumer) set(process.env, change);
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

// Names that lead through the link, such as /usr/local/cuda-12 by way of it, are not known to us and stay.
void apply(Environment& environment, const MoveLink& change) {
  if (environment.cuda_links.is_known())
    for (auto& link : *environment.cuda_links)
      if (link.path == change.link) link.target = link.resolved = change.toolkit;
  if (!environment.toolkits.is_known()) return;
  for (auto& toolkit : *environment.toolkits) {
    std::erase(toolkit.reached_by, change.link);
    if (toolkit.path == change.toolkit) toolkit.reached_by.push_back(change.link);
  }
}

PythonEnv* find_python(Environment& environment, const std::string& path) {
  if (!environment.python_envs.is_known()) return nullptr;
  for (auto& python : *environment.python_envs)
    if (python.path == path) return &python;
  return nullptr;
}

void apply(Environment& environment, const RemoveGate& change) {
  if (auto* python = find_python(environment, change.python_env)) python->flashinfer_gate = "none";
}

void apply(Environment& environment, const UseTorchBuild& change) {
  auto* python = find_python(environment, change.python_env);
  if (python == nullptr) return;
  python->torch_cuda = change.cuda.text();
  for (auto& package : python->packages)
    if (package.name == "torch")
      package.version = fmt::format("{}+cu{}{}", package.version.substr(0, package.version.find('+')),
                                    change.cuda.major(), change.cuda.minor());
}

void apply(Environment& environment, const UseDriver& change) {
  if (!environment.driver.is_known()) return;
  auto& driver = *environment.driver;
  driver.loaded = change.version;
  driver.on_disk = change.version;
  driver.library_versions = {change.version.text()};
}

}  // namespace

std::vector<DeclaredConsumer> with_change(std::vector<DeclaredConsumer> declared, const Change& change) {
  if (const auto* variable = std::get_if<SetVariable>(&change))
    for (auto& consumer : declared)
      if ("declared " + consumer.name == variable->consumer) set(consumer.env, *variable);
  return declared;
}

Environment with_change(Environment environment, const Change& change) {
  std::visit([&](const auto& each) { apply(environment, each); }, change);
  return environment;
}

}  // namespace trueup
