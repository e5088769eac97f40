#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "base/units.hpp"
#include "plan/plan_file.hpp"
#include "report/page.hpp"

// A plan for people: what an operator has to know before saying yes, and nothing twice.

namespace trueup {
namespace {

constexpr std::size_t kIndent = 13;
constexpr std::size_t kShownDiffLines = 24;  // of one step, without -v

std::string check_of(const PlannedFinding& finding) { return printable(finding.key.substr(0, finding.key.find('@'))); }

Paint paint_of_line(std::string_view line) {
  return line.starts_with('+') ? Paint::green : line.starts_with('-') ? Paint::red : Paint::dim;
}

void render_diff(Page& page, const std::string& diff, const TableOptions& options) {
  const auto lines = split_lines(diff);
  const auto shown = options.verbosity > 0 ? lines.size() : std::min(lines.size(), kShownDiffLines);
  for (std::size_t i = 0; i < shown; ++i)
    page.line(
        fmt::format("{:{}}{}", "", kIndent + 2,
                    page.paint(paint_of_line(lines[i]),
                               shorten(printable(lines[i]), std::max<std::size_t>(options.width, 60) - kIndent - 2))));
  if (shown < lines.size())
    page.line(fmt::format("{:{}}{}", "", kIndent + 2,
                          page.paint(Paint::dim, fmt::format("{} more lines (-v)", lines.size() - shown))));
}

void render_step(Page& page, std::size_t number, const PlanStep& step, const TableOptions& options) {
  const auto change =
      step.current.empty() ? step.wanted : fmt::format("{} → {}", printable(step.current), printable(step.wanted));
  page.paragraph(fmt::format("{:>2}", number),
                 fmt::format("{}: {}", printable(step.kind), change.empty() ? printable(step.params) : change), 2);
  render_diff(page, step.diff, options);
  if (!step.irreversible.empty())
    page.paragraph("", Paint::plain, "cannot be undone: " + printable(step.irreversible), Paint::yellow);
}

void render_cures(Page& page, const HostPlan& host) {
  std::map<std::string, std::string> fixes;  // key of a finding -> what cures it
  for (const auto& step : host.steps)
    for (const auto& key : step.cures) fixes.emplace(key, step.fix);
  std::string_view label = "cures";
  for (const auto& finding : host.cures) {
    const auto fix = fixes.find(finding.key);
    page.paragraph(label, fix == fixes.end() ? fmt::format("- {} ({}), which goes with it", printable(finding.title),
                                                           check_of(finding))
                                             : fmt::format("- {} ({}), by fix {}", printable(finding.title),
                                                           check_of(finding), printable(fix->second)));
    label = "";
  }
}

void render_shared(Page& page, const HostPlan& host) {
  std::string_view label = "shared";
  for (const auto& each : host.shared) {
    page.paragraph(label, fmt::format("- {} {} is {}, of which {} takes care first", printable(each.kind),
                                      printable(each.path), printable(each.place), printable(each.host)));
    label = "";
  }
}

void render_program(Page& page, std::string_view label, const std::vector<std::string>& argv) {
  if (!argv.empty())
    page.paragraph(label, fmt::format("{} (run here, by this controller)", printable(shell_line(argv))));
}

void render_cost(Page& page, const HostPlan& host) {
  std::uint64_t download = 0, disk = 0;
  std::set<std::string> down;
  for (const auto& step : host.steps) {
    download += step.download_bytes;
    disk += step.disk_bytes;
    for (const auto& unit : step.restarts) down.insert(printable(unit));
  }
  std::vector<std::string> parts;
  if (download != 0) parts.push_back(size_text(download) + " to download");
  if (disk != 0) parts.push_back(size_text(disk) + " of disk");
  if (!parts.empty()) page.paragraph("costs", join(parts, ", "));
  if (!down.empty())
    page.paragraph("down", fmt::format("{}, from its stop until it is ready again: a large model loads for minutes",
                                       join(std::vector(down.begin(), down.end()), ", ")));
}

void render_left_out(Page& page, const HostPlan& host) {
  std::string_view label = "left out";
  for (const auto& each : host.left_out) {
    page.paragraph(label, fmt::format("- {} ({}): {}", printable(each.finding.title), check_of(each.finding),
                                      printable(each.why)));
    label = "";
  }
}

void render_remaining(Page& page, const HostPlan& host) {
  if (!host.unverified.empty())
    return page.paragraph("unverified",
                          fmt::format("its facts come from {}: nothing was inspected, and nothing can be foretold",
                                      printable(host.unverified)));
  if (host.remaining.empty()) return page.paragraph("afterwards", "nothing is left, as far as the facts can tell");
  std::string_view label = "afterwards";
  for (const auto& finding : host.remaining) {
    page.paragraph(label, fmt::format("- still there: {} ({})", printable(finding.title), check_of(finding)));
    label = "";
  }
}

/// What is said of one host, its name apart: hosts of which the same is said are one block.
std::string body_of(const HostPlan& host, const TableOptions& options) {
  Page page(options, kIndent);
  if (!host.refused.empty()) page.paragraph("why", printable(host.refused));
  if (!host.why_unseen().empty()) page.paragraph("why", printable(host.why_unseen()));
  if (!host.hint.empty()) page.paragraph("do", printable(host.hint));
  render_cures(page, host);
  render_shared(page, host);
  render_program(page, "before", host.before_host);
  for (std::size_t i = 0; i < host.steps.size(); ++i) render_step(page, i + 1, host.steps[i], options);
  render_program(page, "after", host.after_host);
  render_cost(page, host);
  if (host.has_work()) render_remaining(page, host);
  render_left_out(page, host);
  return page.take();
}

struct Block {
  const HostPlan* host = nullptr;
  std::string body;
  std::vector<std::string> hosts;
};

bool is_silent(const HostPlan& host) {
  return !host.has_work() && host.refused.empty() && host.why_unseen().empty() && host.left_out.empty();
}

/// Plans first, then what was refused, then what was not looked at, then hosts for whose findings nothing is known.
int rank_of(const HostPlan& host) {
  return host.has_work() ? 0 : !host.refused.empty() ? 1 : !host.why_unseen().empty() ? 2 : 3;
}

std::vector<Block> blocks_of(const Plan& plan, const TableOptions& options) {
  std::vector<Block> blocks;
  std::map<std::string, std::size_t> index;
  for (const auto& host : plan.hosts) {
    if (is_silent(host)) continue;
    auto body = body_of(host, options);
    const auto [at, is_new] = index.emplace(fmt::format("{}\n{}", rank_of(host), body), blocks.size());
    if (is_new) blocks.push_back({&host, std::move(body), {}});
    blocks[at->second].hosts.push_back(host.name);
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block& a, const Block& b) { return rank_of(*a.host) < rank_of(*b.host); });
  return blocks;
}

void render_headline(Page& page, const Block& block) {
  const auto where = block.hosts.size() == 1
                         ? printable(block.hosts.front())
                         : printable(fmt::format("{} hosts: {}", block.hosts.size(), fold_hosts(block.hosts)));
  if (block.host->has_work())
    page.headline(Paint::yellow, "plan", fmt::format("{}: {}", where, count(block.host->steps.size(), "step")));
  else if (!block.host->refused.empty())
    page.headline(Paint::red, "refused", where);
  else if (!block.host->why_unseen().empty())
    page.headline(Paint::red, block.host->unreached.empty() ? "incomplete" : "unreached", where);
  else
    page.headline(Paint::yellow, "no steps", where);
}

std::string time_text(std::chrono::sys_seconds time) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time.time_since_epoch().count()));
}

