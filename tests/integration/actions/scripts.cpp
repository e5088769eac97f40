#include "action/scripts.hpp"

#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "action/action.hpp"
#include "probe/scripts.hpp"

// What the kinds make, for tests that run it through real shells: a list of {kind, params, inspected} on standard
// input, and on standard output the library and for each the scripts and the difference.

namespace {

using nlohmann::json;
using namespace trueup;

json made(const json& asked) {
  const auto* kind = find_action(asked.at("kind").get<std::string>());
  if (kind == nullptr) return {{"error", "no such kind"}};
  const auto& params = asked.at("params");
  for (const auto& error : check_params(*kind, params)) return {{"error", error.message}};
  json answer = {{"inspect", kind->inspect(params).text}};
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
  answer["apply"] = kind->apply(params, *difference).text;
  answer["verify"] = kind->verify(params, *difference).text;
  answer["undo"] = kind->undo(params, *difference).text;
  answer["prune"] = kind->prune(params, *difference).text;
  return answer;
}

}  // namespace

int main() {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  json answers = json::array();
  for (const auto& asked : json::parse(text)) answers.push_back(made(asked));
  const auto library = std::string(kProbeLibrary) + std::string(kConsumersLibrary) + std::string(kActionLibrary);
  std::cout << json{{"library", library}, {"made", answers}}.dump(-1, ' ', false, json::error_handler_t::replace)
            << "\n";
}
