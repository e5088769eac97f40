#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "action/action.hpp"
#include "base/text.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"

// docs/actions.md says of each parameter what the registry says. TRUEUP_UPDATE_GOLDEN=1 writes it anew.

namespace trueup {
namespace {

using nlohmann::json;

constexpr std::string_view kHead = R"(# Actions

What the steps of a fix may be, and their parameters (docs/playbooks.md says how fixes are written). Written from the
actions themselves, by `tests/unit/action/reference_test.cpp`; `trueup lint` holds playbooks against the same. What each
looks at, changes and puts back: `src/action/README.md`.

A text is one line. Durations (`90s`, `10m`, `1h`) and sizes (`6GiB`) are texts. What looks like a number in YAML is
one, unless it stands in quotes.
)";

std::string_view type_text(ParamType type) {
  switch (type) {
    case ParamType::text: return "text";
    case ParamType::content: return "text of any lines";
    case ParamType::path: return "absolute path";
    case ParamType::unit: return "name of a service's unit";
    case ParamType::integer: return "number";
    case ParamType::boolean: return "true or false";
    case ParamType::texts: return "list of texts";
    case ParamType::variables: return "names and texts";
    case ParamType::object: return "parameters";
  }
  return {};
}

std::string code(std::string_view text) { return fmt::format("`{}`", text); }

void add_rows(std::span<const ParamSpec> specs, const std::string& above, std::string& text) {
  for (const auto& spec : specs) {
    std::string type(type_text(spec.type));
    if (!spec.choices.empty()) {
      std::vector<std::string> choices;
      for (const auto choice : spec.choices) choices.push_back(code(choice));
      type = join(choices, ", ");
    }
    const auto otherwise = spec.required ? "required" : spec.otherwise.empty() ? "" : std::string(spec.otherwise);
    text += fmt::format("| {} | {} | {} | {} |\n", code(above + std::string(spec.name)), type, otherwise, spec.help);
    add_rows(spec.members, above + std::string(spec.name) + ".", text);
  }
}

std::string reference() {
  std::string text(kHead);
  for (const auto& kind : action_kinds()) {
    text += fmt::format("\n## {}\n\n| parameter | type | default | |\n| --- | --- | --- | --- |\n", kind->name());
    add_rows(kind->params(), "", text);
  }
  return text;
}

}  // namespace

TEST_CASE("the reference of actions says what the registry says", "[unit][action][golden]") {
  const std::string path = TRUEUP_SOURCE "/docs/actions.md";
  const auto wanted = reference();
  if (std::getenv("TRUEUP_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << wanted;
    FAIL(path << " was written anew");
  }
  CHECK(test::read_file(path) == wanted);
}

TEST_CASE("every parameter is explained, and an object by its members", "[unit][action]") {
  const std::function<void(std::span<const ParamSpec>)> check = [&](std::span<const ParamSpec> specs) {
    for (const auto& spec : specs) {
      CAPTURE(spec.name);
      CHECK_FALSE(spec.help.empty());
      CHECK((spec.type == ParamType::object) == !spec.members.empty());
      CHECK_FALSE((spec.required && !spec.otherwise.empty()));
      check(spec.members);
    }
  };
  for (const auto& kind : action_kinds()) {
    CAPTURE(kind->name());
    check(kind->params());
  }
}

// A default that the reference names and the code does not have would be a lie.
TEST_CASE("what is left out is as if its default stood there", "[unit][action]") {
  const std::vector<std::pair<std::string, json>> steps = {
      {"cuda_toolkit", {{"version", "13.0"}}},
      {"cuda_toolkit",
       {{"version", "13.0"}, {"repository", {{"url", "https://h/"}, {"key", "k"}, {"fingerprint", "f"}}}}},
      {"package", {{"packages", {"ninja-build"}}}},
      {"alternatives", {{"group", "cuda"}, {"path", "/usr/local/cuda-12.8"}}},
      {"file", {{"path", "/etc/x/y"}, {"content", "a\n"}}},
      {"command", {{"check", {"/bin/true"}}, {"apply", {"/bin/true"}}, {"undo", {"/bin/true"}}}},
      {"service", {{"unit", "x.service"}, {"state", "stopped"}}},
      {"service",
       {{"unit", "x.service"},
        {"state", "started"},
        {"health", {{"url", "http://h/"}, {"request", {{"url", "http://h/"}, {"body", "b"}}}}}}},
  };
  const auto scripts = [](const ActionKind& kind, const json& params) {
    std::string text;
    for (const auto& script :
         {kind.inspect(params), kind.apply(params, {}), kind.verify(params, {}), kind.undo(params, {})})
      text += fmt::format("{}{}\n", script.text, script.limit.count());
    return text;
  };
  std::set<std::string> seen, all;
  // Each default of `specs` put into the object at `at`.
  const std::function<void(const ActionKind&, const json&, std::span<const ParamSpec>, const json::json_pointer&)>
      compare = [&](const ActionKind& kind, const json& params, std::span<const ParamSpec> specs,
                    const json::json_pointer& at) {
        for (const auto& spec : specs) {
          const auto place = at / std::string(spec.name);
          const auto name = fmt::format("{}{}", kind.name(), place.to_string());
          const bool is_value = !spec.otherwise.empty() && spec.otherwise.find(' ') == spec.otherwise.npos;
          if (is_value) all.insert(name);
          if (!params.contains(at)) continue;
          if (params.contains(place)) {
            compare(kind, params, spec.members, place);
          } else if (is_value) {
            auto given = params;
            given[place] = spec.type == ParamType::integer ? json(std::stoi(std::string(spec.otherwise)))
                                                           : json(std::string(spec.otherwise));
            CAPTURE(name);
            CHECK(scripts(kind, given) == scripts(kind, params));
            seen.insert(name);
          }
        }
      };
  for (const auto& [name, params] : steps)
    compare(*find_action(name), params, find_action(name)->params(), json::json_pointer());
  CHECK(seen == all);
}

}  // namespace trueup
