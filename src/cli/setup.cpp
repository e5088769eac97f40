#include "cli/setup.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "action/action.hpp"
#include "base/digest.hpp"
#include "base/text.hpp"
#include "cli/disk.hpp"
#include "cli/terminal.hpp"
#include "load/inventory.hpp"
#include "load/inventory_settings.hpp"
#include "load/playbook.hpp"
#include "plan/fixes.hpp"
#include "run/exec_inventory.hpp"
#include "run/ssh_options.hpp"
#include "transport/config_files.hpp"
#include "trueup/report.hpp"

namespace trueup {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> yaml_files(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& name : ControllerDisk().list(directory))
    if (name.ends_with(".yaml")) paths.push_back(directory + "/" + name);
  return paths;
}

/// `file` in a plan: its own name, or all of its path where another file has that name.
void note_digest(std::map<std::string, std::string>& digests, const std::string& file, std::string digest) {
  const auto name = fs::path(file).filename().string();
  if (!digests.emplace(name, digest).second) digests[file] = std::move(digest);
}

Knowledge load_knowledge_files(const std::string& directory, std::map<std::string, std::string>& digests,
                               Errors& errors) {
  const ControllerDisk disk;
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& path : yaml_files(directory)) {
    auto text = disk.read(path);
    if (!text) {
      errors.push_back(text.error());
      continue;
    }
    digests["knowledge/" + fs::path(path).filename().string()] = hex(sha256(*text));
    texts.emplace_back(path, *std::move(text));
  }
  return load_knowledge(texts, errors);
}

void keep_tagged(Playbook& playbook, const std::vector<std::string>& tags, Errors& errors) {
  if (tags.empty()) return;
  std::vector<std::string> known;
  for (const auto& check : playbook.checks) known.insert(known.end(), check.tags.begin(), check.tags.end());
  require_known(tags, known, "--tags", errors);
  const auto is_other = [&](const Check& check) {
    return std::none_of(tags.begin(), tags.end(), [&](const std::string& tag) {
      return std::find(check.tags.begin(), check.tags.end(), tag) != check.tags.end();
    });
  };
  playbook.checks.erase(std::remove_if(playbook.checks.begin(), playbook.checks.end(), is_other),
                        playbook.checks.end());
}

/// The directory of the playbooks that came with this binary: `../share/trueup/playbooks` beside an installed one, or
/// the source tree's for one that lies in its build directory.
Result<std::string> shipped_playbooks() {
  std::error_code error;
  const auto binary = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail(ErrorKind::io, "cannot read /proc/self/exe: " + error.message());
  const auto beside = binary.parent_path();
  // Installed; then build/trueup and build/PRESET/trueup of a source tree.
  for (const auto& directory :
       {beside / "../share/trueup/playbooks", beside / "../playbooks", beside / "../../playbooks"})
    if (fs::is_directory(directory / "knowledge", error)) return fs::canonical(directory, error).string();
  return fail(ErrorKind::not_found, fmt::format("the playbooks that belong to {} are missing", binary.string()));
}

}  // namespace

void require_known(const std::vector<std::string>& words, const std::vector<std::string>& known,
                   std::string_view option, Errors& errors) {
  for (const auto& word : words)
    if (std::find(known.begin(), known.end(), word) == known.end())
      errors.push_back(Error{ErrorKind::usage,
                             fmt::format("{}: there is no '{}'{}", option, printable(word), did_you_mean(word, known)),
                             {},
                             {},
                             {}});
}

Account own_account() {
  const char* home = std::getenv("HOME");
  const passwd* entry = getpwuid(getuid());
  return {entry != nullptr ? entry->pw_name : std::to_string(getuid()), home != nullptr    ? home
                                                                        : entry != nullptr ? entry->pw_dir
                                                                                           : ""};
}

