#pragma once

#include "trueup/transport.hpp"

namespace trueup {

/// This machine, without SSH: commands run by /bin/sh in a session of their own, so that Ctrl-C at our terminal reaches
/// us and not them. The account is the one that runs trueup.
class LocalTransport final : public Transport {
 public:
  /// Ignores SIGPIPE while it lives: a shell that ends early is an ordinary result.
  LocalTransport();
  ~LocalTransport() override;
  Awaitable<Result<std::unique_ptr<Session>>> connect(const Host& host, Watch& watch) override;

 private:
  void (*sigpipe_before_)(int);
};

}  // namespace trueup
