#include "transport/retry.hpp"

#include "support/catch.hpp"

using namespace trueup;
using namespace std::chrono_literals;

TEST_CASE("only a dropped connection is tried again, twice, later each time", "[unit][transport][retry]") {
  CHECK_FALSE(next_retry(1, ConnectFailure::lasting, 0));
  CHECK(next_retry(1, ConnectFailure::dropped, 0) == 500ms);
  CHECK(next_retry(2, ConnectFailure::dropped, 0) == 1000ms);
  CHECK_FALSE(next_retry(3, ConnectFailure::dropped, 0));
}

TEST_CASE("hosts come back spread out", "[unit][transport][retry]") {
  CHECK(next_retry(1, ConnectFailure::dropped, 499) == 999ms);
  CHECK(next_retry(1, ConnectFailure::dropped, 500) == 500ms);
}