Result<Auditor> load_auditor(const Options& options, Errors& errors) {
  const auto shipped = shipped_playbooks();
  if (!shipped) {
    errors.push_back(shipped.error());
    return fail(shipped.error());
  }
  auto files = options.playbooks.empty() ? yaml_files(*shipped) : options.playbooks;
  files.insert(files.end(), options.more_playbooks.begin(), options.more_playbooks.end());
  auto playbook = load_playbooks(files, ControllerDisk(), errors);
  std::vector<std::string> ids;
  for (const auto& check : playbook.checks) ids.push_back(check.id);
  require_known(options.allow_unknown, ids, "--allow-unknown", errors);
  keep_tagged(playbook, options.tags, errors);
  if (!options.with_checks) playbook.checks.clear();
  std::vector<std::string> left_to_deep;
  if (!options.deep)
    std::erase_if(playbook.probes, [&](const Probe& probe) {
      if (probe.deep) left_to_deep.push_back(probe.into);
      return probe.deep;
    });
  std::vector<std::string> kinds;
  for (const auto& kind : action_kinds()) kinds.emplace_back(kind->name());
  check_fixes(playbook.fixes, find_action, kinds, errors);
  std::map<std::string, std::string> digests;
  for (const auto& file : playbook.files)
    if (const auto digest = playbook.digests.find(file); digest != playbook.digests.end())
      note_digest(digests, file, digest->second);
  auto knowledge = load_knowledge_files(*shipped + "/knowledge", digests, errors);
  std::map<std::string, Parser> parsers;
  for (const auto& probe : playbook.probes)
    if (auto parser = make_parser(nlohmann::json::parse(probe.parser))) parsers.emplace(probe.id, *std::move(parser));
  auto checks = CheckWorker::start(playbook.checks, options.planning ? playbook.fixes : std::vector<Fix>(), errors);
  if (!checks) return fail(std::move(checks).error());
  Auditor auditor{std::move(playbook), std::move(knowledge), *std::move(checks), std::move(parsers)};
  auditor.planning = options.planning;
  auditor.digests = std::move(digests);
  auditor.left_to_deep = std::move(left_to_deep);
  return auditor;
}

Inventory load_inventories(const Options& options, Errors& errors) {
  const ControllerDisk disk;
  const InventoryInputs inputs{disk, own_account().home, read_standard_input,
                               [](const std::string& path) { return run_inventory_program(path); }};
  auto inventory = load_inventory(options.inventories, inputs, errors);
  for (const auto& note : inventory.notes) fmt::print(stderr, "note: {}\n", printable(note));
  return inventory;
}

void report_refused(const Host& host, Errors& errors) {
  for (const auto& [setting, why] : host.refused)
    errors.push_back(
        Error{ErrorKind::unsupported, fmt::format("host {}: {}: {}", host.name, setting, why), host.at, {}, {}});
}

std::vector<Host> selected_hosts(const Options& options, const Inventory& inventory, Errors& errors) {
  auto selected = select_hosts(inventory, options.limit);
  if (!selected) {
    errors.push_back(selected.error());
    if (options.inventories.empty()) errors.back().hint = "without -i there is one host, localhost: this machine";
    return {};
  }
  if (const auto why = options.user.empty() ? std::string() : why_no_user_name(options.user); !why.empty())
    errors.push_back(Error{ErrorKind::usage, fmt::format("--user: {}", why), {}, {}, {}});
  for (auto& host : *selected) {
    // What the command line says instead need not be readable in the inventory.
    if (!options.user.empty()) {
      host.user = options.user;
      host.refused.erase("user");
    }
    if (!options.private_key.empty()) {
      host.keys = {options.private_key};
      host.refused.erase("key");
    }
    if (options.become && host.become == Become::none) host.become = Become::sudo;
    report_refused(host, errors);
  }
  return *std::move(selected);
}

Result<std::string> read_input(const std::string& path) {
  return path == "-" ? read_standard_input() : ControllerDisk().read(path);
}

