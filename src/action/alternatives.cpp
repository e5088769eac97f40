#include <fmt/format.h>

#include "action/kinds.hpp"
#include "action/parts.hpp"
#include "base/text.hpp"

namespace trueup {
namespace {

class AlternativesKind final : public ActionKind {
 public:
  std::string_view name() const override { return "alternatives"; }

  std::span<const ParamSpec> params() const override {
    static const std::vector<ParamSpec> kParams = {
        {"group", ParamType::text, true, "the group: `cuda`, `gcc`"},
        {"path", ParamType::path, true, "where its link shall lead"},
        {"link", ParamType::path, false, "the group's link, where the group may not be there yet"},
        {"priority", ParamType::integer, false, "of the path, where it may not be in the group yet", {}, "1"},
    };
    return kParams;
  }

  Result<void> check(const Params& params) const override {
    const auto group = text_of(params, "group");
    if (!is_plain_name(group) || group.find('/') != group.npos || group.front() == '.')
      return bad(fmt::format("group: '{}' is no name of a group", printable(group)));
    for (const auto* name : {"path", "link"})
      if (text_of(params, name).find_first_of(" \t") != std::string::npos)
        return bad(fmt::format("{}: the alternatives know no names with blanks: '{}'", name, text_of(params, name)));
    return {};
  }

  std::string object(const Params& params) const override { return "alternatives " + text_of(params, "group"); }
  int rank(const Params&) const override { return 30; }

  Script inspect(const Params& params) const override {
    return call("alternatives_inspect", {text_of(params, "group"), text_of(params, "path"), text_of(params, "link")});
  }

  Result<Difference> diff(const Params& params, const Inspected& inspected) const override {
    const Seen seen(inspected);
    const auto group = text_of(params, "group"), path = text_of(params, "path"), value = seen.get("value"),
               link = seen.has("link") ? seen.get("link") : text_of(params, "link");
    if (!seen.has("entry")) return bad("the alternatives of " + group + " are missing in what was inspected");
    Difference difference;
    const bool is_group = seen.has("status");
    difference.needed = !is_group || seen.get("status") != "manual" || value != path ||
                        seen.get("entry") != "to " + path || seen.get("link_is") != "to /etc/alternatives/" + group;
    difference.current = is_group ? fmt::format("{} leads to {} ({})", group, seen.get("leads_to"), seen.get("status"))
                                  : fmt::format("there is no group {}", group);
    difference.wanted = fmt::format("{} leads to {} (manual)", group, path);
    bool is_candidate = false;
    for (const auto& candidate : seen.all("candidate")) is_candidate |= candidate.starts_with(path + " ");
    if (!seen.has("target")) difference.refused.push_back(fmt::format("{} is not there", path));
    if (!is_group && text_of(params, "link").empty())
      difference.refused.push_back(fmt::format("there is no group {}, and no 'link' to make one", group));
    else if (!is_candidate && !params.contains("priority"))
      difference.refused.push_back(
          fmt::format("{} is not in the group {}, and no 'priority' is given to put it there", path, group));
    if (seen.has("slaves"))
      difference.refused.push_back(fmt::format("{} has slave links, which a rollback could not put back", group));
    if (seen.get("link_is") == "directory" || seen.get("link_is") == "other")
      difference.refused.push_back(fmt::format("{} is no link", link));
    difference.predicted.push_back(MoveLink{link, path});
    return difference;
  }

  Script apply(const Params& params, const Difference&) const override {
    const auto found = params.find("priority");
    const auto priority = found != params.end() && found->is_number_integer() ? found->get<int>() : 1;
    return call("alternatives_apply",
                {text_of(params, "group"), text_of(params, "path"), text_of(params, "link"), std::to_string(priority)});
  }
  Script verify(const Params& params, const Difference&) const override {
    return call("alternatives_verify", {text_of(params, "group"), text_of(params, "path")});
  }
  Script undo(const Params& params, const Difference&) const override {
    return call("alternatives_undo", {text_of(params, "group")});
  }
};

}  // namespace

std::unique_ptr<ActionKind> make_alternatives_kind() { return std::make_unique<AlternativesKind>(); }

}  // namespace trueup
