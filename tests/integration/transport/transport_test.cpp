#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <sstream>
#include <thread>

#include "integration/transport/conversation.hpp"
#include "integration/transport/sshd.hpp"
#include "support/catch.hpp"
#include "transport/local.hpp"
#include "transport/ssh.hpp"

using namespace trueup;
using namespace trueup::test;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

Host host_of(const Sshd& sshd) {
  Host host;
  host.name = "test";
  host.address = "127.0.0.1";
  host.port = sshd.port();
  host.user = sshd.user();
  host.keys = {sshd.key()};
  host.known_hosts = {sshd.known_hosts()};
  return host;
}

Outcome run_ssh(const Host& host, const std::string& command, const std::string& input = "",
                std::function<void(const std::string&)> on_output = {}, std::string agent = "",
                std::chrono::milliseconds timeout = 5s) {
  SshTransport transport({"nobody", "", std::move(agent), timeout});
  return run_on(transport, host, command, input, std::move(on_output));
}

// Listens on loopback; `serve` gets each connection.
class Listener {
 public:
  Listener() : acceptor_(context_, {asio::ip::address_v4::loopback(), 0}) {}
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void close_every_connection() {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      for (;;) {
        asio::ip::tcp::socket socket(context_);
        acceptor_.accept(socket);
        if (stop.stop_requested()) return;
        ++accepted;
      }
    });
  }
  ~Listener() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    asio::ip::tcp::socket socket(context_);
    socket.connect(acceptor_.local_endpoint());
    thread_.join();
  }
  std::atomic<int> accepted = 0;

 private:
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_;
  std::jthread thread_;
};

}  // namespace

TEST_CASE("a key file opens the host, and a command's streams and status come back", "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd;
  const auto echoed = run_ssh(host_of(sshd), "head -c 6; echo oops >&2; exit 3", "hello\nrest");
  if (echoed.error) FAIL(to_string(*echoed.error));
  CHECK(echoed.output == "hello\n");
  CHECK(echoed.errors == "oops\n");
  CHECK(echoed.status == 3);
}

TEST_CASE("a host is reached by name, at whichever of its addresses answers", "[integration][transport][ssh]") {
  if (!can_run()) return;
  if (::gethostbyname("localhost") == nullptr) {
    std::cout << "skipped: localhost does not resolve here" << std::endl;
    return;
  }
  const Sshd sshd;  // on 127.0.0.1 alone; localhost may be ::1 first
  auto host = host_of(sshd);
  host.address = "localhost";
  write_file(sshd.known_hosts(), "[LOCALHOST]:" + std::to_string(sshd.port()) + " " + sshd.host_key());
  const auto outcome = run_ssh(host, "echo in");
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == "in\n");
}

TEST_CASE("much on all three streams arrives whole, over both transports", "[integration][transport]") {
  // More than a pipe (64 KiB) or an SSH window (2 MiB) holds; locally also while we are still writing.
  const std::string input(1'000'000, 'x');
  const std::string command = "head -c 3000000 /dev/zero >&2; head -c 1000000; head -c 3000000 /dev/zero";
  const auto check = [&](const Outcome& outcome) {
    if (outcome.error) FAIL(to_string(*outcome.error));
    CHECK(outcome.output == input + std::string(3'000'000, '\0'));
    CHECK(outcome.errors == std::string(3'000'000, '\0'));
    CHECK(outcome.status == 0);
  };
  LocalTransport local;
  Host host;
  check(run_on(local, host, command, input));
  if (!can_run()) return;
  const Sshd sshd;
  check(run_ssh(host_of(sshd), command, input));
}

TEST_CASE("a local shell has a session of its own and none of our descriptors", "[integration][transport][local]") {
  LocalTransport local;
  Host host;
  const int inherited = ::dup(2);
  const auto outcome = run_on(local, host,
                              "ps -o sid= -p $$ | tr -d ' '; echo $$; cd /proc/$$/fd; [ -e " +
                                  std::to_string(inherited) + " ] && echo inherited || echo closed");
  ::close(inherited);
  if (outcome.error) FAIL(to_string(*outcome.error));
  std::istringstream said(outcome.output);
  std::string session, shell, descriptors;
  std::getline(said, session);
  std::getline(said, shell);
  std::getline(said, descriptors);
  CHECK(session == shell);
  CHECK(descriptors == "closed");
}

TEST_CASE("a local shell that ends early is told by read, not by write", "[integration][transport][local]") {
  LocalTransport local;
  Host host;
  const auto outcome = run_on(local, host, "exec 0<&-; echo gone >&2; exit 7", std::string(1'000'000, 'x'));
  CHECK_FALSE(outcome.error);
  CHECK(outcome.errors == "gone\n");
  CHECK(outcome.status == 7);
}

