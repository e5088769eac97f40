#include "parse/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

#include "base/text.hpp"

namespace trueup::parse {

namespace {

constexpr std::size_t kMaxProgram = 4000;  // `{m,n}` multiplies what it stands behind
constexpr int kMaxRepeat = 1000;
constexpr int kMaxDepth = 100;
constexpr int kUnbounded = -1;

struct Node {
  enum class Kind { sequence, alternation, repeat, set, capture, begin, end, word_edge, no_word_edge };
  Kind kind = Kind::sequence;
  std::vector<Node> parts = {};
  std::size_t index = 0;  // of a set or a capture
  int min = 0;
  int max = 0;
  bool greedy = true;
};

bool is_word(unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }

std::bitset<256> bytes_where(bool (*wanted)(unsigned char)) {
  std::bitset<256> set;
  for (unsigned c = 0; c < 256; ++c) set[c] = wanted(static_cast<unsigned char>(c));
  return set;
}

}  // namespace

class PatternCompiler {
 public:
  explicit PatternCompiler(std::string_view text) : text_(text) {}

  Result<Pattern> compile() {
    const auto node = alternation(0);
    if (error_.empty() && at_ < text_.size()) complain("unexpected ')'");
    if (error_.empty()) emit(node);
    emit_one(Pattern::Op::match);
    if (!error_.empty())
      return fail(ErrorKind::malformed, fmt::format("{} at character {} of '{}'", error_, at_ + 1, printable(text_)));
    return std::move(pattern_);
  }

 private:
  using Op = Pattern::Op;

