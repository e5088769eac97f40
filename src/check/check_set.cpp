#include "check/check_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
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

// One jq expression of a check or a fix, ready to be put between brackets.
struct Piece {
  std::string what;     // "check disk.full: assert"
  Expression source;    // the whole text that it is part of
  std::size_t offset;   // in there
  std::string code;     // comments blanked out
  bool of_fix;          // it may use $advice
};

// What an expression is given, and by which check where that is not its own: a fix is given the items of each check
// that names it.
struct Given {
  std::string check;
  JqScope scope;
};

std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A newline before the closing bracket: an expression starts on a line of its own and nothing it ends with can swallow
// what follows.
std::string bracketed(std::string_view code) { return fmt::format("({}\n)", code); }

std::string with_prelude(std::string_view program) {
  const auto all =
      fmt::format(".facts as $facts | {}{{}} as $ENV | null as $__prog_args |\n{}", facts_prelude(), program);
  return prelude(all) + all;
}

// Checks that stand beside each other and have the same items, or none.
struct Group {
  std::size_t first = 0;
  std::size_t last = 0;
};

std::vector<Group> groups_of(const std::vector<Check>& checks) {
  const auto items = [](const Check& check) { return check.for_each ? &check.for_each->text : nullptr; };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const auto *here = items(checks[i]), *before = i > 0 ? items(checks[i - 1]) : nullptr;
    if (i > 0 && (here == before || (here != nullptr && before != nullptr && *here == *before)))
      groups.back().last = i;
    else
      groups.push_back({i, i});
  }
  return groups;
}

// One after the other. Nested to the right: to the left each result would jump over all commas that follow it.
std::string in_turn(const std::vector<std::string>& calls) {
  std::string all;
  for (const auto& call : calls) all += call + ",(";
  return all + "empty" + std::string(calls.size(), ')');
}

using Parts = std::vector<std::string>;

// A check as the program calls it. An argument of several parts gives one after the other.
struct Call {
  std::size_t number = 0;
  Parts about = {}, when = {}, assertion = {}, severity = {}, title = {}, because = {}, evidence = {}, why = {};
  std::string proposals = {};

  std::array<Parts*, 8> parts() { return {&about, &when, &assertion, &severity, &title, &because, &evidence, &why}; }

  // The arguments are functions of their own: jq 1.6 compiles no function beyond 64 KiB.
  std::string text() const {
    return fmt::format("{}({}; {}; {}{}; {}; _report({}; {}; {}){}; {})", when.empty() ? "_simple" : "_when", number,
                       join(about, ","), when.empty() ? "" : when.front() + "; ", join(assertion, ","),
                       join(severity, ","), join(title, ","), join(because, ","),
                       evidence.empty() ? "empty" : join(evidence, ","), proposals, join(why, ","));
  }
};

struct GroupCall {
  Group group;
  std::string items;  // empty: these checks have none
  std::vector<Call> calls;
  std::string functions = {};  // definitions for these calls

  std::string text() const {
    std::vector<std::string> texts;
    for (const auto& call : calls) texts.push_back(call.text());
    return fmt::format("{}({}; {}; {}{}{})", items.empty() ? "_once" : "_each", group.first, group.last,
                       items.empty() ? "" : items + "; ", functions, in_turn(texts));
  }
};

// What stands in several places becomes a function; returns the definitions of those that groups share. jq 1.6 looks
// for the name of a function through all that follows it, so one for all must be worth that.
std::string share_parts(std::vector<GroupCall>& groups) {
  constexpr std::size_t kWorthIt = 500;  // bytes of code that need not stand there again
  std::map<std::string, std::map<GroupCall*, std::size_t>> uses;
  const auto for_each_part = [&](const auto& work) {
    for (auto& group : groups)
      for (auto& call : group.calls)
        for (auto* parts : call.parts())
          for (auto& part : *parts) work(group, part);
  };
  for_each_part([&](GroupCall& group, std::string& part) { ++uses[part][&group]; });
  std::map<std::pair<GroupCall*, std::string>, std::string> names;
  std::string for_all;
  for (const auto& [part, by_group] : uses) {
    if (part.starts_with('"') || part == "null") continue;  // a fixed value
    const auto name = fmt::format("_part{}", names.size());
    const auto definition = fmt::format("def {}: {};", name, part);
    const bool everywhere = (by_group.size() - 1) * part.size() >= kWorthIt;
    if (everywhere) for_all += definition;
    for (const auto& [group, count] : by_group) {
      if (!everywhere && count == 1) continue;
      if (!everywhere) group->functions += definition;
      names[{group, part}] = name;
    }
  }
  for_each_part([&](GroupCall& group, std::string& part) {
    if (const auto name = names.find({&group, part}); name != names.end()) part = name->second;
  });
  return for_all;
}

