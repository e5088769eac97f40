#pragma once

#include <string>

#include "base/secret.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// The key that plans are sealed with: the file at `path`, else this account's own, made at its first use. Errors: a
/// file that others can read, one that holds no key.
Result<Secret> load_plan_key(const std::string& path);

}  // namespace trueup
