#include "transport/known_hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/base64.hpp"
#include "base/digest.hpp"
#include "base/text.hpp"
#include "transport/fingerprint.hpp"
#include "transport/patterns.hpp"
#include "transport/wire.hpp"

namespace trueup::ssh {
namespace {

// hashed ::= '|1|' base64(salt) '|' base64(HMAC-SHA1(salt, name))
bool matches_hash(std::string_view field, std::string_view name) {
  const auto parts = split(field, '|');
  if (parts.size() != 4 || parts[1] != "1") return false;
  const auto salt = base64_decode(parts[2]);
  const auto hash = base64_decode(parts[3]);
  return salt && hash && hmac_sha1(*salt, name) == *hash;
}

bool matches_names(std::string_view field, std::string_view name) {
  return field.starts_with('|') ? matches_hash(field, name) : matches_pattern_list(to_lower(field), name);
}

std::string_view take_field(std::string_view& line) {
  line = trim(line);
  const auto field = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(field.size());
  return field;
}

struct Line {
  int number;
  std::string_view text;
};

// A line with nothing but whole names, and a key that can be read: it says something of those names alone.
bool is_plain_entry(std::string_view line) {
  const auto names = take_field(line);
  const auto type = take_field(line);
  if (names.find_first_of("@|*?!") != names.npos || type.empty()) return false;
  const auto key = base64_decode(take_field(line));
  return key && key_type(*key) == type;
}

bool contains(const std::vector<KnownKey>& keys, std::string_view key) {
  return std::any_of(keys.begin(), keys.end(), [&](const KnownKey& known) { return known.key == key; });
}

}  // namespace

class KnownHostsIndex {
 public:
  explicit KnownHostsIndex(std::string_view text) : size_(text.size()) {
    int number = 0;
    for (const auto line : split_lines(text)) {
      ++number;
      auto rest = trim(line);
      if (rest.empty() || rest.starts_with('#')) continue;
      const auto place = places_.size();
      places_.push_back({number, static_cast<std::size_t>(line.data() - text.data()), line.size()});
      if (!is_plain_entry(rest))
        for_all_.push_back(place);
      else
        for (const auto name : split(take_field(rest), ',')) by_name_[to_lower(name)].push_back(place);
    }
  }

  // How long the text was: it only ever grows.
  std::size_t size() const { return size_; }

  // Those of `text`, in their order, that may say something of one of two names.
  std::vector<Line> lines_for(std::string_view text, const std::string& name, const std::string& plain) const {
    auto chosen = for_all_;
    const auto choose = [&](const std::string& which) {
      const auto found = by_name_.find(which);
      if (found != by_name_.end()) chosen.insert(chosen.end(), found->second.begin(), found->second.end());
    };
    choose(name);
    if (plain != name) choose(plain);
    std::sort(chosen.begin(), chosen.end());
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    std::vector<Line> lines;
    for (const auto place : chosen)
      lines.push_back({places_[place].number, text.substr(places_[place].begin, places_[place].size)});
    return lines;
  }

