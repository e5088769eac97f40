#include "action/parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "base/units.hpp"

namespace trueup {

using nlohmann::json;

Script call(std::string_view function, const std::vector<std::string>& arguments, std::chrono::seconds limit) {
  std::string text(function);
  for (const auto& argument : arguments) text += " " + shell_quote(argument);
  return {text + "\n", limit};
}

Seen::Seen(std::string_view inspected) {
  for (const auto line : split_lines(inspected))
    if (const auto equals = line.find('='); equals != line.npos)
      lines_.emplace_back(line.substr(0, equals), line.substr(equals + 1));
}

std::string Seen::get(std::string_view key) const {
  for (const auto& [name, value] : lines_)
    if (name == key) return value;
  return {};
}

bool Seen::has(std::string_view key) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) { return line.first == key; });
}

std::vector<std::string> Seen::all(std::string_view key) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : lines_)
    if (name == key) values.push_back(value);
  return values;
}

namespace {

const json* find(const Params& params, std::string_view name) {
  if (!params.is_object()) return nullptr;
  const auto found = params.find(name);
  return found == params.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

std::string text_of(const Params& params, std::string_view name, std::string_view otherwise) {
  const auto* value = find(params, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string(otherwise);
}

std::vector<std::string> texts_of(const Params& params, std::string_view name) {
  const auto* value = find(params, name);
  std::vector<std::string> texts;
  if (value != nullptr && value->is_array())
    for (const auto& each : *value)
      if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

std::map<std::string, std::string> variables_of(const Params& params, std::string_view name) {
  const auto* value = find(params, name);
  std::map<std::string, std::string> variables;
  if (value != nullptr && value->is_object())
    for (const auto& [key, each] : value->items())
      if (each.is_string()) variables[key] = each.get<std::string>();
  return variables;
}

std::optional<bool> boolean_of(const Params& params, std::string_view name) {
  const auto* value = find(params, name);
  return value != nullptr && value->is_boolean() ? std::optional(value->get<bool>()) : std::nullopt;
}

std::chrono::seconds duration_of(const Params& params, std::string_view name, std::chrono::seconds otherwise) {
  const auto text = text_of(params, name);
  const auto duration = parse_duration(text);
  return text.empty() || !duration ? otherwise : std::chrono::ceil<std::chrono::seconds>(*duration);
}

tl::unexpected<Error> bad(std::string message) { return fail(ErrorKind::malformed, std::move(message)); }

bool is_plain_name(std::string_view name) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+:,./~-";
  return !name.empty() && name.front() != '-' && name.find_first_not_of(kPlain) == name.npos;
}

namespace {

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; });
}

std::string wrong_path(std::string_view path) {
  if (!path.starts_with('/')) return "expected an absolute path";
  if (path.size() > 1 && path.ends_with('/')) return "expected a path without '/' at its end";
  for (const auto part : split(path.substr(1), '/'))
    if (path.size() > 1 && (part.empty() || part == "." || part == ".."))
      return "expected a path without empty parts, '.' and '..'";
  return {};
}

bool is_unit(std::string_view name) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@\\-";
  return name.size() <= 255 && name.size() > 8 && name.ends_with(".service") && name.front() != '-' &&
         name.front() != '.' && name.find_first_not_of(kPlain) == name.npos && !name.ends_with("@.service");
}

bool is_variable(std::string_view name) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return !name.empty() && (name.front() < '0' || name.front() > '9') && name.find_first_not_of(kPlain) == name.npos;
}

std::string wrong_text(const json& value) {
  if (!value.is_string()) return fmt::format("expected a text, got {}", value.type_name());
  if (has_control(value.get_ref<const std::string&>())) return "expected one line without control characters";
  return {};
}

}  // namespace

