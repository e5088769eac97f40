#include "check/check_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.hpp"
#include "check/gather.hpp"
#include "expr/jq.hpp"
#include "expr/jq_text.hpp"
#include "expr/paths.hpp"
#include "expr/prelude.hpp"
#include "expr/template.hpp"

namespace trueup {
namespace {

// One jq expression of a check, ready to be put between brackets.
struct Piece {
  std::string what;     // "check disk.full: assert"
  Expression source;    // the whole text that it is part of
  std::size_t offset;   // in there
  std::string code;     // comments blanked out
};

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A newline before the closing bracket: an expression starts on a line of its own and nothing it ends with can swallow
// what follows.
std::string bracketed(std::string_view code) { return fmt::format("({}\n)", code); }

std::string opening() {
  return fmt::format("{}.n as $n | .facts as $facts | {}{{}} as $ENV | null as $__prog_args |\n", prelude(), facts_prelude());
}

class Compiler {
 public:
  Compiler(const std::vector<Check>& checks, std::vector<Error>& errors) : checks_(checks), errors_(errors) {}

  std::unique_ptr<JqProgram> run() {
    const auto errors_before = errors_.size();
    std::vector<std::string> calls;
    for (const auto& check : checks_) calls.push_back(call(check));
    if (errors_.size() == errors_before) {
      std::vector<JqProgram::Complaint> complaints;
      if (auto program = JqProgram::compile(opening() + in_turn(calls), complaints)) return program;
      locate(pieces_);
      if (errors_.size() == errors_before)
        errors_.push_back(Error{ErrorKind::malformed, "the checks do not compile together: " + complaints.front().message});
    } else {
      locate(pieces_);
    }
    std::stable_sort(errors_.begin() + static_cast<std::ptrdiff_t>(errors_before), errors_.end(),
                     [](const Error& a, const Error& b) {
                       const auto place = [](const Error& e) { return e.at.value_or(SourcePos{}); };
                       return std::tuple(place(a).file, place(a).line, place(a).column) <
                              std::tuple(place(b).file, place(b).line, place(b).column);
                     });
    return nullptr;
  }

 private:
  // The checks from number $n on, each behind its number. They are calls whose arguments are functions of their own: jq 1.6
  // compiles no function beyond 64 KiB.
  static std::string in_turn(const std::vector<std::string>& calls) {
    std::string all = "empty";
    for (std::size_t i = 0; i < calls.size(); ++i) all += fmt::format(", if $n <= {0} then {0}, {1} else empty end", i, calls[i]);
    return all;
  }

  std::string call(const Check& check) {
    what_ = "check " + check.id;
    item_ = {};
    std::string items = "null";
    if (check.for_each) items = fmt::format("_items({})", expression("for_each", *check.for_each, &item_));
    const auto optional = [&](const char* key, const std::optional<Expression>& text, std::string otherwise) {
      return text ? expression(key, *text) : std::move(otherwise);
    };
    const auto about = optional("about", check.about, "null");
    const auto when = optional("when", check.when, "true");
    const auto assertion = expression("assert", check.assertion);
    const auto severity = text("severity", check.severity);
    std::vector<std::string> lines;
    for (const auto& line : check.evidence) lines.push_back(evidence(line));
    const auto report = fmt::format("{{title: {}, because: {}, evidence: [limit(201; ({}))]}}", text("title", check.title),
                                    text("because", check.because), lines.empty() ? "empty" : join(lines, ","));
    const auto why = check.unknown_because ? text("unknown_because", *check.unknown_because) : "\"its assertion gives null\"";
    return fmt::format("_check({}; {}; {}; {}; {}; {}; {}; {})", nlohmann::json(check.needs).dump(), items, about, when,
                       assertion, severity, report, why);
  }

