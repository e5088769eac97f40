#include "trueup/inventory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "model/host_range.hpp"

namespace trueup {
namespace {

constexpr std::size_t kMostNames = 100'000;

using Members = std::vector<std::size_t>;  // indices of hosts

// pattern ::= part ((',' | ':') part)*     part ::= ['&' | '!'] name     name ::= host | group | glob | range | group
// '[' n ']' Whatever their order: first the union of the plain parts (of all hosts, if there are none), then '&', then
// '!'. Source: Ansible, "Patterns: targeting hosts and groups".
class Selector {
 public:
  explicit Selector(const Inventory& inventory) {
    for (std::size_t i = 0; i < inventory.hosts.size(); ++i) {
      const auto& host = inventory.hosts[i];
      names_[host.name] = {i};
      everyone_.push_back(i);
      for (const auto& group : host.groups) names_[group].push_back(i);
      if (host.groups.empty()) names_["ungrouped"].push_back(i);
    }
    for (const auto& group : inventory.groups) names_.try_emplace(group.name);
    names_.try_emplace("ungrouped");
    names_["all"] = everyone_;
  }

  Result<Members> select(std::string_view pattern) const {
    std::vector<bool> chosen(everyone_.size()), wanted(everyone_.size(), true);
    bool any_plain = false;
    const auto parts = parts_of(pattern);
    if (parts.empty()) return fail(ErrorKind::usage, "the host pattern is empty; 'all' means every host");
    for (const auto part : parts) {
      auto name = part;
      const char sign = name.front() == '&' || name.front() == '!' ? name.front() : '+';
      if (sign != '+') name = trim(name.substr(1));
      const auto members = find(name);
      if (!members)
        return tl::unexpected(with_context(members.error(), fmt::format("pattern '{}'", printable(pattern))));
      any_plain |= sign == '+';
      if (sign == '&') {
        std::vector<bool> named(everyone_.size());
        for (const auto i : *members) named[i] = true;
        for (std::size_t i = 0; i < named.size(); ++i) wanted[i] = wanted[i] && named[i];
      }
      for (const auto i : *members) {
        if (sign == '+') chosen[i] = true;
        if (sign == '!') wanted[i] = false;
      }
    }
    Members selected;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if ((chosen[i] || !any_plain) && wanted[i]) selected.push_back(i);
    return selected;
  }

 private:
  std::vector<std::string_view> parts_of(std::string_view pattern) const {
    std::vector<std::string_view> parts;
    for (const auto item : split_outside_brackets(pattern, ',')) {
      const auto whole = trim(item);
      const auto bare = !whole.empty() && (whole.front() == '!' || whole.front() == '&') ? whole.substr(1) : whole;
      const bool is_name = names_.contains(std::string(bare));  // an IPv6 address has colons of its own
      for (const auto part : is_name ? std::vector{whole} : split_outside_brackets(whole, ':'))
        if (const auto name = trim(part); !name.empty()) parts.push_back(name);
    }
    return parts;
  }

  Result<Members> find(std::string_view name) const {
    if (!name.empty() && name.front() == '~')
      return fail(ErrorKind::unsupported,
                  fmt::format("'{}': regular expressions are not supported; use a glob", printable(name)));
    if (!name.empty() && name.front() == '@')
      return fail(ErrorKind::unsupported,
                  fmt::format("'{}': files of host names are not supported; name the hosts", printable(name)));
    if (const auto exact = names_.find(name); exact != names_.end()) return exact->second;
    if (name.find_first_of("*?[") == name.npos) return unknown(name);
    const auto open = name.find('[');
    if (open == name.npos) return glob(name);
    if (name.find(']', open) == name.npos)
      return fail(ErrorKind::malformed, fmt::format("'{}': '[' without ']'", printable(name)));
    const auto range = expand_host_range(name, kMostNames);
    if (!range && range.error().kind == ErrorKind::limit) return tl::unexpected(range.error());
    // A range of hosts, or a slice of a group? Once a host of that range exists, a missing one is a mistake.
    const bool of_hosts =
        range && std::any_of(range->begin(), range->end(), [&](const auto& each) { return names_.contains(each); });
    if (!of_hosts)
      if (auto slice = slice_of_group(name)) return *std::move(slice);
    if (!range || range->front().find_first_of("*?") != std::string::npos) return glob(name);
    Members members;
    for (const auto& each : *range) {
      const auto found = names_.find(each);
      if (found == names_.end()) return unknown(each);
      members.insert(members.end(), found->second.begin(), found->second.end());
    }
    return members;
  }

  // `group[0]`, `group[-1]`, `group[0:2]` or `group[0-2]` (both ends belong to it), `group[1:]`.
  std::optional<Members> slice_of_group(std::string_view name) const {
    const auto open = name.find('[');
    if (open == name.npos || name.back() != ']') return std::nullopt;
    const auto group = names_.find(name.substr(0, open));
    if (group == names_.end()) return std::nullopt;
    const auto& all = group->second;
    const auto number = [](std::string_view text) -> std::optional<long> {
      long value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
      return value;
    };
    const auto inside = name.substr(open + 1, name.size() - open - 2);
    const auto size = static_cast<long>(all.size());
    auto first = number(inside), last = first;
    if (first && *first < 0) first = last = *first + size;
    if (const auto separator = inside.find_first_of(":-", 1); !first && separator != inside.npos) {
      first = number(inside.substr(0, separator));
      last = separator + 1 == inside.size() ? size - 1 : number(inside.substr(separator + 1));
    }
    if (!first || !last) return std::nullopt;
    Members members;
    for (auto i = std::max(0L, *first); i <= std::min(*last, size - 1); ++i)
      members.push_back(all[static_cast<std::size_t>(i)]);
    return members;
  }

  Members glob(std::string_view pattern) const {
    Members members;
    for (const auto& [name, hosts] : names_)
      if (glob_match(pattern, name)) members.insert(members.end(), hosts.begin(), hosts.end());
    return members;
  }

  tl::unexpected<Error> unknown(std::string_view name) const {
    std::vector<std::string> known;
    for (const auto& [each, hosts] : names_) known.push_back(each);
    return fail(ErrorKind::not_found,
                fmt::format("no host or group '{}'{}", printable(name), did_you_mean(name, known)));
  }

  std::map<std::string, Members, std::less<>> names_;
  Members everyone_;
};

}  // namespace

Result<std::vector<Host>> select_hosts(const Inventory& inventory, std::string_view pattern) {
  const auto selected = Selector(inventory).select(pattern);
  if (!selected) return tl::unexpected(selected.error());
  std::vector<Host> hosts;
  for (const auto i : *selected) hosts.push_back(inventory.hosts[i]);
  return hosts;
}

Inventory local_inventory() {
  Host host;
  host.name = host.address = "localhost";
  host.port = 0;
  host.transport = TransportKind::local;
  Inventory inventory;
  inventory.vars[host.name] = nlohmann::json::object();
  inventory.hosts.push_back(std::move(host));
  return inventory;
}

}  // namespace trueup
