#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "trueup/playbook.hpp"

namespace trueup {

struct BundleOptions {
  std::string nonce;  ///< 32 hex digits from the system's generator; marks frames, travels on stdin only
  std::string tag;    ///< 16 hex digits; marks our processes (environment variable TRUEUP_RUN), no secret
  int workers = 8;    ///< probes side by side
  std::chrono::seconds host_limit{60};  ///< after that the bundle ends itself, whatever the controller does
  bool lifeline = true;  ///< the end of standard input ends the bundle; false: nothing is read from there
};

/// The probes of one level, in their order: what a bundle holds, and what its FrameReader is to be told.
std::vector<Probe> probes_at(const std::vector<Probe>& probes, ProbeLevel level);

/// All probes of one privilege level as one script for the standard input of `command`.
struct Bundle {
  std::string command;                 ///< for the login shell (sh, csh, fish): starts /bin/sh reading standard input
  std::string script;                  ///< what to write there; standard input then stays open: its end ends the bundle
  std::vector<std::string> probe_ids;  ///< in frame order
};

/// The same for many hosts: what they have in common is put together and compressed once, to a third of its size.
class PackedBundle {
 public:
  /// `probes`: of one level, in their order.
  PackedBundle(const std::vector<Probe>& probes, const std::vector<Signature>& signatures);

  /// For the login shell: starts /bin/sh, which reads what input() gives. `options.lifeline` is taken as set.
  static std::string command(const BundleOptions& options);
  std::string input(const BundleOptions& options) const;
  /// What a host is to be sent besides if it says that it has no gzip (`FrameReader::wants_plain`).
  std::string plain(const BundleOptions& options) const;

 private:
  std::string text_;  // all but what differs between hosts
  std::string packed_;
};

/// Pure. What travels back, and what the script does, stands in bundle.sh; what probes may use, in lib.sh.
Bundle make_bundle(const std::vector<Probe>& probes, const std::vector<Signature>& signatures, ProbeLevel level,
                   const BundleOptions& options);

}  // namespace trueup
