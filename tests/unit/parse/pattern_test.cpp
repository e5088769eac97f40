#include "parse/pattern.hpp"

#include <fmt/format.h>

#include "support/catch.hpp"

using trueup::parse::Pattern;

namespace {

// The groups of the leftmost match as `name=value`, `found` where there are none, `no` without a match.
std::string found(std::string_view pattern, std::string_view text) {
  const auto compiled = Pattern::compile(pattern);
  if (!compiled) return compiled.error().message;
  const auto match = compiled->search(text);
  if (!match.found) return "no";
  if (match.groups.empty()) return "found";
  std::string all;
  for (std::size_t i = 0; i < match.groups.size(); ++i)
    all += fmt::format("{}{}={}", i > 0 ? " " : "", compiled->names()[i],
                       match.groups[i].data() == nullptr ? "-" : match.groups[i]);
  return all;
}

}  // namespace

TEST_CASE("patterns match as Perl's do", "[unit][parse][pattern]") {
  CHECK(found("abc", "xabcx") == "found");
  CHECK(found("^abc$", "xabcx") == "no");
  CHECK(found("", "") == "found");
  CHECK(found("a|b|", "c") == "found");
  CHECK(found("(?<x>a|ab)(?<y>c|bcd)", "abcd") == "x=a y=bcd");
  CHECK(found("(?<x>a*)(?<y>a*)", "aaa") == "x=aaa y=");
  CHECK(found("(?<x>a*?)(?<y>a*)", "aaa") == "x= y=aaa");
  CHECK(found("(?<x>a+?)b?(?<y>.*)", "aab") == "x=a y=ab");
  CHECK(found("x(?<n>\\d{2,3})", "x12345") == "n=123");
  CHECK(found("x(?<n>\\d{2,3}?)", "x12345") == "n=12");
  CHECK(found("^(?<n>\\d{2})$", "123") == "no");
  CHECK(found("^(?<n>(?:ab){2,})c", "abababc") == "n=ababab");
  CHECK(found("(?<a>x)|(?<b>y)", "y") == "a=- b=y");
  CHECK(found("(?<w>[^ =]+)=(?<v>[\\w.-]+)", "  key=v-1.2 ") == "w=key v=v-1.2");
  CHECK(found("[]a]+", "]") == "found");
  CHECK(found("[a-c\\d]+$", "zb2") == "found");
  CHECK(found("\\bcat\\b", "a cat.") == "found");
  CHECK(found("\\bcat\\b", "concat") == "no");
  CHECK(found("\\Bcat", "concat") == "found");
  CHECK(found("(?<x>(a|b)*)c", "ababc") == "x=abab");
  CHECK(found("(?<x>a)*", "aaa") == "x=a");
  CHECK(found("(a*)*b", "aaab") == "found");
  CHECK(found("\\[(?<t>[^\\]]*)\\]", "x [a b] y") == "t=a b");
  CHECK(found("NVRM version: (?<words>.*?) +(?<version>\\d+(\\.\\d+)+) ",
              "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release") ==
        "words=NVIDIA UNIX Open Kernel Module for x86_64 version=580.95.05");
}

TEST_CASE("patterns that are wrong or need backtracking are told so", "[unit][parse][pattern]") {
  CHECK(found("a)", "") == "unexpected ')' at character 2 of 'a)'");
  CHECK(found("(a", "") == "expected ')' at character 3 of '(a'");
  CHECK(found("[a", "") == "expected ']' at character 3 of '[a'");
  CHECK(found("*a", "") == "nothing to repeat at character 1 of '*a'");
  CHECK(found("a**", "") == "nothing to repeat at character 3 of 'a**'");
  CHECK(found("a{2,1}", "").substr(0, 16) == "expected a count");
  CHECK(found("(a)\\1", "") == "'\\1' is not supported at character 5 of '(a)\\1'");
  CHECK(found("(?=a)", "") == "only (?:...) and (?<name>...) are supported at character 3 of '(?=a)'");
  CHECK(found("(?<a b>x)", "").substr(0, 15) == "expected a name");
  CHECK(found("(?<a>x)(?<a>y)", "").substr(0, 18) == "a second group 'a'");
  CHECK(found("a\\", "").substr(0, 11) == "a backslash");
  CHECK(found("[z-a]", "").substr(0, 11) == "not a range");
  CHECK(found("((a{1000}){1000}){1000}", "").substr(0, 9) == "too large");
  CHECK(found(std::string(1000, '('), "").substr(0, 15) == "nested too deep");
}

// Each of these takes a backtracking matcher minutes or for ever.
TEST_CASE("patterns take time proportional to the text", "[unit][parse][pattern]") {
  CHECK(found("^(x+x+)+y$", std::string(100'000, 'x')) == "no");
  CHECK(found("(a?){50}a{50}", std::string(50, 'a')) == "found");
  CHECK(found("version: (?<w>.*?) +(?<v>\\d+(\\.\\d+)+) ", "version: " + std::string(100'000, ' ')) == "no");
}
