#include <nlohmann/json.hpp>

#include "report/json_parts.hpp"
#include "trueup/report_formats.hpp"

namespace trueup {
namespace {

using nlohmann::ordered_json;

constexpr int kLinesSchema = 1;

/// Numbers the lines, so that a reader sees that one is missing.
class Lines {
 public:
  void add(std::string_view kind, const ordered_json& fields) {
    ordered_json line = {{"schema", kLinesSchema}, {"sequence", ++sequence_}, {"kind", kind}};
    line.update(fields);
    text_ += line.dump(-1, ' ', true, ordered_json::error_handler_t::replace) + "\n";
  }

  std::string take() { return std::move(text_); }

 private:
  std::size_t sequence_ = 0;
  std::string text_;
};

}  // namespace

std::string render_ndjson(const RunReport& report) {
  Lines lines;
  for (const auto& host : report.hosts) {
    lines.add("host", host_json(host, host.assessment.findings.size()));
    for (const auto& finding : host.assessment.findings) {
      ordered_json fields = {{"host", host.name}};
      fields.update(finding_json(finding));
      lines.add("finding", fields);
    }
  }
  lines.add("summary", {{"run", run_json(report)}, {"summary", summary_json(counts_of(report))}});
  return lines.take();
}

}  // namespace trueup
