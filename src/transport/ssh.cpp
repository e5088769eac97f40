#include "transport/ssh.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <set>
#include <stdexcept>

#include "base/text.hpp"
#include "transport/authenticate.hpp"
#include "transport/config_files.hpp"
#include "transport/connection.hpp"
#include "transport/descriptor.hpp"
#include "transport/fingerprint.hpp"
#include "transport/proxy_command.hpp"
#include "transport/resolve.hpp"
#include "transport/wire.hpp"

namespace trueup {
namespace {

namespace asio = boost::asio;
using ssh::Connection;

class SshChannel final : public Channel {
 public:
  SshChannel(Connection& connection, LIBSSH2_CHANNEL* channel) : connection_(connection), channel_(channel) {}

  Awaitable<Result<void>> write(std::string bytes) override {
    for (std::size_t written = 0; written < bytes.size();) {
      const auto call = [this, &bytes, written] {
        return libssh2_channel_write_ex(channel_.get(), 0, bytes.data() + written, bytes.size() - written);
      };
      const auto count = co_await connection_.until_done(call);
      if (!count) co_return fail(count.error());
      if (*count == LIBSSH2_ERROR_CHANNEL_CLOSED || *count == LIBSSH2_ERROR_CHANNEL_EOF_SENT) break;  // read() tells
      if (*count < 0) co_return fail(connection_.failure(*count, "cannot write to the shell"));
      written += static_cast<std::size_t>(*count);
    }
    co_return Result<void>();
  }

  Awaitable<Result<Chunk>> read() override {
    for (;;) {
      if (connection_.watch().over()) co_return fail(*connection_.watch().over());
      // Reading one stream may take in packets of the other, so two rounds before the socket has to tell of more.
      for (int round = 0; round < 2; ++round) {
        Chunk chunk;
        const auto errors_answer = take(SSH_EXTENDED_DATA_STDERR, chunk.errors);
        const auto output_answer = take(0, chunk.output);
        if (!chunk.output.empty() || !chunk.errors.empty()) co_return chunk;
        chunk.ended = libssh2_channel_eof(channel_.get()) == 1;
        if (chunk.ended) co_return chunk;
        for (const auto answer : {errors_answer, output_answer})
          if (answer < 0 && answer != LIBSSH2_ERROR_EAGAIN)
            co_return fail(connection_.failure(answer, "cannot read from the shell"));
      }
      auto ready = co_await connection_.ready();
      if (!ready) co_return fail(ready.error());
    }
  }

  Awaitable<void> close() override {
    const auto call = [this] { return libssh2_channel_close(channel_.get()); };
    co_await connection_.until_done(call);
  }

  std::optional<int> exit_status() const override {
    if (libssh2_channel_eof(channel_.get()) != 1) return std::nullopt;
    return libssh2_channel_get_exit_status(channel_.get());
  }

 private:
  struct Free {
    // May answer EAGAIN; then the session frees what is left.
    void operator()(LIBSSH2_CHANNEL* channel) const { libssh2_channel_free(channel); }
  };

  // Takes what is there of a stream, up to a bound, and gives libssh2's last answer.
  long take(int stream, std::string& into) {
    constexpr std::size_t kMaxChunkBytes = 256 * 1024;
    std::array<char, 32 * 1024> buffer;
    for (;;) {
      const auto count = libssh2_channel_read_ex(channel_.get(), stream, buffer.data(), buffer.size());
      if (count <= 0) return static_cast<long>(count);
      into.append(buffer.data(), static_cast<std::size_t>(count));
      if (into.size() >= kMaxChunkBytes) return static_cast<long>(count);
    }
  }

  Connection& connection_;
  std::unique_ptr<LIBSSH2_CHANNEL, Free> channel_;
};

class SshSession final : public Session {
 public:
  SshSession(std::unique_ptr<Connection> connection, std::string login)
      : connection_(std::move(connection)), login_(std::move(login)) {}