std::string wrong_value(const ParamSpec& spec, const json& value) {
  switch (spec.type) {
    case ParamType::text: {
      if (auto wrong = wrong_text(value); !wrong.empty()) return wrong;
      const auto& text = value.get_ref<const std::string&>();
      if (spec.choices.empty() || std::find(spec.choices.begin(), spec.choices.end(), text) != spec.choices.end())
        return {};
      const std::vector<std::string> choices(spec.choices.begin(), spec.choices.end());
      return fmt::format("expected one of {}, got '{}'{}", join(choices, ", "), printable(text),
                         did_you_mean(text, choices));
    }
    case ParamType::content:
      if (!value.is_string()) return fmt::format("expected a text, got {}", value.type_name());
      return value.get_ref<const std::string&>().find('\0') != std::string::npos ? "expected text, got a NUL byte" : "";
    case ParamType::path: {
      if (auto wrong = wrong_text(value); !wrong.empty()) return wrong;
      const auto& path = value.get_ref<const std::string&>();
      const auto wrong = wrong_path(path);
      return wrong.empty() ? wrong : fmt::format("{}, got '{}'", wrong, printable(path));
    }
    case ParamType::unit:
      if (auto wrong = wrong_text(value); !wrong.empty()) return wrong;
      if (const auto& name = value.get_ref<const std::string&>(); !is_unit(name))
        return fmt::format("expected the full name of a service's unit (NAME.service), got '{}'", printable(name));
      return {};
    case ParamType::integer:
      return value.is_number_integer() ? "" : fmt::format("expected a number, got {}", value.type_name());
    case ParamType::boolean:
      return value.is_boolean() ? "" : fmt::format("expected true or false, got {}", value.type_name());
    case ParamType::texts:
      if (!value.is_array()) return fmt::format("expected a list of texts, got {}", value.type_name());
      for (std::size_t i = 0; i < value.size(); ++i)
        if (auto wrong = wrong_text(value[i]); !wrong.empty()) return fmt::format("[{}]: {}", i, wrong);
      return {};
    case ParamType::variables:
      if (!value.is_object()) return fmt::format("expected names and values, got {}", value.type_name());
      for (const auto& [name, each] : value.items()) {
        if (!is_variable(name)) return fmt::format("'{}' is no name of a variable", printable(name));
        if (auto wrong = wrong_text(each); !wrong.empty()) return fmt::format("{}: {}", name, wrong);
      }
      return {};
    case ParamType::object:
      return value.is_object() ? "" : fmt::format("expected names and values, got {}", value.type_name());
  }
  return {};
}

std::vector<Error> check_object(std::span<const ParamSpec> specs, const Params& given, std::string_view where) {
  std::vector<Error> errors;
  const auto wrong = [&](std::string message) {
    errors.push_back({ErrorKind::malformed, fmt::format("{}: {}", where, message), {}, {}, {}});
  };
  if (!given.is_object()) {
    wrong(fmt::format("expected parameters by name, got {}", given.type_name()));
    return errors;
  }
  std::vector<std::string> names;
  for (const auto& spec : specs) names.emplace_back(spec.name);
  for (const auto& [name, value] : given.items())
    if (std::find(names.begin(), names.end(), name) == names.end())
      wrong(fmt::format("unknown parameter '{}'{}", printable(name), did_you_mean(name, names)));
  for (const auto& spec : specs) {
    const auto* value = find(given, spec.name);
    if (value == nullptr) {
      if (spec.required) wrong(fmt::format("parameter '{}' is missing ({})", spec.name, spec.help));
    } else if (const auto message = wrong_value(spec, *value); !message.empty()) {
      wrong(fmt::format("{}: {}", spec.name, message));
    }
  }
  return errors;
}

std::vector<Error> check_params(const ActionKind& kind, const Params& params) {
  auto errors = check_object(kind.params(), params, kind.name());
  if (errors.empty())
    if (const auto checked = kind.check(params); !checked) {
      errors.push_back(checked.error());
      errors.back().message = fmt::format("{}: {}", kind.name(), errors.back().message);
    }
  return errors;
}

