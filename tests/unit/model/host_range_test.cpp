#include "model/host_range.hpp"

#include "support/catch.hpp"

using namespace trueup;

namespace {

std::string names(std::string_view pattern) {
  const auto expanded = expand_host_range(pattern, 1000);
  if (!expanded) return "error: " + expanded.error().message;
  std::string text;
  for (const auto& name : *expanded) text += (text.empty() ? "" : " ") + name;
  return text;
}

}  // namespace

TEST_CASE("ranges give their names in order", "[unit][model][host_range]") {
  CHECK(names("plain") == "plain");
  CHECK(names("gpu[001:003]") == "gpu001 gpu002 gpu003");
  CHECK(names("gpu[001-003].lan") == "gpu001.lan gpu002.lan gpu003.lan");
  CHECK(names("gpu[8:11]") == "gpu8 gpu9 gpu10 gpu11");
  CHECK(names("gpu[:2]") == "gpu0 gpu1 gpu2");
  CHECK(names("gpu[01:10:4]") == "gpu01 gpu05 gpu09");
  CHECK(names("db-[a:c]") == "db-a db-b db-c");
  CHECK(names("db-[y:B]") == "db-y db-z db-A db-B");
  CHECK(names("r[1:2]n[a-b]") == "r1na r1nb r2na r2nb");
  CHECK(names("gpu[001-002,007]") == "gpu001 gpu002 gpu007");
}

TEST_CASE("ranges that mean nothing are refused with what is wrong", "[unit][model][host_range]") {
  CHECK(names("gpu[3:1]") == "error: range '[3:1]': begin lies behind end");
  CHECK(names("gpu[01:100]") ==
        "error: range '[01:100]': begin has leading zeros, so begin and end must have the same number of digits");
  CHECK(names("gpu[1:5:0]") == "error: range '[1:5:0]': the step must be a whole number, 1 or more");
  CHECK(names("gpu[a:5]") == "error: range '[a:5]': expected begin:end, such as [001:100] or [a:f]");
  CHECK(names("gpu[abc]") == "error: range '[abc]': expected begin:end, such as [001:100] or [a:f]");
  CHECK(names("gpu[1:2") == "error: '[' without ']'");
  CHECK(names("gpu1]") == "error: ']' without '['");
  CHECK(names("gpu[1:99999999999999999999]") == "error: range '[1:99999999999999999999]': the number is too large");
}

TEST_CASE("ranges cannot grow beyond their bound", "[unit][model][host_range]") {
  CHECK(expand_host_range("a[1:1000]", 1000)->size() == 1000);
  CHECK(names("a[0:1000]") == "error: more than 1000 names");
  CHECK(names("a[1:100][1:100]") == "error: more than 1000 names");
  CHECK(names("a[1:500,1:500,1]") == "error: more than 1000 names");
  CHECK(names("a[0:18446744073709551615]") == "error: more than 1000 names");
  CHECK(names(std::string(2000, 'a')) == "error: a name longer than 1000 characters");
}

TEST_CASE("separators inside brackets do not split", "[unit][model][host_range]") {
  CHECK(split_outside_brackets("a[1:2]:b", ':') == std::vector<std::string_view>{"a[1:2]", "b"});
  CHECK(split_outside_brackets("a[1,2],,", ',') == std::vector<std::string_view>{"a[1,2]", "", ""});
}
