#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "trueup/result.hpp"

namespace trueup {

/// A compiled declaration such as `{"kv": {"fields": {...}}}`: output text -> JSON. Knows no host; linear time on any
/// input.
using Parser = std::function<Result<nlohmann::json>(std::string_view text)>;

/// Errors: unknown parser, option, type or unit, with the nearest right one. See src/parse/README.md for all of them.
Result<Parser> make_parser(const nlohmann::json& declaration);

}  // namespace trueup
