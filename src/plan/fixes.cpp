#include "plan/fixes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"

namespace trueup {
namespace {

/// The value of what has no template in it; absent: something has.
std::optional<nlohmann::json> constant(const ParamTree& tree) {
  switch (tree.kind) {
    case ParamTree::Kind::null:
      return nlohmann::json();
    case ParamTree::Kind::scalar:
      return nlohmann::json::parse(tree.json);
    case ParamTree::Kind::text:
      if (tree.text.text.find("{{") != std::string::npos) return std::nullopt;
      return nlohmann::json(tree.text.text);
    case ParamTree::Kind::list: {
      auto list = nlohmann::json::array();
      for (const auto& item : tree.items) {
        auto value = constant(item);
        if (!value) return std::nullopt;
        list.push_back(*std::move(value));
      }
      return list;
    }
    case ParamTree::Kind::map: {
      auto map = nlohmann::json::object();
      for (const auto& [name, member] : tree.members) {
        auto value = constant(member);
        if (!value) return std::nullopt;
        map[name] = *std::move(value);
      }
      return map;
    }
  }
  return std::nullopt;
}

class FixChecker {
 public:
  FixChecker(const FindAction& find_kind, const std::vector<std::string>& kinds, std::vector<Error>& errors)
      : find_kind_(find_kind), kinds_(kinds), errors_(errors) {}

  void step(const std::string& fix, const FixStep& step) {
    const auto fix_text = what_ = "fix " + fix;
    const auto* kind = find_kind_(step.kind);
    if (kind == nullptr)
      return error(step.at,
                   fmt::format("there is no action '{}'{}", printable(step.kind), did_you_mean(step.kind, kinds_)));
    what_ += ": " + step.kind;
    const auto errors_before = errors_.size();
    std::vector<std::string> names;
    for (const auto& spec : kind->params()) names.emplace_back(spec.name);
    for (const auto& [name, value] : step.params.members)
      if (std::find(names.begin(), names.end(), name) == names.end())
        error(value.at, fmt::format("unknown parameter '{}'{}", printable(name), did_you_mean(name, names)));
    for (const auto& spec : kind->params()) member(step, spec);
    // Values that are wrong only together.
    const auto params = constant(step.params);
    if (!params || errors_.size() != errors_before) return;
    auto given = nlohmann::json::object();
    for (const auto& [name, value] : params->items())
      if (!value.is_null()) given[name] = value;  // as rendering leaves it out
    for (const auto& wrong : check_params(*kind, given)) {
      what_ = fix_text;  // which kind it is, the message says
      error(step.at, to_string(wrong));
    }
  }

 private:
  void member(const FixStep& step, const ParamSpec& spec) {
    const auto found = std::find_if(step.params.members.begin(), step.params.members.end(),
                                    [&](const auto& each) { return each.first == spec.name; });
    if (found == step.params.members.end() || found->second.kind == ParamTree::Kind::null) {
      if (spec.required) error(step.at, fmt::format("parameter '{}' is missing ({})", spec.name, spec.help));
      return;
    }
    const auto value = constant(found->second);
    if (!value) return;
    if (const auto wrong = wrong_value(spec, *value); !wrong.empty())
      error(found->second.at,
            fmt::format("{}: {}{}", spec.name, wrong,
                        value->is_number() && spec.type == ParamType::text ? " (put it in quotes)" : ""));
  }

  void error(const SourcePos& at, std::string message) {
    errors_.push_back(Error{ErrorKind::malformed, fmt::format("{}: {}", what_, message), at, {}, {}});
  }

  const FindAction& find_kind_;
  const std::vector<std::string>& kinds_;
  std::vector<Error>& errors_;
  std::string what_;
};

}  // namespace

void check_fixes(const std::vector<Fix>& fixes, const FindAction& find_kind, const std::vector<std::string>& kinds,
                 std::vector<Error>& errors) {
  FixChecker checker(find_kind, kinds, errors);
  for (const auto& fix : fixes)
    for (const auto& step : fix.steps) checker.step(fix.id, step);
}

}  // namespace trueup
