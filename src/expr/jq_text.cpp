#include "expr/jq_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace trueup {
namespace {

constexpr std::size_t kLongestExpression = 16U << 10U;
constexpr std::size_t kDeepestBrackets = 100;

struct Forbidden {
  std::string_view name;
  std::string_view why;
};

// What reads or ends something outside the facts, in jq 1.6 to 1.8. The prelude shadows them too.
constexpr std::array kForbidden = {
    Forbidden{"env", "it would read trueup's own environment"},
    Forbidden{"input", "a check sees nothing but the facts"},
    Forbidden{"inputs", "a check sees nothing but the facts"},
    Forbidden{"input_filename", "a check sees nothing but the facts"},
    Forbidden{"input_line_number", "a check sees nothing but the facts"},
    Forbidden{"debug", "a check prints nothing"},
    Forbidden{"stderr", "a check prints nothing"},
    Forbidden{"halt", "a check cannot end the run"},
    Forbidden{"halt_error", "a check cannot end the run"},
    Forbidden{"import", "a check loads no files"},
    Forbidden{"include", "a check loads no files"},
    Forbidden{"modulemeta", "a check loads no files"},
    Forbidden{"get_search_list", "a check loads no files"},
    Forbidden{"now", "ages count by the host's clock: use age(TIME)"},
    Forbidden{"localtime", "the answer would depend on the controller's time zone"},
    Forbidden{"strflocaltime", "the answer would depend on the controller's time zone"},
    Forbidden{"mktime_local", "the answer would depend on the controller's time zone"},
    Forbidden{"$ENV", "it would read trueup's own environment"},
    Forbidden{"$__prog_args", "a check sees nothing but the facts"},
};

bool is_name_start(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { result_.code = std::string(text); }

  JqTokens run(bool until_braces) {
    if (text_.size() > kLongestExpression) {
      problem(0, fmt::format("longer than {} bytes", kLongestExpression));
      return std::move(result_);
    }
    while (at_ < text_.size() && !stop_)
      if (!until_braces || !open_.empty() || !text_.substr(at_).starts_with("}}"))
        token();
      else
        break;
    for (const auto index : open_) problem(result_.tokens[index].offset, "this bracket or quote is never closed");
    return std::move(result_);
  }

  /// Where it ended; npos where it gave up before.
  std::size_t place() const { return stop_ ? std::string_view::npos : at_; }

 private:
  using Kind = JqToken::Kind;

  void problem(std::size_t offset, std::string message) { result_.problems.push_back({offset, std::move(message)}); }

  void add(Kind kind, std::size_t length) {
    result_.tokens.push_back({kind, text_.substr(at_, length), at_, 0});
    at_ += length;
  }

  std::size_t name_length(std::size_t from) const {
    auto end = from;
    while (end < text_.size() && is_name_part(text_[end])) ++end;
    return end - from;
  }

  void open(std::size_t length) {
    if (open_.size() >= kDeepestBrackets) {
      problem(at_, fmt::format("nested deeper than {} brackets", kDeepestBrackets));
      stop_ = true;
      return;
    }
    open_.push_back(result_.tokens.size());
    add(Kind::open, length);
  }

  void close(std::string_view opener) {
    if (open_.empty() || result_.tokens[open_.back()].text != opener) {
      problem(at_, fmt::format("'{}' closes nothing", text_[at_]));
      stop_ = true;
      return;
    }
    result_.tokens[open_.back()].partner = result_.tokens.size();
    const auto partner = open_.back();
    open_.pop_back();
    add(Kind::close, 1);
    result_.tokens.back().partner = partner;
  }

  void comment() {
    const auto start = at_;
    while (at_ < text_.size() && text_[at_] != '\n') result_.code[at_++] = ' ';
    // Before jq 1.7.1 the next line is code, since then it may be comment: nobody shall rely on either.
    if (text_.substr(start, at_ - start).find('\\') != std::string_view::npos)
      problem(start, "a comment may not hold a backslash: jq's versions differ in what it means there");
  }

  // From just behind a quote or an interpolation: to the end of the string, or into the next interpolation.
  void string_rest(std::size_t quote) {
    for (auto end = at_; end < text_.size(); ++end) {
      if (text_[end] == '"') {
        if (open_.empty() || open_.back() != quote) {
          result_.tokens[quote].kind = Kind::text;
          result_.tokens[quote].text = text_.substr(result_.tokens[quote].offset + 1, end - at_);
          at_ = end + 1;
        } else {
          at_ = end;
          close("\"");
        }
        return;
      }
      if (text_[end] != '\\') continue;
      if (++end < text_.size() && text_[end] == '(') {
        if (open_.empty() || open_.back() != quote) {
          result_.tokens[quote].kind = Kind::open;
          open_.push_back(quote);
        }
        at_ = end - 1;
        open(2);
        return;
      }
    }
    problem(result_.tokens[quote].offset, "this string has no end");
    stop_ = true;
  }

  void variable() {
    // jq 1.6 lets blanks stand between `$` and the name.
    auto name = at_ + 1;
    while (name < text_.size() && is_blank(text_[name])) ++name;
    const auto length = name_length(name);
    if (length == 0 || is_digit(text_[name])) {
      problem(at_, "expected a name after '$'");
      stop_ = true;
      return;
    }
    check_name(fmt::format("${}", text_.substr(name, length)), at_);
    add(Kind::variable, name + length - at_);
  }

  void check_name(std::string_view name, std::size_t offset) {
    const auto found =
        std::find_if(kForbidden.begin(), kForbidden.end(), [&](const auto& f) { return f.name == name; });
    if (found != kForbidden.end()) problem(offset, fmt::format("'{}' is not for checks: {}", name, found->why));
  }

  // `{input: .x}`: a key, no call.
  bool is_object_key(std::size_t end) const {
    while (end < text_.size() && is_blank(text_[end])) ++end;
    if (end >= text_.size() || text_[end] != ':' || text_.substr(end).starts_with("::")) return false;
    if (open_.empty() || result_.tokens[open_.back()].text != "{") return false;
    const auto& before = result_.tokens.back();
    return before.is(Kind::open, "{") || before.is(Kind::op, ",");
  }

  void token() {
    const char c = text_[at_];
    const auto rest = text_.substr(at_);
    if (is_blank(c)) {
      ++at_;
    } else if (c == '#') {
      comment();
    } else if (c == '"') {
      add(Kind::text, 1);
      string_rest(result_.tokens.size() - 1);
    } else if (c == '$') {
      variable();
    } else if (c == '.' && rest.size() > 1 && is_name_start(rest[1])) {
      add(Kind::field, 1 + name_length(at_ + 1));
    } else if (is_digit(c) || (c == '.' && rest.size() > 1 && is_digit(rest[1]))) {
      std::size_t length = 0;
      while (length < rest.size() && (is_digit(rest[length]) || rest[length] == '.')) ++length;
      if (length < rest.size() && (rest[length] == 'e' || rest[length] == 'E')) {
        ++length;
        if (length < rest.size() && (rest[length] == '+' || rest[length] == '-')) ++length;
        while (length < rest.size() && is_digit(rest[length])) ++length;
      }
      add(Kind::number, length);
    } else if (is_name_start(c)) {
      auto length = name_length(at_);
      if (!is_object_key(at_ + length)) check_name(rest.substr(0, length), at_);
      if (rest.substr(length).starts_with("::")) problem(at_, "a check loads no modules");
      add(Kind::name, length);
    } else if (c == '@') {
      add(Kind::format, 1 + name_length(at_ + 1));
    } else if (c == '(' || c == '[' || c == '{') {
      open(1);
    } else if (c == ')') {
      const bool in_string = !open_.empty() && result_.tokens[open_.back()].text == "\\(";
      close(in_string ? "\\(" : "(");
      if (in_string && !stop_) string_rest(open_.back());
    } else if (c == ']') {
      close("[");
    } else if (c == '}') {
      close("{");
    } else {
      static constexpr std::array<std::string_view, 23> kOperators = {
          "?//=", "?//", "//=", "//", "|=", "+=", "-=", "*=", "/=", "%=", "==", "!=",
          "<=",   ">=",  "..",  "|",  ",",  ":",  ";",  ".",  "=",  "<",  ">"};
      const auto found =
          std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view op) { return rest.starts_with(op); });
      if (found != kOperators.end()) {
        add(Kind::op, found->size());
      } else if (std::string_view("?+-*/%").find(c) != std::string_view::npos) {
        add(Kind::op, 1);
      } else {
        problem(at_, fmt::format("'{}' means nothing in jq", printable(rest.substr(0, 1))));
        ++at_;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::size_t> open_ = {};
  bool stop_ = false;
  JqTokens result_ = {};
};

}  // namespace

JqTokens tokenize_jq(std::string_view text) { return Lexer(text).run(false); }

std::size_t find_braces_end(std::string_view text) {
  Lexer lexer(text);
  lexer.run(true);
  return lexer.place() < text.size() ? lexer.place() : std::string_view::npos;
}

}  // namespace trueup
