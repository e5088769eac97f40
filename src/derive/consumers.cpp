#include "derive/consumers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "derive/host_view.hpp"

namespace trueup {
namespace {

// `vllm.service` of /user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service/..., a unit of a user's own
// systemd; empty: the process belongs to none.
std::string user_unit(std::string_view cgroup) {
  constexpr std::string_view kManager = "/user@";
  const auto manager = cgroup.find(kManager);
  if (manager == cgroup.npos) return {};
  std::string unit;
  const auto parts = split(cgroup.substr(manager + 1), '/');
  for (std::size_t i = 1; i < parts.size(); ++i)  // the first is the manager itself
    if (parts[i].ends_with(".service"))
      unit = parts[i];
    else if (parts[i].ends_with(".scope"))  // a terminal's, a container's: what runs there is no part of the unit
      unit.clear();
  return unit;
}

class Claims {
 public:
  Claims(const Environment& environment, const std::vector<DeclaredConsumer>& declared) : environment_(environment) {
    for (const auto& service : items(environment.services)) add_service(service);
    for (const auto& process : items(environment.processes)) add_process(process);
    for (const auto& each : declared) add_declared(each);
    for (const auto& python : items(environment.python_envs))
      if (!claimed_.contains(python.path)) add_unclaimed(python);
  }

  std::vector<Claim> take() { return std::move(claims_); }

 private:
  void add_service(const Service& service) {
    const auto no_python = why_unknown(service.unknown, "python_env");
    if (service.python_env.empty() && no_python.empty()) return;
    const bool is_users = !service.manager.empty();
    Consumer consumer{consumer_id(service),
                      is_users ? "user_unit" : "service",
                      is_users ? std::string() : service.unit,
                      service.user,
                      service.home,
                      service.python_env,
                      "unit",
                      service.unit_env};
    std::string unknown;
    if (service.main_pid > 0 && service.process_env) {
      consumer.env = *service.process_env;
      consumer.env_source = "process";
    } else if (const auto no_env = why_unknown(service.unknown, "process_env");
               service.main_pid > 0 && !no_env.empty()) {
      unknown = fmt::format("the environment of the running process is unknown: {}", no_env);
    } else if (const auto no_unit = why_unknown(service.unknown, "unit_env"); !no_unit.empty()) {
      unknown = fmt::format("the unit's environment is unknown: {}", no_unit);
    }
    if (const auto home = variable(consumer.env, "HOME"); home && !home->empty()) consumer.home = *home;
    if (service.python_env.empty())
      unknown = fmt::format("the Python environment of the unit is unknown: {}", no_python);
    consumer.differences = differences(service);
    add(std::move(consumer), std::move(unknown));
  }

  std::vector<EnvDifference> differences(const Service& service) const {
    const auto* login = environment_.login.is_known() ? &environment_.login->variables : nullptr;
    const auto* unit = service.unknown.contains("unit_env") ? nullptr : &service.unit_env;
    const auto* process = service.process_env ? &*service.process_env : nullptr;
    std::set<std::string> names;
    for (const auto* each : {login, unit, process})
      if (each != nullptr)
        for (const auto& [name, value] : *each) names.insert(name);
    std::vector<EnvDifference> found;
    for (const auto& name : names) {
      const auto value = [&](const Variables* env) { return env == nullptr ? std::nullopt : variable(*env, name); };
      EnvDifference each{name, value(login), value(unit), value(process)};
      const auto differs = [](const Variables* a, const auto& x, const Variables* b, const auto& y) {
        return a != nullptr && b != nullptr && x != y;
      };
      if (differs(login, each.login, unit, each.unit) || differs(unit, each.unit, process, each.process) ||
          differs(login, each.login, process, each.process))
        found.push_back(std::move(each));
    }
    return found;
  }

  // The workers of a user's unit are one consumer: the first whose environment is known speaks for all.
  void add_process(const GpuProcess& process) {
    const auto no_python = why_unknown(process.unknown, "python_env");
    if (process.python_env.empty() && no_python.empty()) return;
    const auto id = consumer_id(process);
    const auto same =
        std::find_if(claims_.begin(), claims_.end(), [&](const Claim& each) { return each.consumer.id == id; });
    if (same != claims_.end()) {
      if (same->unknown.empty()) return;
      claims_.erase(same);
    }
    // Without the variable, the account's own; which that is, is known of root alone.
    const auto home = variable(process.env, "HOME").value_or(process.user == "root" ? "/root" : "");
    std::string unknown;
    if (process.python_env.empty())
      unknown = fmt::format("the Python environment of the process is unknown: {}", no_python);
    else if (const auto no_env = why_unknown(process.unknown, "env"); !no_env.empty())
      unknown = fmt::format("the environment of the process is unknown: {}", no_env);
    add({id, id.starts_with("process ") ? "process" : "user_unit", "", process.user, home, process.python_env,
         "process", process.env},
        std::move(unknown));
  }

  void add_declared(const DeclaredConsumer& declared) {
    auto env = declared.env;
    const auto path = clean_path(declared.python);
    std::string prefix = path;
    for (const auto& python : items(environment_.python_envs))
      if (path == python.path || path.starts_with(python.path + "/")) prefix = python.path;
    if (const auto bin = prefix.find("/bin/python"); bin != prefix.npos) prefix.resize(bin);
    env.emplace("PATH", activated(prefix));
    const auto home = variable(env, "HOME").value_or("");
    add({"declared " + declared.name, "declared", "", declared.user, home, prefix, "declared", std::move(env)}, "");
  }

  void add_unclaimed(const PythonEnv& python) {
    claims_.push_back({{"environment " + python.path,
                        "unclaimed",
                        "",
                        python.owner,
                        "",
                        python.path,
                        "default",
                        {{"PATH", activated(python.path)}}},
                       &python,
                       {}});
  }

  // Where no unit says otherwise, an environment is used as its `activate` leaves it.
  static std::string activated(const std::string& prefix) { return fmt::format("{}/bin:{}", prefix, kDefaultPath); }

  void add(Consumer consumer, std::string unknown) {
    Claim claim{std::move(consumer), nullptr, std::move(unknown)};
    claimed_.insert(claim.consumer.python_env);
    if (environment_.python_envs.is_unknown() && claim.unknown.empty())
      claim.unknown = fmt::format("the host's Python environments are unknown: {}", environment_.python_envs.reason());
    for (const auto& python : items(environment_.python_envs))
      if (python.path == claim.consumer.python_env) {
        claim.python = &python;
        if (const auto why = why_unknown(python.unknown, "packages"); !why.empty() && claim.unknown.empty())
          claim.unknown = fmt::format("the packages of {} are unknown: {}", python.path, why);
      }
    if (claim.python == nullptr && claim.unknown.empty())
      claim.unknown = fmt::format("the packages of {} were not read", claim.consumer.python_env);
    claims_.push_back(std::move(claim));
  }

  const Environment& environment_;
  std::vector<Claim> claims_;
  std::set<std::string> claimed_;
};

}  // namespace

std::string consumer_id(const GpuProcess& process) {
  const auto unit = user_unit(process.cgroup);
  return unit.empty() ? fmt::format("process {}", process.pid) : fmt::format("user unit {} of {}", unit, process.user);
}

std::string consumer_id(const Service& service) {
  return (service.manager.empty() ? "unit " : "") + service.unit;
}

std::vector<Claim> find_claims(const Environment& environment, const std::vector<DeclaredConsumer>& declared) {
  return Claims(environment, declared).take();
}

}  // namespace trueup
