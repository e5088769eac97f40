#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "model/fields.hpp"

// Records <-> JSON, by the table in fields.hpp. Every field is always written; a missing one or null reads as the
// struct's default, so that probes need not print what is not there and facts of older releases load.

namespace trueup {

std::string_view to_string(Outcome outcome);

inline nlohmann::json to_json(const std::string& value) { return value; }
inline nlohmann::json to_json(const Version& value) { return value.text(); }
inline nlohmann::json to_json(const Variables& value) { return nlohmann::json(value); }
inline nlohmann::json to_json(Outcome value) { return std::string(to_string(value)); }
inline nlohmann::json to_json(Judgement value) { return std::string(to_string(value)); }
template <std::integral T>
nlohmann::json to_json(T value) {
  return value;
}
template <class T>
nlohmann::json to_json(const std::optional<T>& value) {
  return value ? to_json(*value) : nlohmann::json();
}
template <IsRecord T>
nlohmann::json to_json(const T& record);
template <class T>
nlohmann::json to_json(const std::vector<T>& list) {
  auto json = nlohmann::json::array();
  for (const auto& item : list) json.push_back(to_json(item));
  return json;
}
template <IsRecord T>
nlohmann::json to_json(const T& record) {
  auto json = nlohmann::json::object();
  for_each_field<T>([&](const auto& field) { json[field.name] = to_json(record.*field.member); });
  return json;
}

/// JSON -> records. Errors carry the place: `gpus[3].compute_cap: expected a version, got 'N/A'`.
class JsonReader {
 public:
  /// What to do with fields that no record has: a probe's are a mistake, those of newer facts are not.
  enum class Extra { refuse, ignore };

  explicit JsonReader(Extra extra) : extra_(extra) {}

  Result<void> read(const nlohmann::json& json, std::string& out, const std::string& at) const {
    if (!json.is_string()) return wrong(at, "text", json);
    out = json.get<std::string>();
    return {};
  }

  Result<void> read(const nlohmann::json& json, bool& out, const std::string& at) const {
    if (!json.is_boolean()) return wrong(at, "true or false", json);
    out = json.get<bool>();
    return {};
  }

  template <std::integral T>
  Result<void> read(const nlohmann::json& json, T& out, const std::string& at) const {
    if (json.is_number_unsigned() && std::in_range<T>(json.get<std::uint64_t>()))
      out = static_cast<T>(json.get<std::uint64_t>());
    else if (json.is_number_integer() && !json.is_number_unsigned() && std::in_range<T>(json.get<std::int64_t>()))
      out = static_cast<T>(json.get<std::int64_t>());
    else
      return wrong(at, std::is_unsigned_v<T> ? "a number not below zero" : "a whole number", json);
    return {};
  }

  Result<void> read(const nlohmann::json& json, Version& out, const std::string& at) const {
    if (json.is_string())
      if (auto version = Version::parse(json.get_ref<const std::string&>())) {
        out = *std::move(version);
        return {};
      }
    return wrong(at, "a version", json);
  }

  Result<void> read(const nlohmann::json& json, Variables& out, const std::string& at) const {
    if (!json.is_object()) return wrong(at, "a map", json);
    for (const auto& [key, value] : json.items())
      if (auto done = read(value, out[key], at + "." + printable(key)); !done) return done;
    return {};
  }

  template <class T>
  Result<void> read(const nlohmann::json& json, std::vector<T>& out, const std::string& at) const {
    if (!json.is_array()) return wrong(at, "a list", json);
    for (std::size_t i = 0; i < json.size(); ++i)
      if (auto done = read(json[i], out.emplace_back(), fmt::format("{}[{}]", at, i)); !done) return done;
    return {};
  }

  template <class T>
  Result<void> read(const nlohmann::json& json, std::optional<T>& out, const std::string& at) const {
    if (json.is_null()) return {};
    return read(json, out.emplace(), at);
  }

  template <IsRecord T>
  Result<void> read(const nlohmann::json& json, T& out, const std::string& at) const {
    if (!json.is_object()) return wrong(at, "a record", json);
    Result<void> result;
    for_each_field<T>([&](const auto& field) {
      const auto found = json.find(field.name);
      if (!result || found == json.end() || found->is_null()) return;
      result = read(*found, out.*field.member, at + "." + field.name);
    });
    if (!result || extra_ == Extra::ignore) return result;
    for (const auto& [key, value] : json.items())
      if (auto known = known_field<T>(key, at); !known) return known;
    if constexpr (requires { out.unknown; })
      for (const auto& [key, reason] : out.unknown)
        if (auto known = known_field<T>(key, at + ".unknown"); !known) return known;
    return {};
  }

 private:
  static tl::unexpected<Error> wrong(const std::string& at, std::string_view expected, const nlohmann::json& json) {
    const std::string got = json.is_string()   ? fmt::format("'{}'", shorten(printable(json.get<std::string>()), 60))
                            : json.is_object() ? "a record"
                            : json.is_array()  ? "a list"
                                               : json.dump();
    return fail(ErrorKind::malformed, fmt::format("{}: expected {}, got {}", at, expected, got));
  }

  template <IsRecord T>
  Result<void> known_field(const std::string& key, const std::string& at) const {
    std::vector<std::string> names;
    for_each_field<T>([&](const auto& field) { names.emplace_back(field.name); });
    if (std::find(names.begin(), names.end(), key) != names.end()) return {};
    return fail(ErrorKind::malformed, fmt::format("{}: no field '{}'{}", at, printable(key), did_you_mean(key, names)));
  }

  Extra extra_;
};

}  // namespace trueup
