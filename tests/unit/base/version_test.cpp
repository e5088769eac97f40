#include "trueup/version.hpp"

#include "support/catch.hpp"

using trueup::Version;

TEST_CASE("versions order as PEP 440 says", "[unit][base][version]") {
  const std::vector<std::string> ascending = {"0.4.0.dev1",   "0.4.0rc3", "0.4.0rc4", "0.4.0",        "0.4.0.post1",
                                              "0.6.6.dev20260323", "0.6.6",    "0.6.7",    "0.6.7.post3", "0.6.11",
                                              "12.8",         "12.8.93",  "12.10",    "580.95.05"};
  for (std::size_t i = 0; i < ascending.size(); ++i)
    for (std::size_t j = 0; j < ascending.size(); ++j) {
      CAPTURE(ascending[i], ascending[j]);
      CHECK((Version::of(ascending[i]) < Version::of(ascending[j])) == (i < j));
    }
}

TEST_CASE("missing numbers are zero and the local part does not order", "[unit][base][version]") {
  CHECK(Version::of("12") == Version::of("12.0.0"));
  CHECK(Version::of("2.9.1+cu130") == Version::of("2.9.1"));
  CHECK(Version::of("2.9.1+cu130").local() == "cu130");
  CHECK(Version::of("12.8.93").major_minor() == Version::of("12.8"));
  CHECK(Version::of("0.6.6.dev20260323").dev() == 20260323);
}

TEST_CASE("what is no version is refused with what was expected", "[unit][base][version]") {
  for (const std::string bad : {"", "N/A", "12.", "[N/A]", "1..2", "99999999999999999999", "-1", "1.2x"}) {
    CAPTURE(bad);
    const auto version = Version::parse(bad);
    REQUIRE_FALSE(version.has_value());
    CHECK_THAT(version.error().message, ContainsSubstring("expected a version"));
  }
}