void render_summary(Page& page, const Plan& plan, const std::string& saved_to) {
  std::size_t steps = 0, changing = 0, refused = 0, unreached = 0, incomplete = 0, left_out = 0;
  std::uint64_t download = 0;
  for (const auto& host : plan.hosts) {
    steps += host.steps.size();
    changing += host.steps.empty() ? 0U : 1U;
    refused += host.refused.empty() ? 0U : 1U;
    unreached += host.unreached.empty() ? 0U : 1U;
    incomplete += host.incomplete.empty() ? 0U : 1U;
    left_out += host.left_out.size();
    for (const auto& step : host.steps) download += step.download_bytes;
  }
  std::vector<std::string> parts = {count(plan.hosts.size(), "host")};
  if (changing != 0)
    parts.push_back(page.paint(Paint::yellow, fmt::format("{} on {}", count(steps, "step"), count(changing, "host"))));
  else if (refused + unreached + incomplete < plan.hosts.size())
    parts.push_back(page.paint(Paint::green, "nothing to do"));
  if (download != 0) parts.push_back(size_text(download) + " to download in all");
  if (refused != 0) parts.push_back(page.paint(Paint::red, fmt::format("{} refused", refused)));
  if (unreached != 0) parts.push_back(page.paint(Paint::red, fmt::format("{} not reached", unreached)));
  if (incomplete != 0) parts.push_back(page.paint(Paint::red, fmt::format("{} incomplete", incomplete)));
  if (left_out != 0) parts.push_back(page.paint(Paint::yellow, count(left_out, "finding") + " left out"));
  page.line(join(parts, " · "));
  if (changing == 0) return;
  if (saved_to.empty())
    page.line("nothing was changed and nothing saved: -o FILE saves the plan for `trueup apply FILE`");
  else
    page.line(fmt::format("nothing was changed yet: trueup apply {} (good until {})", printable(shell_quote(saved_to)),
                          time_text(plan.expires)));
}

}  // namespace

std::string render_plan(const Plan& plan, const std::string& saved_to, const TableOptions& options) {
  Page page(options, kIndent);
  for (const auto& block : blocks_of(plan, options)) {
    render_headline(page, block);
    page.append(block.body);
    page.line();
  }
  std::vector<std::string> silent;
  for (const auto& host : plan.hosts)
    if (is_silent(host)) silent.push_back(host.name);
  if (!silent.empty()) {
    page.headline(Paint::green, "as it is", fmt::format("{}: nothing to do", printable(fold_hosts(silent))));
    page.line();
  }
  render_summary(page, plan, saved_to);
  return page.take();
}

std::string render_plan_json(const Plan& plan) {
  return plan_document(plan).dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace trueup
