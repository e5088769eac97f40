#include <fmt/format.h>

#include <algorithm>

#include "action/kinds.hpp"
#include "action/parts.hpp"
#include "base/text.hpp"

namespace trueup {
namespace {

class FileKind final : public ActionKind {
 public:
  std::string_view name() const override { return "file"; }

  std::span<const ParamSpec> params() const override {
    static const std::vector<ParamSpec> kParams = {
        {"path", ParamType::path, true, "the file"},
        {"state", ParamType::text, false, "whether it shall be there", {"present", "absent"}, "present"},
        {"content", ParamType::content, false, "its whole text"},
        {"mode", ParamType::text, false, "octal", {}, "0644"},
        {"owner", ParamType::text, false, "account", {}, "root"},
        {"group", ParamType::text, false, "of the file", {}, "that of the account"},
    };
    return kParams;
  }

  Result<void> check(const Params& params) const override {
    const auto path = text_of(params, "path");
    if (std::count(path.begin(), path.end(), '/') < 2) return bad(fmt::format("path: '{}' lies in no directory", path));
    if (path.starts_with("/proc/") || path.starts_with("/sys/") || path.starts_with("/dev/"))
      return bad(fmt::format("path: '{}' is no file on a disk", path));
    const bool absent = text_of(params, "state") == "absent";
    if (absent == params.contains("content"))
      return bad(absent ? "content: a file that shall be absent has none"
                        : "parameter 'content' is missing (its whole text)");
    const auto mode = mode_of(params);
    if (mode.empty() || mode.size() > 4 || mode.find_first_not_of("01234567") != mode.npos)
      return bad(
          fmt::format("mode: expected an octal number such as 0644, got '{}'", printable(text_of(params, "mode"))));
    for (const auto* name : {"owner", "group"})
      if (const auto account = text_of(params, name); !account.empty() && !is_plain_name(account))
        return bad(fmt::format("{}: '{}' is no name of an account", name, printable(account)));
    return {};
  }

  std::string object(const Params& params) const override { return "path " + path(params); }
  std::string path(const Params& params) const override { return text_of(params, "path"); }
  int rank(const Params&) const override { return 40; }

  Script inspect(const Params& params) const override { return call("file_inspect", arguments(params)); }

  Result<Difference> diff(const Params& params, const Inspected& inspected) const override {
    const Seen seen(inspected);
    const auto state = seen.get("state"), wanted = seen.get("wanted"), path = text_of(params, "path");
    if (state.empty() || wanted.empty()) return bad("the state of " + path + " is missing in what was inspected");
    Difference difference;
    difference.needed = state != wanted;
    difference.current = fmt::format("{}: {}", path, shown(state));
    difference.wanted = fmt::format("{}: {}", path, shown(wanted));
    difference.diff = unified_diff(path, seen.all("current"), path, seen.all("content"));
    const bool is_absent = text_of(params, "state") == "absent";
    const auto decider = seen.get("decided_by"), owner = seen.get("owner_uid");
    if (!is_absent && owner.empty())
      difference.refused.push_back(
          fmt::format("there is no account {} here to own {}", text_of(params, "owner", "root"), path));
    else if (decider == "65534")
      difference.refused.push_back(fmt::format("{}: many accounts may write to a directory on the way to it", path));
    else if (decider != "0" && !is_absent && decider != owner)
      difference.refused.push_back(fmt::format(
          "{} lies where the account with uid {} decides, so it can belong to that one only", path, decider));
    if (!state.starts_with("file ") && state != "absent")
      difference.refused.push_back(
          seen.has("target") ? fmt::format("{} is a link to {}: name the file itself", path, seen.get("target"))
                             : fmt::format("{} is no file", path));
    return difference;
  }

  Script apply(const Params& params, const Difference&) const override { return call("file_apply", arguments(params)); }
  Script verify(const Params& params, const Difference&) const override {
    return call("file_verify", arguments(params));
  }
  Script undo(const Params& params, const Difference&) const override { return call("file_undo", arguments(params)); }

 private:
  static std::string mode_of(const Params& params) {
    auto mode = text_of(params, "mode", "0644");
    mode.erase(0, std::min(mode.find_first_not_of('0'), mode.size()));
    return mode;
  }

  static std::vector<std::string> arguments(const Params& params) {
    return {text_of(params, "path"),  text_of(params, "state", "present"),
            mode_of(params),          text_of(params, "owner", "root"),
            text_of(params, "group"), text_of(params, "content")};
  }

  // `file 644 root root DIGEST` for people.
  static std::string shown(const std::string& state) {
    const auto parts = split(state, ' ');
    if (parts.size() != 5) return state == "absent" ? "not there" : state;
    return fmt::format("mode {}, of {}:{}, SHA-256 {}...", parts[1], parts[2], parts[3], parts[4].substr(0, 12));
  }
};

}  // namespace

std::unique_ptr<ActionKind> make_file_kind() { return std::make_unique<FileKind>(); }

}  // namespace trueup
