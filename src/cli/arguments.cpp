#include "cli/arguments.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/output.hpp"

namespace trueup {
namespace {

/// An empty word is most often a variable of a script that was not set; it must not pass for an option that was not
/// given.
std::string not_empty(const std::string& word) { return word.empty() ? "the value is empty" : ""; }

}  // namespace

CLI::Option* add_positional(CLI::App& command, const std::string& name, std::string& into, const std::string& help) {
  return command.add_option(name, into, help)->option_text(" ");
}

void add_inventory(CLI::App& command, Options& options) {
  command
      .add_option("-i,--inventory", options.inventories,
                  "inventory file, 'host1,host2,', '-' (standard input) or exec:PROGRAM; may be repeated")
      ->option_text("INVENTORY")
      ->allow_extra_args(false);
}

void add_limit(CLI::App& command, Options& options) {
  command.add_option("-l,--limit", options.limit, "which hosts: names, groups, globs, a:&b, a:!b")
      ->option_text("HOSTS")
      ->check(not_empty);
}

void add_playbook(CLI::App& command, Options& options) {
  command.add_option("-p,--playbook", options.playbooks, "playbook instead of the shipped ones; may be repeated")
      ->option_text("FILE")
      ->allow_extra_args(false);
  command
      .add_option("--also-playbook", options.more_playbooks,
                  "playbook beside the shipped ones, or those of -p; may be repeated")
      ->option_text("FILE")
      ->allow_extra_args(false);
}

void add_deep(CLI::App& command, Options& options) {
  command.add_flag("--deep", options.deep, "also probes that run the host's own code, such as an import of torch");
}

void add_tags(CLI::App& command, Options& options) {
  command.add_option("-t,--tags", options.tags, "only checks with one of these tags")
      ->option_text("TAG,...")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_stored(CLI::App& command, Options& options) {
  command
      .add_option(
          "--from", options.from,
          "look at stored facts instead of hosts: a file of what `trueup facts` printed, or '-'; may be repeated")
      ->option_text("FILE")
      ->allow_extra_args(false);
  command
      .add_option("--from-output", options.from_output,
                  "likewise: a file of what the script of `trueup probe-script` printed, one host; may be repeated")
      ->option_text("FILE")
      ->allow_extra_args(false);
}

void add_connection_options(CLI::App& command, Options& options) {
  command.add_option("-u,--user", options.user, "log in as this account")->option_text("ACCOUNT")->check(not_empty);
  command.add_option("--private-key", options.private_key, "log in with this key file")
      ->option_text("FILE")
      ->check(not_empty);
  command
      .add_option("-F,--ssh-config", options.ssh_config,
                  "read this ssh_config instead of ~/.ssh/config and /etc/ssh/ssh_config; 'none': no such file")
      ->option_text("FILE")
      ->check(not_empty);
  command
      .add_option("-J,--jump", options.jump, "reach hosts through this one, or several as a,b; instead of ProxyJump")
      ->option_text("[USER@]HOST[:PORT]")
      ->check(not_empty);
  command.add_flag("-b,--become", options.become, "become root with sudo");
  command.add_flag("-K,--ask-become-pass", options.ask_become_password, "ask for the sudo password");
  command.add_option("--become-password-file", options.become_password_file, "file with the sudo password, mode 0600")
      ->option_text("FILE");
  command.add_option("-f,--forks", options.forks, "hosts in flight, 1 to 10000")
      ->option_text(with_default("N", options.forks))
      ->check(CLI::Range(1, 10'000));
  add_duration(command, "--connect-timeout", options.connect_timeout,
               "limit of each step of a connection; default: ssh_config's ConnectTimeout, else 10 s");
  add_duration(command, "--host-timeout", options.host_timeout, "limit of everything on one host");
  add_duration(command, "--deadline", options.deadline, "limit of the whole run");
  command.add_flag("-v,--verbose", options.verbosity, "show more");
  command.add_flag("-q,--quiet", options.quiet, "no progress");
}

void add_accept_new_host_keys(CLI::App& command, Options& options) {
  command.add_flag("--accept-new-host-keys", options.accept_new_host_keys,
                   "trust the key of a host that known_hosts has none of, and write it down");
}

void add_report_options(CLI::App& command, Options& options, const std::vector<std::string>& formats) {
  add_format(command, options, formats);
  const auto take_severity = [&options](const std::string& name) {
    for (const auto severity : {Severity::info, Severity::warning, Severity::error})
      if (to_string(severity) == name) options.fail_on = severity;
  };
  command.add_option_function<std::string>("--fail-on", take_severity, "exit with 3 from this severity on")
      ->option_text(with_default("error|warning|info", to_string(options.fail_on)))
      ->check(CLI::IsMember({"error", "warning", "info"}));
  command.add_option("--allow-unknown", options.allow_unknown, "a check whose 'not evaluated' does not count")
      ->option_text("CHECK,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_color(command, options);
}

}  // namespace trueup