  const std::string& login() const override { return login_; }

  Awaitable<Result<std::unique_ptr<Channel>>> exec(std::string command, std::string input) override {
    LIBSSH2_SESSION* const handle = connection_->handle();
    LIBSSH2_CHANNEL* opened = nullptr;
    const auto open = [handle, &opened] {
      opened = libssh2_channel_open_session(handle);
      return opened != nullptr ? 0 : libssh2_session_last_errno(handle);
    };
    auto answer = co_await connection_->until_done(open);
    if (!answer) co_return fail(answer.error());
    if (*answer != 0) co_return fail(refused(*answer, "the host opened no channel for a command"));
    auto channel = std::make_unique<SshChannel>(*connection_, opened);
    const auto start = [opened, &command] {
      return libssh2_channel_process_startup(opened, "exec", 4, command.data(), static_cast<unsigned>(command.size()));
    };
    answer = co_await connection_->until_sent(start);
    if (!answer) co_return fail(answer.error());
    if (*answer == 0 || *answer == LIBSSH2_ERROR_EAGAIN) {
      const auto written = co_await channel->write(std::move(input));
      if (!written) co_return fail(written.error());
    }
    if (*answer == LIBSSH2_ERROR_EAGAIN) answer = co_await connection_->until_done(start);
    if (!answer) co_return fail(answer.error());
    if (*answer != 0) co_return fail(refused(*answer, "the host runs no command for this account"));
    co_return channel;
  }

  Awaitable<void> close() override {
    LIBSSH2_SESSION* const handle = connection_->handle();
    const auto call = [handle] { return libssh2_session_disconnect(handle, "done"); };
    co_await connection_->until_done(call);
    co_await connection_->close_carrier();
  }

 private:
  Error refused(long answer, std::string_view what) const {
    auto error = connection_->failure(answer, what);
    if (error.hint.empty())
      error.hint = "see sshd's log on the host; the account may be limited (nologin shell, MaxSessions)";
    return error;
  }

