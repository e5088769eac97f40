#include "trueup/environment.hpp"

#include <algorithm>

#include "model/json_io.hpp"

namespace trueup {
namespace {

// Of one section: what no honest host has. Judging takes time and memory with each.
constexpr std::size_t kMostRecords = 2000;

constexpr auto kExtraIgnored = JsonReader::Extra::ignore;

template <class T>
Result<void> read_section(const nlohmann::json& json, Fact<T>& fact, const std::string& name, JsonReader::Extra extra) {
  T value;
  if (auto done = JsonReader(extra).read(json, value, name); !done) {
    fact = Fact<T>::unknown(done.error().message);
    return done;
  }
  fact = std::move(value);
  return {};
}

/// Calls `visit` with the section called `name`; false: there is none.
template <class Visit>
bool with_section(Environment& environment, std::string_view name, Visit&& visit) {
  bool found = false;
  for_each_field<Environment>([&](const auto& field) {
    if (field.name != name) return;
    found = true;
    visit(environment.*field.member);
  });
  return found;
}

}  // namespace

const PythonPackage* PythonEnv::package(std::string_view name) const {
  const auto found = std::find_if(packages.begin(), packages.end(), [&](const auto& p) { return p.name == name; });
  return found == packages.end() ? nullptr : &*found;
}

const std::vector<std::string>& environment_sections() {
  static const std::vector<std::string> kSections = [] {
    std::vector<std::string> names;
    for_each_field<Environment>([&](const auto& field) { names.emplace_back(field.name); });
    return names;
  }();
  return kSections;
}

nlohmann::json environment_to_json(const Environment& environment) {
  nlohmann::json document = {{"schema", kEnvironmentSchema}, {"unknown", nlohmann::json::object()}};
  for_each_field<Environment>([&](const auto& field) {
    const auto& fact = environment.*field.member;
    document[field.name] = fact.is_known() ? to_json(*fact) : nlohmann::json();
    if (fact.is_unknown()) document["unknown"][field.name] = fact.reason();
  });
  return document;
}

Result<Environment> environment_from_json(const nlohmann::json& document) {
  if (!document.is_object()) return fail(ErrorKind::malformed, "facts: expected a record");
  const JsonReader reader(kExtraIgnored);
  int schema = 0;
  if (const auto found = document.find("schema"); found == document.end())
    return fail(ErrorKind::malformed, "schema: missing; these are no facts of trueup");
  else if (auto done = reader.read(*found, schema, "schema"); !done)
    return fail(done.error());
  if (schema < 1 || schema > kEnvironmentSchema)
    return fail(ErrorKind::unsupported, fmt::format("schema: {} is not known here, only 1 to {}; use the trueup that "
                                                    "wrote the facts, or a newer one",
                                                    schema, kEnvironmentSchema));
  FieldReasons unknown;
  if (const auto found = document.find("unknown"); found != document.end())
    if (auto done = reader.read(*found, unknown, "unknown"); !done) return fail(done.error());

  Environment environment;
  Result<void> result;
  for_each_field<Environment>([&]<class T>(const Field<Environment, Fact<T>>& field) {
    if (!result) return;
    auto& fact = environment.*field.member;
    const auto found = document.find(field.name);
    const auto reason = unknown.find(field.name);
    if (reason != unknown.end())
      fact = Fact<T>::unknown(reason->second);
    else if (found == document.end())
      fact = Fact<T>::unknown("not in the facts");
    else if (found->is_null())
      fact = Fact<T>::absent();
    else
      result = read_section(*found, fact, field.name, kExtraIgnored);
  });
  if (!result) return fail(result.error());
  return environment;
}

Result<void> set_section(Environment& environment, std::string_view name, const nlohmann::json& value) {
  if (value.is_array() && value.size() > kMostRecords) {
    auto reason = fmt::format("{} records; at most {} are looked into", value.size(), kMostRecords);
    set_section_unknown(environment, name, reason);
    return fail(ErrorKind::limit, std::move(reason));
  }
  Result<void> result;
  const bool found = with_section(environment, name, [&](auto& fact) {
    result = read_section(value, fact, std::string(name), JsonReader::Extra::refuse);
  });
  if (!found)
    return fail(ErrorKind::malformed, fmt::format("no section '{}' in the environment{}", printable(name),
                                                  did_you_mean(name, environment_sections())));
  return result;
}

void set_section_absent(Environment& environment, std::string_view name) {
  with_section(environment, name, []<class T>(Fact<T>& fact) { fact = Fact<T>::absent(); });
}

void set_section_unknown(Environment& environment, std::string_view name, std::string reason) {
  with_section(environment, name, [&]<class T>(Fact<T>& fact) { fact = Fact<T>::unknown(std::move(reason)); });
}

}  // namespace trueup
