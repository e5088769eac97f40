#pragma once

#include <vector>

#include "trueup/derived.hpp"

namespace trueup {

/// A consumer, the environment record it uses (null: not read), and why its variables or packages cannot be told.
struct Claim {
  Consumer consumer;
  const PythonEnv* python = nullptr;
  std::string unknown = {};
};

/// Consumer::id of a process: itself, or the unit of its user's own systemd that it belongs to.
std::string consumer_id(const GpuProcess& process);
std::string consumer_id(const Service& service);

/// Everybody who would compile or load CUDA code on this host: services and GPU processes that run a Python
/// environment, what the inventory declares, and environments that nobody claims. Points into `environment`.
std::vector<Claim> find_claims(const Environment& environment, const std::vector<DeclaredConsumer>& declared);

}  // namespace trueup
