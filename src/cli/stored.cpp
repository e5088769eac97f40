#include "cli/stored.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "cli/disk.hpp"
#include "cli/setup.hpp"
#include "load/facts.hpp"
#include "load/inventory_settings.hpp"
#include "probe/standalone.hpp"

namespace trueup {
namespace {

Result<std::vector<StoredFacts>> read_facts(const std::string& path) {
  const auto text = read_input(path);
  if (!text) return fail(text.error());
  return load_facts(*text, path);
}

/// `gpu7` of `out/gpu7.txt`.
std::string stem_of(const std::string& path) {
  const auto name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

Result<StoredHost> read_output(const std::string& path, const Auditor& auditor) {
  const auto text = read_input(path);
  if (!text) return fail(text.error());
  auto output = read_standalone(*text, path, auditor.playbook.probes);
  if (!output) return fail(output.error());
  StoredHost host{{}, SourcePos{path, 0, 0}, {}, std::move(output->error), std::move(output->outputs)};
  host.environment = read_environment(auditor, host.probes);
  if (host.environment.host.is_known()) host.name = host.environment.host->hostname;
  if (!why_no_host_name(host.name).empty()) host.name = stem_of(path);
  if (const auto why = why_no_host_name(host.name); !why.empty())
    return fail(ErrorKind::malformed,
                fmt::format("the host's name is not in the output, and the file's is none: {}", why), host.at);
  return host;
}

/// A place says enough; where there is none, the option does.
Error named(const Error& error, const char* option) { return error.at ? error : with_context(error, option); }

void refuse_twins(const std::vector<StoredHost>& stored, Errors& errors) {
  std::map<std::string, SourcePos> first;
  for (const auto& host : stored)
    if (const auto [other, is_new] = first.emplace(host.name, host.at); !is_new)
      errors.push_back(
          Error{ErrorKind::malformed,
                fmt::format("host {} stands in {} already", printable(host.name), to_string(other->second)),
                host.at,
                {},
                {}});
}

}  // namespace

std::vector<StoredHost> load_stored(const Options& options, const Auditor& auditor, Errors& errors) {
  std::vector<StoredHost> stored;
  for (const auto& path : options.from) {
    auto facts = read_facts(path);
    if (!facts) {
      errors.push_back(named(facts.error(), "--from"));
      continue;
    }
    for (auto& each : *facts) stored.push_back({each.name, each.at, std::move(each.environment), {}, {}});
  }
  for (const auto& path : options.from_output) {
    auto host = read_output(path, auditor);
    if (host)
      stored.push_back(*std::move(host));
    else
      errors.push_back(named(host.error(), "--from-output"));
  }
  refuse_twins(stored, errors);
  return stored;
}

std::vector<Host> selected_stored(const Options& options, std::vector<StoredHost>& stored, Errors& errors) {
  Inventory known;
  if (!options.inventories.empty()) known = load_inventories(options, errors);
  Inventory inventory;
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    Host host;
    for (const auto& each : known.hosts)
      if (each.name == stored[i].name) host = each;
    host.name = stored[i].name;
    inventory.hosts.push_back(std::move(host));
    index.emplace(stored[i].name, i);
  }
  for (auto& group : known.groups) {
    std::erase_if(group.hosts, [&](const std::string& name) { return !index.contains(name); });
    inventory.groups.push_back(std::move(group));
  }
  auto selected = select_hosts(inventory, options.limit);
  if (!selected) {
    errors.push_back(selected.error());
    return {};
  }
  std::vector<StoredHost> chosen;
  for (const auto& host : *selected) chosen.push_back(std::move(stored[index.at(host.name)]));
  stored = std::move(chosen);
  return *std::move(selected);
}

std::optional<Error> assess_stored(const Auditor& auditor, const Host& host, const StoredHost& stored,
                                   HostReport& report) {
  report.name = stored.name;
  report.unverified_source = stored.at.file;
  report.environment = stored.environment;
  report.error = stored.error;
  report.probes = stored.probes;
  if (report.error || !answered_all(report.probes)) report.status = HostStatus::partial;
  for (auto& probe : report.probes) probe.output = {};
  return judge_host(auditor, host.consumers, report);
}

}  // namespace trueup