  std::string expression(const char* key, const Expression& source, JqType* type = nullptr) {
    if (const auto braces = source.text.find("{{"); braces != source.text.npos) {
      error(position_in(source, braces), fmt::format("{}: is an expression, no template: write the jq without '{{{{ }}}}'", key));
      return "null";
    }
    return piece(key, source, 0, source.text, type);
  }

  std::string text(const char* key, const Expression& source) {
    const auto parts = split(key, source);
    if (parts.empty()) return "\"\"";
    if (parts.size() == 1 && !parts.front().is_expression) return json_text(parts.front().text);
    std::vector<std::string> pieces;
    for (const auto& part : parts)
      pieces.push_back(part.is_expression ? fmt::format("_piece({})", piece(key, source, part.offset, part.text))
                                          : json_text(part.text));
    return fmt::format("([{}] | add)", fmt::join(pieces, ","));
  }

  // A line that is one expression may give several lines.
  std::string evidence(const Expression& source) {
    const auto parts = split("evidence", source);
    if (parts.size() == 1 && parts.front().is_expression)
      return fmt::format("_lines({})", piece("evidence", source, parts.front().offset, parts.front().text));
    return text("evidence", source);
  }

  std::vector<TemplatePart> split(const char* key, const Expression& source) {
    auto parts = split_template(source);
    if (parts) return *std::move(parts);
    // Evidence is split twice; say it once.
    auto problem = parts.error();
    problem.message = fmt::format("{}: {}: {}", what_, key, problem.message);
    if (std::find(errors_.begin(), errors_.end(), problem) == errors_.end()) errors_.push_back(std::move(problem));
    return {};
  }

  std::string piece(const char* key, const Expression& source, std::size_t offset, std::string_view code,
                    JqType* type = nullptr) {
    Piece piece{fmt::format("{}: {}", what_, key), source, offset, {}};
    const auto report = [&](const JqProblem& problem) {
      error(position_in(source, offset + problem.offset), fmt::format("{}: {}", key, problem.message));
    };
    if (trim(code).empty()) {
      if (source.at.line > 0) report({0, "is empty"});  // else it is missing, as the loader said
      return "null";
    }
    auto tokens = tokenize_jq(code);
    std::for_each(tokens.problems.begin(), tokens.problems.end(), report);
    if (!tokens.problems.empty()) return "null";
    piece.code = std::move(tokens.code);
    std::vector<JqProblem> problems;
    const auto result = check_paths(tokens, item_, problems);
    std::for_each(problems.begin(), problems.end(), report);
    if (type != nullptr) *type = result;
    pieces_.push_back(std::move(piece));
    return bracketed(pieces_.back().code);
  }

  void error(SourcePos at, std::string message) {
    errors_.push_back(Error{ErrorKind::malformed, fmt::format("{}: {}", what_, message), std::move(at), {}, {}});
  }

  // Halves the pieces until the guilty ones stand alone: a compilation costs tens of milliseconds.
  void locate(std::span<const Piece> pieces) {
    if (pieces.empty()) return;
    std::string program = opening();
    const auto lines_before = std::count(program.begin(), program.end(), '\n');
    std::vector<std::string> all;
    for (const auto& piece : pieces) all.push_back(fmt::format("first({})", bracketed(piece.code)));
    std::vector<JqProgram::Complaint> complaints;
    if (JqProgram::compile(program + join(all, ","), complaints)) return;
    if (pieces.size() > 1) {
      locate(pieces.first(pieces.size() / 2));
      locate(pieces.subspan(pieces.size() / 2));
      return;
    }
    for (const auto& complaint : complaints) blame(pieces.front(), complaint, static_cast<int>(lines_before));
  }

