#include "run/batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"

namespace trueup {
namespace {

bool holds(const std::vector<std::size_t>& hosts, std::size_t host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

/// `host` and all that wait and must go with it, however its atomic groups overlap.
std::vector<std::size_t> together_with(std::size_t host, const BatchPolicy& policy,
                                       const std::vector<HostProgress>& hosts) {
  std::vector<std::size_t> together = {host};
  for (std::size_t i = 0; i < together.size(); ++i)
    for (const auto& group : policy.groups) {
      if (!group.atomic || !holds(group.hosts, together[i])) continue;
      for (const auto member : group.hosts)
        if (hosts[member] == HostProgress::waiting && !holds(together, member)) together.push_back(member);
    }
  std::sort(together.begin(), together.end());
  return together;
}

/// The group that has no room for `more` beside `batch`; null: all have.
const GroupRule* full_group(const BatchPolicy& policy, const std::vector<HostProgress>& hosts,
                            const std::vector<std::size_t>& batch, const std::vector<std::size_t>& more) {
  for (const auto& group : policy.groups) {
    if (!group.max_unavailable) continue;
    std::size_t away = 0, added = 0;
    for (const auto member : group.hosts) {
      if (hosts[member] == HostProgress::away || holds(batch, member)) ++away;
      if (holds(more, member)) ++added;
    }
    if (added > 0 && away + added > *group.max_unavailable) return &group;
  }
  return nullptr;
}

/// Of those with hosts that wait.
std::string names_of_atomic_groups(const BatchPolicy& policy, const std::vector<HostProgress>& hosts) {
  std::vector<std::string> names;
  for (const auto& group : policy.groups)
    if (group.atomic && std::any_of(group.hosts.begin(), group.hosts.end(),
                                    [&](std::size_t host) { return hosts[host] == HostProgress::waiting; }))
      names.push_back("group " + group.name);
  return join(names, ", ");
}

/// All hosts below a group.
void gather_hosts(const Inventory& inventory, const std::string& name, std::set<std::string>& groups,
                  std::set<std::string>& hosts) {
  if (!groups.insert(name).second) return;
  for (const auto& group : inventory.groups) {
    if (group.name != name) continue;
    hosts.insert(group.hosts.begin(), group.hosts.end());
    for (const auto& child : group.children) gather_hosts(inventory, child, groups, hosts);
  }
}

}  // namespace

std::vector<GroupRule> group_rules(const Inventory& inventory, const std::vector<Host>& hosts,
                                   std::vector<Error>& errors) {
  std::vector<GroupRule> rules;
  const auto wrong = [&](const Group& group, std::string_view name, std::string_view expected,
                         const nlohmann::json& value) {
    errors.push_back(Error{ErrorKind::malformed,
                           fmt::format("group {}: '{}': expected {}, found {}", group.name, name, expected,
                                       printable(value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace))),
                           {},
                           {},
                           {}});
  };
  for (const auto& group : inventory.groups) {
    GroupRule rule;
    rule.name = group.name;
    if (const auto found = group.vars.find("max_unavailable"); found != group.vars.end()) {
      if (found->second.is_number_unsigned() && found->second != 0)
        rule.max_unavailable = found->second.get<std::size_t>();
      else
        wrong(group, "max_unavailable", "a whole number above 0", found->second);
    }
    if (const auto found = group.vars.find("atomic"); found != group.vars.end()) {
      if (found->second.is_boolean())
        rule.atomic = found->second.get<bool>();
      else
        wrong(group, "atomic", "true or false", found->second);
    }
    if (!rule.max_unavailable && !rule.atomic) continue;
    std::set<std::string> groups, names;
    gather_hosts(inventory, group.name, groups, names);
    for (std::size_t host = 0; host < hosts.size(); ++host)
      if (names.count(hosts[host].name) > 0) rule.hosts.push_back(host);
    rules.push_back(std::move(rule));
  }
  return rules;
}

Batch next_batch(const BatchPolicy& policy, const std::vector<HostProgress>& hosts, std::size_t batches) {
  Batch batch;
  const auto count = [&](HostProgress what) {
    return static_cast<std::size_t>(std::count(hosts.begin(), hosts.end(), what));
  };
  const auto waiting = count(HostProgress::waiting);
  if (waiting == 0) return batch;
  const auto failed = count(HostProgress::put_back) + count(HostProgress::away);
  if (policy.canary > 0 && batches == 1 && failed > 0) {
    batch.stop = fmt::format("{} of the canary hosts failed", failed);
    return batch;
  }
  if (failed > policy.max_fail) {
    batch.stop = fmt::format("{} failed, and --max-fail allows {}", failed, policy.max_fail);
    return batch;
  }
  auto size = policy.size > 0 ? policy.size : (hosts.size() * policy.percent + 99) / 100;
  if (policy.canary > 0 && batches == 0) size = policy.canary;
  size = std::max<std::size_t>(1, size);

  const auto has_to_wait = [&](std::size_t host) {
    return std::any_of(policy.order.begin(), policy.order.end(), [&](const auto& pair) {
      return pair.first == host && hosts[pair.second] == HostProgress::waiting;
    });
  };
  const GroupRule* full = nullptr;
  bool is_behind = false;
  for (std::size_t host = 0; host < hosts.size() && batch.hosts.size() < size; ++host) {
    if (hosts[host] != HostProgress::waiting || holds(batch.hosts, host)) continue;
    const auto together = together_with(host, policy, hosts);
    if (std::any_of(together.begin(), together.end(), has_to_wait)) {
      is_behind = true;
      continue;
    }
    if (const auto* group = full_group(policy, hosts, batch.hosts, together)) {
      full = group;
      continue;
    }
    // An atomic group may be larger than a batch; then it is one by itself.
    if (!batch.hosts.empty() && batch.hosts.size() + together.size() > size) continue;
    batch.hosts.insert(batch.hosts.end(), together.begin(), together.end());
  }
  std::sort(batch.hosts.begin(), batch.hosts.end());
  if (batch.hosts.empty() && full != nullptr)
    batch.stop = fmt::format("group {} lets {} of its hosts be away at once, which leaves no room for those that wait",
                             full->name, *full->max_unavailable);
  else if (batch.hosts.empty() && is_behind)
    batch.stop =
        fmt::format("{} is changed as a whole, and a host of it comes after another: both see one path of a server",
                    names_of_atomic_groups(policy, hosts));
  return batch;
}

}  // namespace trueup
