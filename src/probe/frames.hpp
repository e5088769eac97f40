#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "probe/bundle.hpp"
#include "trueup/probing.hpp"

namespace trueup {

/// Bytes of a bundle's standard output -> outputs of its probes, whatever the chunking. Noise before, between and after
/// frames is ignored; memory is bounded by the probes' limits.
class FrameReader {
 public:
  /// `probes`: those that the bundle holds (`probes_at`), in its order.
  FrameReader(const std::vector<Probe>& probes, std::string nonce);
  ~FrameReader();
  FrameReader(FrameReader&&) noexcept;
  FrameReader& operator=(FrameReader&&) noexcept;

  void feed(std::string_view bytes);
  /// The end frame was seen: nothing more is to be waited for.
  bool is_finished() const;
  /// The host has no gzip: it waits for the bundle's plain text.
  bool wants_plain() const;
  /// Ids of probes that began and have not ended: what the host is busy with.
  std::vector<std::string> running() const;
  /// One output per probe, in the bundle's order. Probes without an end are `lost` with `why_lost` as detail.
  std::vector<ProbeOutput> take(std::string_view why_lost);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trueup