namespace {

void load_ssh_config_for(const std::vector<Host>& hosts, const Options& options, ProbingOptions& probing,
                         Errors& errors) {
  const auto is_ssh = [](const Host& host) { return host.transport == TransportKind::ssh; };
  if (std::none_of(hosts.begin(), hosts.end(), is_ssh)) return;
  Errors mistakes;
  probing.ssh_config =
      std::make_shared<ssh::SshConfig>(ssh::load_ssh_config(options.ssh_config, probing.home, mistakes));
  if (!mistakes.empty() && mistakes.back().hint.empty())
    mistakes.back().hint = "ssh refuses such a file too; -F none goes without";
  errors.insert(errors.end(), mistakes.begin(), mistakes.end());
  if (const auto hops = options.jump.empty() ? std::vector<ssh::Hop>() : ssh::parse_hops(options.jump); !hops)
    errors.push_back(Error{ErrorKind::usage, fmt::format("--jump: {}", hops.error().message), {}, {}, {}});
  if (!errors.empty()) return;
  // A line is told once, with the hosts that it concerns.
  std::vector<std::pair<ssh::ConfigNote, std::vector<std::string>>> notes;
  std::map<std::string, std::size_t> index;
  std::size_t reached = 0;
  const auto ssh = ssh_options(probing);
  for (const auto& host : hosts) {
    if (!is_ssh(host)) continue;
    ++reached;
    for (auto& note : ssh_notes(host, ssh)) {
      const auto [at, is_new] = index.emplace(to_string(note.at), notes.size());
      if (is_new) notes.push_back({std::move(note), {}});
      auto& names = notes[at->second].second;
      if (names.empty() || names.back() != host.name) names.push_back(host.name);
    }
  }
  for (const auto& [note, names] : notes) {
    const auto whom =
        names.size() == reached ? std::string() : fmt::format(" (for {})", shorten(fold_hosts(names), 100));
    fmt::print(stderr, "note: {}: {}{}\n", printable(to_string(note.at)), printable(note.text), printable(whom));
  }
}

void check_password_is_used(const Options& options, const std::vector<Host>& hosts, Errors& errors) {
  if (!options.ask_become_password && options.become_password_file.empty()) return;
  const auto has_no_sudo = [](const Host& host) { return host.become != Become::sudo; };
  if (hosts.empty() || !std::all_of(hosts.begin(), hosts.end(), has_no_sudo)) return;
  errors.push_back(Error{ErrorKind::usage,
                         fmt::format("{}: no selected host has sudo to give it to",
                                     options.ask_become_password ? "--ask-become-pass" : "--become-password-file"),
                         {},
                         {},
                         "-b becomes root by sudo on all of them; 'become: sudo' in the inventory on some"});
}

}  // namespace

Result<ProbingOptions> probing_options(const Options& options, const std::vector<Host>& hosts, Errors& errors) {
  check_password_is_used(options, hosts, errors);
  const auto account = own_account();
  ProbingOptions probing;
  probing.forks = options.forks;
  probing.connect_timeout = options.connect_timeout.value_or(probing.connect_timeout);
  probing.connect_timeout_given = options.connect_timeout.has_value();
  probing.host_timeout = options.host_timeout;
  probing.deadline = options.deadline;
  probing.default_user = account.name;
  probing.home = account.home;
  probing.jump = options.jump;
  probing.accept_new_host_keys = options.accept_new_host_keys;
  probing.note = [](const std::string& note) { fmt::print(stderr, "note: {}\n", printable(note)); };
  load_ssh_config_for(hosts, options, probing, errors);
  if (!options.become_password_file.empty()) {
    struct stat status {};
    if (stat(options.become_password_file.c_str(), &status) == 0 && (status.st_mode & 077U) != 0)
      return fail(ErrorKind::usage,
                  fmt::format("'{}' can be read by others; chmod 600 it", options.become_password_file));
    auto text = ControllerDisk().read(options.become_password_file);
    if (!text) return fail(text.error());
    probing.become_password = Secret(std::string(split_lines(*text).empty() ? "" : split_lines(*text).front()));
  } else if (options.ask_become_password && errors.empty()) {  // who asks first, and refuses then, wastes an answer
    auto password = ask_secret("sudo password: ");
    if (!password) return fail(password.error());
    probing.become_password = *std::move(password);
  }
  return probing;
}

}  // namespace trueup
