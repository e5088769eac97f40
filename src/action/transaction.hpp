#pragma once

#include "action/parts.hpp"

namespace trueup {

/// What a package manager would do, as package.sh inspects it, into `difference`: what it costs, what cannot be undone,
/// and why it must not be done. `at_apply`: it may be resolved only then.
enum class Resolve { now, at_apply };
void judge_transaction(const Seen& seen, Resolve resolve, Difference& difference);

/// The lines of the transaction, one text; empty: none, or not resolved yet.
std::string transaction_of(const Seen& seen);

}  // namespace trueup
