#include "load/inventory_draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "model/host_range.hpp"

namespace trueup {
namespace {

constexpr std::size_t kMostHosts = 100'000;
constexpr std::size_t kMostNames = 300'000;
constexpr std::size_t kAll = 0, kUngrouped = 1;  // indices of the two groups that are always there

// What patterns give a meaning to, and what would leave group_vars/.
std::string why_no_group_name(std::string_view name) {
  const auto shown = shorten(printable(name), 60);
  if (name.empty()) return "group name is empty";
  if (std::string_view("-!&~@.").find(name.front()) != std::string_view::npos)
    return fmt::format("group name '{}' begins with '{}'", shown, name.front());
  for (const char& c : name)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f ||
        std::string_view(",:*?[]/\\'\"{}").find(c) != std::string_view::npos)
      return fmt::format("group name '{}': '{}' cannot stand there", shown, printable(std::string_view(&c, 1)));
  return {};
}

template <class Things>
std::vector<std::string> names_of(const Things& things) {
  std::vector<std::string> names;
  for (const auto& thing : things) names.push_back(thing.name);
  return names;
}

}  // namespace

// Who is in which group, by index.
struct InventoryDraft::Family {
  std::vector<std::vector<std::size_t>> parents;  // of groups
  std::vector<std::size_t> depth;                 // of groups; `all` has 0
  std::vector<std::vector<std::size_t>> groups;   // of hosts, direct
};

InventoryDraft::InventoryDraft(const SettingsReader& reader) : reader_(reader) {
  for (const auto* name : {"all", "ungrouped"}) {
    group_index_[name] = groups_.size();
    groups_.push_back(
        {.name = name, .at = {}, .defined = true, .hosts = {}, .children = {}, .own = {}, .from_files = {}});
  }
}

std::vector<std::string> InventoryDraft::expand(std::string_view pattern, const SourcePos& at) {
  auto names = expand_host_range(pattern, kMostHosts);
  if (!names) {
    reader_.error(at, fmt::format("host name '{}': {}", shorten(printable(pattern), 60), names.error().message),
                  names.error().kind);
    return {};
  }
  // Ranges give letters and digits only, so one name speaks for all.
  if (const auto why = why_no_host_name(names->front()); !why.empty()) {
    reader_.error(at, why);
    if (names->front().find('@') != std::string::npos)
      reader_.errors.back().hint = "the account is said by 'user', or by -u";
    return {};
  }
  names_ += names->size();
  if (names_ > kMostNames) {
    report_overfull(fmt::format("more than {} host names", kMostNames), at);
    return {};
  }
  return *std::move(names);
}

void InventoryDraft::report_overfull(std::string message, const SourcePos& at) {
  if (!std::exchange(overfull_, true)) reader_.error(at, std::move(message), ErrorKind::limit);
}

std::vector<DraftHost*> InventoryDraft::hosts(std::string_view pattern, const SourcePos& at) {
  std::vector<DraftHost*> hosts;
  for (auto& name : expand(pattern, at)) {
    const auto [found, is_new] = host_index_.try_emplace(name, hosts_.size());
    if (is_new) {
      if (name == "all" || name == "ungrouped") reader_.error(at, fmt::format("a host cannot be called '{}'", name));
      if (hosts_.size() == kMostHosts) {
        report_overfull(fmt::format("more than {} hosts", kMostHosts), at);
        host_index_.erase(found);
        return hosts;
      }
      hosts_.push_back({.name = std::move(name), .at = at, .own = {}, .from_files = {}});
    }
    hosts.push_back(&hosts_[found->second]);
  }
  return hosts;
}

DraftGroup* InventoryDraft::group(std::string_view name, const SourcePos& at) {
  const auto [found, is_new] = group_index_.try_emplace(std::string(name), groups_.size());
  if (is_new) {
    if (const auto why = why_no_group_name(name); !why.empty()) {
      group_index_.erase(found);
      reader_.error(at, why);
      return nullptr;
    }
    groups_.push_back({.name = std::string(name), .at = at, .hosts = {}, .children = {}, .own = {}, .from_files = {}});
  }
  return &groups_[found->second];
}

DraftGroup* InventoryDraft::defined_group(std::string_view name, const SourcePos& at) {
  auto* group = this->group(name, at);
  if (group != nullptr) group->defined = true;
  return group;
}

void InventoryDraft::check_names() {
  // Suggestions compare with every name there is; a file full of mistakes shall not take minutes.
  int suggestions = 50;
  const auto unknown = [&](std::string_view what, const Mention& mention, const std::vector<std::string>& known) {
    reader_.error(mention.at, fmt::format("unknown {} '{}'{}", what, printable(mention.name),
                                          suggestions-- > 0 ? did_you_mean(mention.name, known) : ""));
  };
  const auto host_names = names_of(hosts_);
  std::vector<std::string> group_names;
  for (const auto& group : groups_)
    if (group.defined) group_names.push_back(group.name);
  for (const auto& group : groups_) {
    if (!group.defined) unknown("group", {group.name, group.at}, group_names);
    if (const auto host = host_index_.find(group.name); host != host_index_.end() && group.at != SourcePos{})
      reader_.error(group.at, fmt::format("'{}' is both a group and a host (at {})", group.name,
                                          to_string(hosts_[host->second].at)));
    for (const auto& host : group.hosts)
      if (!host_index_.contains(host.name)) unknown("host", host, host_names);
    for (const auto& child : group.children) {
      if (child.name == "all")
        reader_.error(child.at, "'all' contains every group and cannot be a child");
      else if (const auto found = group_index_.find(child.name);
               found == group_index_.end() || !groups_[found->second].defined)
        unknown("group", child, group_names);
    }
  }
}

