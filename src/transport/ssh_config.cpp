#include "transport/ssh_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/text.hpp"
#include "transport/patterns.hpp"
#include "transport/tokens.hpp"

namespace trueup::ssh {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr int kMostDepth = 16;              // OpenSSH's READCONF_MAX_DEPTH
constexpr std::size_t kMostFiles = 10'000;  // a file that includes itself twice asks for 2^16

// What is looked for in the arguments of a keyword.
enum class Shape { word, words, rest, flag, port, count, seconds, family, checking };

struct KnownKeyword {
  std::string_view name;  // lower case
  Keyword keyword;
  Shape shape;
};

constexpr std::array<KnownKeyword, 21> kSettings = {{
    {"addressfamily", Keyword::address_family, Shape::family},
    {"bindaddress", Keyword::bind_address, Shape::word},
    {"connecttimeout", Keyword::connect_timeout, Shape::seconds},
    {"connectionattempts", Keyword::connection_attempts, Shape::count},
    {"globalknownhostsfile", Keyword::global_known_hosts, Shape::words},
    {"hashknownhosts", Keyword::hash_known_hosts, Shape::flag},
    {"hostkeyalias", Keyword::host_key_alias, Shape::word},
    {"hostname", Keyword::host_name, Shape::word},
    {"identitiesonly", Keyword::identities_only, Shape::flag},
    {"identityagent", Keyword::identity_agent, Shape::word},
    {"identityfile", Keyword::identity_file, Shape::word},
    {"identityfile2", Keyword::identity_file, Shape::word},
    {"port", Keyword::port, Shape::port},
    {"preferredauthentications", Keyword::preferred_authentications, Shape::word},
    {"proxycommand", Keyword::proxy_command, Shape::rest},
    {"proxyjump", Keyword::proxy_jump, Shape::rest},
    {"pubkeyauthentication", Keyword::pubkey_authentication, Shape::word},
    {"dsaauthentication", Keyword::pubkey_authentication, Shape::word},
    {"stricthostkeychecking", Keyword::strict_host_key_checking, Shape::checking},
    {"user", Keyword::user, Shape::word},
    {"userknownhostsfile", Keyword::user_known_hosts, Shape::words},
}};

// What could decide how a host is reached, and is not done. `harmless`: with this value nothing is asked for.
struct NotDone {
  std::string_view name;
  std::string_view why;
  std::string_view harmless = "no";
};

constexpr std::string_view kOwnAlgorithms = "libssh2 chooses among its own algorithms";
constexpr std::array<NotDone, 18> kNotDone = {{
    {"bindinterface", "connections are not bound to an interface", ""},
    {"canonicalizehostname", "names are taken as they are"},
    {"certificatefile", "libssh2 cannot log in with certificates, plain keys are used", "none"},
    {"ciphers", kOwnAlgorithms, ""},
    {"hostkeyalgorithms", "the kinds of the keys in known_hosts decide", ""},
    {"kexalgorithms", kOwnAlgorithms, ""},
    {"knownhostscommand", "no program is asked for host keys, known_hosts files are read", "none"},
    {"macs", kOwnAlgorithms, ""},
    {"nohostauthenticationforlocalhost", "host keys are checked here too"},
    {"pkcs11provider", "keys on tokens are used through the agent only", "none"},
    {"proxyusefdpass", "the command's own input and output are the connection"},
    {"pubkeyacceptedalgorithms", kOwnAlgorithms, ""},
    {"pubkeyacceptedkeytypes", kOwnAlgorithms, ""},
    {"refuseconnection", "the connection is made all the same", ""},
    {"revokedhostkeys", "only @revoked lines of known_hosts revoke a key", "none"},
    {"securitykeyprovider", "security keys are used through the agent only", "internal"},
    {"smartcarddevice", "keys on cards are used through the agent only", "none"},
    {"usekeychain", "passphrases are not looked for anywhere; the agent's keys are used"},
}};

// Known to OpenSSH up to 10.0 (some by Debian's patches) and ignored: because trueup forwards and runs nothing but its
// own, because it has deadlines of its own, or because it makes no difference to where a connection leads.
constexpr std::array kIgnored = {"addkeystoagent",
                                 "batchmode",
                                 "canonicaldomains",
                                 "canonicalizefallbacklocal",
                                 "canonicalizemaxdots",
                                 "canonicalizepermittedcnames",
                                 "casignaturealgorithms",
                                 "challengeresponseauthentication",
                                 "channeltimeout",
                                 "checkhostip",
                                 "cipher",
                                 "clearallforwardings",
                                 "compression",
                                 "compressionlevel",
                                 "controlmaster",
                                 "controlpath",
                                 "controlpersist",
                                 "dynamicforward",
                                 "enableescapecommandline",
                                 "enablesshkeysign",
                                 "escapechar",
                                 "exitonforwardfailure",
                                 "fallbacktorsh",
                                 "fingerprinthash",
                                 "forkafterauthentication",
                                 "forwardagent",
                                 "forwardx11",
                                 "forwardx11timeout",
                                 "forwardx11trusted",
                                 "gatewayports",
                                 "globalknownhostsfile2",
                                 "gssapiauthentication",
                                 "gssapiclientidentity",
                                 "gssapidelegatecredentials",
                                 "gssapikexalgorithms",
                                 "gssapikeyexchange",
                                 "gssapirenewalforcesrekey",
                                 "gssapiserveridentity",
                                 "gssapitrustdns",
                                 "hostbasedacceptedalgorithms",
                                 "hostbasedauthentication",
                                 "hostbasedkeytypes",
                                 "ignoreunknown",
                                 "ipqos",
                                 "kbdinteractiveauthentication",
                                 "kbdinteractivedevices",
                                 "keepalive",
                                 "localcommand",
                                 "localforward",
                                 "loglevel",
                                 "logverbose",
                                 "numberofpasswordprompts",
                                 "obscurekeystroketiming",
                                 "passwordauthentication",
                                 "permitlocalcommand",
                                 "permitremoteopen",
                                 "protocol",
                                 "rekeylimit",
                                 "remotecommand",
                                 "remoteforward",
                                 "requesttty",
                                 "requiredrsasize",
                                 "rhostsrsaauthentication",
                                 "rsaauthentication",
                                 "sendenv",
                                 "serveralivecountmax",
                                 "serveraliveinterval",
                                 "sessiontype",
                                 "setenv",
                                 "skeyauthentication",
                                 "stdinnull",
                                 "streamlocalbindmask",
                                 "streamlocalbindunlink",
                                 "syslogfacility",
                                 "tag",
                                 "tcpkeepalive",
                                 "tisauthentication",
                                 "tunnel",
                                 "tunneldevice",
                                 "updatehostkeys",
                                 "useblacklistedkeys",
                                 "useprivilegedport",
                                 "userknownhostsfile2",
                                 "usersh",
                                 "verifyhostkeydns",
                                 "versionaddendum",
                                 "visualhostkey",
                                 "warnweakcrypto",
                                 "xauthlocation"};

// ssh_config(5), "Match". Not all are evaluated here; any other is a mistake to ssh as well.
const std::vector<std::string> kCriteria = {"all",  "canonical",    "command",   "exec",         "final",
                                            "host", "localnetwork", "localuser", "originalhost", "sessiontype",
                                            "tagged", "user", "version"};

std::string_view skip_blanks(std::string_view text) {
  const auto begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? std::string_view() : text.substr(begin);
}

// Takes the next word as OpenSSH's strdelim does: up to a blank, a '=' or the end of a quoted part. One '=' among the
// blanks behind it goes too. Empty: there is none, or a quote is not closed.
std::optional<std::string> take_delimited(std::optional<std::string_view>& rest) {
  if (!rest) return std::nullopt;
  const auto text = *rest;
  const auto end = text.find_first_of(" \t\r\n\"=");
  if (end == text.npos) {
    rest.reset();
    return std::string(text);
  }
  if (text[end] == '"') {
    const auto close = text.find('"', end + 1);
    if (close == text.npos) return std::nullopt;
    rest = skip_blanks(text.substr(close + 1));
    return std::string(text.substr(0, end)) + std::string(text.substr(end + 1, close - end - 1));
  }
  auto after = skip_blanks(text.substr(end + 1));
  if (text[end] != '=' && after.starts_with('=')) after = skip_blanks(after.substr(1));
  rest = after;
  return std::string(text.substr(0, end));
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

// time ::= (digits [smhdw])+
std::optional<std::uint64_t> parse_seconds(std::string_view text) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  std::uint64_t total = 0;
  while (!text.empty()) {
    const auto digits = text.substr(0, text.find_first_not_of("0123456789"));
    const auto number = parse_number(digits);
    if (!number || *number > kMost) return std::nullopt;
    text.remove_prefix(digits.size());
    std::uint64_t unit = 1;
    if (!text.empty()) {
      constexpr std::string_view kUnits = "smhdw";
      constexpr std::array<std::uint64_t, 5> kSeconds = {1, 60, 3600, 86400, 604800};
      const auto which = kUnits.find(to_lower(text.substr(0, 1)));
      if (which == kUnits.npos) return std::nullopt;
      unit = kSeconds[which];
      text.remove_prefix(1);
    }
    total += *number * unit;
    if (total > kMost) return std::nullopt;
  }
  return total;
}

// The value in one spelling, or what was expected.
tl::expected<std::string, std::string_view> normalize(Shape shape, const std::string& value) {
  const auto lower = to_lower(value);
  switch (shape) {
    case Shape::flag:
      if (lower == "yes" || lower == "true") return "yes";
      if (lower == "no" || lower == "false") return "no";
      return tl::unexpected<std::string_view>("yes or no");
    case Shape::port:
      if (const auto port = parse_number(value); port && *port > 0 && *port < 65536) return std::to_string(*port);
      return tl::unexpected<std::string_view>("a port from 1 to 65535");
    case Shape::count:
      if (const auto count = parse_number(value); count && *count < 1'000'000) return std::to_string(*count);
      return tl::unexpected<std::string_view>("a number");
    case Shape::seconds:
      if (value == "none") return value;
      if (const auto seconds = parse_seconds(value); seconds) return std::to_string(*seconds);
      return tl::unexpected<std::string_view>("a time such as 10 or 1m30s");
    case Shape::family:
      if (lower == "any" || lower == "inet" || lower == "inet6") return lower;
      return tl::unexpected<std::string_view>("any, inet or inet6");
    case Shape::checking:
      if (lower == "true" || lower == "yes") return "yes";
      if (lower == "false" || lower == "no" || lower == "off") return "no";
      if (lower == "ask" || lower == "accept-new") return lower;
      return tl::unexpected<std::string_view>("yes, no, ask or accept-new");
    default:
      return value;
  }
}

}  // namespace

