#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace trueup {

/// How an attempt to reach a host ended before anybody logged in.
enum class ConnectFailure {
  lasting,  ///< refused, no route, wrong host key: trying again changes nothing
  dropped,  ///< accepted and cut before the key exchange was done: sshd does this above its MaxStartups
};

/// How long to wait before the next attempt; empty: give up. `attempt` counts from 1. `spread` (any number, different
/// for each host) keeps many hosts behind one sshd from coming back together. Pure.
std::optional<std::chrono::milliseconds> next_retry(int attempt, ConnectFailure failure, std::uint32_t spread);

}  // namespace trueup
