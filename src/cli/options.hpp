#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trueup/playbook.hpp"

namespace trueup {

/// How verdicts are shown: `--format NAME[:PATH]`.
struct Output {
  std::string format;  ///< one of those that the command takes: `table`, `json`, ...
  std::string path;    ///< empty: standard output
};

/// What all commands that look at hosts take.
struct Options {
  std::vector<std::string> inventories;
  std::vector<std::string> playbooks;       ///< empty: the shipped ones
  std::vector<std::string> more_playbooks;  ///< beside these
  std::string limit = "all";
  std::string asked;  ///< explain: the id of a check, or the key of a finding; empty: all
  std::vector<std::string> tags;
  bool deep = false;        ///< run deep probes as well
  bool with_checks = true;  ///< false: facts are wanted, no verdicts
  bool planning = false;    ///< what the fixes would do is wanted too
  std::vector<std::string> from;         ///< files of facts, looked at instead of hosts
  std::vector<std::string> from_output;  ///< files that a probe script printed, likewise
  std::string plan_file;                 ///< plan: where it is saved; empty: nowhere
  std::string plan_key;                  ///< file of the key that plans are sealed with; empty: this account's own
  bool detailed_exitcode = false;        ///< plan: 5 where something would change
  std::vector<std::string> only;         ///< plan: checks, or keys of findings
  std::vector<std::string> exclude;      ///< likewise
  std::vector<std::string> fixes;        ///< plan: no fixes but these
  std::string user;
  std::string private_key;
  std::string ssh_config;  ///< file instead of ssh's own two; `none`: no file; empty: those
  std::string jump;        ///< hops of ProxyJump, instead of ssh_config's
  bool accept_new_host_keys = false;
  bool become = false;
  bool ask_become_password = false;
  std::string become_password_file;
  std::size_t forks = 50;
  std::optional<std::chrono::milliseconds> connect_timeout;  ///< absent: ssh_config's, else 10 s
  std::chrono::milliseconds host_timeout{60'000};
  std::optional<std::chrono::milliseconds> deadline;
  std::vector<Output> outputs = {{"table", ""}};
  Severity fail_on = Severity::error;
  std::vector<std::string> allow_unknown;
  int verbosity = 0;
  bool quiet = false;
  bool store = true;  ///< record the run
  std::string color = "auto";
};

}  // namespace trueup
