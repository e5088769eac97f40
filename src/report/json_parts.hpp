#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/groups.hpp"
#include "trueup/report.hpp"

// What the documents of docs/report-json.md have in common.

namespace trueup {

inline constexpr int kReportSchema = 1;

nlohmann::ordered_json error_json(const std::optional<Error>& error);
nlohmann::ordered_json finding_json(const Finding& finding);
nlohmann::ordered_json gaps_json(const std::vector<NotEvaluated>& not_evaluated);
/// `findings`: what stands there for the host's findings.
nlohmann::ordered_json host_json(const HostReport& host, nlohmann::ordered_json findings);
nlohmann::ordered_json run_json(const RunReport& report);
nlohmann::ordered_json source_json(const HostReport& host);
nlohmann::ordered_json summary_json(const Counts& counts);
std::string json_text(const nlohmann::ordered_json& document);

}  // namespace trueup