  std::unique_ptr<Connection> connection_;
  const std::string login_;
};

std::string expand_home(const std::string& path, const std::string& home) {
  return path.starts_with("~/") ? home + path.substr(1) : path;
}

std::vector<ssh::KnownHostsFile> read_known_hosts(const std::vector<std::string>& paths) {
  constexpr std::size_t kMostBytes = 16 * 1024 * 1024;
  std::vector<ssh::KnownHostsFile> files;
  for (const auto& path : paths) {
    ssh::KnownHostsFile file{path, {}, {}};
    const auto opened = open_file(path);
    auto text = opened ? read_to_end(*opened, kMostBytes) : Result<std::string>(tl::unexpected(opened.error()));
    if (text)
      file.text = *std::move(text);
    else
      file.problem = text.error().message;
    files.push_back(std::move(file));
  }
  return files;
}

// A route from ssh_config alone: the host's own words are overrides.
Result<ssh::Route> route_of(const std::string& host, const ssh::ConfigOverrides& overrides, const SshOptions& options) {
  const static ssh::SshConfig kNone;
  const auto& config = options.config ? *options.config : kNone;
  return make_route(config.evaluate(host, options.user, overrides), ssh::local_side(options.user, options.home));
}

SshTarget target_for(std::string name, ssh::Route route, const SshOptions& options) {
  SshTarget target{std::move(name), std::move(route), {}, false, {}};
  target.keys = target.route.keys;
  if (!target.route.keys_said && !options.home.empty()) {
    target.keys_are_default = true;
    for (const char* const file : {"id_ed25519", "id_ecdsa", "id_rsa"})
      target.keys.push_back(options.home + "/.ssh/" + file);
  }
  const auto add = [&target](const std::optional<std::vector<std::string>>& said, std::vector<std::string> usual) {
    const auto& paths = said ? *said : usual;
    target.known_hosts.insert(target.known_hosts.end(), paths.begin(), paths.end());
  };
  std::vector<std::string> own;
  if (!options.home.empty()) own.push_back(options.home + "/.ssh/known_hosts");
  add(target.route.user_known_hosts, std::move(own));
  add(target.route.global_known_hosts, {"/etc/ssh/ssh_known_hosts"});
  return target;
}

ssh::ConfigOverrides overrides_of(const ssh::Hop& hop) { return {hop.user, hop.port, {}}; }

ssh::ConfigOverrides overrides_of(const Host& host, const SshOptions& options) {
  return {host.user, host.port == 0 ? std::nullopt : std::optional(host.port), options.jump};
}

// A way that comes back to where it has been would never end. `seen`: who is on it.
std::optional<Error> find_loop(const std::string& name, const ssh::Route& route, std::set<std::string>& seen,
                               const SshOptions& options) {
  const auto where = fmt::format("{}@{}:{}", route.user, route.address, route.port);
  const auto from = route.origins({ssh::Keyword::proxy_jump});
  if (!seen.insert(where).second)
    return Error{ErrorKind::malformed,
                 fmt::format("ProxyJump leads back to {} ({})", name, where),
                 {},
                 {},
                 "exempt the bastion from the block that names it: Host * !BASTION"};
  for (std::size_t i = 0; i < route.jumps.size(); ++i) {
    auto hop = route_of(route.jumps[i].host, overrides_of(route.jumps[i]), options);
    if (!hop) return with_context(hop.error(), fmt::format("hop {}", to_string(route.jumps[i])));
    if (i > 0) hop->jumps.clear();  // the hops before it lead there
    if (auto loop = find_loop(to_string(route.jumps[i]), *hop, seen, options)) {
      if (loop->context.empty() && !from.empty()) loop->context.push_back(from);
      return loop;
    }
  }
  return std::nullopt;
}

// `message (HostName from FILE:LINE, ...)`: where the values came from that did not work.
Error with_origins(Error error, const ssh::Route& route, std::initializer_list<ssh::Keyword> keywords) {
  if (const auto origins = route.origins(keywords); !origins.empty()) error.message += fmt::format(" ({})", origins);
  return error;
}

void keep_family(std::vector<asio::ip::tcp::endpoint>& endpoints, ssh::AddressFamily family) {
  if (family == ssh::AddressFamily::any) return;
  std::erase_if(endpoints, [family](const asio::ip::tcp::endpoint& endpoint) {
    return endpoint.address().is_v6() != (family == ssh::AddressFamily::ipv6);
  });
}

ssh::KnownKeys known_keys_of(const SshTarget& target, const std::vector<ssh::KnownHostsFile>& files) {
  const auto& route = target.route;
  return route.host_key_alias.empty() ? ssh::known_keys(files, route.address, route.port)
                                      : ssh::known_keys(files, route.host_key_alias, 22);
}

// Adds a line to a file that may not exist, or may lack its last line end.
Result<void> append_line(const std::string& path, std::string line) {
  const auto failed = [&path] {
    return fail(ErrorKind::io, fmt::format("cannot write '{}': {}", path, system_text(errno)));
  };
  if (const auto slash = path.rfind('/'); slash != std::string::npos) ::mkdir(path.substr(0, slash).c_str(), 0700);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) return failed();
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::io, fmt::format("cannot write '{}': not a regular file", path));
  char last = '\n';
  if (status.st_size > 0 && ::pread(file.get(), &last, 1, status.st_size - 1) != 1) return failed();
  if (last != '\n') line.insert(0, 1, '\n');
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) return failed();
  return {};
}

}  // namespace

