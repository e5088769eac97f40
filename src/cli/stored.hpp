#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.hpp"
#include "load/yaml.hpp"
#include "run/audit.hpp"
#include "trueup/inventory.hpp"

// Hosts that are not connected to: what was found on them comes from files. Nothing vouches for these; reports say so.

namespace trueup {

/// What a file says of one host.
struct StoredHost {
  std::string name;
  SourcePos at;
  Environment environment;
  std::optional<Error> error;  ///< why it is not whole
  std::vector<ProbeOutput> probes;
};

/// The hosts of all files that `--from` and `--from-output` name. Errors: all of them, each with its place; a host that
/// stands there twice.
std::vector<StoredHost> load_stored(const Options& options, const Auditor& auditor, Errors& errors);

/// Of `stored` those that `-l` selects, each with its groups and declared consumers where `-i` names an inventory that
/// has it. Afterwards `stored` holds those alone, in the same order. Errors: a name that is not there, with the
/// nearest.
std::vector<Host> selected_stored(const Options& options, std::vector<StoredHost>& stored, Errors& errors);

/// A report on `stored` as if it had been probed, and its judgement. Error: as of `judge_host`.
std::optional<Error> assess_stored(const Auditor& auditor, const Host& host, const StoredHost& stored,
                                   HostReport& report);

}  // namespace trueup