std::optional<std::vector<std::string>> split_arguments(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\t') {
      ++i;
      continue;
    }
    if (text[i] == '#') break;
    std::string word;
    char quote = '\0';
    for (; i < text.size(); ++i) {
      const char c = text[i];
      const char next = i + 1 < text.size() ? text[i + 1] : '\0';
      if (c == '\\' && (next == '\'' || next == '"' || next == '\\' || (quote == '\0' && next == ' '))) {
        word += next;
        ++i;
      } else if (quote == '\0' && (c == ' ' || c == '\t')) {
        break;
      } else if (quote == '\0' && (c == '"' || c == '\'')) {
        quote = c;
      } else if (quote != '\0' && c == quote) {
        quote = '\0';
      } else {
        word += c;
      }
    }
    if (quote != '\0') return std::nullopt;
    words.push_back(std::move(word));
  }
  return words;
}

std::string_view to_string(Keyword keyword) {
  constexpr std::array<std::string_view, 19> kNames = {"AddressFamily",
                                                       "BindAddress",
                                                       "ConnectTimeout",
                                                       "ConnectionAttempts",
                                                       "GlobalKnownHostsFile",
                                                       "HashKnownHosts",
                                                       "HostKeyAlias",
                                                       "HostName",
                                                       "IdentitiesOnly",
                                                       "IdentityAgent",
                                                       "IdentityFile",
                                                       "Port",
                                                       "PreferredAuthentications",
                                                       "ProxyCommand",
                                                       "ProxyJump",
                                                       "PubkeyAuthentication",
                                                       "StrictHostKeyChecking",
                                                       "User",
                                                       "UserKnownHostsFile"};
  return kNames[static_cast<std::size_t>(keyword)];
}

