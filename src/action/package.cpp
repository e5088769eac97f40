#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "action/kinds.hpp"
#include "action/transaction.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace trueup {
namespace {

std::uint64_t kib_of(const Seen& seen, std::string_view key) {
  const auto text = seen.get(key);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number * 1024;
}

// `install NAME VERSION`, `upgrade NAME OLD NEW` for people.
std::string shown_step(const std::string& step) {
  const auto words = split(step, ' ');
  if (words.size() == 3 && words[0] == "install") return fmt::format("+ {} {}", words[1], words[2]);
  if (words.size() == 4 && words[0] == "upgrade") return fmt::format("~ {} {} -> {}", words[1], words[2], words[3]);
  return "- " + step;
}

}  // namespace

std::string transaction_of(const Seen& seen) { return join(seen.all("step"), "\n"); }

void judge_transaction(const Seen& seen, Resolve resolve, Difference& difference) {
  auto& refused = difference.refused;
  const auto manager = seen.get("manager");
  if (manager == "zypper" || manager == "dnf5")
    refused.push_back(fmt::format("{} is not supported yet: apt and dnf 4 are", manager));
  else if (manager != "apt" && manager != "dnf")
    refused.push_back("this host has neither apt nor dnf");
  if (seen.has("broken"))
    refused.push_back(fmt::format("the package manager has something half done, which must be seen to first: {}",
                                  seen.get("broken")));
  if (seen.has("unresolved") && resolve == Resolve::now)
    refused.push_back(fmt::format("the package manager cannot do it: {}", trim(seen.get("unresolved"))));
  for (const auto& why : seen.all("gate")) refused.push_back(why);
  for (const auto& mount : seen.all("short")) refused.push_back(fmt::format("too little room on {}", mount));
  difference.download_bytes = kib_of(seen, "download");
  difference.disk_bytes = kib_of(seen, "disk");
  std::vector<std::string> for_good;
  for (const auto& old : seen.all("old"))
    if (old.starts_with("no ")) for_good.push_back(old.substr(3));
  if (!for_good.empty())
    difference.irreversible = fmt::format("no repository has the present version of {} any more", join(for_good, ", "));
  for (const auto& step : seen.all("step")) difference.diff += shown_step(step) + "\n";
}

namespace {

constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+._-";
constexpr std::string_view kVersionCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+._~:^-";

class PackageKind final : public ActionKind {
 public:
  std::string_view name() const override { return "package"; }

  std::span<const ParamSpec> params() const override {
    static const std::vector<ParamSpec> kParams = {
        {"packages", ParamType::texts, true, "NAME, there in any version, or NAME=VERSION"},
        {"patience", ParamType::text, false, "how long to wait while another holds the package manager", {}, "10m"},
    };
    return kParams;
  }

  Result<void> check(const Params& params) const override {
    const auto packages = texts_of(params, "packages");
    if (packages.empty()) return bad("packages: expected at least one");
    for (const auto& package : packages) {
      const auto name = package.substr(0, package.find('='));
      if (name.empty() || name.front() == '-' || name.back() == '-' || name.back() == '+' ||
          name.find_first_not_of(kNameCharacters) != name.npos)
        return bad(fmt::format("packages: '{}' is no name of a package", printable(package)));
      if (package.size() > name.size()) {
        const auto version = package.substr(name.size() + 1);
        if (version.empty() || version.find_first_not_of(kVersionCharacters) != version.npos)
          return bad(fmt::format("packages: '{}' has no version behind '='", printable(package)));
      }
    }
    if (const auto patience = text_of(params, "patience"); !patience.empty())
      if (const auto duration = parse_duration(patience); !duration)
        return bad("patience: " + duration.error().message);
    return {};
  }

  std::string object(const Params& params) const override {
    auto names = texts_of(params, "packages");
    for (auto& name : names) name.erase(std::min(name.find('='), name.size()));
    std::sort(names.begin(), names.end());
    return "packages " + join(names, " ");
  }
  int rank(const Params&) const override { return 20; }

  Script inspect(const Params& params) const override { return call("package_inspect", texts_of(params, "packages")); }

  Result<Difference> diff(const Params&, const Inspected& inspected) const override {
    const Seen seen(inspected);
    if (!seen.has("manager")) return bad("what the package manager says is missing in what was inspected");
    Difference difference;
    judge_transaction(seen, Resolve::now, difference);
    difference.needed = seen.has("step") || !difference.refused.empty();
    std::vector<std::string> now, then;
    for (const auto& asked : seen.all("asked")) {
      const auto blank = asked.find(' ');
      const auto spec = asked.substr(0, blank), name = spec.substr(0, spec.find('='));
      const auto version = blank == asked.npos ? std::string() : asked.substr(blank + 1);
      now.push_back(version.empty() ? name + " is not installed" : fmt::format("{} {}", name, version));
      auto wanted = fmt::format("{} {}", name, version);
      for (const auto& step : seen.all("step"))
        if (const auto words = split(step, ' '); words.size() >= 3 && words[1] == name)
          wanted = fmt::format("{} {}", name, words.back());
      then.push_back(wanted);
    }
    difference.current = join(now, ", ");
    difference.wanted = join(then, ", ");
    difference.data = transaction_of(seen);
    return difference;
  }

  Script apply(const Params& params, const Difference& change) const override {
    auto words = texts_of(params, "packages");
    words.insert(words.begin(), {patience(params), text(change)});
    return call("package_apply", words, kLimit);
  }
  Script verify(const Params&, const Difference& change) const override {
    return call("package_verify", {text(change)});
  }
  Script undo(const Params& params, const Difference&) const override {
    return call("package_undo", {patience(params)}, kLimit);
  }

 private:
  // Beyond every package manager that works at all: one that is ended half-way leaves more behind than one that hangs.
  static constexpr std::chrono::hours kLimit{2};

  static std::string patience(const Params& params) {
    return std::to_string(duration_of(params, "patience", std::chrono::minutes(10)).count());
  }
  static std::string text(const Difference& change) {
    return change.data.is_string() ? change.data.get<std::string>() : std::string();
  }
};

}  // namespace

std::unique_ptr<ActionKind> make_package_kind() { return std::make_unique<PackageKind>(); }

}  // namespace trueup
