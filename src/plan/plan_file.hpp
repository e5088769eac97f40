#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "trueup/plan.hpp"

// The plan file: plan_to_json() and plan_from_json() of trueup/plan.hpp, and whether a plan may still be used.

namespace trueup {

inline constexpr int kPlanSchema = 2;
inline constexpr auto kPlanLifetime = std::chrono::hours(24);

/// The document of docs/plan-json.md, without its seal.
nlohmann::ordered_json plan_document(const Plan& plan);

/// Errors (refused): it is expired, or was made with other playbooks (which, by name) or by another trueup.
/// `playbooks`: what this run works with, as Plan::playbooks.
Result<void> check_usable(const Plan& plan, const std::map<std::string, std::string>& playbooks,
                          std::string_view version, std::chrono::sys_seconds now);

}  // namespace trueup