Result<SshTarget> ssh_target(const Host& host, const SshOptions& options) {
  auto route = route_of(host.address, overrides_of(host, options), options);
  if (!route) return fail(route.error());
  std::set<std::string> seen;
  if (auto loop = find_loop(host.address, *route, seen, options)) return fail(*std::move(loop));
  auto target = target_for(host.name, *std::move(route), options);
  if (!host.keys.empty()) {
    target.keys.clear();
    target.keys_are_default = false;
    for (const auto& key : host.keys) target.keys.push_back(expand_home(key, options.home));
    target.route.said_at.erase(ssh::Keyword::identity_file);
  }
  if (!host.known_hosts.empty()) {
    target.known_hosts.clear();
    for (const auto& path : host.known_hosts) target.known_hosts.push_back(expand_home(path, options.home));
  }
  return target;
}

std::vector<ssh::ConfigNote> ssh_notes(const Host& host, const SshOptions& options) {
  if (!options.config) return {};
  auto notes = options.config->evaluate(host.address, options.user, overrides_of(host, options)).notes;
  const auto target = ssh_target(host, options);
  if (!target) return notes;
  for (const auto& hop : target->route.jumps) {
    Host bastion;
    bastion.name = bastion.address = hop.host;
    bastion.user = hop.user;
    bastion.port = hop.port.value_or(0);
    auto of_hop = options;
    of_hop.jump.clear();
    const auto more = ssh_notes(bastion, of_hop);
    notes.insert(notes.end(), more.begin(), more.end());
  }
  return notes;
}

SshTransport::SshTransport(SshOptions options) : options_(std::move(options)) {
  if (libssh2_init(0) != 0) throw std::runtime_error("libssh2 does not start");
}

Awaitable<Result<std::unique_ptr<Session>>> SshTransport::connect(const Host& host, Watch& watch) {
  auto target = ssh_target(host, options_);
  watch.begin(fmt::format("resolving {}", target ? target->route.address : host.address), options_.connect_timeout);
  if (!target) co_return fail(target.error());
  const auto user = target->route.user;
  auto connection = co_await log_in(*std::move(target), watch);
  if (!connection) co_return fail(connection.error());
  co_return std::make_unique<SshSession>(*std::move(connection), user);
}

Awaitable<Result<std::unique_ptr<Connection>>> SshTransport::log_in(SshTarget target, Watch& watch) {
  const auto& route = target.route;
  const auto limit = options_.connect_timeout_wins ? options_.connect_timeout
                                                   : route.connect_timeout.value_or(options_.connect_timeout);
  const auto& files = known_hosts_of(target);  // a map's entries stay where they are
  const auto known = known_keys_of(target, files);
  std::unique_ptr<Connection> connection;
  for (int attempt = 1;; ++attempt) {
    auto reached = co_await reach(target, known, limit, watch);
    if (reached) {
      connection = *std::move(reached);
      break;
    }
    const auto spread = static_cast<std::uint32_t>(std::hash<std::string>()(target.name));
    auto pause = next_retry(attempt, reached.error().what, spread);
    if (!pause && attempt < route.connection_attempts) pause = std::chrono::seconds(1);  // as ssh waits
    if (!pause || watch.is_final()) co_return fail(reached.error().error);
    asio::steady_timer timer(co_await asio::this_coro::executor, *pause);
    constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);
    co_await timer.async_wait(use_tuple);
    if (watch.is_final()) co_return fail(*watch.over());
  }

  watch.begin("checking the host key", limit);
  const auto checked = check_host_key(target, files, known, connection->host_key());
  if (!checked) co_return fail(checked.error());

  ssh::Credentials credentials{route.user, target.keys, target.keys_are_default,
                               route.agent_socket.value_or(options_.agent_socket), route.identities_only};
  auto authenticated = co_await ssh::authenticate(*connection, std::move(credentials), limit);
  if (!authenticated) {
    using ssh::Keyword;
    auto error =
        authenticated.error().kind == ErrorKind::auth
            ? with_origins(std::move(authenticated.error()), route,
                           {Keyword::user, Keyword::identity_file, Keyword::identities_only, Keyword::identity_agent})
            : std::move(authenticated.error());
    co_return fail(std::move(error));
  }
  co_return connection;
}