// How the program calls the fix of that number.
std::string fix_name(std::size_t number) { return fmt::format("_fix{}", number); }

class Compiler {
 public:
  Compiler(const std::vector<Check>& checks, const std::vector<Fix>& fixes, std::vector<Error>& errors)
      : checks_(checks), fixes_(fixes), errors_(errors) {}

  std::unique_ptr<JqProgram> run() {
    const auto errors_before = errors_.size();
    std::vector<std::string> needs, texts;
    for (const auto& check : checks_) needs.push_back(json_text(check.needs));
    std::vector<GroupCall> groups;
    for (const auto& each : groups_of(checks_)) groups.push_back(group_call(each));
    const auto functions = share_parts(groups);
    for (const auto& group : groups) texts.push_back(group.text());
    std::string fixes(fixes_.empty() ? "" : fix_prelude());
    for (std::size_t i = 0; i < fixes_.size(); ++i)
      fixes += fmt::format("def {}: {};\n", fix_name(i), proposal(fixes_[i]));
    if (errors_.size() == errors_before) {
      std::vector<JqProgram::Complaint> complaints;
      const auto text =
          with_prelude(fmt::format(".n as $n | .alone as $alone | def _needs: [{}];\n{}{}{}_not_ready, {}",
                                   join(needs, ","), check_prelude(), fixes, functions, in_turn(texts)));
      if (auto program = JqProgram::compile(text, complaints)) return program;
      locate(pieces_);
      if (errors_.size() == errors_before)
        errors_.push_back(
            Error{ErrorKind::malformed, "the checks do not compile together: " + complaints.front().message});
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
  GroupCall group_call(const Group& group) {
    GroupCall result{group, {}, {}};
    for (auto i = group.first; i <= group.last; ++i) {
      what_ = "check " + checks_[i].id;
      given_ = {Given{}};
      if (checks_[i].for_each) {
        std::vector<JqType> types;
        result.items = expression("for_each", *checks_[i].for_each, &types);
        if (!types.empty()) given_.front().scope.item = types.front();
      }
      result.calls.push_back(call(i));
    }
    return result;
  }

  Call call(std::size_t number) {
    const auto& check = checks_[number];
    Call call{number};
    call.about = {check.about ? expression("about", *check.about) : "null"};
    if (check.when) call.when = {expression("when", *check.when)};
    call.assertion = {expression("assert", check.assertion)};
    call.severity = text("severity", check.severity);
    for (const auto& line : check.evidence) call.evidence.push_back(evidence(line));
    call.title = text("title", check.title);
    call.because = text("because", check.because);
    call.why = check.unknown_because ? text("unknown_because", *check.unknown_because)
                                     : Parts{"\"its assertion gives null\""};
    call.proposals = proposals(check);
    return call;
  }

  // The fixes that a check names, and what its items are for them.
  std::string proposals(const Check& check) {
    std::vector<std::string> calls;
    for (std::size_t i = 0; i < fixes_.size(); ++i)
      if (std::find(check.fixes.begin(), check.fixes.end(), fixes_[i].id) != check.fixes.end())
        users_[i].push_back({check.id, given_.front().scope});
    for (const auto& wanted : check.fixes)
      for (std::size_t i = 0; i < fixes_.size(); ++i)
        if (fixes_[i].id == wanted) calls.push_back(fix_name(i));
    return calls.empty() ? std::string() : fmt::format(" + {{proposals: [{}]}}", join(calls, ","));
  }

  std::string proposal(const Fix& fix) {
    what_ = "fix " + fix.id;
    in_fix_ = true;
    given_ = users_[static_cast<std::size_t>(&fix - fixes_.data())];
    if (given_.empty()) given_ = {Given{}};  // nobody names it
    const auto* resolution = shape_at("derived.resolutions.alternatives");
    for (auto& given : given_) given.scope.variables["advice"] = {&resolution->element.front(), 0};
    const auto title = joined(text("title", fix.title));
    const auto when = fix.when ? expression("when", *fix.when) : "true";
    const auto why_not = fix.why_not ? joined(text("why_not", *fix.why_not)) : "\"\"";
    std::vector<std::string> steps;
    for (const auto& each : fix.steps) steps.push_back(step(each));
    return fmt::format("_advice as $advice | _proposal({}; {}; {}; {}; {})", json_text(fix.id), title, when, why_not,
                       steps.empty() ? "empty" : join(steps, ","));
  }

  std::string step(const FixStep& step) {
    std::string items = "null";
    const auto outside = given_;
    if (step.for_each) {
      std::vector<JqType> types;
      items = expression("for_each", *step.for_each, &types);
      for (std::size_t i = 0; i < given_.size(); ++i) given_[i].scope.each = i < types.size() ? types[i] : JqType{};
    }
    const auto when = step.when ? expression("when", *step.when) : "true";
    auto code =
        fmt::format("_step({}; {}; {}; {})", json_text(step.kind), items, when, parameter(step.kind, step.params));
    given_ = outside;
    return code;
  }

  // jq that gives the value of a parameter. `name`: `systemd_override.environment.CUDA_HOME`.
  std::string parameter(const std::string& name, const ParamTree& tree) {
    std::vector<std::string> parts;
    switch (tree.kind) {
      case ParamTree::Kind::null: return name.find('.') == name.npos ? "{}" : "null";
      case ParamTree::Kind::scalar: return tree.json;
      case ParamTree::Kind::text: return typed_text(name, tree.text);
      case ParamTree::Kind::list:
        for (const auto& item : tree.items) parts.push_back(parameter(name, item));
        return fmt::format("[{}]", join(parts, ","));
      case ParamTree::Kind::map:
        for (const auto& [key, value] : tree.members)
          parts.push_back(
              fmt::format("{}: ({})", json_text(key), parameter(fmt::format("{}.{}", name, printable(key)), value)));
        return fmt::format("{{{}}}", join(parts, ","));
    }
    return "null";
  }

  // A value of any type where the text is one expression, else a text whose parts must all be known.
  std::string typed_text(const std::string& name, const Expression& source) {
    const auto parts = split(name, source);
    if (parts.size() == 1 && parts.front().is_expression)
      return fmt::format("_one({}; {})", json_text(name),
                         piece(name, source, parts.front().offset, parts.front().text));
    std::vector<std::string> pieces = {"\"\""};
    for (const auto& part : parts)
      pieces.push_back(part.is_expression
                           ? fmt::format("_known({}; {})", json_text(name), piece(name, source, part.offset, part.text))
                           : json_text(part.text));
    return fmt::format("([{}] | add)", join(pieces, ","));
  }

  std::string expression(const std::string& key, const Expression& source, std::vector<JqType>* types = nullptr) {
    if (const auto braces = source.text.find("{{"); braces != source.text.npos) {
      error(position_in(source, braces),
            fmt::format("{}: is an expression, no template: write the jq without '{{{{ }}}}'", key));
      return "null";
    }
    return piece(key, source, 0, source.text, types);
  }

  static std::string joined(const Parts& parts) { return fmt::format("_joined({})", join(parts, ",")); }

  Parts text(const std::string& key, const Expression& source) {
    const auto parts = split(key, source);
    if (parts.empty()) return {"\"\""};
    Parts pieces;
    for (const auto& part : parts)
      pieces.push_back(part.is_expression ? fmt::format("_piece({})", piece(key, source, part.offset, part.text))
                                          : json_text(part.text));
    return pieces;
  }

  // A line that is one expression may give several lines.
  std::string evidence(const Expression& source) {
    const auto parts = split("evidence", source);
    if (parts.size() == 1 && parts.front().is_expression)
      return fmt::format("_lines({})", piece("evidence", source, parts.front().offset, parts.front().text));
    return parts.size() == 1 ? json_text(parts.front().text) : joined(text("evidence", source));
  }

  std::vector<TemplatePart> split(const std::string& key, const Expression& source) {
    auto parts = split_template(source);
    if (parts) return *std::move(parts);
    // Evidence is split twice; say it once.
    auto problem = parts.error();
    problem.message = fmt::format("{}: {}: {}", what_, key, problem.message);
    if (std::find(errors_.begin(), errors_.end(), problem) == errors_.end()) errors_.push_back(std::move(problem));
    return {};
  }

  // `types`: what it gives, for each of `given_`.
  std::string piece(const std::string& key, const Expression& source, std::size_t offset, std::string_view code,
                    std::vector<JqType>* types = nullptr) {
    Piece piece{fmt::format("{}: {}", what_, key), source, offset, {}, in_fix_};
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
    std::set<std::string> told;
    for (const auto& given : given_) {
      std::vector<JqProblem> problems;
      const auto result = check_paths(tokens, given.scope, problems);
      for (auto& problem : problems) {
        if (!told.insert(problem.message).second) continue;
        if (!given.check.empty()) problem.message += fmt::format(" (with what check {} gives it)", given.check);
        report(problem);
      }
      if (types != nullptr) types->push_back(result);
    }
    pieces_.push_back(std::move(piece));
    return bracketed(pieces_.back().code);
  }

  void error(SourcePos at, std::string message) {
    errors_.push_back(Error{ErrorKind::malformed, fmt::format("{}: {}", what_, message), std::move(at), {}, {}});
  }

  // Halves the pieces until the guilty ones stand alone: a compilation costs tens of milliseconds.
  void locate(std::span<const Piece> pieces) {
    if (pieces.empty()) return;
    std::vector<std::string> all;
    for (const auto& piece : pieces)
      all.push_back(fmt::format("first({}{})", piece.of_fix ? "null as $advice|" : "", bracketed(piece.code)));
    std::vector<JqProgram::Complaint> complaints;
    const auto program = with_prelude((fixes_.empty() ? "" : std::string(fix_prelude())) + join(all, ","));
    if (JqProgram::compile(program, complaints)) return;
    if (pieces.size() > 1) {
      locate(pieces.first(pieces.size() / 2));
      locate(pieces.subspan(pieces.size() / 2));
      return;
    }
    const auto before = std::string_view(program).substr(0, program.size() - all.front().size());
    const auto lines_before = static_cast<int>(std::count(before.begin(), before.end(), '\n'));
    for (const auto& complaint : complaints) blame(pieces.front(), complaint, lines_before);
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
      for (int i = 0; i < line && offset != std::string::npos; ++i)
        offset = piece.code.find('\n', offset + (i > 0 ? 1 : 0));
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
        (void)list->run({}, *facts,
                        [&](std::string_view quoted) { functions_.emplace_back(quoted.substr(1, quoted.size() - 2)); });
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
  const std::vector<Fix>& fixes_;
  std::vector<Error>& errors_;
  std::map<std::size_t, std::vector<Given>> users_ = {};  // fix -> the checks that name it
  std::vector<Piece> pieces_ = {};
  std::string what_ = {};
  bool in_fix_ = false;
  std::vector<Given> given_ = {};
  std::vector<std::string> functions_ = {};
};

}  // namespace

struct CheckSet::State {
  std::vector<Check> checks;
  std::unique_ptr<JqProgram> program;

  Group group_with(std::size_t check) const {
    const auto groups = groups_of(checks);
    return *std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return check <= group.last; });
  }
};