TEST_CASE("an agent's key opens the host, also where the file is encrypted", "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd;
  make_key(sshd.file("locked_key"), "ed25519", "passphrase");
  write_file(sshd.file("authorized_keys"), read_text(sshd.file("locked_key.pub")));
  const auto socket = sshd.file("agent");
  const Daemon agent({"ssh-agent", "-D", "-a", socket}, "echo Agent pid");
  write_file(sshd.file("askpass"), "#!/bin/sh\necho passphrase\n");
  std::filesystem::permissions(sshd.file("askpass"), std::filesystem::perms::owner_all);
  auto host = host_of(sshd);
  host.keys = {sshd.file("locked_key")};

  const auto locked = run_ssh(host, "echo in");
  REQUIRE(locked.error);
  CHECK(locked.error->kind == ErrorKind::auth);
  CHECK_THAT(locked.error->message, ContainsSubstring("locked_key is encrypted and not in the agent"));

  const auto empty_agent = run_ssh(host, "echo in", "", {}, socket);
  REQUIRE(empty_agent.error);
  CHECK_THAT(empty_agent.error->message, ContainsSubstring("locked_key is encrypted and not in the agent"));

  run_program({"ssh-add", "-q", sshd.key()}, {"SSH_AUTH_SOCK=" + socket});  // one that the host refuses
  run_program(
      {"ssh-add", "-q", sshd.file("locked_key")},
      {"SSH_AUTH_SOCK=" + socket, "SSH_ASKPASS=" + sshd.file("askpass"), "SSH_ASKPASS_REQUIRE=force", "DISPLAY=:0"});
  const auto opened = run_ssh(host, "echo in", "", {}, socket);
  if (opened.error) FAIL(to_string(*opened.error));
  CHECK(opened.output == "in\n");
}

TEST_CASE("an agent that hangs or is gone does not keep a key file from opening the host",
          "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd;
  CHECK(run_ssh(host_of(sshd), "echo in", "", {}, sshd.file("no_agent")).output == "in\n");
  asio::io_context context;
  const asio::local::stream_protocol::acceptor silent(context,
                                                      asio::local::stream_protocol::endpoint(sshd.file("agent")));
  const auto outcome = run_ssh(host_of(sshd), "echo in", "", {}, sshd.file("agent"), 1s);
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == "in\n");
}

TEST_CASE("a refused login tells what was tried, what was not and why", "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd;
  auto host = host_of(sshd);
  make_key(sshd.file("wrong_key"));
  make_key(sshd.file("open_key"));
  std::filesystem::permissions(sshd.file("open_key"), std::filesystem::perms(0644));
  host.keys = {sshd.file("missing_key"), sshd.file("open_key"), sshd.file("wrong_key")};
  const auto outcome = run_ssh(host, "true");
  REQUIRE(outcome.error);
  CHECK(outcome.error->kind == ErrorKind::auth);
  CHECK(outcome.error->context == std::vector<std::string>{"authenticating as " + sshd.user()});
  CHECK_THAT(outcome.error->message, ContainsSubstring("wrong_key (ssh-ed25519 SHA256:"));
  CHECK_THAT(outcome.error->message, ContainsSubstring("missing_key': No such file or directory"));
  CHECK_THAT(outcome.error->message, ContainsSubstring("open_key' can be read by others (mode 0644)"));
  CHECK_THAT(outcome.error->message, ContainsSubstring("it accepts publickey"));
  CHECK_FALSE(outcome.error->hint.empty());
}

TEST_CASE("an RSA key opens the host, or the error says why it cannot", "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd;
  make_key(sshd.file("rsa_key"), "rsa");
  write_file(sshd.file("authorized_keys"), read_text(sshd.file("rsa_key.pub")));
  auto host = host_of(sshd);
  host.keys = {sshd.file("rsa_key")};
  const auto outcome = run_ssh(host, "echo in");
  if (outcome.error)
    CHECK_THAT(outcome.error->hint, ContainsSubstring("signs RSA with SHA-1 only"));  // libssh2 1.10
  else
    CHECK(outcome.output == "in\n");
}

TEST_CASE("too many keys are told as such", "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd("MaxAuthTries 2\n");
  auto host = host_of(sshd);
  host.keys.clear();
  for (const char* const name : {"one", "two", "three"}) {
    make_key(sshd.file(name));
    host.keys.push_back(sshd.file(name));
  }
  const auto outcome = run_ssh(host, "true");
  REQUIRE(outcome.error);
  CHECK(outcome.error->kind == ErrorKind::auth);
  INFO(outcome.error->message);
  CHECK_THAT(outcome.error->hint, ContainsSubstring("MaxAuthTries"));
}

