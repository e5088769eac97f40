#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probe/bundle.hpp"
#include "trueup/probing.hpp"

// The bundle for a host that we cannot reach: a script that somebody carries there, and what it printed, carried back.

namespace trueup {

/// A file for `/bin/sh`, which reads nothing on standard input and so runs from a pipe as well. It prints one line of
/// its own, then frames. All probes run as whoever runs it, those of level `login` included. `version`: of trueup, for
/// the reader.
///   output ::= noise "trueup-output 1 " nonce " " digest " " count "\n" frames
std::string make_standalone(const std::vector<Probe>& probes, const std::vector<Signature>& signatures,
                            const BundleOptions& options, std::string_view version);

/// What came back of it.
struct StandaloneOutput {
  std::vector<ProbeOutput> outputs;    ///< one for each probe, in their order
  std::optional<Error> error;          ///< it was cut before its end
};

/// Errors: nothing that such a script printed; two outputs in one file; the output of other probes than these. The
/// nonce comes with the frames, so it tells noise and damage from them, and proves nothing about who wrote them.
Result<StandaloneOutput> read_standalone(std::string_view text, const std::string& file,
                                         const std::vector<Probe>& probes);

}  // namespace trueup
