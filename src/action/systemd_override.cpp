#include <fmt/format.h>

#include "action/kinds.hpp"
#include "action/parts.hpp"
#include "base/text.hpp"

namespace trueup {
namespace {

// `text` within double quotes, where each of `special` needs a backslash.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != special.npos) out += '\\';
    out += c;
  }
  return out;
}

// systemd.syntax(7), systemd.unit(5): quotes as in C, and specifiers.
std::string drop_in_line(const std::string& name, const std::string& value) {
  std::string specifiers;
  for (const char c : escaped(value, "\\\"")) specifiers += c == '%' ? std::string("%%") : std::string(1, c);
  return fmt::format("Environment=\"{}={}\"", name, specifiers);
}

// systemd.exec(5), EnvironmentFile=: quotes as in a shell, nothing is expanded.
std::string file_line(const std::string& name, const std::string& value) {
  return fmt::format("{}=\"{}\"", name, escaped(value, "\\\"`$"));
}

class SystemdOverrideKind final : public ActionKind {
 public:
  std::string_view name() const override { return "systemd_override"; }

  std::span<const ParamSpec> params() const override {
    static const std::vector<ParamSpec> kParams = {
        {"unit", ParamType::unit, true, "the service, NAME.service"},
        {"environment", ParamType::variables, false, "variables to set"},
        {"unset", ParamType::texts, false, "names of variables to take away, wherever they are set"},
    };
    return kParams;
  }

  Result<void> check(const Params& params) const override {
    const auto set = variables_of(params, "environment");
    const auto unset = texts_of(params, "unset");
    if (set.empty() && unset.empty()) return bad("nothing to do: neither 'environment' nor 'unset' names a variable");
    for (const auto& name : unset) {
      if (!is_plain_name(name) ||
          name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != name.npos)
        return bad(fmt::format("unset: '{}' is no name of a variable", printable(name)));
      if (set.contains(name)) return bad(fmt::format("{} is both set and unset", name));
    }
    return {};
  }

  std::string object(const Params& params) const override { return "unit " + text_of(params, "unit"); }
  int rank(const Params&) const override { return 60; }

  Script inspect(const Params& params) const override { return call("systemd_override_inspect", arguments(params)); }

  Result<Difference> diff(const Params& params, const Inspected& inspected) const override {
    const Seen seen(inspected);
    const auto unit = text_of(params, "unit"), conf = seen.get("drop_in"),
               env = conf.substr(0, conf.rfind('.')) + ".env";
    if (!seen.has("LoadState") || conf.empty())
      return bad("what systemd says of " + unit + " is missing in what was inspected");
    Difference difference;
    difference.refused = refusals(params, seen);
    difference.needed = seen.get("conf_is") != seen.get("conf_wanted") || seen.get("loaded") != "yes" ||
                        (seen.has("env_wanted") && seen.get("env_is") != seen.get("env_wanted"));
    std::vector<std::string> now, then;
    for (const auto& [name, value] : variables_of(params, "environment")) {
      now.push_back(current_value(seen, name));
      then.push_back(fmt::format("{}={}", name, wanted_value(seen, name, value)));
      difference.predicted.push_back(SetVariable{"unit " + unit, name, value});
    }
    for (const auto& name : texts_of(params, "unset")) {
      now.push_back(current_value(seen, name));
      then.push_back(name + " not set");
      difference.predicted.push_back(SetVariable{"unit " + unit, name, {}});
    }
    difference.current = join(now, ", ");
    difference.wanted = join(then, ", ");
    difference.diff = unified_diff(conf, seen.all("conf_current"), conf, seen.all("conf_content"));
    if (seen.has("env_wanted"))
      difference.diff += unified_diff(env, seen.all("env_current"), env, seen.all("env_content"));
    return difference;
  }

  Script apply(const Params& params, const Difference&) const override {
    return call("systemd_override_apply", arguments(params), std::chrono::seconds(120));
  }
  Script verify(const Params& params, const Difference&) const override {
    return call("systemd_override_verify", arguments(params));
  }
  Script undo(const Params& params, const Difference&) const override {
    return call("systemd_override_undo", arguments(params), std::chrono::seconds(120));
  }

 private:
  static std::vector<std::string> arguments(const Params& params) {
    std::vector<std::string> words = {text_of(params, "unit")};
    for (const auto& [name, value] : variables_of(params, "environment"))
      words.insert(words.end(), {name, drop_in_line(name, value), file_line(name, value)});
    for (const auto& name : texts_of(params, "unset")) words.insert(words.end(), {name, "", ""});
    return words;
  }

  static std::string current_value(const Seen& seen, const std::string& name) {
    if (seen.has("now." + name)) return fmt::format("{}={}", name, seen.get("now." + name));
    return name + (seen.has("unset." + name) ? " not set" : " not known");
  }

  // A secret is hidden by the host in what the file will hold; so it is here.
  static std::string wanted_value(const Seen& seen, const std::string& name, const std::string& value) {
    for (const auto& line : seen.all("conf_content"))
      if (line.starts_with("Environment=") && line.find(name + "=***") != line.npos) return "***";
    return value;
  }

  static std::vector<std::string> refusals(const Params& params, const Seen& seen) {
    const auto unit = text_of(params, "unit"), load = seen.get("LoadState"), fragment = seen.get("FragmentPath"),
               id = seen.get("Id");
    std::vector<std::string> why;
    if (load == "masked")
      why.push_back(unit + " is masked");
    else if (load != "loaded")
      why.push_back(fmt::format("{} is not a loaded unit: {}", unit, load));
    else if (id != unit)
      why.push_back(fmt::format("{} is another name of {}: name that one", unit, id));
    if (seen.get("UnitFileState") == "transient" || fragment.starts_with("/run/systemd/transient/"))
      why.push_back(unit + " is transient: whoever starts it has to set its variables");
    if (seen.get("UnitFileState") == "generated" || fragment.starts_with("/run/systemd/generator"))
      why.push_back(fmt::format("{} is generated ({}): what it is made from has to be changed", unit, fragment));
    for (const auto* key : {"conf_is", "env_is"})
      if (seen.get(key) == "other")
        why.push_back(seen.get("drop_in") + " or the file beside it is a link or a directory");
    const auto pending = seen.all("pending");
    if (!pending.empty())
      why.push_back(
          fmt::format("files of {} changed since systemd read them, and a daemon-reload would bring that into "
                      "effect: see to it first",
                      join(pending, ", ")));
    for (const auto& [name, value] : variables_of(params, "environment")) {
      if (seen.has("unknown." + name))
        why.push_back(fmt::format("what {} starts with cannot be known: {}", unit, seen.get("unknown." + name)));
      if (seen.has("own." + name))
        why.push_back(fmt::format("{} sets {} itself ({}), behind whatever the unit says: it has to be changed there",
                                  unit, name, seen.get("own." + name)));
      for (const auto in_pam : split(seen.get("pam"), ' '))
        if (in_pam == name) why.push_back(fmt::format("{} has PAMName=, and /etc/environment sets {}", unit, name));
    }
    return why;
  }
};

}  // namespace

std::unique_ptr<ActionKind> make_systemd_override_kind() { return std::make_unique<SystemdOverrideKind>(); }

}  // namespace trueup
