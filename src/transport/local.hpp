#pragma once

#include "trueup/transport.hpp"

namespace trueup {

/// This machine, without SSH: commands run by /bin/sh in a session of their own, so that Ctrl-C at our terminal reaches
/// us and not them. The account is the one that runs trueup.
class LocalTransport final : public Transport {
 public:
  Awaitable<Result<std::unique_ptr<Session>>> connect(const Host& host, Watch& watch) override;
};

}  // namespace trueup
