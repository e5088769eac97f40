#include "plan/plan_file.hpp"

#include <nlohmann/json.hpp>

#include "support/catch.hpp"

namespace trueup {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kNow = std::chrono::sys_seconds(std::chrono::seconds(1'800'000'000));
const std::string kKey(64, 'k');

Plan sample() {
  Plan plan;
  plan.id = "20270115T080000Z-1-0badcafe";
  plan.version = "1.2.3";
  plan.made_by = "ops@control";
  plan.created = kNow;
  plan.expires = kNow + kPlanLifetime;
  plan.playbooks = {{"a.yaml", "11"}, {"b.yaml", "22"}};
  PlanStep step;
  step.kind = "file";
  step.params = R"({"content":"a\nb\u00e9","path":"/etc/x"})";
  step.params = json::parse(step.params).dump(-1, ' ', true);
  step.fix = "f";
  step.cures = {"c@u"};
  step.inspected = "kind=absent\nwhat='\"\\";
  step.current = "absent";
  step.wanted = "there";
  step.diff = "--- a\n+++ b\n";
  step.irreversible = "tears";
  step.restarts = {"u"};
  step.download_bytes = std::numeric_limits<std::uint64_t>::max();
  step.disk_bytes = 7;
  HostPlan host;
  host.name = "gpu1";
  host.cures = {{"c@u", "title", Severity::warning}};
  host.steps = {step, step};
  host.left_out = {{{"d", "other", Severity::info}, "no fix is known"}};
  host.remaining = {{"e", "rest", Severity::error}};
  host.shared = {{"cache", "/home/x/.cache", "nas:/home/x/.cache", "gpu0"}};
  host.before_host = {"/usr/bin/drain", "it's"};
  host.after_host = {"/usr/bin/undrain"};
  HostPlan other;
  other.name = "gpu2";
  other.refused = "not root";
  other.unverified = "facts.json";
  HostPlan gone, cut;
  gone.name = "gpu3";
  gone.unreached = "no answer";
  gone.hint = "start it";
  cut.name = "gpu4";
  cut.incomplete = "cut off";
  plan.hosts = {host, other, gone, cut};
  return plan;
}

std::string refusal(std::string_view text, std::string_view key = kKey) {
  const auto plan = plan_from_json(text, key);
  if (plan) return "accepted";
  CHECK(plan.error().kind == ErrorKind::malformed);
  return plan.error().message;
}

}  // namespace

TEST_CASE("a plan comes back as it was saved", "[unit][plan][file]") {
  const auto plan = sample();
  const auto text = plan_to_json(plan, kKey);
  const auto back = plan_from_json(text, kKey);
  REQUIRE(back.has_value());
  CHECK(*back == plan);
  CHECK(plan_to_json(*back, kKey) == text);
  CHECK(text.find(kKey) == std::string::npos);
  // Formatted anew it is the same plan.
  CHECK(plan_from_json(json::parse(text).dump(), kKey).has_value());
}

TEST_CASE("what hosts said travels, though it is no UTF-8", "[unit][plan][file]") {
  auto plan = sample();
  plan.hosts[0].steps[0].current = "caf\xe9";
  const auto back = plan_from_json(plan_to_json(plan, kKey), kKey);
  REQUIRE(back.has_value());
  CHECK(back->hosts[0].steps[0].current == "caf\xef\xbf\xbd");
}

// Every place of the document, changed by a little.
TEST_CASE("a plan that was edited is refused wherever that was", "[unit][plan][file][property]") {
  const auto document = json::parse(plan_to_json(sample(), kKey));
  std::size_t edits = 0;
  const auto refused = [&](const json& edited) {
    ++edits;
    const auto plan = plan_from_json(edited.dump(), kKey);
    if (plan) FAIL("accepted: " << edited.dump());
  };
  const auto places = document.flatten();
  for (const auto& [place, value] : places.items()) {
    const json::json_pointer at(place);
    auto edited = document;
    if (value.is_string()) {
      const auto text = value.get<std::string>();
      edited[at] = text + " ";
      refused(edited);
      if (!text.empty()) {
        auto flipped = text;
        flipped[text.size() / 2] = flipped[text.size() / 2] == 'x' ? 'y' : 'x';
        edited[at] = flipped;
        refused(edited);
        edited[at] = text.substr(1);
        refused(edited);
      }
    } else if (value.is_number()) {
      edited[at] = value.get<std::uint64_t>() - 1;
      refused(edited);
    }
    edited = document;
    edited[at] = json();
    if (edited != document) refused(edited);
    if (place.rfind('/') == 0) {
      edited = document;
      edited.erase(place.substr(1));
      refused(edited);
    }
  }
  auto more = document;
  more["hosts"].push_back(document["hosts"][0]);
  refused(more);
  more = document;
  std::swap(more["hosts"][0], more["hosts"][1]);
  refused(more);
  more = document;
  more["hosts"][0]["steps"].erase(0);
  refused(more);
  more = document;
  more["hosts"][0]["extra"] = 1;
  refused(more);
  CHECK(edits > 100);
}

// Every byte of the file, cut there and changed there: refused, or the same plan (blanks between things).
TEST_CASE("no byte of a plan file can be changed unseen", "[unit][plan][file][property]") {
  const auto plan = sample();
  const auto text = plan_to_json(plan, kKey);
  for (std::size_t at = 0; at < text.size(); at += 3) {
    for (const char byte : {' ', '0', 'a', '"', '}', '\xff'}) {
      auto edited = text;
      if (edited[at] == byte) continue;
      edited[at] = byte;
      const auto read = plan_from_json(edited, kKey);
      if (read && *read != plan) FAIL("accepted with " << byte << " at " << at);
    }
    if (at + 2 < text.size() && plan_from_json(text.substr(0, at), kKey)) FAIL("accepted, cut at " << at);
  }
}

TEST_CASE("a refused plan file says what is wrong with it", "[unit][plan][file]") {
  const auto text = plan_to_json(sample(), kKey);
  const auto document = json::parse(text);
  const auto with = [&](const char* name, const json& value) {
    auto edited = document;
    edited[name] = value;
    return edited.dump();
  };
  CHECK(refusal("") == "no plan: it is not JSON");
  CHECK(refusal("[1]") == "no plan: expected what `trueup plan -o FILE` writes");
  CHECK(refusal(R"({"schema": 1, "run": {}})") == "no plan: expected what `trueup plan -o FILE` writes");
  CHECK(refusal(with("schema", 1)) == "a plan of schema 1, and this trueup reads schema 2");
  CHECK(refusal(plan_document(sample()).dump()) == "the plan has no seal");
  CHECK(refusal(with("made_by", "someone")) == "the plan was changed since it was made: its seal does not fit");
  CHECK(refusal(text, std::string(64, 'o')).find("the plan was sealed with another key (") == 0);
  // Whoever has the key can still not give a run's directory another place.
  auto odd = sample();
  odd.id = "../../etc";
  CHECK(refusal(plan_to_json(odd, kKey)) == "the plan's id is no name of a file");
}

TEST_CASE("a plan is used soon, with the playbooks and the program that it was made with", "[unit][plan][file]") {
  const auto plan = sample();
  const auto usable = [&](std::map<std::string, std::string> playbooks, std::string_view version,
                          std::chrono::sys_seconds now) {
    const auto result = check_usable(plan, playbooks, version, now);
    if (result) return std::string();
    CHECK(result.error().kind == ErrorKind::refused);
    return result.error().message;
  };
  CHECK(usable(plan.playbooks, "1.2.3", kNow + 24h - 1s).empty());
  CHECK(usable(plan.playbooks, "1.2.3", kNow + 24h) ==
        "the plan expired at 2027-01-16T08:00:00Z: hosts change meanwhile");
  CHECK(usable(plan.playbooks, "1.2.4", kNow) == "the plan was made by trueup 1.2.3, and this is 1.2.4");
  CHECK(usable({{"a.yaml", "12"}, {"c.yaml", "33"}}, "1.2.3", kNow) ==
        "the plan was made with other playbooks (changed: a.yaml; not given now: b.yaml; not given then: c.yaml)");
  auto more = plan.playbooks;
  for (const auto* name : {"c", "d", "e", "f", "g", "h"}) more[name] = "33";
  CHECK(usable(more, "1.2.3", kNow) ==
        "the plan was made with other playbooks (not given then: c, d, e, f and 2 more)");
}

}  // namespace trueup
