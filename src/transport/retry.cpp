#include "transport/retry.hpp"

namespace trueup {

std::optional<std::chrono::milliseconds> next_retry(int attempt, ConnectFailure failure, std::uint32_t spread) {
  constexpr int kAttempts = 3;
  constexpr std::uint32_t kFirstDelay = 250;
  if (failure != ConnectFailure::dropped || attempt >= kAttempts) return std::nullopt;
  const auto delay = kFirstDelay << static_cast<unsigned>(attempt);
  return std::chrono::milliseconds(delay + spread % delay);
}

}  // namespace trueup