// A connection after the handshake, its host key not yet looked at.
Awaitable<SshTransport::Reached> SshTransport::reach(const SshTarget& target, const ssh::KnownKeys& known,
                                                     std::chrono::milliseconds limit, Watch& watch) {
  using Failure = Connection::Failure;
  using ssh::Keyword;
  const auto& route = target.route;
  auto connection = std::make_unique<Connection>(co_await asio::this_coro::executor, watch);
  const auto algorithms = ssh::order_host_key_algorithms(connection->supported_host_key_algorithms(), known);
  connection->prefer_host_key_algorithms(algorithms);
  auto reached = co_await connect_stream(*connection, target, limit, watch);
  if (!reached) co_return tl::unexpected(std::move(reached.error()));
  watch.begin("SSH handshake", limit);
  reached = co_await connection->handshake();
  if (reached) co_return connection;
  auto failure = std::move(reached.error());
  if (auto* const carrier = connection->carrier(); carrier != nullptr) {
    co_await carrier->settle();
    const auto story = carrier->story();
    if (!route.proxy_command.empty()) {
      failure.what = ConnectFailure::lasting;
      failure.error.message += fmt::format("; its ProxyCommand{}", story.empty() ? " is still running" : " " + story);
      failure.error.hint = "run the command by hand: the first that comes must be an SSH server's 'SSH-2.0-...'";
      failure.error = with_origins(std::move(failure.error), route, {Keyword::proxy_command});
    } else if (!story.empty()) {
      failure.error.message += fmt::format("; {}", story);
    }
  }
  co_return tl::unexpected(Failure{std::move(failure)});
}

// By TCP, through a program, or through bastions.
Awaitable<tl::expected<void, Connection::Failure>> SshTransport::connect_stream(Connection& connection,
                                                                                const SshTarget& target,
                                                                                std::chrono::milliseconds limit,
                                                                                Watch& watch) {
  using Done = tl::expected<void, Connection::Failure>;
  using ssh::Keyword;
  const auto& route = target.route;
  if (!route.jumps.empty()) {
    const auto pool = pool_for(route.jumps);
    if (!pool) co_return tl::unexpected(Connection::Failure{pool.error()});
    auto tunnel = co_await (*pool)->tunnel(route.address, route.port, watch, limit);
    if (!tunnel) co_return tl::unexpected(Connection::Failure{std::move(tunnel.error())});
    connection.adopt(std::move(tunnel->socket), std::move(tunnel->bastion));
    co_return Done();
  }
  if (!route.proxy_command.empty()) {
    watch.begin("starting its ProxyCommand", limit);
    const char* const shell = std::getenv("SHELL");
    Descriptor socket;
    auto command =
        ssh::ProxyCommand::start(route.proxy_command, shell == nullptr || *shell == '\0' ? "/bin/sh" : shell, socket);
    if (!command)
      co_return tl::unexpected(
          Connection::Failure{with_origins(std::move(command.error()), route, {Keyword::proxy_command})});
    connection.adopt(std::move(socket), *std::move(command));
    co_return Done();
  }
  watch.begin(fmt::format("resolving {}", route.address), limit);
  auto endpoints = co_await resolve(route.address, route.port, watch);
  if (!endpoints)
    co_return tl::unexpected(
        Connection::Failure{with_origins(std::move(endpoints.error()), route, {Keyword::host_name})});
  keep_family(*endpoints, route.family);
  auto done = co_await connection.connect(route.address, *std::move(endpoints), route.bind_address, limit);
  if (!done)
    done.error().error =
        with_origins(std::move(done.error().error), route,
                     {Keyword::host_name, Keyword::port, Keyword::address_family, Keyword::bind_address});
  co_return done;
}

