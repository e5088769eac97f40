#include "expr/paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"

namespace trueup {
namespace {

using Kind = JqToken::Kind;

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_keyword(std::string_view name) {
  return one_of(name,
                {"and", "or", "if", "then", "elif", "else", "as", "def", "reduce", "foreach", "try", "catch", "label"});
}

// Types flow along `a | b`, `a as $x | b`, brackets and the functions named in `call`. Everything else is "not told": a
// path is reported only where `.` surely is what we think it is.
class Paths {
 public:
  Paths(const std::vector<JqToken>& tokens, const JqScope& scope, std::vector<JqProblem>& problems)
      : tokens_(tokens),
        scope_(scope),
        problems_(problems),
        variables_(scope.variables.begin(), scope.variables.end()) {}

  // A group: everything between two brackets, or all.
  JqType group(std::size_t begin, std::size_t end, JqType dot) {
    JqType result;
    for (auto at = begin;;) {
      at = skip_definitions(at, end);
      const auto pipe = find_op("|", at, end);
      result = segment(at, pipe, dot);
      if (pipe == end) return result;
      if (!binds(at, pipe)) dot = result;
      at = pipe + 1;
    }
  }

 private:
  std::size_t next(std::size_t at) const { return tokens_[at].kind == Kind::open ? tokens_[at].partner + 1 : at + 1; }

  std::size_t find_op(std::string_view op, std::size_t at, std::size_t end) const {
    while (at < end && !tokens_[at].is(Kind::op, op)) at = next(at);
    return std::min(at, end);
  }

  // `def f: ...;` is left alone: what `.` is in there depends on the calls.
  std::size_t skip_definitions(std::size_t at, std::size_t end) const {
    while (at < end && tokens_[at].is(Kind::name, "def"))
      for (int open = 1; open > 0 && ++at < end;) {
        if (tokens_[at].is(Kind::name, "def")) ++open;
        if (tokens_[at].is(Kind::op, ";") && --open == 0) {
          ++at;
          break;
        }
        if (tokens_[at].kind == Kind::open) at = tokens_[at].partner;
      }
    return at;
  }

  // Ends in `as $x`, `as [...]`, or is `label $x`: the next segment sees the same `.`.
  bool binds(std::size_t begin, std::size_t end) const {
    std::size_t previous = begin;
    std::size_t last = begin;
    for (auto at = begin; at < end; at = next(at)) {
      previous = last;
      last = at;
    }
    return last > begin && (tokens_[previous].is(Kind::name, "as") || tokens_[previous].is(Kind::name, "label"));
  }

  JqType segment(std::size_t begin, std::size_t end, JqType dot) {
    JqType result;
    int terms = 0;
    bool alone = true;
    bool after_term = false;
    for (auto at = begin; at < end;) {
      const auto& token = tokens_[at];
      if (token.is(Kind::name, "as")) {
        bind(at + 1, end, terms == 1 && alone ? result : JqType{});
        // `reduce SOURCE as $x (INIT; UPDATE)`: `.` in there is not ours.
        after_term = false;
        at = at + 1 < end ? next(at + 1) : end;
        if (at < end && tokens_[at].is(Kind::open, "(")) {
          call_arguments(at, {});
          at = next(at);
          after_term = true;
        }
        alone = false;
      } else if (token.is(Kind::name, "catch") || token.is(Kind::op, "|=")) {
        dot = {};
        alone = after_term = false;
        ++at;
      } else if (token.kind == Kind::op && token.text != "." && token.text != "..") {
        alone = alone && token.text == "?";
        after_term = after_term && token.text == "?";
        ++at;
      } else if (token.kind == Kind::name && is_keyword(token.text)) {
        alone = after_term = false;
        ++at;
      } else {
        ++terms;
        result = term(at, end, dot);
        after_term = true;
      }
    }
    return terms == 1 && alone ? result : JqType{};
  }

  void bind(std::size_t pattern, std::size_t end, JqType type) {
    if (pattern >= end) return;
    if (tokens_[pattern].kind == Kind::variable) variables_[name_of(tokens_[pattern])] = type;
    if (tokens_[pattern].kind != Kind::open) return;
    for (auto at = pattern; at < tokens_[pattern].partner; ++at)
      if (tokens_[at].kind == Kind::variable) variables_[name_of(tokens_[at])] = {};
  }

  static std::string_view name_of(const JqToken& variable) { return trim(variable.text.substr(1)); }

