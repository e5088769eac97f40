#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trueup/result.hpp"

// ssh_config(5), read as OpenSSH reads it: files to lines once, lines to the settings of one host as often as wanted.
// Pure.

namespace trueup::ssh {

/// How the reader reaches files.
struct ConfigFiles {
  virtual ~ConfigFiles() = default;
  /// Errors: not_found; io, with the path, for what cannot be read or others can write.
  virtual Result<std::string> read(const std::string& path) const = 0;
  /// What matches `pattern` (`*`, `?`, `[...]` in any part of the path), sorted.
  virtual std::vector<std::string> glob(const std::string& pattern) const = 0;
};

/// Those that decide how a host is reached. What else ssh knows is ignored, on purpose or because it changes nothing
/// here (README.md).
enum class Keyword {
  address_family,
  bind_address,
  connect_timeout,
  connection_attempts,
  global_known_hosts,
  hash_known_hosts,
  host_key_alias,
  host_name,
  identities_only,
  identity_agent,
  identity_file,
  port,
  preferred_authentications,
  proxy_command,
  proxy_jump,
  pubkey_authentication,
  strict_host_key_checking,
  user,
  user_known_hosts,
};

/// `HostName`, as the manual spells it.
std::string_view to_string(Keyword keyword);

/// A value as it stands in the file, quotes removed, and where that is.
struct Setting {
  std::string value;
  SourcePos at;

  friend bool operator==(const Setting&, const Setting&) = default;
};

/// Something a file asks for that is not done; `at` is the same for all hosts that it concerns.
struct ConfigNote {
  SourcePos at;
  std::string text;

  friend bool operator==(const ConfigNote&, const ConfigNote&) = default;
};

/// What the files say of one host. A keyword that takes one value has one; lists keep their order; what was not said is
/// not there.
struct HostConfig {
  std::string original;  ///< the name that was asked for
  std::map<Keyword, std::vector<Setting>> settings;
  std::vector<ConfigNote> notes;

  const Setting* find(Keyword keyword) const {
    const auto found = settings.find(keyword);
    return found == settings.end() ? nullptr : &found->second.front();
  }
};

/// What `ssh -l USER -p PORT -J HOPS` says before any file.
struct ConfigOverrides {
  std::optional<std::string> user;
  std::optional<std::uint16_t> port;
  std::string jump = {};  ///< of ProxyJump; empty: nothing said
};

/// HostName with its tokens filled in, else the name that was asked for. Errors: a token that is none there.
Result<std::string> host_name(const HostConfig& config);

struct ConfigSource {
  std::string path;
  bool of_user = true;  ///< relative names in Include begin in ~/.ssh, else in /etc/ssh
  bool wanted = false;  ///< that it does not exist is an error
};

class SshConfig {
 public:
  /// Reads all files and what they include. What is wrong goes to `errors`, with file and line, all of it; unknown
  /// keywords are no errors (a newer ssh may know them) but notes of the hosts they concern.
  static SshConfig load(std::span<const ConfigSource> sources, const ConfigFiles& files, const std::string& home,
                        std::vector<Error>& errors);

  /// What they say of `host`, for the local account `local_user`. The first value wins, but key files add up. Costs
  /// what the blocks cost that may concern this host, not all of them.
  HostConfig evaluate(const std::string& host, const std::string& local_user,
                      const ConfigOverrides& overrides = {}) const;

 private:
  friend class ConfigReader;
  class Evaluation;

  enum class Use {
    setting,  // one of Keyword
    note,     // named where it is active
    unknown,  // the same, unless IgnoreUnknown covers it
    nothing,
  };
  struct Line {
    Use use = Use::nothing;
    Keyword keyword{};
    std::vector<std::string> values;
    std::string note;  // for Use::note and Use::unknown
    std::uint32_t file = 0;
    int number = 0;
  };
  struct Criterion {
    std::string name;  // lower case
    std::string argument;
    bool negated = false;
  };
  /// What stands under one Host or Match, or a file's head; several segments where Include interrupts it.
  struct Block {
    std::int64_t parent = -1;           // the block that the file is included from
    std::vector<std::string> patterns;  // Host
    std::vector<Criterion> criteria;    // Match; with no patterns either: always active
    std::uint32_t file = 0;
    int number = 0;
  };
  struct Segment {
    std::uint32_t block = 0;
    bool begins = false;  // the block is decided here
    std::vector<Line> lines;
  };

  SourcePos position(std::uint32_t file, int line) const { return {files_[file], line, 0}; }

  std::vector<std::string> files_;
  std::vector<Block> blocks_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> everywhere_;  // segments that any host may need
  /// Segments of blocks that name hosts without wildcards: ten thousand such blocks cost a host nothing.
  std::unordered_map<std::string, std::vector<std::uint32_t>> by_name_;
  bool has_final_ = false;
};

/// The words of a line's arguments: blanks part them, quotes of both kinds and `\` keep them together, and a word that
/// begins with `#` ends them. Empty: a quote is not closed.
std::optional<std::vector<std::string>> split_arguments(std::string_view text);

}  // namespace trueup::ssh
