#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trueup::fleet {

/// What a bundle prints on one host, recorded: its frames, in pieces as they came, one for each probe that ended. Every
/// frame begins with the nonce of the recording, which is replaced by that of whoever asks.
class Answer {
 public:
  /// Of the output of a probe script: a line `trueup-output 1 NONCE ...`, then frames. Throws if it is none.
  explicit Answer(std::string_view text);
  std::vector<std::string> pieces(std::string_view nonce) const;

 private:
  std::string nonce_;
  std::vector<std::string> pieces_;
};

/// The nonce of a bundle that is all there, packed or plain; empty: more is to come.
std::string nonce_of(std::string_view input);

}  // namespace trueup::fleet
