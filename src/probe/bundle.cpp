#include "probe/bundle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/gzip.hpp"
#include "base/text.hpp"
#include "probe/scripts.hpp"

namespace trueup {

std::vector<Probe> probes_at(const std::vector<Probe>& probes, ProbeLevel level) {
  std::vector<Probe> chosen;
  std::copy_if(probes.begin(), probes.end(), std::back_inserter(chosen),
               [&](const Probe& probe) { return probe.level == level; });
  return chosen;
}

namespace {

// What a bundle holds in front of its scheduler, the same for all hosts.
std::string settings_of(const std::vector<Probe>& probes, const std::vector<Signature>& signatures,
                        std::vector<std::string>& ids) {
  std::string settings;
  bool signatures_wanted = false;
  for (const auto& probe : probes) {
    const auto index = ids.size();
    const auto limit = std::chrono::ceil<std::chrono::seconds>(probe.limit).count();
    settings += fmt::format("P{0}={1}\nL{0}={2} M{0}={3} D{0}={4} U{0}= F{0}= E{0}= O{0}=\n", index,
                            shell_quote(probe.script), limit, probe.max_bytes + 1, shell_quote(join(probe.needs, " ")));
    for (const auto& read : probe.reads)
      if (const auto at = std::find(ids.begin(), ids.end(), read); at != ids.end()) {
        const auto source = at - ids.begin();
        settings += fmt::format("U{0}=\"$U{0} {1}\" F{1}={2}\n", index, source, shell_quote(read));
      }
    signatures_wanted |= probe.script.find("TRUEUP_SIGNATURES") != std::string::npos;
    ids.push_back(probe.id);
  }
  if (signatures_wanted) {
    std::string lines;
    for (const auto& signature : signatures) lines += fmt::format("{}\t{}\n", signature.id, signature.pattern);
    settings += fmt::format("TRUEUP_SIGNATURES={}\nexport TRUEUP_SIGNATURES\n", shell_quote(lines));
  }
  return settings;
}

std::string body_of(const std::vector<Probe>& probes, const std::vector<Signature>& signatures, bool lifeline,
                    std::vector<std::string>& ids) {
  const auto settings = settings_of(probes, signatures, ids);
  return fmt::format("count={} lifeline={}\n{}lib={}\n{}main\n", ids.size(), lifeline ? "1" : "", settings,
                     shell_quote(fmt::format("{}cache_places={}\n{}", kProbeLibrary,
                                             shell_quote(std::string(kCachePlaces)), kConsumersLibrary)),
                     kBundleScript);
}

// `unset` first: a variable that was exported to us would stay so, and take the nonce to the probes.
std::string head_of(const BundleOptions& options) {
  return fmt::format("unset N\nN={} tag={} W={} host_limit={}\n", options.nonce, options.tag, options.workers,
                     options.host_limit.count());
}

// The tag is in the environment from the start, so that every process of ours shows it.
std::string start_of(const BundleOptions& options) {
  return fmt::format("exec /usr/bin/env TRUEUP_RUN={} /bin/sh", options.tag);
}

}  // namespace

Bundle make_bundle(const std::vector<Probe>& probes, const std::vector<Signature>& signatures, ProbeLevel level,
                   const BundleOptions& options) {
  Bundle bundle;
  bundle.command = start_of(options) + " -s";  // read alike by sh, csh and fish
  bundle.script = head_of(options) + body_of(probes_at(probes, level), signatures, options.lifeline, bundle.probe_ids);
  return bundle;
}

PackedBundle::PackedBundle(const std::vector<Probe>& probes, const std::vector<Signature>& signatures) {
  std::vector<std::string> ids;
  text_ = body_of(probes, signatures, true, ids);
  packed_ = gzip(text_);
}

// input ::= nonce ' ' tag ' ' workers ' ' limit ' ' size '\n' gzip-of-that-size '\n' nonce '\n'
//
// gzip and head are looked for where root alone decides, whatever PATH the login has. Where they are not, what was
// compressed is passed over, up to the line with the nonce, with nothing but the shell's own `read`. gzip checks what
// it unpacks, so that a text that was cut runs nothing. Neither quotes nor newlines, backslashes or exclamation marks
// within: csh and fish have ideas of their own about those.
std::string PackedBundle::command(const BundleOptions& options) {
  return start_of(options) +
         " -c 'unset N s; read -r N tag W host_limit size; "
         "if s=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin; "
         "command -v gzip >/dev/null && command -v head >/dev/null || exit 99; head -c \"$size\" | gzip -dc); "
         "then eval \"unset s; $s\"; "
         "elif [ $? = 99 ]; then until [ \"$s\" = \"$N\" ]; do read -r s || exit; done; "
         "echo \"$N plain\"; exec /bin/sh -s; fi'";
}

std::string PackedBundle::input(const BundleOptions& options) const {
  return fmt::format("{} {} {} {} {}\n{}\n{}\n", options.nonce, options.tag, options.workers,
                     options.host_limit.count(), packed_.size(), packed_, options.nonce);
}

std::string PackedBundle::plain(const BundleOptions& options) const { return head_of(options) + text_; }

}  // namespace trueup
