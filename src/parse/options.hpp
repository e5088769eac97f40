#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "parse/field.hpp"
#include "parse/parser.hpp"
#include "trueup/result.hpp"

namespace trueup::parse {

/// The options of one parser's declaration. Getters remember the first mistake; `finish` reports it, and unknown
/// options.
class Options {
 public:
  Options(std::string parser, const nlohmann::json& options);

  bool flag(std::string_view name, bool otherwise = false);
  std::string text(std::string_view name, std::string otherwise = {});
  char character(std::string_view name, char otherwise);
  std::size_t count(std::string_view name, std::size_t otherwise);
  /// `fields`, with `ignore_unknown`. Missing: a mistake, or `otherwise` where given.
  Fields fields(Layout layout, const nlohmann::json& otherwise = nullptr, bool ignore_unknown = false);
  bool has(std::string_view name) const { return options_.contains(name); }

  void mistake(std::string message);
  Result<void> finish() const;

 private:
  const nlohmann::json* get(std::string_view name);

  std::string parser_;
  nlohmann::json options_;
  std::vector<std::string> known_;
  std::string mistake_;
};

// One factory for each parser; registry.cpp is the table of them.
Parser make_columns(Options& options);
Parser make_csv(Options& options);
Parser make_ini(Options& options);
Parser make_json(Options& options);
Parser make_kv(Options& options);
Parser make_lines(Options& options);
Parser make_ndjson(Options& options);
Parser make_os_release(Options& options);
Parser make_regex(Options& options);

}  // namespace trueup::parse