CheckSet::CheckSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckSet::~CheckSet() = default;
CheckSet::CheckSet(CheckSet&&) noexcept = default;
CheckSet& CheckSet::operator=(CheckSet&&) noexcept = default;

Result<CheckSet> CheckSet::compile(const std::vector<Check>& checks, const std::vector<Fix>& fixes,
                                   std::vector<Error>& errors) {
  const auto errors_before = errors.size();
  auto state = std::make_unique<State>();
  state->checks = checks;
  state->program = Compiler(state->checks, fixes, errors).run();
  if (!state->program) return fail(errors.at(errors_before));
  return CheckSet(std::move(state));
}

Result<void> CheckSet::evaluate(std::string_view facts, const Sink& sink) const {
  const auto value = JqValue::parse(facts);
  if (!value) return fail(value.error());
  std::size_t check = 0;
  std::vector<std::size_t> told(state_->checks.size()), known;
  const auto take = [&](std::string_view output) {
    if (std::from_chars(output.data(), output.data() + output.size(), check).ec == std::errc{}) return sink(check, {});
    if (++told[check] > known[check]) sink(check, output);
  };
  for (std::size_t next = 0; next < told.size();) {
    known.assign(told.size(), 0);
    if (state_->program->run({next}, *value, take)) break;
    // `error({__jq: 0})` passes every `try`; a whole check ends by it, and none but this: those of its group are run
    // anew, each alone, and what they gave before is known already.
    const auto group = state_->group_with(check);
    known = std::exchange(told, std::vector<std::size_t>(told.size()));
    for (next = group.first; next <= group.last; ++next)
      if (const auto ran = state_->program->run({next, true}, *value, take); !ran)
        sink(next, nlohmann::json{{"kind", "error"}, {"about", ""}, {"why", ran.error().message}}.dump());
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
