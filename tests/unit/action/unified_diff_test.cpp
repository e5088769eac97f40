#include "action/parts.hpp"
#include "support/catch.hpp"

namespace trueup {
namespace {

std::vector<std::string> numbers(int from, int to) {
  std::vector<std::string> lines;
  for (int i = from; i <= to; ++i) lines.push_back(std::to_string(i));
  return lines;
}

TEST_CASE("a diff shows what differs, with three lines around, as diff -u does", "[unit][action]") {
  auto from = numbers(1, 20), to = from;
  CHECK(unified_diff("a", from, "b", to).empty());
  to[9] = "ten";
  CHECK(unified_diff("a", from, "b", to) == "--- a\n+++ b\n@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n");
  to.erase(to.begin());
  CHECK(unified_diff("a", from, "b", to) ==
        "--- a\n+++ b\n@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n@@ -7,7 +6,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13\n");
}

TEST_CASE("a diff of a file that is new or goes", "[unit][action]") {
  CHECK(unified_diff("a", {}, "b", {"x", "y"}) == "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+x\n+y\n");
  CHECK(unified_diff("a", {"x"}, "b", {}) == "--- a\n+++ b\n@@ -1,1 +0,0 @@\n-x\n");
  CHECK(unified_diff("a", {"x"}, "b", {"x", "y"}) == "--- a\n+++ b\n@@ -1,1 +1,2 @@\n x\n+y\n");
}

TEST_CASE("a diff of long texts stays short", "[unit][action]") {
  const auto text = unified_diff("a", numbers(1, 5000), "b", numbers(10000, 20000));
  CHECK(std::count(text.begin(), text.end(), '\n') < 1010);
  CHECK(text.ends_with("... (more lines differ)\n"));
}

}  // namespace
}  // namespace trueup
