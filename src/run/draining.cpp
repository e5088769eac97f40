#include "run/draining.hpp"

#include <fmt/format.h>

#include <future>
#include <string_view>
#include <utility>

namespace trueup {
namespace {

/// Why nobody knows what the host is now; empty: it is as planned, or as it was.
std::string_view doubt_about(const WorkResult& result, bool was_settled) {
  switch (result.outcome) {
    case WorkOutcome::unchanged:
    case WorkOutcome::verified:
    case WorkOutcome::put_back: return {};
    case WorkOutcome::unverified: return "whether it is as planned is not known";
    case WorkOutcome::at_work: return "it may still be changed";
    case WorkOutcome::stuck:
    case WorkOutcome::interrupted: return "it may be between old and new";
    case WorkOutcome::refused:
    case WorkOutcome::failed:
    case WorkOutcome::not_begun: break;
  }
  if (result.code == "lock-held") return "another run works there";
  if (result.code == "left-behind") return "a run was left behind there";
  return was_settled ? std::string_view{} : "it is as the run left it";
}

bool is_done(const WorkResult& result) {
  return result.outcome == WorkOutcome::verified || result.outcome == WorkOutcome::put_back;
}

}  // namespace

Draining::Draining(const WorkTools& tools, std::size_t hosts) : tools_(tools), is_out_(hosts) {}

std::string Draining::by_hand(std::size_t host) const {
  return tools_.how_to_bring_back ? tools_.how_to_bring_back(host) : std::string("take back what before_host did");
}

std::vector<std::size_t> Draining::take_out(const std::vector<std::size_t>& hosts, std::vector<WorkResult>& results) {
  if (!tools_.before_host) return hosts;
  std::vector<std::future<Result<bool>>> programs;
  for (const auto host : hosts)
    programs.push_back(std::async(std::launch::async, [this, host] { return tools_.before_host(host); }));
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto done = programs[i].get();
    if (done) {
      is_out_[hosts[i]] = *done;
      ready.push_back(hosts[i]);
      continue;
    }
    auto& result = results[hosts[i]];
    result.outcome = WorkOutcome::failed;
    result.code = "before_host";
    result.why = to_string(done.error());
    result.hint = done.error().hint;
    // Perhaps it found that somebody else had drained the host: then that is not ours to end.
    result.drained = fmt::format("it may be out of service, since before_host failed; if nobody else wants it so: {}",
                                 by_hand(hosts[i]));
  }
  return ready;
}

void Draining::bring_back(const std::vector<std::size_t>& hosts, const std::vector<bool>& was_settled,
                          std::vector<WorkResult>& results) {
  std::vector<std::pair<std::size_t, std::future<Result<void>>>> programs;
  for (const auto host : hosts) {
    auto& result = results[host];
    const auto doubt = doubt_about(result, was_settled[host]);
    if (is_out_[host] && !doubt.empty())
      result.drained = fmt::format("it is still out of service: {}; once that is settled: {}", doubt, by_hand(host));
    if (!doubt.empty() || !(is_out_[host] || is_done(result)) || !tools_.after_host) continue;
    programs.emplace_back(host, std::async(std::launch::async, [this, host, outcome = result.outcome] {
                            return tools_.after_host(host, outcome);
                          }));
  }
  for (auto& [host, program] : programs) {
    const auto done = program.get();
    is_out_[host] = false;
    if (done) continue;
    auto& result = results[host];
    result.drained = fmt::format("it may still be out of service, since after_host failed: {}; by hand: {}",
                                 to_string(done.error()), by_hand(host));
    if (result.outcome == WorkOutcome::verified) result.outcome = WorkOutcome::unverified;
    if (result.why.empty()) result.why = "after_host failed";
  }
}

}  // namespace trueup
