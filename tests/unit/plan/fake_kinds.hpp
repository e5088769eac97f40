#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "action/action.hpp"
#include "plan/draft.hpp"

namespace trueup::test {

/// An action kind as data. What it inspects is `as wanted`, or anything else: then it is needed.
struct FakeKind : ActionKind {
  std::string kind;
  std::string subject;  ///< the parameter that is its object
  int order = 0;
  std::vector<ParamSpec> specs;
  std::function<void(const Params&, const Inspected&, Difference&)> more = {};
  std::function<std::vector<Params>(const Params&)> split = {};

  std::string_view name() const override { return kind; }
  std::span<const ParamSpec> params() const override { return specs; }
  Result<void> check(const Params& given) const override {
    if (given.value(subject, "") == "bad") return fail(ErrorKind::malformed, subject + ": 'bad' is bad");
    return {};
  }
  std::string object(const Params& given) const override {
    return subject + " " + given.at(subject).get<std::string>();
  }
  std::string path(const Params& given) const override {
    return subject == "path" ? given.at(subject).get<std::string>() : "";
  }
  int rank(const Params& given) const override { return order + given.value("later", 0); }
  std::vector<Params> steps(const Params& given) const override { return split ? split(given) : std::vector{given}; }
  Script inspect(const Params& given) const override { return {"inspect " + object(given), std::chrono::seconds(5)}; }
  Result<Difference> diff(const Params& given, const Inspected& seen) const override {
    if (seen == "unreadable") return fail(ErrorKind::malformed, "cannot be read");
    Difference change;
    change.needed = seen != "as wanted";
    change.current = seen;
    change.wanted = given.dump();
    if (more) more(given, seen, change);
    return change;
  }
  Script apply(const Params&, const Difference&) const override { return {}; }
  Script verify(const Params&, const Difference&) const override { return {}; }
  Script undo(const Params&, const Difference&) const override { return {}; }
};

/// `toolkit`, `pin`, `aside` and `service`, as the real ones are ordered, and with what they change in the model.
inline const std::vector<FakeKind>& fake_kinds() {
  static const auto kKinds = [] {
    std::vector<FakeKind> kinds(4);
    kinds[0].kind = "toolkit", kinds[0].subject = "version", kinds[0].order = 10;
    kinds[0].specs = {{"version", ParamType::text, true, "such as 13.0"}};
    kinds[0].more = [](const Params& given, const Inspected&, Difference& change) {
      Toolkit toolkit;
      toolkit.path = "/usr/local/cuda-" + given.at("version").get<std::string>();
      toolkit.kind = "local";
      toolkit.version = Version::of(given.at("version").get<std::string>());
      toolkit.version_source = "nvcc";
      toolkit.has_nvcc = toolkit.nvcc_executable = true;
      change.predicted = {AddToolkit{toolkit}};
      change.download_bytes = 2'000'000'000;
      change.disk_bytes = 4'000'000'000;
    };
    kinds[1].kind = "pin", kinds[1].subject = "unit", kinds[1].order = 60;
    kinds[1].specs = {{"unit", ParamType::text, true, "the unit"},
                      {"environment", ParamType::variables, true, "what it gets"}};
    kinds[1].more = [](const Params& given, const Inspected&, Difference& change) {
      for (const auto& [name, value] : given.at("environment").items())
        change.predicted.push_back(
            SetVariable{"unit " + given.at("unit").get<std::string>(), name, value.get<std::string>()});
      change.diff = "+Environment\n";
    };
    kinds[2].kind = "aside", kinds[2].subject = "path", kinds[2].order = 70;
    kinds[2].specs = {{"path", ParamType::text, true, "the directory"}};
    kinds[2].more = [](const Params& given, const Inspected&, Difference& change) {
      change.predicted = {RemoveCache{given.at("path").get<std::string>()}};
    };
    kinds[3].kind = "service", kinds[3].subject = "unit", kinds[3].order = 50;
    kinds[3].specs = {{"unit", ParamType::text, true, "the unit"},
                      {"state", ParamType::text, true, "what it shall be", {"started", "stopped", "restarted"}},
                      {"health", ParamType::text},
                      {"restart", ParamType::boolean},
                      {"later", ParamType::integer}};
    kinds[3].split = [](const Params& given) {
      if (given.at("state") != "restarted") return std::vector{given};
      auto stop = given, start = given;
      stop["state"] = "stopped", start["state"] = "started", start["later"] = 40;
      stop["restart"] = start["restart"] = true;
      return std::vector{stop, start};
    };
    kinds[3].more = [](const Params& given, const Inspected& seen, Difference& change) {
      const auto unit = given.at("unit").get<std::string>();
      if (seen == "refused") change.refused = {unit + " is masked"};
      if (given.at("state") == "started") change.predicted = {Restart{unit}};
      change.restarts = {unit};
    };
    return kinds;
  }();
  return kKinds;
}

inline const ActionKind* find_fake(std::string_view name) {
  for (const auto& kind : fake_kinds())
    if (kind.kind == name) return &kind;
  return nullptr;
}

inline Proposal proposal(std::string fix, std::vector<ProposedStep> steps) {
  return {std::move(fix), "title", Proposal::Fit::yes, "", std::move(steps)};
}

inline Finding finding(std::string check, std::string about, std::vector<Proposal> proposals = {}) {
  Finding made;
  made.check = std::move(check);
  made.about = std::move(about);
  made.title = "title of " + made.check;
  made.proposals = std::move(proposals);
  return made;
}

inline Finding effect(std::string check, std::string about, std::vector<std::string> causes) {
  auto made = finding(std::move(check), std::move(about));
  made.root = false;
  made.caused_by = std::move(causes);
  return made;
}

}  // namespace trueup::test