// False: a group contains itself, which is reported.
bool InventoryDraft::find_parents(Family& family) {
  const auto count = groups_.size();
  family.parents.resize(count);
  std::vector<std::set<std::size_t>> children(count);
  std::map<std::pair<std::size_t, std::size_t>, SourcePos> stands_at;
  for (std::size_t parent = 0; parent < count; ++parent)
    for (const auto& mention : groups_[parent].children) {
      const auto found = group_index_.find(mention.name);
      if (parent == kAll || found == group_index_.end() || !children[parent].insert(found->second).second) continue;
      family.parents[found->second].push_back(parent);
      stands_at[{parent, found->second}] = mention.at;
    }

  family.depth.assign(count, 1);
  family.depth[kAll] = 0;
  std::vector<std::size_t> waiting_for(count), ready;
  for (std::size_t i = 0; i < count; ++i)
    if (waiting_for[i] = family.parents[i].size(); waiting_for[i] == 0) ready.push_back(i);
  std::size_t done = 0;
  for (; done < ready.size(); ++done)
    for (const auto child : children[ready[done]]) {
      family.depth[child] = std::max(family.depth[child], family.depth[ready[done]] + 1);
      if (--waiting_for[child] == 0) ready.push_back(child);
    }
  if (done == count) return true;

  // Whoever still waits has a parent that still waits: walking up from there ends in a circle.
  std::vector<std::size_t> walk_of(count, count);
  for (std::size_t start = 0; start < count; ++start) {
    std::vector<std::size_t> walk;
    for (auto at = start; waiting_for[at] > 0 && walk_of[at] == count;) {
      walk_of[at] = start;
      walk.push_back(at);
      at = *std::find_if(family.parents[at].begin(), family.parents[at].end(),
                         [&](auto parent) { return waiting_for[parent] > 0; });
      if (walk_of[at] != start) continue;
      std::string circle = groups_[at].name;
      for (auto step = walk.rbegin();; ++step) {
        circle += " > " + groups_[*step].name;
        if (*step == at) break;
      }
      reader_.error(stands_at[{at, walk.back()}], fmt::format("groups contain each other: {}", circle));
    }
  }
  return false;
}

Inventory InventoryDraft::finish() {
  Inventory inventory;
  if (overfull_) return inventory;
  check_names();
  Family family;
  if (!find_parents(family)) return inventory;

  family.groups.resize(hosts_.size());
  std::vector<std::size_t> last_group(hosts_.size());  // that a host was seen in; 0, `all`, is none of them
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group group{groups_[i].name, {}, {}, groups_[i].own.vars};
    for (const auto& [name, value] : groups_[i].from_files.vars) group.vars[name] = value;
    for (const auto& mention : groups_[i].hosts) {
      const auto host = host_index_.find(mention.name);
      if (host == host_index_.end() || std::exchange(last_group[host->second], i) == i) continue;
      if (i > kUngrouped) family.groups[host->second].push_back(i);
      group.hosts.push_back(mention.name);
    }
    std::set<std::string_view> seen;
    for (const auto& child : groups_[i].children)
      if (seen.insert(child.name).second) group.children.push_back(child.name);
    if (i > kUngrouped) inventory.groups.push_back(std::move(group));
  }

  // Ansible's order, from farthest to nearest (the nearer overrides): the inventories' own words for `all`, then for
  // the groups by depth, priority and name; group_vars/ in the same order; the host's own words; host_vars/.
  struct FromGroups {
    HostSettings settings;
    std::vector<std::string> names;
  };
  std::map<std::vector<std::size_t>, FromGroups> cache;  // hosts of the same groups get the same from them
  const auto from_groups = [&](const std::vector<std::size_t>& direct) -> const FromGroups& {
    const auto [found, is_new] = cache.try_emplace(direct);
    if (!is_new) return found->second;
    std::vector<std::size_t> groups = direct.empty() ? std::vector{kUngrouped} : direct;
    std::set<std::size_t> seen(groups.begin(), groups.end());
    for (std::size_t i = 0; i < groups.size(); ++i)
      for (const auto parent : family.parents[groups[i]])
        if (seen.insert(parent).second) groups.push_back(parent);
    std::sort(groups.begin(), groups.end(), [&](auto a, auto b) {
      return std::tie(family.depth[a], groups_[a].priority, groups_[a].name) <
             std::tie(family.depth[b], groups_[b].priority, groups_[b].name);
    });
    auto& [settings, names] = found->second;
    groups.insert(groups.begin(), kAll);
    for (const auto group : groups) settings.override_with(groups_[group].own);
    for (const auto group : groups) settings.override_with(groups_[group].from_files);
    for (auto group = groups.rbegin(); group != groups.rend(); ++group)
      if (*group > kUngrouped) names.push_back(groups_[*group].name);
    return found->second;
  };

  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const auto& [settings, names] = from_groups(family.groups[i]);
    auto all = settings;
    all.override_with(hosts_[i].own);
    all.override_with(hosts_[i].from_files);
    Host host;
    host.name = hosts_[i].name;
    host.at = hosts_[i].at;
    host.groups = names;
    all.apply_to(host);
    inventory.vars[host.name] = nlohmann::json(all.vars);
    inventory.hosts.push_back(std::move(host));
  }
  return inventory;
}

}  // namespace trueup
