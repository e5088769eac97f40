#pragma once

// Debian 12 has Catch2 2.13, Debian 13 has 3.
#ifdef TRUEUP_CATCH2_V2
#include <catch2/catch.hpp>
#else
#include <catch2/catch_all.hpp>
using Catch::Matchers::ContainsSubstring;
#endif

#ifdef TRUEUP_CATCH2_V2
inline auto ContainsSubstring(const std::string& part) { return Catch::Matchers::Contains(part); }
#endif
