#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trueup/result.hpp"

namespace trueup::parse {

/// A regular expression that takes time proportional to the text, whatever the text: hosts choose the text. Perl's
/// syntax without what needs backtracking (back references, look-around) and on bytes:
///   alternation ::= sequence ('|' sequence)*        sequence ::= (atom quantifier?)*
///   quantifier  ::= ('*' | '+' | '?' | '{' m [',' [n]] '}') ['?']      the last '?': as few as possible
///   atom        ::= byte | '.' | class | '^' | '$' | '(' alternation ')' | '(?:' alternation ')' | '(?<name>'
///   alternation ')'
///                 | '\' (d D w W s S b B n r t | punctuation)
///   class       ::= '[' ['^'] (byte | byte '-' byte | '\' ...)+ ']'
class Pattern {
 public:
  /// Errors: what is wrong or not supported, and at which character.
  static Result<Pattern> compile(std::string_view text);

  /// Names of the named groups, in order.
  const std::vector<std::string>& names() const { return names_; }

  struct Match {
    bool found = false;
    std::vector<std::string_view> groups = {};  ///< one for each name; data() is null where it took no part
  };
  /// The leftmost match, with the preferences of Perl.
  Match search(std::string_view text) const;

 private:
  friend class PatternCompiler;
  enum class Op : std::uint8_t { byte, split, save, begin, end, word_edge, no_word_edge, match };
  struct Instruction {
    Op op = Op::match;
    std::uint32_t next = 0;   ///< split: the preferred way
    std::uint32_t other = 0;  ///< split: the other way; byte: index of its set; save: index of the slot
  };

  std::vector<Instruction> program_;
  std::vector<std::bitset<256>> sets_;
  std::vector<std::string> names_;
};

}  // namespace trueup::parse
