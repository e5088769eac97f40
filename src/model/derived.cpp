#include "trueup/derived.hpp"

#include "model/json_io.hpp"

namespace trueup {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
      return "ok";
    case Outcome::risk:
      return "risk";
    case Outcome::broken:
      return "broken";
    case Outcome::unknown:
      break;
  }
  return "unknown";
}

std::string_view to_string(Judgement judgement) {
  switch (judgement) {
    case Judgement::rejected:
      break;
    case Judgement::stop_gap:
      return "stop_gap";
    case Judgement::proper:
      return "proper";
  }
  return "rejected";
}

nlohmann::json derived_to_json(const Derived& derived) { return to_json(derived); }

}  // namespace trueup
