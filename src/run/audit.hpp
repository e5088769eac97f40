#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "derive/knowledge.hpp"
#include "parse/parser.hpp"
#include "run/check_worker.hpp"
#include "run/probe_hosts.hpp"
#include "trueup/report.hpp"

namespace trueup {

/// What a run judges hosts by, compiled and checked once, before any host is touched.
struct Auditor {
  Playbook playbook;
  Knowledge knowledge;
  CheckWorker checks;
  std::map<std::string, Parser> parsers;  ///< by probe id
  std::chrono::milliseconds check_limit{10'000};  ///< of processor time, for all checks of a host
  bool planning = false;                       ///< findings carry proposals, and alternatives are judged for them
  std::map<std::string, std::string> digests = {};  ///< of playbooks and knowledge: file name -> SHA-256 of its text
  std::vector<std::string> left_to_deep = {};  ///< sections whose probes are deep and were not asked for
};

/// Raw outputs -> environment. A probe whose output cannot be read becomes `unreadable` and its section unknown.
Environment read_environment(const Auditor& auditor, std::vector<ProbeOutput>& outputs);

/// Whether each probe said something, be it that the fact is absent or cannot be known.
bool answered_all(const std::vector<ProbeOutput>& outputs);

/// Environment -> derived facts -> findings: the rest of `report`, whose environment is set. Error: as of
/// `assess_host`.
std::optional<Error> judge_host(const Auditor& auditor, const std::vector<DeclaredConsumer>& consumers,
                                HostReport& report);

/// Raw outputs -> environment -> derived facts -> findings, into `report`. A host on which a check took too long is
/// not judged, and its error names the check. Returns that error where it happened on so many hosts that the run must
/// end.
std::optional<Error> assess_host(const Auditor& auditor, const Host& host, HostProbing probing, HostReport& report);

}  // namespace trueup
