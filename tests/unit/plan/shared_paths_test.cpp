#include "plan/shared_paths.hpp"

#include <fmt/format.h>

#include <map>

#include "plan/host_plan.hpp"
#include "support/catch.hpp"
#include "unit/derive/derive_cases.hpp"
#include "unit/plan/fake_kinds.hpp"

namespace trueup {
namespace {

Disk disk(std::string mount, std::string device, std::string fstype) {
  Disk made;
  made.mount = std::move(mount);
  made.device = std::move(device);
  made.fstype = std::move(fstype);
  return made;
}

Environment host_with(std::vector<Disk> disks) {
  Environment environment;
  HostInfo host;
  host.user = "root";
  environment.host = host;
  environment.containers = std::vector<Container>{};
  environment.disks = std::move(disks);
  return environment;
}

PlanDraft draft(const std::string& path, const std::string& more = "") {
  Assessment assessment;
  assessment.findings = {
      test::finding("c", "a.service",
                    {test::proposal("f", {{"aside", fmt::format(R"({{"path":"{}"{}}})", path, more)},
                                          {"service", R"({"unit":"a.service","state":"restarted"})"}})})};
  return draft_plan(assessment, {}, test::find_fake);
}

/// Of a host on which all is to be done.
HostPlan plan(const std::string& name, const PlanDraft& draft, const Environment& environment, SharedPlaces& places) {
  static const auto kKnowledge = test::shipped_knowledge();
  const std::vector<InspectedStep> inspected(draft.steps.size(), InspectedStep{"up", ""});
  auto made =
      make_host_plan(name, draft, inspected, {environment, kKnowledge}, places.done_before(draft, environment));
  places.note(name, made.done, draft, environment);
  return std::move(made.plan);
}

std::vector<std::string> kinds(const HostPlan& plan) {
  std::vector<std::string> names;
  for (const auto& step : plan.steps) names.push_back(step.kind);
  return names;
}

}  // namespace

TEST_CASE("a path on a server has one place, wherever it is mounted", "[unit][plan][shared]") {
  const auto here = host_with({disk("/", "/dev/vda", "ext4"), disk("/home", "nas:/export/home/", "nfs4"),
                               disk("/home/local", "/dev/vdb", "xfs"), disk("/mnt/all", "nas:/export", "nfs")});
  CHECK(shared_place(here, "/home/ml/.cache") == "nas:/export/home/ml/.cache");
  CHECK(shared_place(here, "/mnt/all/home/ml/.cache") == "nas:/export/home/ml/.cache");
  CHECK(shared_place(here, "/home") == "nas:/export/home");
  CHECK(shared_place(here, "/home/local/x").empty());
  CHECK(shared_place(here, "/homes/x").empty());
  CHECK(shared_place(host_with({}), "/home/x").empty());
  CHECK(shared_place(Environment{}, "/home/x").empty());
  CHECK(shared_place(host_with({disk("/", "nas:/root", "nfs")}), "/opt/x") == "nas:/root/opt/x");
}

TEST_CASE("what several hosts see on a server is done by the first, and each restarts its own",
          "[unit][plan][shared]") {
  const auto one = host_with({disk("/home", "nas:/home", "nfs4")});
  const auto two = host_with({disk("/data/home", "nas:/home", "nfs4")});
  const auto alone = host_with({disk("/home", "/dev/vda", "ext4")});
  SharedPlaces places;
  const auto first = plan("gpu1", draft("/home/ml/.cache/x"), one, places);
  const auto second = plan("gpu2", draft("/data/home/ml/.cache/x"), two, places);
  const auto third = plan("gpu3", draft("/home/ml/.cache/x"), alone, places);
  CHECK(kinds(first) == std::vector<std::string>{"service", "aside", "service"});
  CHECK(first.shared.empty());
  CHECK(kinds(second) == std::vector<std::string>{"service", "service"});
  CHECK(second.shared == std::vector<SharedStep>{{"aside", "/data/home/ml/.cache/x", "nas:/home/ml/.cache/x", "gpu1"}});
  CHECK(second.cures.size() == 1);
  CHECK(kinds(third) == kinds(first));
}

TEST_CASE("who wants something else at a place sees to it", "[unit][plan][shared]") {
  const auto host = host_with({disk("/home", "nas:/home", "nfs4")});
  SharedPlaces places;
  plan("gpu1", draft("/home/x"), host, places);
  CHECK(plan("gpu2", draft("/home/x", R"(,"keep":"1")"), host, places).shared.empty());
  CHECK(plan("gpu3", draft("/home/x"), host, places).shared.size() == 1);
}

TEST_CASE("what does not name its server is shared with nobody", "[unit][plan][shared]") {
  for (const auto& [device, fstype] : std::map<std::string, std::string>{
           {"share", "9p"}, {"mon:6789:/", "ceph"}, {"127.0.0.1:/", "nfs4"}, {"localhost:/x", "nfs"}})
    CHECK(shared_place(host_with({disk("/home", device, fstype)}), "/home/x").empty());
}

TEST_CASE("who does nothing at a place is nobody's first", "[unit][plan][shared]") {
  const auto host = host_with({disk("/home", "nas:/home", "nfs4")});
  SharedPlaces places;
  const auto steps = draft("/home/x");
  places.note("gpu1", {}, steps, host);
  CHECK(plan("gpu2", steps, host, places).shared.empty());
}

}  // namespace trueup
