#include "derive/cache_places.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/text.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"

namespace trueup {
namespace {

// tests/data/cache_places/cases.txt: records of K=V as the probes print consumers, and `> KIND PATH` for each cache.
struct Case {
  std::string name;
  Consumer consumer;
  std::multiset<std::string> places;
};

std::vector<Case> read_cases() {
  std::vector<Case> cases;
  bool open = false;
  const auto text = test::read_file(std::filesystem::path(TRUEUP_TEST_DATA) / "cache_places" / "cases.txt");
  for (const auto line : split(text, '\n')) {
    if (line.empty() || line.starts_with('#')) {
      open = false;
      continue;
    }
    if (!std::exchange(open, true)) cases.emplace_back();
    auto& c = cases.back();
    const auto equals = line.find('=');
    const auto key = line.substr(0, equals);
    if (line.starts_with("> "))
      c.places.emplace(line.substr(2));
    else if (key == "what")
      c.name = line.substr(equals + 1);
    else if (key == "home")
      c.consumer.home = line.substr(equals + 1);
    else if (key == "user")
      c.consumer.user = line.substr(equals + 1);
    else
      c.consumer.env[std::string(key.substr(std::string_view("env.").size()))] = line.substr(equals + 1);
  }
  return cases;
}

}  // namespace

TEST_CASE("caches are looked for where the probes look for them", "[unit][derive][caches]") {
  const auto cases = read_cases();
  CHECK(cases.size() == 6);
  for (const auto& c : cases) {
    std::multiset<std::string> places;
    for (const auto* kind : {"flashinfer", "torch_extensions", "triton", "inductor", "deep_gemm", "tvm_ffi", "tilelang",
                             "vllm", "compute"})
      for (const auto& place : cache_places(kind, c.consumer)) places.insert(fmt::format("{} {}", kind, place));
    INFO(c.name << ":\n" << fmt::format("{}", fmt::join(places, "\n")));
    CHECK(places == c.places);
  }
}

TEST_CASE("a cache lies in its place by whole names", "[unit][derive][caches]") {
  CHECK(lies_in("/c/triton", "/c/triton"));
  CHECK(lies_in("/c/triton/x", "/c/triton"));
  CHECK_FALSE(lies_in("/c/triton2", "/c/triton"));
  CHECK(place_of("/b/x", {"/a", "/b"}) == "/b");
  CHECK(place_of("/c", {"/a", "/b"}).empty());
}

}  // namespace trueup
