#include "base/base64.hpp"

#include "support/catch.hpp"

using namespace trueup;

TEST_CASE("base64 goes there and back", "[unit][base][base64]") {
  // RFC 4648, section 10.
  CHECK(base64_encode("") == "");
  CHECK(base64_encode("f") == "Zg==");
  CHECK(base64_encode("fo") == "Zm8=");
  CHECK(base64_encode("foobar") == "Zm9vYmFy");
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    CHECK(base64_decode(base64_encode(bytes)) == bytes);
    bytes += static_cast<char>(byte);
  }
  CHECK(base64_decode("Zg") == "f");
  CHECK_FALSE(base64_decode("Zm9v!"));
  CHECK_FALSE(base64_decode("Zm9vY"));
  CHECK_FALSE(base64_decode("Z g="));
}
