#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/result.hpp"

namespace trueup::ssh {

class KnownHostsIndex;

struct KnownHostsFile {
  std::string path;
  std::string text;
  std::string problem = {};  ///< why it could not be read; empty: it was
  /// Of `text`, made when first looked into: a fleet's file has a line for each host, and is asked for each of them.
  mutable std::shared_ptr<const KnownHostsIndex> index = {};
};

struct KnownKey {
  std::string type;  ///< `ssh-ed25519`
  std::string key;   ///< wire format
  SourcePos at;

  friend bool operator==(const KnownKey&, const KnownKey&) = default;
};

/// What known_hosts files say of one host.
struct KnownKeys {
  std::vector<KnownKey> keys;         ///< for this name and port
  std::vector<KnownKey> any_port;     ///< for the plain name, where the port is not 22: good only to confirm a key
  std::vector<KnownKey> revoked;      ///< `@revoked`
  std::vector<SourcePos> unreadable;  ///< lines that are neither comment nor entry
  std::vector<SourcePos> authorities;  ///< `@cert-authority` for this name: certificates are not what we can check
};

/// Keys of `host` (name or address, as it is connected to) in `files`, in their order. Format: sshd(8),
/// "SSH_KNOWN_HOSTS FILE FORMAT".
KnownKeys known_keys(std::span<const KnownHostsFile> files, std::string_view host, std::uint16_t port);

enum class HostKeyVerdict {
  known,
  unknown,     ///< no key of this host
  changed,     ///< another key of the same type is known: `against`
  other_type,  ///< only keys of other types are known: `against` is the first
  revoked,     ///< `against` says so
};

struct JudgedHostKey {
  HostKeyVerdict verdict;
  std::optional<KnownKey> against;
};

/// As ssh(1) with StrictHostKeyChecking=yes judges, without certificates.
JudgedHostKey judge_host_key(const KnownKeys& known, std::string_view key);

/// What to tell of a `key` that was judged anything but known: both fingerprints, file and line, what was read, what to
/// do. `alias`: the name that was looked up instead; `direct`: ssh-keyscan reaches the host from here.
Error host_key_error(const JudgedHostKey& judged, const KnownKeys& known, std::span<const KnownHostsFile> files,
                     std::string_view host, std::uint16_t port, std::string_view key, std::string_view alias = {},
                     bool direct = true);

/// `supported` host key algorithms with those first whose keys are known, so that a host with several keys shows the
/// one we can check. Certificate algorithms are left out.
std::vector<std::string> order_host_key_algorithms(const std::vector<std::string>& supported, const KnownKeys& known);

/// The line that makes `key` known for `name`, which is hidden behind `salt` (20 bytes) unless that is empty.
std::string known_hosts_line(std::string_view name, std::string_view key, std::string_view salt);

/// `host`, or `[host]:port` where the port is not 22: the name in known_hosts.
std::string known_hosts_name(std::string_view host, std::uint16_t port);

}  // namespace trueup::ssh
