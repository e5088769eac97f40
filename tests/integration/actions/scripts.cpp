#include "action/scripts.hpp"

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "action/action.hpp"
#include "probe/scripts.hpp"

// What the kinds make, for tests that run it through real shells: a list of {kind, params, inspected} on standard
// input, and on standard output the library, for each the scripts and the difference (`without_difference`: the scripts
// alone), and all kinds with their parameters.

namespace {

using nlohmann::json;
using namespace trueup;

json add_scripts(const ActionKind& kind, const json& params, const Difference& difference, json answer) {
  answer["apply"] = kind.apply(params, difference).text;
  answer["verify"] = kind.verify(params, difference).text;
  answer["undo"] = kind.undo(params, difference).text;
  answer["prune"] = kind.prune(params, difference).text;
  return answer;
}

json made(const json& asked) {
  const auto* kind = find_action(asked.at("kind").get<std::string>());
  if (kind == nullptr) return {{"error", "no such kind"}};
  const auto& params = asked.at("params");
  for (const auto& error : check_params(*kind, params)) return {{"error", error.message}};
  json answer = {{"inspect", kind->inspect(params).text}};
  if (asked.contains("without_difference")) return add_scripts(*kind, params, {}, std::move(answer));
  if (!asked.contains("inspected")) return answer;
  const auto difference = kind->diff(params, asked.at("inspected").get<std::string>());
  if (!difference) return {{"error", difference.error().message}};
  answer["needed"] = difference->needed;
  answer["refused"] = difference->refused;
  answer["current"] = difference->current;
  answer["wanted"] = difference->wanted;
  answer["diff"] = difference->diff;
  answer["irreversible"] = difference->irreversible;
  answer["download"] = difference->download_bytes;
  return add_scripts(*kind, params, *difference, std::move(answer));
}

/// The names of all parameters, those of objects behind their object's.
json names_of(std::span<const ParamSpec> specs, const std::string& above = {}) {
  auto names = json::array();
  for (const auto& spec : specs) {
    const auto name = above + std::string(spec.name);
    if (spec.members.empty()) names.push_back(name);
    for (const auto& member : names_of(spec.members, name + ".")) names.push_back(member);
  }
  return names;
}

}  // namespace

int main() {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  json answers = json::array();
  for (const auto& asked : json::parse(text)) answers.push_back(made(asked));
  const auto library = std::string(kProbeLibrary) + std::string(kConsumersLibrary) + std::string(kActionLibrary);
  json kinds;
  for (const auto& kind : action_kinds()) kinds[std::string(kind->name())] = names_of(kind->params());
  std::cout << json{{"library", library}, {"made", answers}, {"kinds", kinds}}.dump(-1, ' ', false,
                                                                                    json::error_handler_t::replace)
            << "\n";
}
