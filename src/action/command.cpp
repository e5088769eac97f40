#include <fmt/format.h>

#include "action/kinds.hpp"
#include "action/parts.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace trueup {
namespace {

class CommandKind final : public ActionKind {
 public:
  std::string_view name() const override { return "command"; }

  std::span<const ParamSpec> params() const override {
    static const std::vector<ParamSpec> kParams = {
        {"check", ParamType::texts, true, "program with arguments; 0: as wanted, 1: not; it must change nothing"},
        {"apply", ParamType::texts, true, "program with arguments; run again, it must do no harm"},
        {"undo", ParamType::texts, false, "program with arguments that takes back what apply did"},
        {"irreversible", ParamType::text, false, "why there is no undo, for whoever agrees to it"},
        {"limit", ParamType::text, false, "of each", {}, "5m"},
    };
    return kParams;
  }

  Result<void> check(const Params& params) const override {
    for (const auto* name : {"check", "apply", "undo"}) {
      if (!params.contains(name)) continue;
      const auto words = texts_of(params, name);
      if (words.empty()) return bad(fmt::format("{}: expected a program", name));
      if (!is_plain_name(words.front()))
        return bad(fmt::format("{}: '{}' is no name of a program", name, printable(words.front())));
    }
    if (params.contains("undo") == params.contains("irreversible"))
      return bad(params.contains("undo") ? "'irreversible' contradicts 'undo'"
                                         : "'undo' is missing; what cannot be undone says why in 'irreversible'");
    if (params.contains("irreversible") && text_of(params, "irreversible").empty())
      return bad("irreversible: expected the reason");
    if (const auto limit = text_of(params, "limit"); !limit.empty())
      if (const auto duration = parse_duration(limit); !duration) return bad("limit: " + duration.error().message);
    return {};
  }

  std::string object(const Params& params) const override { return "command " + join(texts_of(params, "apply"), " "); }
  int rank(const Params&) const override { return 80; }

  Script inspect(const Params& params) const override { return script("command_inspect", params, "check"); }

  Result<Difference> diff(const Params& params, const Inspected& inspected) const override {
    const auto status = Seen(inspected).get("status");
    if (status.empty()) return bad("the status of the check is missing in what was inspected");
    Difference difference;
    difference.needed = status != "0";
    difference.current =
        fmt::format("{}: {}", join(texts_of(params, "check"), " "), status == "0" ? "as wanted" : "not as wanted");
    difference.wanted = join(texts_of(params, "apply"), " ");
    difference.irreversible = text_of(params, "irreversible");
    if (status != "0" && status != "1")
      difference.refused.push_back(
          fmt::format("{}: status {}, which says neither that it is as wanted (0) nor that it is not (1)",
                      join(texts_of(params, "check"), " "), status));
    return difference;
  }

  Script apply(const Params& params, const Difference&) const override {
    return script("command_apply", params, "apply");
  }
  Script verify(const Params& params, const Difference&) const override {
    return script("command_verify", params, "check");
  }
  Script undo(const Params& params, const Difference&) const override {
    auto words = texts_of(params, "undo");
    words.insert(words.begin(), {limit_text(params), text_of(params, "irreversible")});
    return call("command_undo", words, limit(params) + kMargin);
  }

 private:
  static constexpr std::chrono::seconds kMargin{30};

  static std::chrono::seconds limit(const Params& params) {
    return duration_of(params, "limit", std::chrono::minutes(5));
  }
  static std::string limit_text(const Params& params) { return std::to_string(limit(params).count()); }

  static Script script(std::string_view function, const Params& params, std::string_view name) {
    auto words = texts_of(params, name);
    words.insert(words.begin(), limit_text(params));
    return call(function, words, limit(params) + kMargin);
  }
};

}  // namespace

std::unique_ptr<ActionKind> make_command_kind() { return std::make_unique<CommandKind>(); }

}  // namespace trueup
