#include "trueup/probing.hpp"

namespace trueup {

std::string_view to_string(ProbeStatus status) {
  switch (status) {
    case ProbeStatus::ok:
      return "ok";
    case ProbeStatus::absent:
      return "absent";
    case ProbeStatus::unknown:
      return "unknown";
    case ProbeStatus::failed:
      return "failed";
    case ProbeStatus::timed_out:
      return "timed_out";
    case ProbeStatus::truncated:
      return "truncated";
    case ProbeStatus::garbled:
      return "garbled";
    case ProbeStatus::lost:
      return "lost";
    case ProbeStatus::unreadable:
      return "unreadable";
  }
  return "lost";
}

}  // namespace trueup
