#include "probe/frames.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

// Any bytes, in any chunks, give one output for each probe, within its limits, and the same for every chunking.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trueup;
  static const std::vector<Probe> probes = [] {
    std::vector<Probe> made(3);
    for (auto& probe : made) probe.max_bytes = 100;
    return made;
  }();
  const std::string nonce = "00112233445566778899aabbccddeeff";
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  FrameReader whole(probes, nonce), pieces(probes, nonce);
  whole.feed(bytes);
  const std::size_t step = 1 + (size > 0 ? data[0] % 64 : 0);
  for (std::size_t at = 0; at < size; at += step) pieces.feed(bytes.substr(at, step));
  const auto a = whole.take("cut");
  const auto b = pieces.take("cut");
  if (a.size() != probes.size() || whole.is_finished() != pieces.is_finished()) std::abort();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].status != b[i].status || a[i].output != b[i].output || a[i].errors != b[i].errors ||
        a[i].detail != b[i].detail || a[i].output.size() > 100 || a[i].errors.size() > 2048)
      std::abort();
  return 0;
}
