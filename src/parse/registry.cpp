#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "parse/options.hpp"
#include "parse/parser.hpp"

namespace trueup {

namespace {

struct Registered {
  const char* name;
  Parser (*make)(parse::Options&);
};

constexpr Registered kParsers[] = {
    {"columns", parse::make_columns}, {"csv", parse::make_csv},     {"ini", parse::make_ini},
    {"json", parse::make_json},       {"kv", parse::make_kv},       {"lines", parse::make_lines},
    {"ndjson", parse::make_ndjson},   {"regex", parse::make_regex}, {"os-release", parse::make_os_release},
};

}  // namespace

Result<Parser> make_parser(const nlohmann::json& declaration) {
  // `parse: json` is short for `parse: {json: {}}`.
  const auto whole =
      declaration.is_string() ? nlohmann::json::object({{declaration.get<std::string>(), nullptr}}) : declaration;
  if (!whole.is_object() || whole.size() != 1)
    return fail(ErrorKind::malformed, "expected one parser with its options, such as {kv: {fields: {...}}}");
  const auto& name = whole.begin().key();
  for (const auto& parser : kParsers) {
    if (name != parser.name) continue;
    parse::Options options(name, whole.begin().value());
    auto made = parser.make(options);
    if (const auto right = options.finish(); !right) return fail(right.error());
    return made;
  }
  std::vector<std::string> names;
  for (const auto& parser : kParsers) names.emplace_back(parser.name);
  return fail(ErrorKind::malformed, fmt::format("unknown parser '{}'{}", printable(name), did_you_mean(name, names)));
}

}  // namespace trueup
