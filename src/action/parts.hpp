#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "action/action.hpp"

// What action kinds are made of.

namespace trueup {

/// One call of a function of the library: each argument arrives as exactly one word, whatever it holds.
Script call(std::string_view function, const std::vector<std::string>& arguments,
            std::chrono::seconds limit = std::chrono::seconds(60));

/// What an inspect script printed, by key. Total on any text: lines that are none are passed over.
class Seen {
 public:
  explicit Seen(std::string_view inspected);

  /// The first value of `key`; empty where there is none.
  std::string get(std::string_view key) const;
  bool has(std::string_view key) const;
  /// All values of `key`, in order.
  std::vector<std::string> all(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

// Parameters that check_params() found right. What is left out is empty.
std::string text_of(const Params& params, std::string_view name, std::string_view otherwise = {});
std::vector<std::string> texts_of(const Params& params, std::string_view name);
std::map<std::string, std::string> variables_of(const Params& params, std::string_view name);
std::optional<bool> boolean_of(const Params& params, std::string_view name);
/// A duration as text, `10m`.
std::chrono::seconds duration_of(const Params& params, std::string_view name, std::chrono::seconds otherwise);

/// `given` against `specs`: names, types, choices, what is required. For whole parameters and for objects in them;
/// `where` stands in front of each message.
std::vector<Error> check_object(std::span<const ParamSpec> specs, const Params& given, std::string_view where);

/// An error about the parameters.
tl::unexpected<Error> bad(std::string message);

/// Names that programs would take for options, or that are several words.
bool is_plain_name(std::string_view name);

/// Where `from` differs from `to`, as `diff -u` writes it, with three lines around; empty where they are equal. Never
/// more than about a thousand lines: what is longer is shown as taken out and put in whole, and cut.
std::string unified_diff(const std::string& from_name, const std::vector<std::string>& from, const std::string& to_name,
                         const std::vector<std::string>& to);

}  // namespace trueup
