#include "plan/plan_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/digest.hpp"
#include "base/text.hpp"

namespace trueup {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using std::chrono::seconds;
using std::chrono::sys_seconds;

// What the seal is computed over: keys sorted, nothing between them, plain ASCII. So the file may be formatted anew,
// and everything else counts.
std::string canonical(json document) {
  document.erase("mac");
  return document.dump(-1, ' ', true, json::error_handler_t::replace);
}

/// Names a key without telling anything of it.
std::string key_id(std::string_view key) { return hex(hmac_sha256(key, "trueup: name of a plan key")).substr(0, 16); }
std::string mac_of(std::string_view key, const json& document) { return hex(hmac_sha256(key, canonical(document))); }

std::string time_text(sys_seconds time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time.time_since_epoch().count()));
}

ordered_json finding_json(const PlannedFinding& finding) {
  return {{"key", finding.key}, {"title", finding.title}, {"severity", to_string(finding.severity)}};
}

ordered_json findings_json(const std::vector<PlannedFinding>& findings) {
  auto list = ordered_json::array();
  for (const auto& finding : findings) list.push_back(finding_json(finding));
  return list;
}

ordered_json step_json(const PlanStep& step) {
  return {{"kind", step.kind},
          {"params", ordered_json::parse(step.params, nullptr, false)},
          {"fix", step.fix},
          {"cures", step.cures},
          {"inspected", step.inspected},
          {"current", step.current},
          {"wanted", step.wanted},
          {"diff", step.diff},
          {"irreversible", step.irreversible},
          {"restarts", step.restarts},
          {"download_bytes", step.download_bytes},
          {"disk_bytes", step.disk_bytes}};
}

ordered_json host_json(const HostPlan& host) {
  auto steps = ordered_json::array();
  for (const auto& step : host.steps) steps.push_back(step_json(step));
  auto left_out = ordered_json::array();
  for (const auto& each : host.left_out) {
    auto record = finding_json(each.finding);
    record["why"] = each.why;
    left_out.push_back(std::move(record));
  }
  auto shared = ordered_json::array();
  for (const auto& each : host.shared)
    shared.push_back({{"kind", each.kind}, {"path", each.path}, {"place", each.place}, {"host", each.host}});
  return {{"name", host.name},
          {"unverified_source", host.unverified},
          {"refused", host.refused},
          {"unreached", host.unreached},
          {"incomplete", host.incomplete},
          {"hint", host.hint},
          {"before_host", host.before_host},
          {"after_host", host.after_host},
          {"cures", findings_json(host.cures)},
          {"steps", std::move(steps)},
          {"shared", std::move(shared)},
          {"left_out", std::move(left_out)},
          {"remaining", findings_json(host.remaining)}};
}

/// Reads a sealed document: only its makers can have written it, so that what is wrong in it is no plan of this
/// version.
struct PlanReader {
  static Severity severity(const json& from) {
    const auto name = from.at("severity").get<std::string>();
    for (const auto severity : {Severity::info, Severity::warning, Severity::error})
      if (to_string(severity) == name) return severity;
    throw std::out_of_range("severity");
  }

  static PlannedFinding finding(const json& from) { return {from.at("key"), from.at("title"), severity(from)}; }

  static std::vector<PlannedFinding> findings(const json& from) {
    std::vector<PlannedFinding> list;
    for (const auto& each : from) list.push_back(finding(each));
    return list;
  }

  static PlanStep step(const json& from) {
    PlanStep step;
    step.kind = from.at("kind");
    step.params = from.at("params").dump(-1, ' ', true);
    step.fix = from.at("fix");
    step.cures = from.at("cures").get<std::vector<std::string>>();
    step.inspected = from.at("inspected");
    step.current = from.at("current");
    step.wanted = from.at("wanted");
    step.diff = from.at("diff");
    step.irreversible = from.at("irreversible");
    step.restarts = from.at("restarts").get<std::vector<std::string>>();
    step.download_bytes = from.at("download_bytes");
    step.disk_bytes = from.at("disk_bytes");
    return step;
  }

  static HostPlan host(const json& from) {
    HostPlan host;
    host.name = from.at("name");
    host.unverified = from.at("unverified_source");
    host.refused = from.at("refused");
    host.unreached = from.at("unreached");
    host.incomplete = from.at("incomplete");
    host.hint = from.at("hint");
    host.before_host = from.at("before_host").get<std::vector<std::string>>();
    host.after_host = from.at("after_host").get<std::vector<std::string>>();
    host.cures = findings(from.at("cures"));
    for (const auto& each : from.at("steps")) host.steps.push_back(step(each));
    for (const auto& each : from.at("shared"))
      host.shared.push_back({each.at("kind"), each.at("path"), each.at("place"), each.at("host")});
    for (const auto& each : from.at("left_out")) host.left_out.push_back({finding(each), each.at("why")});
    host.remaining = findings(from.at("remaining"));
    return host;
  }

