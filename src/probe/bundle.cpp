#include "probe/bundle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.hpp"
#include "probe/scripts.hpp"

namespace trueup {

std::vector<Probe> probes_at(const std::vector<Probe>& probes, ProbeLevel level) {
  std::vector<Probe> chosen;
  std::copy_if(probes.begin(), probes.end(), std::back_inserter(chosen),
               [&](const Probe& probe) { return probe.level == level; });
  return chosen;
}

Bundle make_bundle(const std::vector<Probe>& probes, const std::vector<Signature>& signatures, ProbeLevel level,
                   const BundleOptions& options) {
  Bundle bundle;
  // Read alike by sh, csh and fish. The tag is in the environment from the start, so that every process of ours shows
  // it.
  bundle.command = fmt::format("exec /usr/bin/env TRUEUP_RUN={} /bin/sh -s", options.tag);

  std::string settings;
  bool signatures_wanted = false;
  for (const auto& probe : probes_at(probes, level)) {
    const auto index = bundle.probe_ids.size();
    const auto limit = std::chrono::ceil<std::chrono::seconds>(probe.limit).count();
    settings += fmt::format("P{0}={1}\nL{0}={2} M{0}={3} D{0}={4} U{0}= F{0}= E{0}= O{0}=\n", index,
                            shell_quote(probe.script), limit, probe.max_bytes + 1, shell_quote(join(probe.needs, " ")));
    for (const auto& read : probe.reads)
      if (const auto at = std::find(bundle.probe_ids.begin(), bundle.probe_ids.end(), read);
          at != bundle.probe_ids.end()) {
        const auto source = at - bundle.probe_ids.begin();
        settings += fmt::format("U{0}=\"$U{0} {1}\" F{1}={2}\n", index, source, shell_quote(read));
      }
    signatures_wanted |= probe.script.find("TRUEUP_SIGNATURES") != std::string::npos;
    bundle.probe_ids.push_back(probe.id);
  }
  if (signatures_wanted) {
    std::string lines;
    for (const auto& signature : signatures) lines += fmt::format("{}\t{}\n", signature.id, signature.pattern);
    settings += fmt::format("TRUEUP_SIGNATURES={}\nexport TRUEUP_SIGNATURES\n", shell_quote(lines));
  }
  // `unset` first: a variable that was exported to us would stay so, and take the nonce to the probes.
  bundle.script = fmt::format("unset N\nN={} tag={} W={} host_limit={} count={} lifeline={}\n{}lib={}\n{}main\n",
                              options.nonce, options.tag, options.workers, options.host_limit.count(),
                              bundle.probe_ids.size(), options.lifeline ? "1" : "", settings,
                              shell_quote(fmt::format("{}cache_places={}\n{}", kProbeLibrary,
                                                      shell_quote(std::string(kCachePlaces)), kConsumersLibrary)),
                              kBundleScript);
  return bundle;
}

}  // namespace trueup
