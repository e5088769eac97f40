#include "base/text.hpp"

#include "support/catch.hpp"

using namespace trueup;

TEST_CASE("split_lines keeps a last line without an end and drops line ends", "[unit][base][text]") {
  CHECK(split_lines("") == std::vector<std::string_view>{});
  CHECK(split_lines("a\r\n\nb") == std::vector<std::string_view>{"a", "", "b"});
  CHECK(split_lines("a\n") == std::vector<std::string_view>{"a"});
}

TEST_CASE("nearest finds swaps and slips, and nothing where nothing is near", "[unit][base][text]") {
  const std::vector<std::string> names = {"gpu-nodes", "storage", "all"};
  CHECK(nearest("gpu-nodse", names) == "gpu-nodes");
  CHECK(nearest("GPU-Nodes", names) == "gpu-nodes");
  CHECK_FALSE(nearest("login", names).has_value());
  CHECK_FALSE(nearest(std::string(100'000, 'x'), names).has_value());
  CHECK(did_you_mean("storge", names) == "; did you mean 'storage'?");
}

TEST_CASE("shell_quote gives one word", "[unit][base][text]") {
  CHECK(shell_quote("/usr/bin/x-1") == "/usr/bin/x-1");
  CHECK(shell_quote("") == "''");
  CHECK(shell_quote("it's; rm -rf /") == "'it'\\''s; rm -rf /'");
  CHECK(shell_quote("~") == "'~'");
}

TEST_CASE("printable shows what a terminal would act on", "[unit][base][text]") {
  CHECK(printable("a\x1b[31m") == "a\\x1b[31m");
  CHECK(printable("\xc2\x9b") == "\\x9b");
  CHECK(printable("\xe2\x80\xae!") == "\\u202e!");
  CHECK(printable("caf\xc3\xa9\n") == "caf\xc3\xa9\\n");
  CHECK(printable("\xff\xc0\x80") == "\\xff\\xc0\\x80");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(printable("\xef\xbf\xbe|\xef\xbf\xbf|\xf0\x9f\xbf\xbf") == "\\ufffe|\\uffff|\\u1ffff");
}

TEST_CASE("shorten counts characters, not bytes", "[unit][base][text]") {
  CHECK(shorten("caf\xc3\xa9", 4) == "caf\xc3\xa9");
  CHECK(shorten("caf\xc3\xa9s", 4) == "caf\xe2\x80\xa6");
}

TEST_CASE("glob_match answers hostile patterns in time", "[unit][base][text]") {
  CHECK(glob_match("gpu*", "gpu001"));
  CHECK(glob_match("gpu[0-9]?", "gpu1x"));
  CHECK_FALSE(glob_match("gpu[!0-9]", "gpu1"));
  CHECK(glob_match("*", ""));
  CHECK_FALSE(glob_match("a", ""));
  CHECK(glob_match("[", "["));
  std::string stars;
  for (int i = 0; i < 2000; ++i) stars += "*a";
  CHECK_FALSE(glob_match(stars, std::string(1999, 'a')));
}

TEST_CASE("valid_utf8 replaces what JSON cannot hold, byte by byte", "[unit][base][text]") {
  using trueup::valid_utf8;
  CHECK(valid_utf8("plain, gr\xc3\xbcn\n") == "plain, gr\xc3\xbcn\n");
  CHECK(valid_utf8("a\xff\xc3") == "a\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(valid_utf8(std::string_view("a\0b", 3)) == "a\xef\xbf\xbd" "b");
  CHECK(valid_utf8("\xed\xa0\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");  // a surrogate
}