  void complain(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }
  bool more() const { return error_.empty() && at_ < text_.size(); }
  bool next_is(char c) const { return more() && text_[at_] == c; }
  bool take(std::string_view token) {
    if (!error_.empty() || !text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Node alternation(int depth) {
    Node node{Node::Kind::alternation};
    if (depth > kMaxDepth) complain("nested too deep");
    do node.parts.push_back(sequence(depth));
    while (take("|"));
    return node.parts.size() == 1 ? std::move(node.parts.front()) : node;
  }

  Node sequence(int depth) {
    Node node;
    while (more() && !next_is('|') && !next_is(')')) node.parts.push_back(quantified(atom(depth)));
    return node;
  }

  Node quantified(Node of) {
    Node node{Node::Kind::repeat};
    if (take("*"))
      node.max = kUnbounded;
    else if (take("+"))
      node.min = 1, node.max = kUnbounded;
    else if (take("?"))
      node.max = 1;
    else if (take("{"))
      bounds(node);
    else
      return of;
    node.greedy = !take("?");
    if (next_is('*') || next_is('+') || next_is('?')) complain("nothing to repeat");
    node.parts.push_back(std::move(of));
    return node;
  }

  void bounds(Node& node) {
    const auto number = [&] {
      int value = 0;
      const auto begin = at_;
      while (more() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0 && value <= kMaxRepeat)
        value = value * 10 + (text_[at_++] - '0');
      return at_ == begin ? std::nullopt : std::optional(value);
    };
    const auto min = number();
    node.min = min.value_or(0);
    node.max = take(",") ? number().value_or(kUnbounded) : node.min;
    if (!min || !take("}") || (node.max != kUnbounded && node.max < node.min) || node.min > kMaxRepeat ||
        node.max > kMaxRepeat)
      complain("expected a count such as {2}, {2,} or {2,4}");
  }

  Node set(const std::bitset<256>& bytes) {
    pattern_.sets_.push_back(bytes);
    Node node{Node::Kind::set};
    node.index = pattern_.sets_.size() - 1;
    return node;
  }

  static std::bitset<256> only(char c) { return std::bitset<256>().set(static_cast<unsigned char>(c)); }

  Node atom(int depth) {
    if (take("^")) return {Node::Kind::begin};
    if (take("$")) return {Node::Kind::end};
    if (take(".")) return set(std::bitset<256>().set());
    if (take("[")) return set(byte_class());
    if (next_is('(')) return group(depth);
    if (next_is('*') || next_is('+') || next_is('?')) {
      complain("nothing to repeat");
      return {};
    }
    if (take("\\b")) return {Node::Kind::word_edge};
    if (take("\\B")) return {Node::Kind::no_word_edge};
    if (next_is('\\')) return set(escape());
    return set(only(text_[at_++]));
  }

  Node group(int depth) {
    Node node;
    if (take("(?:")) {
      node = alternation(depth + 1);
    } else if (take("(?<")) {
      const auto end = text_.find('>', at_);
      const auto name = end == text_.npos ? std::string_view() : text_.substr(at_, end - at_);
      const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(),
                                                        [](char c) { return is_word(static_cast<unsigned char>(c)); });
      auto& names = pattern_.names_;
      if (!is_name)
        complain("expected a name as in (?<name>...)");
      else if (std::find(names.begin(), names.end(), name) != names.end())
        complain(fmt::format("a second group '{}'", name));
      else
        at_ = end + 1;
      node.kind = Node::Kind::capture;
      node.index = names.size();
      names.emplace_back(name);
      node.parts.push_back(alternation(depth + 1));
    } else if (take("(?")) {
      complain("only (?:...) and (?<name>...) are supported");
    } else {
      take("(");
      node = alternation(depth + 1);
    }
    if (!take(")")) complain("expected ')'");
    return node;
  }

  std::bitset<256> escape() {
    take("\\");
    if (!more()) {
      complain("a backslash at the end");
      return {};
    }
    const char c = text_[at_++];
    const auto digit = [](unsigned char b) { return std::isdigit(b) != 0; };
    const auto space = [](unsigned char b) { return std::isspace(b) != 0; };
    switch (c) {
      case 'd':
        return bytes_where(digit);
      case 'D':
        return ~bytes_where(digit);
      case 's':
        return bytes_where(space);
      case 'S':
        return ~bytes_where(space);
      case 'w':
        return bytes_where(is_word);
      case 'W':
        return ~bytes_where(is_word);
      case 't':
        return only('\t');
      case 'n':
        return only('\n');
      case 'r':
        return only('\r');
      default:
        if (std::ispunct(static_cast<unsigned char>(c)) == 0) {
          --at_;
          complain(fmt::format("'\\{}' is not supported", printable(std::string_view(&c, 1))));
        }
        return only(c);
    }
  }

  std::bitset<256> byte_class() {
    std::bitset<256> bytes;
    const bool negated = take("^");
    for (bool first = true; more() && (first || !next_is(']')); first = false) {
      const auto one = next_is('\\') ? escape() : only(text_[at_++]);
      if (next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']' && one.count() == 1) {
        take("-");
        const auto last = next_is('\\') ? escape() : only(text_[at_++]);
        std::size_t from = 0, to = 0;
        while (!one[from]) ++from;
        while (to < 256 && !last[to]) ++to;
        if (last.count() != 1 || to < from) complain("not a range");
        for (auto c = from; c <= to && c < 256; ++c) bytes.set(c);
      } else {
        bytes |= one;
      }
    }
    if (!take("]")) complain("expected ']'");
    return negated ? ~bytes : bytes;
  }

  std::uint32_t here() const { return static_cast<std::uint32_t>(pattern_.program_.size()); }

  std::uint32_t emit_one(Op op, std::size_t other = 0) {
    if (here() >= kMaxProgram) {
      complain("too large");
      return 0;
    }
    pattern_.program_.push_back({op, here() + 1, static_cast<std::uint32_t>(other)});
    return here() - 1;
  }

  // A way in two directions; which of them goes on here, and which elsewhere, is set later.
  void direct(std::uint32_t split, std::uint32_t into, std::uint32_t past, bool greedy) {
    pattern_.program_[split].next = greedy ? into : past;
    pattern_.program_[split].other = greedy ? past : into;
  }

  void emit(const Node& node) {
    if (!error_.empty()) return;
    switch (node.kind) {
      case Node::Kind::sequence:
        for (const auto& part : node.parts) emit(part);
        break;
      case Node::Kind::set:
        emit_one(Op::byte, node.index);
        break;
      case Node::Kind::begin:
        emit_one(Op::begin);
        break;
      case Node::Kind::end:
        emit_one(Op::end);
        break;
      case Node::Kind::word_edge:
        emit_one(Op::word_edge);
        break;
      case Node::Kind::no_word_edge:
        emit_one(Op::no_word_edge);
        break;
      case Node::Kind::capture:
        emit_one(Op::save, 2 * node.index);
        emit(node.parts.front());
        emit_one(Op::save, 2 * node.index + 1);
        break;
      case Node::Kind::alternation: {
        std::vector<std::uint32_t> ends;
        for (std::size_t i = 0; i < node.parts.size(); ++i) {
          const bool last = i + 1 == node.parts.size();
          const auto split = last ? 0 : emit_one(Op::split);
          emit(node.parts[i]);
          if (last || !error_.empty()) break;
          ends.push_back(emit_one(Op::split));
          direct(split, split + 1, here(), true);
        }
        for (const auto end : ends) direct(end, here(), here(), true);
        break;
      }
      case Node::Kind::repeat: {
        for (int i = 0; i < node.min; ++i) emit(node.parts.front());
        if (node.max == kUnbounded) {
          const auto split = emit_one(Op::split);
          emit(node.parts.front());
          const auto back = emit_one(Op::split);
          direct(back, split, split, true);
          direct(split, split + 1, here(), node.greedy);
        } else {
          std::vector<std::uint32_t> splits;
          for (int i = node.min; i < node.max; ++i) {
            splits.push_back(emit_one(Op::split));
            emit(node.parts.front());
          }
          for (const auto split : splits) direct(split, split + 1, here(), node.greedy);
        }
        break;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
  Pattern pattern_;
};

Result<Pattern> Pattern::compile(std::string_view text) { return PatternCompiler(text).compile(); }

// Pike's machine: all ways through the program at once, one step for each byte, no way entered twice in a step. Ways
// stand in the order of preference, so the first that matches wins over those behind it.
Pattern::Match Pattern::search(std::string_view text) const {
  const std::size_t slots = 2 * names_.size();
  struct Ways {
    std::vector<std::uint32_t> at;     // instructions, by preference
    std::vector<const char*> saved;    // `slots` for each of them
    std::vector<std::size_t> entered;  // for each instruction: the step in which it was last entered, plus one
  };
  Ways now, then;
  now.entered.resize(program_.size());
  then.entered.resize(program_.size());
  std::vector<const char*> current(slots);
  std::vector<const char*> best;
  bool found = false;

  const auto word_at = [&](std::size_t at) {
    return at < text.size() && is_word(static_cast<unsigned char>(text[at]));
  };
  struct Pending {
    std::uint32_t at;
    std::size_t restore;  // slot to restore to `value`, or none
    const char* value;
  };
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::vector<Pending> pending;
  // Follows from `from` all that takes no byte, at position `at`, with the slots in `current`.
  const auto enter = [&](Ways& ways, std::uint32_t from, std::size_t at) {
    pending.push_back({from, kNone, nullptr});
    while (!pending.empty()) {
      const auto [pc, restore, value] = pending.back();
      pending.pop_back();
      if (restore != kNone) {
        current[restore] = value;
        continue;
      }
      if (std::exchange(ways.entered[pc], at + 1) == at + 1) continue;
      const auto& step = program_[pc];
      bool goes_on = false;
      switch (step.op) {
        case Op::split:
          pending.push_back({step.other, kNone, nullptr});
          goes_on = true;
          break;
        case Op::save:
          pending.push_back({0, step.other, current[step.other]});
          current[step.other] = text.data() + at;
          goes_on = true;
          break;
        case Op::begin:
          goes_on = at == 0;
          break;
        case Op::end:
          goes_on = at == text.size();
          break;
        case Op::word_edge:
        case Op::no_word_edge:
          goes_on = ((at > 0 && word_at(at - 1)) != word_at(at)) == (step.op == Op::word_edge);
          break;
        case Op::byte:
        case Op::match:
          ways.at.push_back(pc);
          ways.saved.insert(ways.saved.end(), current.begin(), current.end());
          break;
      }
      if (goes_on) pending.push_back({step.next, kNone, nullptr});
    }
  };

  for (std::size_t at = 0;; ++at) {
    if (!found) {
      std::fill(current.begin(), current.end(), nullptr);
      enter(now, 0, at);
    }
    if (found && now.at.empty()) break;
    for (std::size_t i = 0; i < now.at.size(); ++i) {
      const auto& step = program_[now.at[i]];
      const auto* saved = now.saved.data() + i * slots;
      if (step.op == Op::match) {
        found = true;
        best.assign(saved, saved + slots);
        break;  // what stands behind is less preferred
      }
      if (at < text.size() && sets_[step.other][static_cast<unsigned char>(text[at])]) {
        std::copy(saved, saved + slots, current.begin());
        enter(then, step.next, at + 1);
      }
    }
    if (at >= text.size()) break;
    std::swap(now, then);
    then.at.clear();
    then.saved.clear();
  }

  Match match;
  match.found = found;
  for (std::size_t i = 0; found && i < names_.size(); ++i) {
    const auto *begin = best[2 * i], *end = best[2 * i + 1];
    match.groups.push_back(begin != nullptr && end != nullptr
                               ? std::string_view(begin, static_cast<std::size_t>(end - begin))
                               : std::string_view());
  }
  return match;
}

}  // namespace trueup::parse
