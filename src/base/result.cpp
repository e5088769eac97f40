#include "trueup/result.hpp"

#include <fmt/format.h>

namespace trueup {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::malformed: return "malformed";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::not_found: return "not_found";
    case ErrorKind::io: return "io";
    case ErrorKind::unreachable: return "unreachable";
    case ErrorKind::host_key: return "host_key";
    case ErrorKind::auth: return "auth";
    case ErrorKind::escalation: return "escalation";
    case ErrorKind::timeout: return "timeout";
    case ErrorKind::limit: return "limit";
    case ErrorKind::internal: return "internal";
    case ErrorKind::refused: return "refused";
    case ErrorKind::interrupted: return "interrupted";
  }
  return "unknown";
}

std::string to_string(const SourcePos& at) {
  if (at.line == 0) return at.file;
  if (at.column == 0) return fmt::format("{}:{}", at.file, at.line);
  return fmt::format("{}:{}:{}", at.file, at.line, at.column);
}

std::string to_string(const Error& error) {
  std::string text;
  if (error.at) text += to_string(*error.at) + ": ";
  for (auto context = error.context.rbegin(); context != error.context.rend(); ++context) text += *context + ": ";
  return text + error.message;
}

}  // namespace trueup