Result<void> SshTransport::check_host_key(const SshTarget& target, const std::vector<ssh::KnownHostsFile>& files,
                                          const ssh::KnownKeys& known, const std::string& key) {
  using ssh::Keyword;
  const auto judged = ssh::judge_host_key(known, key);
  if (judged.verdict == ssh::HostKeyVerdict::known) return {};
  const auto& route = target.route;
  if (judged.verdict == ssh::HostKeyVerdict::unknown && options_.accept_new_host_keys && known.authorities.empty()) {
    // Another connection of this run may have written a key by now.
    const auto by_now = known_keys_of(target, files);
    if (judge_host_key(by_now, key).verdict == ssh::HostKeyVerdict::unknown) return accept_host_key(target, key);
    if (judge_host_key(by_now, key).verdict == ssh::HostKeyVerdict::known) return {};
  }
  const bool direct = route.jumps.empty() && route.proxy_command.empty();
  auto error = ssh::host_key_error(judged, known, files, route.address, route.port, key, route.host_key_alias, direct);
  return fail(with_origins(
      std::move(error), route,
      {Keyword::host_name, Keyword::host_key_alias, Keyword::user_known_hosts, Keyword::global_known_hosts}));
}

Result<void> SshTransport::accept_host_key(const SshTarget& target, const std::string& key) {
  const auto& route = target.route;
  const auto name = route.host_key_alias.empty() ? ssh::known_hosts_name(route.address, route.port)
                                                 : ssh::known_hosts_name(route.host_key_alias, 22);
  std::string salt;
  if (route.hash_known_hosts) {
    salt.resize(20);
    if (::getentropy(salt.data(), salt.size()) != 0) return fail(ErrorKind::io, system_text(errno));
  }
  if (target.known_hosts.empty()) return fail(ErrorKind::host_key, "there is no known_hosts file to write the key to");
  const auto& path = target.known_hosts.front();
  const auto line = ssh::known_hosts_line(name, key, salt);
  if (auto written = append_line(path, line); !written) {
    auto error = std::move(written.error());
    error.kind = ErrorKind::host_key;
    return fail(std::move(error));
  }
  for (auto& [paths, files] : known_hosts_)
    for (auto& file : files)
      if (file.path == path) {
        if (!file.text.empty() && !file.text.ends_with('\n')) file.text += '\n';
        file.text += line;
        file.problem.clear();
      }
  if (options_.note)
    options_.note(fmt::format("{}: new host key {} {} was written to {}", target.name, ssh::key_type(key),
                              ssh::fingerprint(key), path));
  return {};
}

std::vector<ssh::KnownHostsFile>& SshTransport::known_hosts_of(const SshTarget& target) {
  const auto [read, is_new] = known_hosts_.try_emplace(target.known_hosts);
  if (is_new) read->second = read_known_hosts(read->first);
  return read->second;
}

Result<std::shared_ptr<ssh::BastionPool>> SshTransport::pool_for(std::span<const ssh::Hop> hops) {
  std::string way;
  for (const auto& hop : hops) way += fmt::format("{}{}", way.empty() ? "" : ",", to_string(hop));
  const auto found = pools_.find(way);
  if (found != pools_.end()) return found->second;
  const auto& last = hops.back();
  auto route = route_of(last.host, overrides_of(last), options_);
  if (!route) return fail(with_context(route.error(), fmt::format("hop {}", to_string(last))));
  if (hops.size() > 1) {
    route->jumps.assign(hops.begin(), hops.end() - 1);
    route->proxy_command.clear();
  }
  auto target = target_for(to_string(last), *std::move(route), options_);
  const auto connect = [this, target](Watch& watch) { return log_in(target, watch); };
  // Each phase has its own limit; this one is for a bastion that keeps all of them just so.
  const auto limit = 6 * target.route.connect_timeout.value_or(options_.connect_timeout);
  const auto pool = std::make_shared<ssh::BastionPool>(to_string(last), connect, limit);
  pools_.emplace(std::move(way), pool);
  return pool;
}

}  // namespace trueup
