#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/report.hpp"

// One report for every format: two hosts with one cause, one with a warning and gaps, one cut off, one not reached, one
// clean.

namespace trueup::sample {

inline Finding finding(std::string check, Severity severity, std::string title) {
  Finding made;
  made.check = std::move(check);
  made.severity = severity;
  made.title = std::move(title);
  return made;
}

inline HostReport host(std::string name) {
  HostReport made;
  made.address = name + ".example.org";
  made.name = std::move(name);
  made.duration = std::chrono::milliseconds(1250);
  made.assessment.held = 1;
  return made;
}

inline HostReport broken_host(std::string name) {
  auto made = host(std::move(name));
  auto cause = finding("toolkit.too-old", Severity::error, "CUDA 12.8 is too old for sm_120");
  cause.because = "Nothing compiles & nothing runs.\n";
  cause.evidence = {"/usr/local/cuda -> /usr/local/cuda-12.8", "nvcc: release 12.8"};
  cause.fixes = {"toolkit.install"};
  cause.references = {"https://docs.nvidia.com/cuda/"};
  auto effect = finding("service.failed", Severity::error, "a.service failed");
  effect.about = "a.service";
  effect.root = false;
  effect.caused_by = {"toolkit.too-old"};
  made.assessment.findings = {cause, effect};
  return made;
}

inline const std::vector<std::string>& checks() {
  static const std::vector<std::string> ids = {"toolkit.too-old", "service.failed", "disk.full", "gpu.lost",
                                               "log.noise"};
  return ids;
}

inline RunReport report() {
  RunReport made;
  made.id = "20261201T120000Z-1";
  made.version = "0.2.0";
  made.started = std::chrono::system_clock::from_time_t(1796126400);  // 2026-12-01 12:00:00 UTC
  made.finished = made.started + std::chrono::milliseconds(2500);
  made.allowed_unknown = {"log.noise"};
  made.hosts = {broken_host("gpu001"), broken_host("gpu002"), host("gpu003"),
                host("gpu004"),        host("gpu005"),        host("gpu006")};
  auto& unsure = made.hosts[2].assessment;
  unsure.findings = {finding("disk.full", Severity::warning, "/models is nearly full")};
  unsure.not_evaluated = {{"gpu.lost", "GPU 3", "needs gpus: probe gpus: timed_out"}, {"log.noise", "", "no journal"}};
  auto& cut = made.hosts[3];
  cut.status = HostStatus::partial;
  cut.error = Error{ErrorKind::timeout, "the host's limit of 60 s passed", {}, {"probing"}, {}};
  cut.assessment.not_evaluated = {{"gpu.lost", "", "probe gpus: lost"}};
  auto& away = made.hosts[4];
  away.status = HostStatus::unreachable;
  away.error = Error{ErrorKind::unreachable, "connection refused", {}, {"connecting to gpu005"}, "start sshd"};
  away.assessment = {};
  return made;
}

/// What a host may say to hurt a reader: every kind of markup, commands and characters that hide, at once. Broken UTF-8
/// too.
inline std::string hostile() {
  using namespace std::string_literals;
  return "\x1b[31m\x07\x00\x01\r\n\t::error::pwned\n::set-output name=x::y\n##[add-mask]a\n"s        // terminals, log
                                                                                                     // commands
         "\xc2\x9b\xe2\x80\xae\xe2\x80\x8b\xef\xbb\xbf\xe2\x80\xa8\xef\xbf\xbe\xef\xbf\xbf\xff\xc3"  // C1, hidden,
                                                                                                     // broken
         "</script><script>alert(1)</script><img src=x onerror=y> <!-- --> ]]> <![CDATA[ &lt; &#64; \"'`"  // HTML, XML
         " ``` ~~~ **b** _i_ | # h\n# heading\n- item\n1. one\n> quote\n    code\n\n</details>\n[l](http://x) ![i](y) "
         "www.example.com https://example.com a@example.com @everyone #1 :x: $x$ 100%0A%25 \\"s +
         std::string(3000, 'w');
}

}  // namespace trueup::sample
