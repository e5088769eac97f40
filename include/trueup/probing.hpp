#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/playbook.hpp"
#include "trueup/result.hpp"

// What travels to a host and back: all probes of a privilege level as one bundle, and one output per probe.

namespace trueup {

enum class ProbeStatus {
  ok,          ///< ended with status 0, output complete
  absent,      ///< said so itself, or a program it needs is missing where that means absent
  unknown,     ///< said so itself, or a program it needs is missing where that means nothing
  failed,      ///< ended with another status
  timed_out,   ///< its limit passed; it was ended (or left behind, see detail)
  truncated,   ///< more output than allowed
  garbled,     ///< frames that contradict each other
  lost,        ///< began and never ended, or never began: the connection or the bundle went first
  unreadable,  ///< complete, but its parser or the environment's schema refused it
};

std::string_view to_string(ProbeStatus status);

/// What one probe gave on one host.
struct ProbeOutput {
  std::string id;
  ProbeStatus status = ProbeStatus::lost;
  int exit_status = -1;                    ///< -1: none
  std::string output;                      ///< standard output, raw bytes
  std::string errors;                      ///< standard error, cut at 2 KiB
  std::string detail;                      ///< why the status is not ok: for the reader
  std::chrono::milliseconds duration{0};   ///< by the host's clock
  std::string lost_with = {};              ///< of a lost probe: what ended the connection or the bundle, as in `detail`
};

/// The output of the probe of that id, or null.
const ProbeOutput* find_output(const std::vector<ProbeOutput>& outputs, std::string_view id);

}  // namespace trueup
