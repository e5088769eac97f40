#include "run/batches.hpp"

#include <random>

#include "support/catch.hpp"

using namespace trueup;

namespace {

using Hosts = std::vector<std::size_t>;
constexpr auto waiting = HostProgress::waiting, done = HostProgress::done, untouched = HostProgress::untouched,
               put_back = HostProgress::put_back, away = HostProgress::away;

}  // namespace

TEST_CASE("batches follow canary, size and share", "[unit][run][batches]") {
  const std::vector<HostProgress> all(10, waiting);
  CHECK(next_batch({}, all, 0).hosts.size() == 10);
  BatchPolicy policy;
  policy.canary = 1;
  policy.percent = 25;
  CHECK(next_batch(policy, all, 0).hosts == Hosts{0});
  auto now = all;
  now[0] = done;
  CHECK(next_batch(policy, now, 1).hosts == Hosts{1, 2, 3});
  // A canary that was refused has shown nothing: the next one is the canary.
  now[0] = untouched;
  CHECK(next_batch(policy, now, 0).hosts == Hosts{1});
  policy.size = 4;
  CHECK(next_batch(policy, now, 1).hosts == Hosts{1, 2, 3, 4});
  CHECK(next_batch(policy, {done, done}, 1).hosts.empty());
  CHECK(next_batch(policy, {done, done}, 1).stop.empty());
}

TEST_CASE("a host waits for the one that has to come before it", "[unit][run][batches]") {
  BatchPolicy policy;
  policy.order = {{2, 0}, {3, 0}};
  CHECK(next_batch(policy, {waiting, waiting, waiting, waiting}, 0).hosts == Hosts{0, 1});
  CHECK(next_batch(policy, {done, done, waiting, waiting}, 1).hosts == Hosts{2, 3});
  policy.groups = {{"pair", {0, 2}, {}, true}};
  const auto stuck = next_batch(policy, {waiting, done, waiting, done}, 1);
  CHECK(stuck.hosts.empty());
  CHECK(stuck.stop.find("group pair is changed as a whole, and a host of it comes after another") != std::string::npos);
}

TEST_CASE("failures stop the rest", "[unit][run][batches]") {
  BatchPolicy policy;
  policy.canary = 1;
  policy.max_fail = 5;
  CHECK(next_batch(policy, {put_back, waiting, waiting}, 1).stop == "1 of the canary hosts failed");
  policy.canary = 0;
  policy.max_fail = 1;
  policy.size = 1;
  CHECK(next_batch(policy, {put_back, waiting, waiting}, 1).hosts == Hosts{1});
  CHECK(next_batch(policy, {put_back, away, waiting}, 2).stop == "2 failed, and --max-fail allows 1");
  CHECK(next_batch(policy, {put_back, untouched, waiting}, 2).hosts == Hosts{2});
}

TEST_CASE("groups bound who is away at once", "[unit][run][batches]") {
  BatchPolicy policy;
  policy.groups = {{"replicas", {0, 1, 2, 3}, 2, false}};
  CHECK(next_batch(policy, {waiting, waiting, waiting, waiting, waiting}, 0).hosts == Hosts{0, 1, 4});
  policy.max_fail = 9;
  CHECK(next_batch(policy, {away, waiting, waiting, waiting, done}, 1).hosts == Hosts{1});
  const auto full = next_batch(policy, {away, away, waiting, waiting, done}, 1);
  CHECK(full.hosts.empty());
  CHECK(full.stop.find("group replicas lets 2") != std::string::npos);
  // Hosts that serve together go together, and are no batch with others beyond its size.
  policy.groups = {{"pair", {1, 3}, {}, true}};
  policy.size = 1;
  CHECK(next_batch(policy, {waiting, waiting, waiting, waiting}, 0).hosts == Hosts{0});
  CHECK(next_batch(policy, {done, waiting, waiting, waiting}, 1).hosts == Hosts{1, 3});
}

TEST_CASE("whatever the policy, batches end and keep to it", "[unit][run][batches][property]") {
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    const std::size_t count = 1 + random() % 12;
    BatchPolicy policy;
    policy.canary = random() % 3;
    policy.size = random() % 4;
    policy.percent = 1 + random() % 100;
    policy.max_fail = random() % 4;
    for (std::size_t i = 0; i < random() % 3; ++i) {
      GroupRule group{"g", {}, {}, random() % 3 == 0};
      for (std::size_t host = 0; host < count; ++host)
        if (random() % 2) group.hosts.push_back(host);
      if (random() % 2) group.max_unavailable = random() % 4;
      policy.groups.push_back(group);
    }
    std::vector<HostProgress> hosts(count, waiting);
    std::size_t batches = 0;
    for (;;) {
      const auto batch = next_batch(policy, hosts, batches);
      if (batch.hosts.empty()) {
        CHECK((!batch.stop.empty() || std::count(hosts.begin(), hosts.end(), waiting) == 0));
        break;
      }
      for (const auto& group : policy.groups) {
        std::size_t gone = 0, members = 0, left = 0;
        for (const auto host : group.hosts) {
          const bool in = std::find(batch.hosts.begin(), batch.hosts.end(), host) != batch.hosts.end();
          gone += in || hosts[host] == away;
          members += in;
          left += !in && hosts[host] == waiting;
        }
        if (group.max_unavailable && members > 0) CHECK(gone <= *group.max_unavailable);
        if (group.atomic && members > 0) CHECK(left == 0);
      }
      for (const auto host : batch.hosts) {
        CHECK(hosts[host] == waiting);
        hosts[host] = random() % 4 == 0 ? (random() % 2 ? away : put_back) : done;
      }
      ++batches;
    }
  }
}
