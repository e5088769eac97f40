#include "parse/options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace trueup::parse {

using nlohmann::json;

Options::Options(std::string parser, const json& options)
    : parser_(std::move(parser)), options_(options.is_null() ? json::object() : options) {
  if (!options_.is_object()) {
    mistake(fmt::format("expected a mapping of options, got {}", options_.type_name()));
    options_ = json::object();
  }
}

void Options::mistake(std::string message) {
  if (mistake_.empty()) mistake_ = std::move(message);
}

const json* Options::get(std::string_view name) {
  known_.emplace_back(name);
  const auto found = options_.find(name);
  return found == options_.end() ? nullptr : &*found;
}

bool Options::flag(std::string_view name, bool otherwise) {
  const auto* value = get(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) mistake(fmt::format("{}: expected true or false, got {}", name, value->dump()));
  return value->is_boolean() ? value->get<bool>() : otherwise;
}

std::string Options::text(std::string_view name, std::string otherwise) {
  const auto* value = get(name);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) mistake(fmt::format("{}: expected a text, got {}", name, value->dump()));
  return value->is_string() ? value->get<std::string>() : otherwise;
}

char Options::character(std::string_view name, char otherwise) {
  const auto value = text(name, std::string(1, otherwise));
  if (value.size() != 1) mistake(fmt::format("{}: expected one character, got '{}'", name, printable(value)));
  return value.empty() ? otherwise : value.front();
}

std::size_t Options::count(std::string_view name, std::size_t otherwise) {
  const auto* value = get(name);
  if (value == nullptr) return otherwise;
  if (!value->is_number_unsigned()) mistake(fmt::format("{}: expected a count, got {}", name, value->dump()));
  return value->is_number_unsigned() ? value->get<std::size_t>() : otherwise;
}

Fields Options::fields(Layout layout, const json& otherwise, bool ignore_unknown) {
  const auto* declared = get("fields");
  ignore_unknown = flag("ignore_unknown", ignore_unknown);
  const json& declaration = declared != nullptr ? *declared : otherwise;
  if (declaration.is_null()) {
    mistake("fields: missing");
    return {};
  }
  auto fields = Fields::parse(declaration, layout, ignore_unknown);
  if (fields) return std::move(*fields);
  mistake("fields: " + fields.error().message);
  return {};
}

Result<void> Options::finish() const {
  if (!mistake_.empty()) return fail(ErrorKind::malformed, fmt::format("parser {}: {}", parser_, mistake_));
  for (const auto& [name, value] : options_.items())
    if (std::find(known_.begin(), known_.end(), name) == known_.end())
      return fail(ErrorKind::malformed, fmt::format("parser {}: unknown option '{}'{}", parser_, printable(name),
                                                    did_you_mean(name, known_)));
  return {};
}

}  // namespace trueup::parse