// line ::= blank* keyword (blank+ | blank* '=' blank*) arguments | blank* ['#' comment]
class ConfigReader {
 public:
  ConfigReader(SshConfig& config, const ConfigFiles& files, const std::string& home, std::vector<Error>& errors)
      : config_(config), files_(files), home_(home), errors_(errors) {}

  // `parent`: the block that includes it, or -1. False: there is no such file.
  bool read(const std::string& path, bool of_user, std::int64_t parent, int depth) {
    auto text = files_.read(path);
    if (!text) {
      if (text.error().kind != ErrorKind::not_found) errors_.push_back(text.error());
      return text.error().kind != ErrorKind::not_found;
    }
    const auto file_before = std::exchange(file_, static_cast<std::uint32_t>(config_.files_.size()));
    config_.files_.push_back(path);
    begin_block({.parent = parent, .patterns = {}, .criteria = {}, .file = file_, .number = 1});
    int number = 0;
    for (std::string_view rest = *text; !rest.empty();) {
      const auto end = rest.find('\n');
      ++number;
      read_line(rest.substr(0, end), number, of_user, depth);
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    }
    file_ = file_before;
    return true;
  }

 private:
  using Block = SshConfig::Block;
  using Line = SshConfig::Line;
  using Use = SshConfig::Use;

