#include "transport/ssh.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <stdexcept>

#include "base/text.hpp"
#include "transport/authenticate.hpp"
#include "transport/connection.hpp"
#include "transport/descriptor.hpp"
#include "transport/resolve.hpp"

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

std::vector<std::string> known_hosts_paths(const Host& host, const std::string& home) {
  auto paths = host.known_hosts;
  if (paths.empty()) {
    if (!home.empty()) paths.push_back(home + "/.ssh/known_hosts");
    paths.emplace_back("/etc/ssh/ssh_known_hosts");
  }
  for (auto& path : paths) path = expand_home(path, home);
  return paths;
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

ssh::Credentials credentials_for(const Host& host, const SshOptions& options, const std::string& user) {
  ssh::Credentials credentials{user, {}, host.keys.empty(), options.agent_socket};
  for (const auto& key : host.keys) credentials.keys.push_back(expand_home(key, options.home));
  if (host.keys.empty() && !options.home.empty())
    for (const char* const name : {"id_ed25519", "id_ecdsa", "id_rsa"})
      credentials.keys.push_back(fmt::format("{}/.ssh/{}", options.home, name));
  return credentials;
}

}  // namespace

SshTransport::SshTransport(SshOptions options) : options_(std::move(options)) {
  if (libssh2_init(0) != 0) throw std::runtime_error("libssh2 does not start");
}

Awaitable<Result<std::unique_ptr<Session>>> SshTransport::connect(const Host& host, Watch& watch) {
  const auto limit = options_.connect_timeout;
  const auto& user = host.user ? *host.user : options_.user;

  watch.begin(fmt::format("resolving {}", host.address), limit);
  const auto endpoints = co_await resolve(host.address, host.port, watch);
  if (!endpoints) co_return fail(endpoints.error());

  const auto [read, is_new] = known_hosts_.try_emplace(known_hosts_paths(host, options_.home));
  if (is_new) read->second = read_known_hosts(read->first);
  const auto& files = read->second;  // a map's entries stay where they are
  const auto known = ssh::known_keys(files, host.address, host.port);
  std::unique_ptr<Connection> connection;
  for (int attempt = 1;; ++attempt) {
    const auto executor = co_await asio::this_coro::executor;
    connection = std::make_unique<Connection>(executor, watch);
    const auto algorithms = ssh::order_host_key_algorithms(connection->supported_host_key_algorithms(), known);
    connection->prefer_host_key_algorithms(algorithms);
    auto reached = co_await connection->connect(host.address, *endpoints, limit);
    if (reached) {
      watch.begin("SSH handshake", limit);
      reached = co_await connection->handshake();
    }
    if (reached) break;
    const auto spread = static_cast<std::uint32_t>(std::hash<std::string>()(host.name));
    const auto pause = next_retry(attempt, reached.error().what, spread);
    if (!pause) co_return fail(reached.error().error);
    connection.reset();
    asio::steady_timer timer(executor, *pause);
    constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);
    co_await timer.async_wait(use_tuple);
    if (watch.over()) co_return fail(*watch.over());
  }

  watch.begin("checking the host key", limit);
  const auto key = connection->host_key();
  const auto judged = ssh::judge_host_key(known, key);
  if (judged.verdict != ssh::HostKeyVerdict::known)
    co_return fail(ssh::host_key_error(judged, known, files, host.address, host.port, key));

  auto credentials = credentials_for(host, options_, user);
  const auto authenticated = co_await ssh::authenticate(*connection, std::move(credentials), limit);
  if (!authenticated) co_return fail(authenticated.error());
  co_return std::make_unique<SshSession>(std::move(connection), user);
}

}  // namespace trueup
