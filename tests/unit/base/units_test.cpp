#include "base/units.hpp"

#include "support/catch.hpp"

using namespace trueup;
using namespace std::chrono_literals;

TEST_CASE("durations and sizes take their units and refuse the rest", "[unit][base][units]") {
  CHECK(parse_duration("500ms") == 500ms);
  CHECK(parse_duration("5") == 5000ms);
  CHECK(parse_duration("2m") == 120'000ms);
  CHECK(parse_size("1MiB") == 1048576U);
  CHECK(parse_size("512") == 512U);
  for (const std::string bad : {"", "0", "0s", "-1s", "5 weeks", "s", "99999999999999999999", "1e3", "200000h"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_duration(bad).has_value());
  }
  CHECK_FALSE(parse_size("1MB").has_value());
  CHECK_FALSE(parse_size("99999999GiB").has_value());
}

TEST_CASE("durations and sizes read well", "[unit][base][units]") {
  CHECK(duration_text(200ms) == "200 ms");
  CHECK(duration_text(1500ms) == "1.5 s");
  CHECK(size_text(97'887ULL << 20U) == "95.6 GiB");
  CHECK(size_text(12) == "12 B");
}