  void begin_block(Block block) {
    config_.blocks_.push_back(std::move(block));
    config_.segments_.push_back({static_cast<std::uint32_t>(config_.blocks_.size() - 1), true, {}});
  }

  void error(int number, std::string message, std::string hint = {}) {
    errors_.push_back({ErrorKind::malformed, std::move(message), config_.position(file_, number), {}, std::move(hint)});
  }

  void read_line(std::string_view line, int number, bool of_user, int depth) {
    const auto last = line.find_last_not_of(" \t\r\n\f");
    std::optional<std::string_view> rest = line.substr(0, last == line.npos ? 0 : last + 1);
    auto keyword = take_delimited(rest);
    if (keyword && keyword->empty()) keyword = take_delimited(rest);
    if (!keyword || keyword->empty() || keyword->starts_with('#')) return;
    const auto name = to_lower(*keyword);
    const auto arguments = skip_blanks(rest.value_or(""));
    if (arguments.empty()) return error(number, fmt::format("'{}' has no argument", printable(*keyword)));
    const auto words = split_arguments(arguments);
    if (!words) return error(number, fmt::format("'{}': a quote is not closed", printable(*keyword)));
    if (name == "host")
      begin_host(*words, number);
    else if (name == "match")
      begin_match(arguments, number);
    else if (name == "include")
      include(*words, number, of_user, depth);
    else
      add_line(name, *keyword, *words, arguments, number);
  }

  void begin_host(const std::vector<std::string>& patterns, int number) {
    for (const auto& pattern : patterns)
      if (pattern.empty()) error(number, "'Host' has an empty pattern");
    if (patterns.empty()) return begin_block({-1, {"!*"}, {}, file_, number});  // only a comment: nobody
    begin_block({parent(), patterns, {}, file_, number});
  }

  void begin_match(std::string_view arguments, int number) {
    Block block{parent(), {}, {}, file_, number};
    std::optional<std::string_view> rest = arguments;
    for (;;) {
      const auto word = take_delimited(rest);
      if (!word || word->empty() || word->starts_with('#')) break;
      SshConfig::Criterion criterion;
      criterion.negated = word->starts_with('!');
      criterion.name = to_lower(criterion.negated ? word->substr(1) : *word);
      if (std::find(kCriteria.begin(), kCriteria.end(), criterion.name) == kCriteria.end())
        return error(number, fmt::format("'Match {}' is not known{}", printable(criterion.name),
                                         did_you_mean(criterion.name, kCriteria)));
      if (criterion.name == "all") {
        const auto more = take_delimited(rest);
        if (block.criteria.size() > 1 || (more && !more->empty() && !more->starts_with('#')))
          return error(number, "'Match all' cannot be combined with other criteria");
        block.criteria.push_back(std::move(criterion));
        break;
      }
      if (criterion.name == "final") config_.has_final_ = true;
      if (criterion.name != "final" && criterion.name != "canonical") {
        const auto argument = take_delimited(rest);
        if (!argument || argument->empty() || argument->starts_with('#'))
          return error(number, fmt::format("'Match {}' has no argument", printable(criterion.name)));
        criterion.argument = *argument;
      }
      block.criteria.push_back(std::move(criterion));
    }
    if (block.criteria.empty()) return error(number, "'Match' has no criterion");
    begin_block(std::move(block));
  }

