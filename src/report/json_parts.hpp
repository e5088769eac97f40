#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trueup/report.hpp"

// What the documents of docs/report-json.md have in common.

namespace trueup {

inline constexpr int kReportSchema = 1;

nlohmann::ordered_json error_json(const std::optional<Error>& error);
nlohmann::ordered_json finding_json(const Finding& finding);
nlohmann::ordered_json gaps_json(const std::vector<NotEvaluated>& not_evaluated);
nlohmann::ordered_json run_json(const RunReport& report);
nlohmann::ordered_json source_json(const HostReport& host);
std::string json_text(const nlohmann::ordered_json& document);

}  // namespace trueup
