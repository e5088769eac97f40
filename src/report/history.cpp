#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "report/json_parts.hpp"
#include "report/page.hpp"
#include "trueup/run.hpp"

namespace trueup {

using nlohmann::ordered_json;

namespace {

constexpr int kHistorySchema = 1;

RunRecord::Time to_milliseconds(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::milliseconds>(time);
}

std::string utc(RunRecord::Time time, std::string_view date_from_time, std::string_view end) {
  const auto fields = fmt::gmtime(std::chrono::system_clock::to_time_t(time));
  return fmt::format("{:%Y-%m-%d}{}{:%H:%M:%S}{}", fields, date_from_time, fields, end);
}

}  // namespace

RunRecord record_of(const RunReport& report, int exit) {
  RunRecord record{report.id, report.kind, report.version, to_milliseconds(report.started),
                   to_milliseconds(report.finished), exit, {}, {}};
  for (const auto& host : report.hosts) {
    auto findings = ordered_json::array();
    for (const auto& finding : host.assessment.findings) findings.push_back(finding_json(finding));
    const ordered_json detail = {{"error", error_json(host.error)},
                                 {"unverified_source", source_json(host)},
                                 {"findings", std::move(findings)},
                                 {"not_evaluated", gaps_json(host.assessment.not_evaluated)}};
    record.hosts.push_back({host.name, host.address, std::string(to_string(host.status)), {},
                            detail.dump(-1, ' ', true, ordered_json::error_handler_t::replace)});
  }
  return record;
}

std::string render_history(const std::vector<RunRecord>& runs, const TableOptions& options) {
  if (runs.empty()) return "no run is recorded yet\n";
  std::size_t id = 3, kind = 4;  // the headings
  for (const auto& run : runs) {
    id = std::max(id, run.id.size());
    kind = std::max(kind, run.kind.size());
  }
  const auto row = [&](std::string_view run, std::string_view what, std::string_view started, std::string_view exit,
                       std::string_view hosts) {
    const auto head = fmt::format("{:<{}}  {:<{}}  {:<20}  {:>4}  ", run, id, what, kind, started, exit);
    const auto room = options.width > head.size() + 20 ? options.width - head.size() : 20;
    return head + shorten(hosts, room) + "\n";
  };
  const Page page(options);
  auto heading = row("RUN", "KIND", "STARTED (UTC)", "EXIT", "HOSTS");
  heading.pop_back();
  auto text = page.paint(Paint::dim, heading) + "\n";
  for (const auto& run : runs) {
    std::vector<std::string> names;
    for (const auto& host : run.hosts) names.push_back(printable(host.name));
    text += row(printable(run.id), printable(run.kind), utc(run.started, " ", ""),
                run.exit ? std::to_string(*run.exit) : "-", fold_hosts(std::move(names)));
  }
  return text;
}

std::string render_history_json(const std::vector<RunRecord>& runs) {
  auto list = ordered_json::array();
  for (const auto& run : runs) {
    auto hosts = ordered_json::array();
    for (const auto& host : run.hosts) hosts.push_back({{"name", host.name}, {"status", host.status}});
    list.push_back({{"id", run.id},
                    {"kind", run.kind},
                    {"started", utc(run.started, "T", "Z")},
                    {"finished", run.finished ? ordered_json(utc(*run.finished, "T", "Z")) : ordered_json()},
                    {"exit", run.exit ? ordered_json(*run.exit) : ordered_json()},
                    {"plan", run.plan.empty() ? ordered_json() : ordered_json(run.plan)},
                    {"hosts", std::move(hosts)}});
  }
  return json_text({{"schema", kHistorySchema}, {"runs", std::move(list)}});
}

}  // namespace trueup
