#include "integration/transport/conversation.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <iostream>
#include <list>
#include <utility>

#include "integration/transport/sshd.hpp"

namespace trueup::test {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

Awaitable<Outcome> converse(Transport& transport, const Host& host, std::string command, std::string input,
                            std::function<void(const std::string&)> on_output, asio::cancellation_signal& signal) {
  co_await asio::this_coro::throw_if_cancelled(false);
  Watch watch(co_await asio::this_coro::executor, signal, 120s);
  Outcome outcome;
  auto session = co_await transport.connect(host, watch);
  if (!session) {
    outcome.error = with_context(session.error(), watch.phase());
    co_return outcome;
  }
  watch.begin("running", 60s);
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

}  // namespace

bool can_run() {
  const auto why = why_no_sshd();
  if (!why.empty()) std::cout << "skipped: " << why << std::endl;
  return why.empty();
}

Outcome run_on(Transport& transport, const Host& host, const std::string& command, const std::string& input,
               std::function<void(const std::string&)> on_output) {
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

std::vector<Outcome> run_on_all(Transport& transport, const std::vector<Host>& hosts, const std::string& command,
                                std::function<void(const std::string&)> on_output) {
  std::list<asio::cancellation_signal> signals;
  asio::io_context context(1);
  std::vector<Outcome> results(hosts.size());
  std::exception_ptr thrown;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    auto& signal = signals.emplace_back();
    const auto done = [&results, &thrown, i](std::exception_ptr exception, Outcome outcome) {
      if (exception) thrown = exception;
      results[i] = std::move(outcome);
    };
    asio::co_spawn(context, converse(transport, hosts[i], command, "", on_output, signal),
                   asio::bind_cancellation_slot(signal.slot(), done));
  }
  context.run();
  if (thrown) std::rethrow_exception(thrown);
  return results;
}

}  // namespace trueup::test
