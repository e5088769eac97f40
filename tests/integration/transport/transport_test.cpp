#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <thread>

#include "integration/transport/sshd.hpp"
#include "support/catch.hpp"
#include "transport/local.hpp"
#include "transport/ssh.hpp"

using namespace trueup;
using namespace trueup::test;
using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace {

struct Outcome {
  std::optional<Error> error;  // with the phase as context
  std::string output, errors;
  std::optional<int> status;
};

// Connects, runs one command, writes `input`, reads to the end.
Awaitable<Outcome> converse(Transport& transport, const Host& host, std::string command, std::string input,
                            std::function<void(const std::string&)> on_output, asio::cancellation_signal& signal) {
  co_await asio::this_coro::throw_if_cancelled(false);
  Watch watch(co_await asio::this_coro::executor, signal, 20s);
  Outcome outcome;
  auto session = co_await transport.connect(host, watch);
  if (!session) {
    outcome.error = with_context(session.error(), watch.phase());
    co_return outcome;
  }
  watch.begin("running", 10s);
  auto channel = co_await (*session)->exec(command);
  if (!channel) {
    outcome.error = channel.error();
    co_return outcome;
  }
  const auto written = co_await (*channel)->write(input);
  if (!written) outcome.error = written.error();
  while (!outcome.error) {
    const auto chunk = co_await (*channel)->read();
    if (!chunk) {
      outcome.error = with_context(chunk.error(), watch.phase());
      break;
    }
    outcome.output += chunk->output;
    outcome.errors += chunk->errors;
    if (on_output) on_output(outcome.output);
    if (chunk->ended) break;
  }
  watch.begin_closing(2s);
  co_await (*channel)->close();
  outcome.status = (*channel)->exit_status();
  co_await (*session)->close();
  co_return outcome;
}

Outcome run_on(Transport& transport, const Host& host, const std::string& command, const std::string& input = "",
               std::function<void(const std::string&)> on_output = {}) {
  asio::cancellation_signal signal;
  asio::io_context context(1);
  Outcome result;
  std::exception_ptr thrown;
  const auto done = [&](std::exception_ptr exception, Outcome outcome) {
    thrown = exception;
    result = std::move(outcome);
  };
  asio::co_spawn(context, converse(transport, host, command, input, std::move(on_output), signal),
                 asio::bind_cancellation_slot(signal.slot(), done));
  context.run();
  if (thrown) std::rethrow_exception(thrown);
  return result;
}

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

bool can_run() {
  const auto why = why_no_sshd();
  if (!why.empty()) std::cout << "skipped: " << why << std::endl;
  return why.empty();
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