TEST_CASE("a host key that is not known, has changed or is revoked ends it before any credential is sent",
          "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd("LogLevel DEBUG1\n");
  const auto host = host_of(sshd);
  const auto name = "[127.0.0.1]:" + std::to_string(sshd.port());
  make_key(sshd.file("other_host_key"));
  const auto refusal = [&](const std::string& known_hosts) {
    write_file(sshd.known_hosts(), known_hosts);
    const auto outcome = run_ssh(host, "true");
    REQUIRE(outcome.error);
    CHECK(outcome.error->kind == ErrorKind::host_key);
    CHECK(outcome.error->context == std::vector<std::string>{"checking the host key"});
    CHECK_FALSE(outcome.error->hint.empty());
    return outcome.error->message;
  };
  CHECK_THAT(refusal(""), ContainsSubstring(name + " is not known: ssh-ed25519 SHA256:"));
  CHECK_THAT(refusal(name + " " + read_text(sshd.file("other_host_key.pub"))),
             ContainsSubstring(name + " has changed"));
  CHECK_THAT(refusal("@revoked * " + sshd.host_key() + name + " " + sshd.host_key()), ContainsSubstring("is revoked"));
  write_file(sshd.known_hosts(), name + " " + sshd.host_key());
  run_program({"ssh-keygen", "-q", "-H", "-f", sshd.known_hosts()});
  CHECK_FALSE(run_ssh(host, "true").error);
}

TEST_CASE("a known_hosts file that is a pipe or too large is not read, and named", "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd;
  auto host = host_of(sshd);
  const auto message_with = [&](const std::string& known_hosts) {
    host.known_hosts = {known_hosts};
    const auto outcome = run_ssh(host, "true");
    REQUIRE(outcome.error);
    return outcome.error->message + outcome.error->hint;
  };
  const auto pipe = sshd.file("pipe"), large = sshd.file("large");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(message_with(pipe), ContainsSubstring(pipe + " (not a regular file)"));
  write_file(large, "");
  std::filesystem::resize_file(large, 16 * 1024 * 1024 + 1);
  CHECK_THAT(message_with(large), ContainsSubstring(large + " (larger than 16.0 MiB)"));
}

TEST_CASE("of several host keys the host is asked for the one we know", "[integration][transport][ssh]") {
  if (!can_run()) return;
  TemporaryDirectory directory;
  make_key(directory.file("ecdsa"), "ecdsa");
  const Sshd sshd("HostKey " + directory.file("ecdsa") + "\n");
  const auto name = "[127.0.0.1]:" + std::to_string(sshd.port());
  for (const auto& key : {sshd.host_key(), read_text(directory.file("ecdsa.pub"))}) {
    write_file(sshd.known_hosts(), name + " " + key);
    CHECK_FALSE(run_ssh(host_of(sshd), "true").error);
  }
}

TEST_CASE("each way not to reach a host has its own message, phase and advice", "[integration][transport][ssh]") {
  Host host;
  host.name = "test";
  host.address = "127.0.0.1";
  host.known_hosts = {"/nonexistent"};
  const auto failure = [&](std::chrono::milliseconds timeout) {
    const auto outcome = run_ssh(host, "true", "", {}, "", timeout);
    REQUIRE(outcome.error);
    CHECK_FALSE(outcome.error->hint.empty());
    REQUIRE(outcome.error->context.size() == 1);
    return *outcome.error;
  };

  SECTION("port closed") {
    host.port = Listener().port();
    const auto error = failure(5s);
    CHECK(error.kind == ErrorKind::unreachable);
    CHECK(to_string(error) == "connecting to 127.0.0.1 port " + std::to_string(host.port) + ": 127.0.0.1 port " +
                                  std::to_string(host.port) + " refused the connection");
  }
  SECTION("accepts and says nothing") {
    const Listener silent;
    host.port = silent.port();
    const auto error = failure(300ms);
    CHECK(error.kind == ErrorKind::timeout);
    CHECK(to_string(error) ==
          "SSH handshake: the connection was accepted, but no SSH banner came: no answer within 300 ms");
  }
  SECTION("name does not resolve") {
    host.address = "host.invalid";
    const auto error = failure(10s);
    CHECK(error.context.front() == "resolving host.invalid");
    if (error.kind != ErrorKind::timeout)
      CHECK_THAT(error.message, ContainsSubstring("'host.invalid' does not resolve: "));
  }
  SECTION("cut before the key exchange: tried three times") {
    Listener listener;
    listener.close_every_connection();
    host.port = listener.port();
    const auto error = failure(5s);
    CHECK(error.kind == ErrorKind::unreachable);
    CHECK_THAT(error.message, ContainsSubstring("closed the connection before the key exchange was done"));
    CHECK(listener.accepted == 3);
  }
}

TEST_CASE("a connection that is cut in the middle ends at once and is told as such", "[integration][transport][ssh]") {
  if (!can_run()) return;
  const Sshd sshd;
  const auto kill_its_sshd = [](const std::string& output) {
    if (output.ends_with('\n'))
      ::kill(std::stoi(output), SIGKILL);  // the shell's parent: sshd's process for this session
  };
  const auto outcome = run_ssh(host_of(sshd), "echo $PPID; sleep 100 & wait", "", kill_its_sshd);
  REQUIRE(outcome.error);
  CHECK(outcome.error->kind == ErrorKind::unreachable);
  CHECK_THAT(outcome.error->message, ContainsSubstring("the connection was cut"));
}