 private:
  struct Place {
    int number;
    std::size_t begin, size;
  };
  std::size_t size_;
  std::vector<Place> places_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;
  std::vector<std::size_t> for_all_;  // patterns, hashed names, markers, and what cannot be read
};

std::string known_hosts_name(std::string_view host, std::uint16_t port) {
  return port == 22 ? to_lower(host) : fmt::format("[{}]:{}", to_lower(host), port);
}

// line ::= ['@' marker] names key-type base64 [comment]
KnownKeys known_keys(std::span<const KnownHostsFile> files, std::string_view host, std::uint16_t port) {
  const auto name = known_hosts_name(host, port);
  const auto plain = to_lower(host);
  KnownKeys found;
  for (const auto& file : files) {
    if (!file.index || file.index->size() != file.text.size())
      file.index = std::make_shared<const KnownHostsIndex>(file.text);
    for (const auto& [number, line] : file.index->lines_for(file.text, name, plain)) {
      auto rest = trim(line);
      const SourcePos at{file.path, number, 0};
      const auto marker = rest.starts_with('@') ? take_field(rest) : std::string_view();
      const auto names = take_field(rest);
      if (marker == "@cert-authority") {
        if (matches_names(names, name) || (port != 22 && matches_names(names, plain))) found.authorities.push_back(at);
        continue;
      }
      const auto type = take_field(rest);
      const auto key = base64_decode(take_field(rest));
      if (!key || type.empty() || key_type(*key) != type || (!marker.empty() && marker != "@revoked")) {
        found.unreadable.push_back(at);
        continue;
      }
      const bool is_ours = matches_names(names, name);
      if (!is_ours && (port == 22 || !matches_names(names, plain))) continue;
      auto& list = !marker.empty() ? found.revoked : is_ours ? found.keys : found.any_port;
      list.push_back({std::string(type), *key, at});
    }
  }
  return found;
}

JudgedHostKey judge_host_key(const KnownKeys& known, std::string_view key) {
  for (const auto& revoked : known.revoked)
    if (revoked.key == key) return {HostKeyVerdict::revoked, revoked};
  if (contains(known.keys, key)) return {HostKeyVerdict::known, {}};
  const auto type = key_type(key);
  for (const auto& other : known.keys)
    if (other.type == type) return {HostKeyVerdict::changed, other};
  if (contains(known.any_port, key)) return {HostKeyVerdict::known, {}};
  if (!known.keys.empty()) return {HostKeyVerdict::other_type, known.keys.front()};
  return {HostKeyVerdict::unknown, {}};
}

Error host_key_error(const JudgedHostKey& judged, const KnownKeys& known, std::span<const KnownHostsFile> files,
                     std::string_view host, std::uint16_t port, std::string_view key, std::string_view alias,
                     bool direct) {
  const auto name = alias.empty() ? known_hosts_name(host, port) : known_hosts_name(alias, 22);
  const auto type = key_type(key);
  const auto shown = fmt::format("{} {}", printable(type), fingerprint(key));
  const auto keyscan_type = type.starts_with("ecdsa") ? "ecdsa" : type == "ssh-rsa" ? "rsa" : "ed25519";
  const auto real = std::find_if(files.begin(), files.end(), [](const auto& each) { return each.path != "/dev/null"; });
  const auto file = real == files.end() ? std::string("~/.ssh/known_hosts") : real->path;
  const auto to_add =
      direct && alias.empty()
          ? fmt::format("ssh-keyscan -t {} -p {} {} >> {}", keyscan_type, port, shell_quote(host), shell_quote(file))
          : fmt::format("echo {} >> {}", shell_quote(trim(known_hosts_line(name, key, {}))), shell_quote(file));
  const auto error = [&](std::string message, std::string hint) {
    return Error{ErrorKind::host_key,
                 std::move(message),
                 judged.against ? std::optional(judged.against->at) : std::nullopt,
                 {},
                 std::move(hint)};
  };
  switch (judged.verdict) {
    case HostKeyVerdict::known:
      break;
    case HostKeyVerdict::revoked:
      return error(fmt::format("the key of {} is revoked: {}", name, shown),
                   "nothing was sent to it; give the host a new key, and find out who uses the old one");
    case HostKeyVerdict::changed:
      return error(
          fmt::format("the key of {} has changed: it shows {}, known is {}", name, shown,
                      fingerprint(judged.against->key)),
          fmt::format(
              "someone may stand between, or the host was set up anew; nothing was sent to it. Only if its owner "
              "confirms the new fingerprint: ssh-keygen -R {} -f {} && {}",
              shell_quote(name), shell_quote(judged.against->at.file), to_add));
    case HostKeyVerdict::other_type:
      return error(fmt::format("{} shows a key of another type than we know: {}, known is {} {}", name, shown,
                               judged.against->type, fingerprint(judged.against->key)),
                   fmt::format("if the host's owner confirms the fingerprint: {}", to_add));
    case HostKeyVerdict::unknown:
      break;
  }
  std::vector<std::string> read;
  for (const auto& each : files)
    read.push_back(each.problem.empty() ? each.path : fmt::format("{} ({})", each.path, each.problem));
  auto message = fmt::format("the key of {} is not known: {}; looked in {}", name, shown, join(read, ", "));
  if (!known.authorities.empty()) {
    message += fmt::format("; {} trusts a certificate authority for it", to_string(known.authorities.front()));
    return error(
        std::move(message),
        fmt::format("libssh2 cannot check certificates of hosts; make the host's plain key known: {}", to_add));
  }
  if (!known.unreadable.empty())
    message += fmt::format("; {} is no known_hosts line", to_string(known.unreadable.front()));
  return error(std::move(message), fmt::format("compare the fingerprint with the host's own (ssh-keygen -lf "
                                               "/etc/ssh/ssh_host_{}_key.pub), then: {}",
                                               keyscan_type, to_add));
}

std::string known_hosts_line(std::string_view name, std::string_view key, std::string_view salt) {
  const auto shown = salt.empty() ? std::string(name)
                                  : fmt::format("|1|{}|{}", base64_encode(salt), base64_encode(hmac_sha1(salt, name)));
  return fmt::format("{} {} {}\n", shown, key_type(key), base64_encode(key));
}

std::vector<std::string> order_host_key_algorithms(const std::vector<std::string>& supported, const KnownKeys& known) {
  std::vector<std::string> order;
  std::copy_if(supported.begin(), supported.end(), std::back_inserter(order),
               [](const std::string& algorithm) { return algorithm.find("-cert-") == algorithm.npos; });
  std::stable_partition(order.begin(), order.end(), [&](const std::string& algorithm) {
    const auto type = algorithm.starts_with("rsa-sha2-") ? "ssh-rsa" : algorithm;
    const auto is_of_type = [&](const KnownKey& key) { return key.type == type; };
    return std::any_of(known.keys.begin(), known.keys.end(), is_of_type) ||
           std::any_of(known.any_port.begin(), known.any_port.end(), is_of_type);
  });
  return order;
}

}  // namespace trueup::ssh
