#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "trueup/result.hpp"

// TOKENS and ENVIRONMENT VARIABLES of ssh_config(5).

namespace trueup::ssh {

using Tokens = std::map<char, std::string>;
using Variables = std::function<std::optional<std::string>(const std::string&)>;

/// text ::= (character | '%' token | '${' name '}')*      `${` is plain text where there are no `variables`.
/// Errors: a token that is none there, with those that are; a variable that is not set.
Result<std::string> expand(std::string_view text, const Tokens& tokens, const std::optional<Variables>& variables = {});

}  // namespace trueup::ssh