  static Plan plan(const json& from) {
    Plan plan;
    plan.id = from.at("id");
    plan.version = from.at("version");
    plan.made_by = from.at("made_by");
    plan.created = sys_seconds(seconds(from.at("created").get<std::int64_t>()));
    plan.expires = sys_seconds(seconds(from.at("expires").get<std::int64_t>()));
    plan.playbooks = from.at("playbooks").get<std::map<std::string, std::string>>();
    for (const auto& each : from.at("hosts")) plan.hosts.push_back(host(each));
    return plan;
  }
};

tl::unexpected<Error> no_plan(std::string message, std::string hint = {}) {
  return fail(Error{ErrorKind::malformed, std::move(message), {}, {}, std::move(hint)});
}

/// The first of them, and how many there are beyond.
std::string some_of(std::vector<std::string> names) {
  constexpr std::size_t kShown = 4;
  const auto more = names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : std::string();
  names.resize(std::min(names.size(), kShown));
  return join(names, ", ") + more;
}

// It becomes the name of a file on hosts.
bool is_plan_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && id.front() != '-' && id.front() != '.' &&
         id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == id.npos;
}

}  // namespace

ordered_json plan_document(const Plan& plan) {
  auto hosts = ordered_json::array();
  for (const auto& host : plan.hosts) hosts.push_back(host_json(host));
  return {{"schema", kPlanSchema},
          {"kind", "plan"},
          {"id", plan.id},
          {"version", plan.version},
          {"made_by", plan.made_by},
          {"created", plan.created.time_since_epoch().count()},
          {"expires", plan.expires.time_since_epoch().count()},
          {"playbooks", plan.playbooks},
          {"hosts", std::move(hosts)}};
}

std::string plan_to_json(const Plan& plan, std::string_view key) {
  auto document = plan_document(plan);
  document["key"] = key_id(key);
  // As it will be read: what is no UTF-8 is replaced by then.
  const auto as_read = json::parse(document.dump(-1, ' ', true, ordered_json::error_handler_t::replace));
  document["mac"] = mac_of(key, as_read);
  return document.dump(1, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

Result<Plan> plan_from_json(std::string_view text, std::string_view key) {
  const auto document = json::parse(text, nullptr, false);
  if (document.is_discarded()) return no_plan("no plan: it is not JSON");
  const auto text_at = [&](const char* name) {
    const auto found = document.is_object() ? document.find(name) : document.end();
    return found != document.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto schema = document.is_object() ? document.find("schema") : document.end();
  if (schema == document.end() || !schema->is_number_integer() || text_at("kind") != "plan")
    return no_plan("no plan: expected what `trueup plan -o FILE` writes");
  if (*schema != kPlanSchema)
    return no_plan(fmt::format("a plan of schema {}, and this trueup reads schema {}", schema->dump(), kPlanSchema),
                   "make the plan anew with this trueup");
  if (text_at("mac").empty())
    return no_plan("the plan has no seal",
                   "a report of `--format json` is no plan file; `trueup plan -o FILE` writes one");
  if (text_at("key") != key_id(key))
    return no_plan(fmt::format("the plan was sealed with another key ({}, and this one is {})",
                               printable(shorten(text_at("key"), 20)), key_id(key)),
                   "apply it where it was made, or give that controller's key with --plan-key");
  if (!is_same_secret(text_at("mac"), mac_of(key, document)))
    return no_plan("the plan was changed since it was made: its seal does not fit", "make the plan anew");
  try {
    auto plan = PlanReader::plan(document);
    if (!is_plan_id(plan.id)) return no_plan("the plan's id is no name of a file");
    return plan;
  } catch (const std::exception& error) {  // json's, for what is missing or of another type
    return no_plan(fmt::format("a plan that this trueup does not understand: {}", error.what()), "make the plan anew");
  }
}

Result<void> check_usable(const Plan& plan, const std::map<std::string, std::string>& playbooks,
                          std::string_view version, sys_seconds now) {
  const auto refuse = [](std::string message) {
    return fail(Error{ErrorKind::refused, std::move(message), {}, {}, "make the plan anew, and look at it again"});
  };
  if (now >= plan.expires)
    return refuse(fmt::format("the plan expired at {}: hosts change meanwhile", time_text(plan.expires)));
  if (plan.version != version)
    return refuse(fmt::format("the plan was made by trueup {}, and this is {}", printable(plan.version), version));
  std::vector<std::string> changed, missing, added;
  for (const auto& [name, digest] : plan.playbooks) {
    const auto found = playbooks.find(name);
    if (found == playbooks.end())
      missing.push_back(printable(name));
    else if (found->second != digest)
      changed.push_back(printable(name));
  }
  for (const auto& [name, digest] : playbooks)
    if (!plan.playbooks.contains(name)) added.push_back(printable(name));
  std::vector<std::string> parts;
  if (!changed.empty()) parts.push_back("changed: " + some_of(changed));
  if (!missing.empty()) parts.push_back("not given now: " + some_of(missing));
  if (!added.empty()) parts.push_back("not given then: " + some_of(added));
  if (!parts.empty()) return refuse("the plan was made with other playbooks (" + join(parts, "; ") + ")");
  return {};
}

}  // namespace trueup