  std::int64_t parent() const { return config_.blocks_[config_.segments_.back().block].parent; }

  void include(const std::vector<std::string>& patterns, int number, bool of_user, int depth) {
    const auto block = config_.segments_.back().block;
    for (const auto& pattern : patterns) {
      if (pattern.starts_with('~') && !of_user) {
        error(number, fmt::format("'Include {}': a file of the system cannot name one of a user", printable(pattern)));
        continue;
      }
      std::string path = pattern;
      if (pattern.starts_with("~/"))
        path = home_ + pattern.substr(1);
      else if (!pattern.starts_with('/'))
        path = (of_user ? home_ + "/.ssh/" : std::string("/etc/ssh/")) + pattern;
      for (const auto& file : files_.glob(path)) {
        if (include_failed_) return;  // files that include each other would say it thousands of times
        include_failed_ = depth >= kMostDepth || config_.files_.size() >= kMostFiles;
        if (depth >= kMostDepth) return error(number, fmt::format("'Include' is nested more than {} deep", kMostDepth));
        if (include_failed_) return error(number, fmt::format("more than {} files are included", kMostFiles));
        read(file, of_user, block, depth + 1);
      }
    }
    config_.segments_.push_back({block, false, {}});
  }

  void add_line(const std::string& name, const std::string& keyword, const std::vector<std::string>& words,
                std::string_view arguments, int number) {
    Line line{.use = Use::nothing, .keyword = {}, .values = {}, .note = {}, .file = file_, .number = number};
    const auto has_name = [&](const auto& entry) { return entry.name == name; };
    if (const auto* setting = std::find_if(kSettings.begin(), kSettings.end(), has_name); setting != kSettings.end()) {
      line.use = Use::setting;
      line.keyword = setting->keyword;
      if (!read_values(*setting, keyword, words, arguments, line)) return;
    } else if (const auto* note = std::find_if(kNotDone.begin(), kNotDone.end(), has_name); note != kNotDone.end()) {
      if (!words.empty() && to_lower(words.front()) == note->harmless) return;
      line.use = Use::note;
      line.note = fmt::format("{} {}: {}", keyword, printable(join(words, " ")), note->why);
    } else if (name == "ignoreunknown") {
      if (ignored_unknown_.empty()) ignored_unknown_ = join(words, ",");
      return;
    } else if (std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end() ||
               matches_pattern_list(to_lower(ignored_unknown_), name)) {
      return;
    } else {
      line.use = Use::unknown;
      line.note = fmt::format("'{}' is not known here and is ignored{}", printable(keyword), like(name));
    }
    config_.segments_.back().lines.push_back(std::move(line));
  }

  static std::string like(const std::string& name) {
    std::vector<std::string> names;
    for (const auto& each : kSettings) names.emplace_back(to_string(each.keyword));
    std::vector<std::string> lower;
    for (const auto& each : names) lower.push_back(to_lower(each));
    const auto near = nearest(name, lower);
    if (!near) return {};
    const auto which = std::find(lower.begin(), lower.end(), *near) - lower.begin();
    return fmt::format("; did you mean '{}'?", names[static_cast<std::size_t>(which)]);
  }

