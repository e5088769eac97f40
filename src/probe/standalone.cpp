#include "probe/standalone.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/text.hpp"
#include "base/units.hpp"
#include "probe/frames.hpp"

namespace trueup {
namespace {

constexpr std::string_view kMark = "trueup-output ";
constexpr std::string_view kForm = "1";

std::vector<Probe> at_one_level(std::vector<Probe> probes) {
  for (auto& probe : probes) probe.level = ProbeLevel::host;
  return probes;
}

// Of what decides how an output is to be read. FNV-1a, 64 bits: against mistakes, not against malice.
std::string digest_of(const std::vector<Probe>& probes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    hash = (hash ^ 0xffU) * 0x100000001b3U;
  };
  for (const auto& probe : probes)
    for (const std::string_view part : {probe.id, probe.into, probe.script, probe.parser}) add(part);
  return fmt::format("{:016x}", hash);
}

bool is_hex(std::string_view text, std::size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

std::string make_standalone(const std::vector<Probe>& probes, const std::vector<Signature>& signatures,
                            const BundleOptions& options, std::string_view version) {
  auto free = options;
  free.lifeline = false;
  const auto bundle = make_bundle(at_one_level(probes), signatures, ProbeLevel::host, free);
  const std::string_view body = bundle.script;
  return fmt::format(
      "#!/bin/sh\n"
      "# trueup {}: what it asks a host, for one that SSH does not reach. Reads and changes nothing; ends within {}.\n"
      "#   there, as root:  sh probe.sh > probe.out\n"
      "#   here:            trueup audit --from-output probe.out\n"
      "{}printf '%s\\n' '{}{} {} {} {}'; main\n",
      version, duration_text(options.host_limit), body.substr(0, body.size() - std::string_view("main\n").size()),
      kMark, kForm, options.nonce, digest_of(probes), probes.size());
}

Result<StandaloneOutput> read_standalone(std::string_view text, const std::string& file,
                                         const std::vector<Probe>& probes) {
  const auto line_of = [&](std::size_t offset) {
    return SourcePos{
        file, static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n')) + 1,
        0};
  };
  const auto begin = text.find(kMark);
  if (begin == text.npos)
    return fail(ErrorKind::malformed,
                text.empty() ? "empty: expected what the script of `trueup probe-script` prints"
                             : "not the output of a probe script: there is no line that begins with 'trueup-output'; "
                               "expected what the script of `trueup probe-script` prints",
                SourcePos{file, 0, 0});
  const auto end = std::min(text.find('\n', begin), text.size());
  const auto words = split(trim(text.substr(begin + kMark.size(), end - begin - kMark.size())), ' ');
  if (!words.empty() && words.front() != kForm)
    return fail(ErrorKind::unsupported,
                fmt::format("output of form '{}', and only {} is known here; use the trueup that made the script",
                            shorten(printable(words.front()), 20), kForm),
                line_of(begin));
  if (words.size() != 4 || !is_hex(words[1], 32) || !is_hex(words[2], 16))
    return fail(ErrorKind::malformed, "expected 'trueup-output 1 NONCE DIGEST COUNT', got a damaged line",
                line_of(begin));
  if (words[2] != digest_of(probes))
    return fail(Error{ErrorKind::malformed,
                      fmt::format("the script that printed this asked {} other probes than the {} of these playbooks "
                                  "(digest {}, expected {})",
                                  printable(words[3]), probes.size(), words[2], digest_of(probes)),
                      line_of(begin),
                      {},
                      "read it with the trueup, the -p and the --deep that made the script, or run a new script"});
  if (const auto second = text.find(fmt::format("\n{}", kMark), end); second != text.npos)
    return fail(ErrorKind::malformed, "a second output in one file; expected one file for each host",
                line_of(second + 1));

  FrameReader reader(probes, std::string(words[1]));
  reader.feed(text.substr(end));
  if (!text.ends_with('\n') && text.ends_with(fmt::format("{} end", words[1]))) reader.feed("\n");
  StandaloneOutput found;
  const bool whole = reader.is_finished();
  found.outputs = reader.take("the output was cut");
  if (!whole)
    found.error = Error{ErrorKind::malformed,
                        "the output ends before its end frame: it was cut, or the script has not ended yet",
                        SourcePos{file, 0, 0},
                        {},
                        "run the script again and copy all that it prints"};
  return found;
}

}  // namespace trueup