  void blame(const Piece& piece, const JqProgram::Complaint& complaint, int lines_before) {
    constexpr std::string_view kUndefined = " is not defined";
    std::size_t offset = 0;
    std::string message = complaint.message;
    if (message.ends_with(kUndefined)) {
      const auto written = message.substr(0, message.size() - kUndefined.size());
      const auto name = written.substr(0, written.find('/'));
      const auto tokens = tokenize_jq(piece.code);
      for (const auto& token : tokens.tokens)
        if (token.text == name) {
          offset = token.offset;
          break;
        }
      if (!name.starts_with('$')) message += suggestion(name, written);
    } else if (const int line = complaint.line - lines_before - 1; line > 0) {
      for (int i = 0; i < line && offset != std::string::npos; ++i) offset = piece.code.find('\n', offset + (i > 0 ? 1 : 0));
      offset = offset == std::string::npos ? 0 : offset + 1;
    }
    if (offset >= piece.code.size()) offset = 0;
    errors_.push_back(Error{ErrorKind::malformed, fmt::format("{}: {}", piece.what, message),
                            position_in(piece.source, piece.offset + offset), {}, {}});
  }

  std::string suggestion(const std::string& name, const std::string& written) {
    if (functions_.empty()) {
      functions_ = prelude_functions();
      std::vector<JqProgram::Complaint> complaints;
      const auto facts = JqValue::parse("null");
      if (const auto list = JqProgram::compile("builtins[]", complaints); list && facts)
        (void)list->run(0, *facts, [&](std::string_view quoted) { functions_.emplace_back(quoted.substr(1, quoted.size() - 2)); });
    }
    std::set<std::string> same;
    std::vector<std::string> names;
    for (const auto& function : functions_) {
      names.push_back(function.substr(0, function.find('/')));
      if (names.back() == name && function != written) same.insert(function);
    }
    if (same.empty()) return did_you_mean(name, names);
    return fmt::format("; there is {}", fmt::join(same, ", "));
  }

  const std::vector<Check>& checks_;
  std::vector<Error>& errors_;
  std::vector<Piece> pieces_ = {};
  std::string what_ = {};
  JqType item_ = {};
  std::vector<std::string> functions_ = {};
};

}  // namespace

struct CheckSet::State {
  std::vector<Check> checks;
  std::unique_ptr<JqProgram> program;
};

CheckSet::CheckSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckSet::~CheckSet() = default;
CheckSet::CheckSet(CheckSet&&) noexcept = default;
CheckSet& CheckSet::operator=(CheckSet&&) noexcept = default;

Result<CheckSet> CheckSet::compile(const std::vector<Check>& checks, std::vector<Error>& errors) {
  const auto errors_before = errors.size();
  auto state = std::make_unique<State>();
  state->checks = checks;
  state->program = Compiler(state->checks, errors).run();
  if (!state->program) return fail(errors.at(errors_before));
  return CheckSet(std::move(state));
}

Result<void> CheckSet::evaluate(std::string_view facts, const Sink& sink) const {
  const auto value = JqValue::parse(facts);
  if (!value) return fail(value.error());
  for (std::size_t check = 0; check < state_->checks.size(); ++check) {
    const auto ran = state_->program->run(static_cast<int>(check), *value, [&](std::string_view output) {
      if (output.starts_with('{')) return sink(check, output);
      std::from_chars(output.data(), output.data() + output.size(), check);
      sink(check, {});
    });
    if (ran) break;
    // `error({__jq: 0})` passes every `try`; a whole check ends by it, and none but this: the rest is run anew.
    sink(check, nlohmann::json{{"kind", "error"}, {"about", ""}, {"why", ran.error().message}}.dump());
  }
  return {};
}

Result<Assessment> CheckSet::assess(const nlohmann::json& facts) const {
  Gatherer gatherer(state_->checks);
  Result<void> understood;
  const auto text = facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto evaluated = evaluate(text, [&](std::size_t check, std::string_view result) {
    if (!result.empty() && understood) understood = gatherer.add(check, result);
  });
  if (!evaluated) return fail(evaluated.error());
  if (!understood) return fail(understood.error());
  return gatherer.finish();
}

}  // namespace trueup
