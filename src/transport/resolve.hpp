#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "trueup/transport.hpp"

namespace trueup {

/// The addresses of `name` (a name, or an IPv4 or IPv6 address), in the system's order of preference. Errors:
/// unreachable, when it does not resolve; why `watch` is over. The system's resolver blocks, so each look-up has a
/// thread of its own; one that outlasts its deadline is left behind.
Awaitable<Result<std::vector<boost::asio::ip::tcp::endpoint>>> resolve(std::string name, std::uint16_t port,
                                                                       Watch& watch);

}  // namespace trueup
