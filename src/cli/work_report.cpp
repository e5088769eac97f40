#include "cli/work_report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.hpp"
#include "report/page.hpp"

namespace trueup {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostChanges = 10;  // lines of one host

Paint paint_of(WorkOutcome outcome) {
  switch (outcome) {
    case WorkOutcome::verified:
    case WorkOutcome::unchanged: return Paint::green;
    case WorkOutcome::stuck:
    case WorkOutcome::interrupted:
    case WorkOutcome::failed: return Paint::red;
    default: return Paint::yellow;
  }
}

std::string dump(const ordered_json& document) {
  return document.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

ordered_json journal_json(const RunJournal& journal) {
  auto events = ordered_json::array();
  for (const auto& event : journal.events)
    events.push_back({{"at", event.at},
                      {"event", event.event},
                      {"step", event.step > 0 ? ordered_json(event.step) : ordered_json()},
                      {"detail", event.detail}});
  return events;
}

std::string time_text(std::int64_t at) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(at)));
}

}  // namespace

std::string render_work(const WorkSummary& summary, const TableOptions& options) {
  Page page(options);
  // Hosts of which the same is to be said stand together.
  std::vector<std::pair<const WorkResult*, std::vector<std::string>>> groups;
  for (std::size_t i = 0; i < summary.hosts.size(); ++i) {
    const auto& result = summary.report.hosts[i];
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.first->outcome == result.outcome && group.first->why == result.why &&
             group.first->hint == result.hint && group.first->drained == result.drained &&
             group.first->changes == result.changes;
    });
    if (same == groups.end())
      groups.push_back({&result, {summary.hosts[i]}});
    else
      same->second.push_back(summary.hosts[i]);
  }
  std::map<WorkOutcome, std::size_t> counts;
  for (const auto& [result, hosts] : groups) {
    counts[result->outcome] += hosts.size();
    page.headline(paint_of(result->outcome), to_string(result->outcome), fold_hosts(hosts));
    if (!result->why.empty()) page.paragraph("", printable(result->why));
    const auto& changes = result->changes;
    const auto shown = options.verbosity > 0 || changes.size() <= kMostChanges + 1 ? changes.size() : kMostChanges;
    for (std::size_t i = 0; i < shown; ++i)
      page.item(0, changes[i].substr(0, 1), printable(changes[i].substr(std::min<std::size_t>(2, changes[i].size()))));
    if (shown < changes.size()) page.item(0, " ", fmt::format("and {} lines more: -v", changes.size() - shown));
    if (!result->hint.empty()) page.paragraph("do", printable(result->hint));
    if (!result->drained.empty()) page.paragraph("drained", printable(result->drained));
  }
  if (!groups.empty()) page.line();
  std::string numbers;
  for (const auto& [outcome, count] : counts)
    numbers += fmt::format("{}{} {}", numbers.empty() ? "" : ", ", count, to_string(outcome));
  page.line(fmt::format("{} {}: {}", summary.kind, summary.run, numbers.empty() ? "no host" : numbers));
  return page.take();
}

std::string render_work_json(const WorkSummary& summary) {
  auto hosts = ordered_json::array();
  for (std::size_t i = 0; i < summary.hosts.size(); ++i) {
    const auto& result = summary.report.hosts[i];
    hosts.push_back({{"name", summary.hosts[i]},
                     {"outcome", to_string(result.outcome)},
                     {"code", result.code},
                     {"why", result.why},
                     {"hint", result.hint},
                     {"drained", result.drained},
                     {"changes", result.changes},
                     {"still", result.comparison.still},
                     {"unexpected", result.comparison.unexpected},
                     {"unknown", result.comparison.unknown},
                     {"journal", journal_json(result.journal)}});
  }
  return dump({{"schema", 1},
               {"run", {{"id", summary.run}, {"kind", summary.kind}, {"plan", summary.plan}, {"exit", summary.exit}}},
               {"stopped", summary.report.stopped ? ordered_json(to_string(*summary.report.stopped)) : ordered_json()},
               {"hosts", std::move(hosts)}});
}

std::string render_runs(const std::vector<RunsOfHost>& hosts, const TableOptions& options) {
  Page page(options);
  std::vector<std::string> without;
  for (const auto& host : hosts) {
    if (!host.found.error && host.found.runs.empty()) without.push_back(host.host);
    if (host.found.error) {
      page.headline(Paint::yellow, "unknown", host.host);
      page.paragraph("", printable(to_string(*host.found.error)));
      if (!host.found.error->hint.empty()) page.paragraph("do", printable(host.found.error->hint));
      continue;
    }
    for (const auto& run : host.found.runs) {
      const auto state = run.journal.state;
      const auto paint = state == RunState::verified || state == RunState::undone ? Paint::green
                         : state == RunState::stuck || state == RunState::interrupted ? Paint::red
                                                                                      : Paint::yellow;
      page.headline(paint, to_string(state), fmt::format("{} run {}", host.host, run.run));
      const auto about = [&](const char* name) {
        const auto found = run.about.find(name);
        return found == run.about.end() ? std::string("?") : found->second;
      };
      page.paragraph("plan", fmt::format("{}, by {}", about("plan"), about("by")));
      if (!run.journal.events.empty()) {
        const auto& first = run.journal.events.front();
        const auto& last = run.journal.events.back();
        page.paragraph("time", fmt::format("{} to {}", time_text(first.at), time_text(last.at)));
      }
      for (std::size_t i = 0; i < run.steps.size(); ++i) {
        const auto touched = run.journal.steps.find(static_cast<int>(i + 1));
        const auto what = touched == run.journal.steps.end() ? "not done" : touched->second ? "done" : "begun";
        page.paragraph(fmt::format("step {}", i + 1), fmt::format("{}: {}", what, run.steps[i]));
      }
      if (!run.journal.why.empty())
        page.paragraph("why", fmt::format("step {}: {}", run.journal.why_step, run.journal.why));
      for (const auto& line : run.outputs) page.item(0, "|", line);
      if (state == RunState::stuck || state == RunState::interrupted)
        page.paragraph("do", fmt::format("trueup resume {0}, or trueup rollback {0}", run.run));
      if (state == RunState::applied)
        page.paragraph("do", fmt::format("trueup resume {} looks whether it helped", run.run));
    }
  }
  if (!without.empty()) page.headline(Paint::green, "no run", printable(fold_hosts(without)));
  return page.take();
}

std::string render_runs_json(const std::vector<RunsOfHost>& hosts) {
  auto list = ordered_json::array();
  for (const auto& host : hosts) {
    auto runs = ordered_json::array();
    for (const auto& run : host.found.runs)
      runs.push_back({{"run", run.run},
                      {"state", to_string(run.journal.state)},
                      {"about", run.about},
                      {"steps", run.steps},
                      {"why", run.journal.why},
                      {"why_step", run.journal.why_step > 0 ? ordered_json(run.journal.why_step) : ordered_json()},
                      {"journal", journal_json(run.journal)},
                      {"outputs", run.outputs}});
    list.push_back({{"name", host.host},
                    {"error", host.found.error ? ordered_json(to_string(*host.found.error)) : ordered_json()},
                    {"runs", std::move(runs)}});
  }
  return dump({{"schema", 1}, {"hosts", std::move(list)}});
}

}  // namespace trueup