namespace {

constexpr std::size_t kMostDiffLines = 1000;
constexpr std::size_t kAround = 3;

struct Edit {
  char sign;  // ' ', '-' or '+'
  const std::string* line;
};

// The edits of a longest common subsequence; of texts too long for that, all out and all in.
std::vector<Edit> edits_between(const std::vector<std::string>& from, const std::vector<std::string>& to) {
  std::size_t begin = 0, from_end = from.size(), to_end = to.size();
  while (begin < from_end && begin < to_end && from[begin] == to[begin]) ++begin;
  while (from_end > begin && to_end > begin && from[from_end - 1] == to[to_end - 1]) --from_end, --to_end;
  std::vector<Edit> edits;
  for (std::size_t i = 0; i < begin; ++i) edits.push_back({' ', &from[i]});
  const auto rows = from_end - begin, columns = to_end - begin;
  std::size_t i = 0, j = 0;
  if (rows * columns <= kMostDiffLines * kMostDiffLines) {
    std::vector<std::vector<std::uint32_t>> common(rows + 1, std::vector<std::uint32_t>(columns + 1));
    for (auto a = rows; a-- > 0;)
      for (auto b = columns; b-- > 0;)
        common[a][b] =
            from[begin + a] == to[begin + b] ? common[a + 1][b + 1] + 1 : std::max(common[a + 1][b], common[a][b + 1]);
    while (i < rows && j < columns) {
      if (from[begin + i] == to[begin + j]) {
        edits.push_back({' ', &from[begin + i]});
        ++i, ++j;
      } else if (common[i + 1][j] >= common[i][j + 1]) {
        edits.push_back({'-', &from[begin + i++]});
      } else {
        edits.push_back({'+', &to[begin + j++]});
      }
    }
  }
  while (i < rows) edits.push_back({'-', &from[begin + i++]});
  while (j < columns) edits.push_back({'+', &to[begin + j++]});
  for (auto k = from_end; k < from.size(); ++k) edits.push_back({' ', &from[k]});
  return edits;
}

}  // namespace

std::string unified_diff(const std::string& from_name, const std::vector<std::string>& from, const std::string& to_name,
                         const std::vector<std::string>& to) {
  if (from == to) return {};
  const auto edits = edits_between(from, to);
  std::string text = fmt::format("--- {}\n+++ {}\n", from_name, to_name);
  std::size_t from_line = 0, to_line = 0, written = 0;  // lines of each that are behind us
  for (std::size_t at = 0; at < edits.size();) {
    if (edits[at].sign == ' ') {
      ++from_line, ++to_line, ++at;
      continue;
    }
    // A hunk: from a few lines before to where more than twice as many follow without a change.
    const auto before = std::min({kAround, at, from_line, to_line});
    auto end = at, last = at;
    while (end < edits.size() && end - last <= 2 * kAround) {
      if (edits[end].sign != ' ') last = end;
      ++end;
    }
    end = std::min(edits.size(), last + 1 + kAround);
    const auto begin = at - before;
    const auto count = [&](char sign) {
      return static_cast<std::size_t>(std::count_if(
          edits.begin() + static_cast<std::ptrdiff_t>(begin), edits.begin() + static_cast<std::ptrdiff_t>(end),
          [&](const Edit& edit) { return edit.sign == ' ' || edit.sign == sign; }));
    };
    const auto minus = count('-'), plus = count('+');
    text += fmt::format("@@ -{},{} +{},{} @@\n", from_line - before + (minus > 0 ? 1 : 0), minus,
                        to_line - before + (plus > 0 ? 1 : 0), plus);
    for (auto k = begin; k < end; ++k) {
      if (written++ == kMostDiffLines) return text + "... (more lines differ)\n";
      text += edits[k].sign + *edits[k].line + "\n";
    }
    for (auto k = at; k < end; ++k) {
      from_line += edits[k].sign != '+' ? 1 : 0;
      to_line += edits[k].sign != '-' ? 1 : 0;
    }
    at = end;
  }
  return text;
}

}  // namespace trueup