  bool read_values(const KnownKeyword& known, const std::string& keyword, const std::vector<std::string>& words,
                   std::string_view arguments, Line& line) {
    if (known.shape == Shape::rest) {
      const auto begin = arguments.find_first_not_of(" \t\r\n=");
      line.values = {std::string(begin == arguments.npos ? "" : arguments.substr(begin))};
      if (known.keyword == Keyword::proxy_jump) {
        line.values.front() = trim(line.values.front().substr(0, line.values.front().find('#')));
      }
      return true;
    }
    if (words.empty() || words.front().empty()) {
      error(line.number, fmt::format("'{}' has no argument", printable(keyword)));
      return false;
    }
    if (known.shape != Shape::words && words.size() > 1) {
      error(line.number,
            fmt::format("'{}' takes one argument, '{}' is one too many", printable(keyword), printable(words[1])));
      return false;
    }
    const auto is_none = [](const std::string& word) { return to_lower(word) == "none"; };
    if (words.size() > 1 && std::any_of(words.begin(), words.end(), is_none)) {
      error(line.number, fmt::format("'{}': 'none' stands among others", printable(keyword)));
      return false;
    }
    for (const auto& word : words) {
      auto value = normalize(known.shape, word);
      if (!value) {
        error(line.number,
              fmt::format("'{}': expected {}, got '{}'", printable(keyword), value.error(), printable(word)));
        return false;
      }
      line.values.push_back(*std::move(value));
    }
    return true;
  }

  SshConfig& config_;
  const ConfigFiles& files_;
  const std::string& home_;
  std::vector<Error>& errors_;
  std::uint32_t file_ = 0;
  bool include_failed_ = false;
  std::string ignored_unknown_;
};

SshConfig SshConfig::load(std::span<const ConfigSource> sources, const ConfigFiles& files, const std::string& home,
                          std::vector<Error>& errors) {
  SshConfig config;
  for (const auto& source : sources) {
    ConfigReader reader(config, files, home, errors);
    if (!reader.read(source.path, source.of_user, -1, 0) && source.wanted)
      errors.push_back(
          {ErrorKind::not_found, fmt::format("there is no file '{}'", printable(source.path)), {}, {}, {}});
  }
  for (std::uint32_t i = 0; i < config.segments_.size(); ++i) {
    const auto& block = config.blocks_[config.segments_[i].block];
    const bool names_only = !block.patterns.empty() &&
                            std::all_of(block.patterns.begin(), block.patterns.end(), [](const std::string& pattern) {
                              return pattern.find_first_of("*?!") == pattern.npos;
                            });
    if (!names_only) config.everywhere_.push_back(i);
    if (names_only)
      for (const auto& name : block.patterns)
        if (auto& list = config.by_name_[name]; list.empty() || list.back() != i) list.push_back(i);
  }
  return config;
}

// One host's way through the files; twice where there is a `Match final`.
class SshConfig::Evaluation {
 public:
  Evaluation(const SshConfig& config, const std::string& host, const std::string& local_user, HostConfig& into)
      : config_(config), host_(host), local_user_(local_user), into_(into) {}

  // `name`: what Host is compared with.
  void pass(const std::string& name, bool final) {
    final_ = final;
    name_ = name;
    const auto named = config_.by_name_.find(name);
    static const std::vector<std::uint32_t> kNone;
    const auto& mine = named == config_.by_name_.end() ? kNone : named->second;
    std::vector<std::uint32_t> segments;
    std::merge(mine.begin(), mine.end(), config_.everywhere_.begin(), config_.everywhere_.end(),
               std::back_inserter(segments));
    std::vector<bool> active(config_.blocks_.size());
    for (const auto index : segments) {
      const auto& segment = config_.segments_[index];
      const auto& block = config_.blocks_[segment.block];
      if (segment.begins)
        active[segment.block] = (block.parent < 0 || active[static_cast<std::size_t>(block.parent)]) && matches(block);
      if (!active[segment.block]) continue;
      for (const auto& line : segment.lines) apply(line);
    }
  }

  void note(SourcePos at, std::string text) {
    if (std::none_of(into_.notes.begin(), into_.notes.end(), [&](const ConfigNote& other) { return other.at == at; }))
      into_.notes.push_back({std::move(at), std::move(text)});
  }

