#pragma once

#include <optional>
#include <string_view>

namespace trueup::fleet {

/// How far a connection has come.
enum class Phase { banner, kex, auth, channel, exec, output };

/// What goes wrong in a phase. `cut` ends the stream in order, `reset` does not.
enum class Blow { hang, cut, reset, garbage };

/// What is wrong with a host.
struct Fault {
  enum class Kind {
    none,
    blow,       ///< `blow` in `phase`
    wrong_key,  ///< another host key than the one in known_hosts
    flaky,      ///< its first two connections are reset, as above MaxStartups
    latency,    ///< everything that it is told it hears 20 ms later
    trickle,    ///< its answer comes in pieces of 512 bytes, 2 ms apart
    huge,       ///< an answer without end
    noise,      ///< random bytes instead of an answer; then the shell ends
    killed,     ///< the shell is killed halfway (status 137)
  };
  Kind kind = Kind::none;
  Blow blow = Blow::hang;
  Phase phase = Phase::banner;
};

/// `BLOW:PHASE`, or the name of another kind with '-' for '_'.
std::optional<Fault> parse_fault(std::string_view name);

}  // namespace trueup::fleet
