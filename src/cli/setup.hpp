#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.hpp"
#include "load/yaml.hpp"
#include "run/audit.hpp"
#include "trueup/inventory.hpp"

// From the command line to what a run works with. Everything that is wrong with the input is found here, before any
// host is touched, and all of it at once.

namespace trueup {

/// Who runs this program. `home`: HOME, else what the system says; empty: neither knows.
struct Account {
  std::string name;
  std::string home;
};
Account own_account();

/// Words of the command line that name nothing are errors: a misspelt tag must not select fewer checks.
void require_known(const std::vector<std::string>& words, const std::vector<std::string>& known,
                   std::string_view option, Errors& errors);

/// The playbooks that `-p` names, else all shipped ones; the shipped knowledge; parsers and checks, compiled.
Result<Auditor> load_auditor(const Options& options, Errors& errors);

/// The whole inventory, as `-i` names it.
Inventory load_inventories(const Options& options, Errors& errors);

/// One error for each setting of `host` that cannot be used (a vault value, Jinja).
void report_refused(const Host& host, Errors& errors);

/// The hosts that `-l` selects, with the command line's overrides applied. A host whose settings cannot be used (vault,
/// Jinja) is an error here.
std::vector<Host> selected_hosts(const Options& options, const Inventory& inventory, Errors& errors);

/// The file at `path`, or standard input where that is `-`.
Result<std::string> read_input(const std::string& path);

/// How `hosts` are reached: limits, passwords, ssh_config with what it asks for in vain told as notes.
Result<ProbingOptions> probing_options(const Options& options, const std::vector<Host>& hosts, Errors& errors);

}  // namespace trueup