  JqType term(std::size_t& at, std::size_t end, JqType dot) {
    const auto start = at;
    const auto& token = tokens_[at];
    JqType type;
    if (token.kind == Kind::field) {
      type = field(dot, token.text.substr(1), start, at);
      ++at;
    } else if (token.is(Kind::op, ".")) {
      type = dot;
      ++at;
      if (at < end && tokens_[at].kind == Kind::text) {
        type = field(dot, tokens_[at].text, start, at);
        ++at;
      }
    } else if (token.kind == Kind::variable) {
      if (const auto found = variables_.find(name_of(token)); found != variables_.end()) type = found->second;
      ++at;
    } else if (token.kind == Kind::name) {
      const bool has_arguments = at + 1 < end && tokens_[at + 1].is(Kind::open, "(");
      type = has_arguments ? call(at, dot) : plain_call(token.text, dot);
      at += 1;
      if (has_arguments) at = next(at);
    } else if (token.kind == Kind::open) {
      if (token.text == "(") type = group(at + 1, token.partner, dot);
      if (token.text == "[") {
        type = group(at + 1, token.partner, dot);
        if (type.shape != nullptr) ++type.lists;
      }
      if (token.text == "{" || token.text == "\"") inside(at, dot);
      at = next(at);
    } else {
      ++at;
    }
    return suffixes(type, start, at, end, dot);
  }

  // `{a: .b, c: .d}` and `"\(.a)"`: every part sees the same `.`.
  void inside(std::size_t open, JqType dot) {
    if (tokens_[open].text == "{") {
      for (auto at = open + 1; at < tokens_[open].partner;) {
        const auto comma = find_op(",", at, tokens_[open].partner);
        const auto colon = find_op(":", at, comma);
        group(colon < comma ? colon + 1 : at, comma, dot);
        at = comma + 1;
      }
      return;
    }
    for (auto at = open + 1; at < tokens_[open].partner; at = next(at))
      if (tokens_[at].kind == Kind::open) group(at + 1, tokens_[at].partner, dot);
  }

  JqType suffixes(JqType type, std::size_t start, std::size_t& at, std::size_t end, JqType dot) {
    for (; at < end;) {
      const auto& token = tokens_[at];
      if (token.kind == Kind::field) {
        type = field(type, token.text.substr(1), start, at);
        ++at;
      } else if (token.is(Kind::op, "?")) {
        ++at;
      } else if (token.is(Kind::op, ".") && at + 1 < end && tokens_[at + 1].kind == Kind::text) {
        type = field(type, tokens_[at + 1].text, start, at + 1);
        at += 2;
      } else if (token.is(Kind::op, ".") && at + 1 < end && tokens_[at + 1].is(Kind::open, "[")) {
        ++at;
      } else if (token.is(Kind::open, "[")) {
        type = index(type, start, at, dot);
        at = next(at);
      } else {
        break;
      }
    }
    return type;
  }

  JqType index(JqType type, std::size_t start, std::size_t open, JqType dot) {
    const auto close = tokens_[open].partner;
    if (close == open + 1) return element(type, start, open);
    if (close == open + 2 && tokens_[open + 1].kind == Kind::text)
      return field(type, tokens_[open + 1].text, start, open);
    if (const auto colon = find_op(":", open + 1, close); colon != close) {
      group(open + 1, colon, dot);
      group(colon + 1, close, dot);
      return type;
    }
    group(open + 1, close, dot);
    return is_list(type) || is_map(type) ? element(type, start, open) : JqType{};
  }

  static bool is_list(JqType type) {
    return type.shape != nullptr && (type.lists > 0 || type.shape->kind == Shape::Kind::list);
  }
  static bool is_map(JqType type) {
    return type.shape != nullptr && type.lists == 0 && type.shape->kind == Shape::Kind::map;
  }

  JqType element(JqType type, std::size_t start, std::size_t at) {
    if (type.shape == nullptr) return {};
    if (type.lists > 0) return {type.shape, type.lists - 1};
    if (!type.shape->element.empty()) return {&type.shape->element.front(), 0};
    if (type.shape->kind == Shape::Kind::scalar)
      report(at, fmt::format("'{}' is a {}: it has no items", written(start, at), type.shape->type));
    return {};
  }

