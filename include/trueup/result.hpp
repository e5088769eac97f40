#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace trueup {

/// What a caller may branch on. Everything else about an error is for the reader.
enum class ErrorKind {
  usage,        ///< the command line is wrong
  malformed,    ///< input we could not read: inventory, playbook, output of a probe
  unsupported,  ///< understood, and not something we can do
  not_found,    ///< a name, file or host that is not there
  io,           ///< the controller's own system said no
  unreachable,  ///< no connection: refused, no route, name does not resolve, cut
  host_key,     ///< the host is not who we knew, or is not known
  auth,         ///< the host refused the login
  escalation,   ///< sudo or doas refused, or wants a password that was not given
  timeout,      ///< a deadline passed
  limit,        ///< more output, depth or size than allowed
  internal,     ///< the run cannot go on: a check's expression that never ends, eats memory or crashes
  refused,      ///< not done for a reason that is nobody's mistake: a plan that is stale, expired or used, a lock that is held
  interrupted,  ///< the user, or the run's own deadline, stopped it
};

/// The name of `kind` in reports: `host_key`, `timeout`, ...
std::string_view to_string(ErrorKind kind);

/// A place in an input: a file, or "<command line>". Lines and columns count from 1; 0 means not known.
struct SourcePos {
  std::string file;
  int line = 0;
  int column = 0;

  friend bool operator==(const SourcePos&, const SourcePos&) = default;
};

/// `file:line:column`, without the parts that are not known.
std::string to_string(const SourcePos& at);

/// A failure, as a value. With thousands of hosts a failing one is an ordinary result that ends up in a report.
struct Error {
  ErrorKind kind;
  std::string message;                   ///< found and expected; lower case, no final period
  std::optional<SourcePos> at = {};      ///< when the input was a file or lines
  std::vector<std::string> context = {}; ///< "running probe gpus", "on host node07"; innermost first
  std::string hint = {};                 ///< what to do about it; empty: the message says it all

  friend bool operator==(const Error&, const Error&) = default;
};

/// One line: position, contexts from the outside in, message. Without the hint.
std::string to_string(const Error& error);

template <class T>
using Result = tl::expected<T, Error>;

/// `return fail(ErrorKind::malformed, "...")` in any function that returns a Result.
inline tl::unexpected<Error> fail(ErrorKind kind, std::string message, std::optional<SourcePos> at = {}) {
  return tl::unexpected(Error{kind, std::move(message), std::move(at), {}, {}});
}

inline tl::unexpected<Error> fail(Error error) { return tl::unexpected(std::move(error)); }

/// The same error with one more line of context, for passing it on upwards.
inline Error with_context(Error error, std::string context) {
  error.context.push_back(std::move(context));
  return error;
}

}  // namespace trueup
