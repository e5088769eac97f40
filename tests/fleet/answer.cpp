#include "answer.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace trueup::fleet {
namespace {

constexpr std::size_t kNonceBytes = 32;

}  // namespace

Answer::Answer(std::string_view text) {
  constexpr std::string_view kMark = "trueup-output 1 ";
  if (!text.starts_with(kMark)) throw std::runtime_error("a recording begins with 'trueup-output 1'");
  nonce_ = text.substr(kMark.size(), kNonceBytes);
  text.remove_prefix(text.find('\n') + 1);
  std::string piece;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n') + 1);
    if (!line.starts_with(nonce_)) throw std::runtime_error("a line of the recording is no frame");
    piece += line;
    text.remove_prefix(line.size());
    const auto rest = line.substr(kNonceBytes + 1);
    if (rest.find(" x ") != rest.npos || text.empty()) pieces_.push_back(std::exchange(piece, {}));
  }
}

std::vector<std::string> Answer::pieces(std::string_view nonce) const {
  auto pieces = pieces_;
  for (auto& piece : pieces)
    for (auto at = piece.find(nonce_); at != piece.npos; at = piece.find(nonce_, at + kNonceBytes))
      piece.replace(at, kNonceBytes, nonce);
  return pieces;
}

// packed ::= nonce ' ' tag ' ' workers ' ' limit ' ' size '\n' bytes '\n' nonce '\n'
// plain ::= 'unset N\nN=' nonce ... 'main\n'
std::string nonce_of(std::string_view input) {
  constexpr std::string_view kPlain = "unset N\nN=";
  if (input.starts_with(kPlain))
    return input.ends_with("\nmain\n") ? std::string(input.substr(kPlain.size(), kNonceBytes)) : std::string();
  const auto line = input.substr(0, input.find('\n'));
  if (line.size() == input.size()) return {};
  const auto nonce = input.substr(0, kNonceBytes);
  const auto size = std::stoul(std::string(line.substr(line.rfind(' ') + 1)));
  return input.size() == line.size() + 1 + size + 1 + kNonceBytes + 1 ? std::string(nonce) : std::string();
}

}  // namespace trueup::fleet
