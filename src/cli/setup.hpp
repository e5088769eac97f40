#pragma once

#include <string>
#include <vector>

#include "cli/options.hpp"
#include "load/yaml.hpp"
#include "run/audit.hpp"
#include "trueup/inventory.hpp"

// From the command line to what a run works with. Everything that is wrong with the input is found here, before any host is
// touched, and all of it at once.

namespace trueup {

/// The directory of the playbooks that came with this binary: `../share/trueup/playbooks` beside an installed one, or the
/// source tree's for one that lies in its build directory.
Result<std::string> shipped_playbooks();

/// The files of `options.playbooks`; without `-p` every shipped one.
std::vector<std::string> playbook_files(const Options& options, Errors& errors);

/// Playbooks, knowledge, parsers and checks, compiled.
Result<Auditor> load_auditor(const Options& options, Errors& errors);

/// The whole inventory, as `-i` names it.
Inventory load_inventories(const Options& options, Errors& errors);

/// The hosts that `-l` selects, with the command line's overrides applied. A host whose settings cannot be used (vault, Jinja) is
/// an error here.
std::vector<Host> selected_hosts(const Options& options, const Inventory& inventory, Errors& errors);

Result<ProbingOptions> probing_options(const Options& options);

}  // namespace trueup