  JqType field(JqType type, std::string_view name, std::size_t start, std::size_t at) {
    if (type.shape == nullptr) return {};
    const auto before = written(start, at);
    if (is_list(type)) {
      report(at, fmt::format("'{}' is a list: write '{}[].{}' for that of each item", before, before, name));
      return {};
    }
    if (is_map(type)) return {&type.shape->element.front(), 0};
    if (type.shape->kind == Shape::Kind::scalar) {
      report(at, fmt::format("'{}' is a {}: it has no '{}'", before, type.shape->type, name));
      return {};
    }
    if (type.shape == &facts_shape() && name == "item") return scope_.item;
    if (type.shape == &facts_shape() && name == "each" && scope_.each) return *scope_.each;
    if (const auto* found = type.shape->field(name); found != nullptr) return {found, 0};
    std::vector<std::string> names;
    for (const auto& [known, shape] : type.shape->fields) names.push_back(known);
    report(at, type.shape == &facts_shape()
                   ? fmt::format("the facts have no section '{}'{}", name, did_you_mean(name, names))
                   : fmt::format("'{}' has no field '{}'{}", before, name, did_you_mean(name, names)));
    return {};
  }

  std::string written(std::size_t start, std::size_t end) const {
    std::string text;
    for (auto at = start; at < end; ++at) {
      const auto& token = tokens_[at];
      text += token.kind == Kind::text ? fmt::format("\"{}\"", token.text) : std::string(token.text);
    }
    return text.empty() ? "." : shorten(printable(text), 60);
  }

  void report(std::size_t token, std::string message) {
    problems_.push_back({tokens_[token].offset, std::move(message)});
  }

  JqType plain_call(std::string_view name, JqType dot) {
    if (one_of(name, {"first", "last", "min", "max"}) && is_list(dot)) return quiet_element(dot);
    if (one_of(name, {"sort", "unique", "reverse", "values"})) return dot;
    return {};
  }

  static JqType quiet_element(JqType type) {
    if (type.shape == nullptr) return {};
    if (type.lists > 0) return {type.shape, type.lists - 1};
    return type.shape->element.empty() ? JqType{} : JqType{&type.shape->element.front(), 0};
  }

  JqType call(std::size_t at, JqType dot) {
    const auto name = tokens_[at].text;
    const auto open = at + 1;
    const auto close = tokens_[open].partner;
    const auto semicolon = find_op(";", open + 1, close);
    const bool single = semicolon == close;
    if (name == "select") {
      group(open + 1, close, dot);
      return dot;
    }
    if (single && one_of(name, {"map", "any", "all", "sort_by", "group_by", "unique_by", "min_by", "max_by"})) {
      auto result = group(open + 1, close, quiet_element(dot));
      if (name == "map" && result.shape != nullptr) return {result.shape, result.lists + 1};
      if (one_of(name, {"sort_by", "unique_by"})) return dot;
      if (one_of(name, {"min_by", "max_by"})) return quiet_element(dot);
      if (name == "group_by" && is_list(dot)) {
        const auto item = quiet_element(dot);
        return {item.shape, item.lists + 2};
      }
      return {};
    }
    if (!single && one_of(name, {"any", "all"})) {
      group(semicolon + 1, close, group(open + 1, semicolon, dot));
      return {};
    }
    if (single && one_of(name, {"first", "last"})) return group(open + 1, close, dot);
    if (!single && one_of(name, {"limit", "nth"})) {
      group(open + 1, semicolon, dot);
      return group(semicolon + 1, close, dot);
    }
    if (name == "known" && single && close == open + 2 && tokens_[open + 1].kind == Kind::text &&
        facts_shape().field(tokens_[open + 1].text) == nullptr)
      report(open + 1, fmt::format("the facts have no section '{}'{}", tokens_[open + 1].text,
                                   did_you_mean(tokens_[open + 1].text, schema_fields(""))));
    const bool by_value = one_of(
        name, {"has", "test", "startswith", "endswith", "contains", "inside", "index", "split", "join", "ltrimstr",
               "rtrimstr", "error", "isempty", "ver_ge", "ver_gt", "ver_le", "ver_lt", "ver_eq", "age"});
    call_arguments(open, by_value ? dot : JqType{});
    return {};
  }

  void call_arguments(std::size_t open, JqType dot) {
    for (auto at = open + 1; at < tokens_[open].partner;) {
      const auto end = find_op(";", at, tokens_[open].partner);
      group(at, end, dot);
      at = end + 1;
    }
  }

  const std::vector<JqToken>& tokens_;
  const JqScope& scope_;
  std::vector<JqProblem>& problems_;
  std::map<std::string_view, JqType> variables_;
};

}  // namespace

JqType check_paths(const JqTokens& expression, const JqScope& scope, std::vector<JqProblem>& problems) {
  return Paths(expression.tokens, scope, problems).group(0, expression.tokens.size(), {&facts_shape(), 0});
}

}  // namespace trueup