 private:
  bool matches(const Block& block) {
    if (!block.patterns.empty()) {
      bool matched = false;
      for (const auto& pattern : block.patterns) {
        const bool negated = pattern.starts_with('!');
        if (!matches_pattern(std::string_view(pattern).substr(negated ? 1 : 0), name_)) continue;
        if (negated) return false;
        matched = true;
      }
      return matched;
    }
    const Criterion* undecided = nullptr;
    for (const auto& criterion : block.criteria) {
      const auto answer = holds(criterion);
      if (!answer)
        undecided = &criterion;
      else if (*answer == criterion.negated)
        return false;
    }
    if (undecided != nullptr)
      note(config_.position(block.file, block.number),
           fmt::format("'Match {}{}' is not evaluated, what stands under it is ignored", undecided->negated ? "!" : "",
                       printable(undecided->name)));
    return undecided == nullptr;
  }

  // Empty: it is not evaluated here.
  std::optional<bool> holds(const Criterion& criterion) const {
    if (criterion.name == "all") return true;
    if (criterion.name == "final" || criterion.name == "canonical") return final_;
    if (criterion.name == "originalhost") return matches_pattern_list(to_lower(criterion.argument), to_lower(host_));
    if (criterion.name == "localuser") return matches_pattern_list(criterion.argument, local_user_);
    if (criterion.name == "host")
      return matches_pattern_list(to_lower(criterion.argument), to_lower(host_name(into_).value_or(host_)));
    if (criterion.name == "user") {
      const auto* user = into_.find(Keyword::user);
      return matches_pattern_list(criterion.argument, user == nullptr ? local_user_ : user->value);
    }
    return std::nullopt;
  }

  void apply(const Line& line) {
    if (line.use != Use::setting) {
      note(config_.position(line.file, line.number), line.note);
      return;
    }
    const bool is_proxy = line.keyword == Keyword::proxy_command || line.keyword == Keyword::proxy_jump;
    if (is_proxy && (into_.find(Keyword::proxy_command) != nullptr || into_.find(Keyword::proxy_jump) != nullptr))
      return;
    auto& values = into_.settings[line.keyword];
    const bool adds_up = line.keyword == Keyword::identity_file;
    if (!values.empty() && !adds_up) return;
    for (const auto& value : line.values)
      if (!adds_up ||
          std::none_of(values.begin(), values.end(), [&](const Setting& other) { return other.value == value; }))
        values.push_back({value, config_.position(line.file, line.number)});
  }

  const SshConfig& config_;
  const std::string& host_;
  const std::string& local_user_;
  HostConfig& into_;
  std::string name_;
  bool final_ = false;
};

Result<std::string> host_name(const HostConfig& config) {
  const auto* said = config.find(Keyword::host_name);
  if (said == nullptr) return config.original;
  return expand(said->value, {{'%', "%"}, {'h', config.original}});
}

HostConfig SshConfig::evaluate(const std::string& host, const std::string& local_user,
                               const ConfigOverrides& overrides) const {
  HostConfig found;
  found.original = host;
  if (overrides.user) found.settings[Keyword::user] = {{*overrides.user, {}}};
  if (overrides.port) found.settings[Keyword::port] = {{std::to_string(*overrides.port), {}}};
  if (!overrides.jump.empty()) found.settings[Keyword::proxy_jump] = {{overrides.jump, {}}};
  Evaluation evaluation(*this, host, local_user, found);
  evaluation.pass(host, false);
  if (has_final_) {
    // ssh reads the files again, as if the name found so far had been asked for.
    const auto expanded = host_name(found);
    const auto name = to_lower(expanded.value_or(host));
    if (expanded) {
      std::string value;  // as it would stand in a file
      for (const char c : name) value += c == '%' ? std::string("%%") : std::string(1, c);
      auto& said = found.settings[Keyword::host_name];
      if (said.empty()) said.push_back({{}, {}});
      said.front().value = std::move(value);
    }
    evaluation.pass(name, true);
  }
  if (const auto* checking = found.find(Keyword::strict_host_key_checking); checking != nullptr) {
    if (checking->value == "no")
      evaluation.note(checking->at, "StrictHostKeyChecking no: host keys are checked all the same");
    if (checking->value == "accept-new")
      evaluation.note(checking->at,
                      "StrictHostKeyChecking accept-new: new keys are taken with --accept-new-host-keys only");
  }
  return found;
}

}  // namespace trueup::ssh
