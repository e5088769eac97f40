#include "trueup/inventory.hpp"

#include <nlohmann/json.hpp>

#include "support/catch.hpp"

using namespace trueup;

TEST_CASE("nothing configured is this machine over the local transport", "[unit][model][inventory]") {
  const auto inventory = local_inventory();
  REQUIRE(inventory.hosts.size() == 1);
  CHECK(inventory.hosts[0].name == "localhost");
  CHECK(inventory.hosts[0].transport == TransportKind::local);
  CHECK(select_hosts(inventory, "all")->size() == 1);
}

TEST_CASE("selection is quick with many hosts and many names", "[unit][model][inventory]") {
  Inventory inventory;
  std::string pattern;
  for (int i = 0; i < 20'000; ++i) {
    Host host;
    host.name = "gpu" + std::to_string(i);
    pattern += host.name + ",";
    inventory.hosts.push_back(std::move(host));
  }
  CHECK(select_hosts(inventory, pattern)->size() == 20'000);
  CHECK(select_hosts(inventory, "gpu[0-19999]:!gpu[1-19999]")->size() == 1);
}
