#include "expr/template.hpp"

#include "support/catch.hpp"

using namespace trueup;

namespace {

std::string parts(const std::string& text) {
  const auto split = split_template({text, {"p.yaml", 3, 10}});
  if (!split) return to_string(split.error());
  std::string all;
  for (const auto& part : *split)
    all += (part.is_expression ? "<" : "[") + part.text + (part.is_expression ? ">" : "]");
  return all;
}

}  // namespace

TEST_CASE("a template is split at its braces, not at those of jq", "[unit][expr][template]") {
  CHECK(parts("") == "");
  CHECK(parts("plain } text {") == "[plain } text {]");
  CHECK(parts("a {{ .b }} c {{.d}}") == "[a ]< .b >[ c ]<.d>");
  CHECK(parts("{{ {a: {b: 1}} | keys[0] }}") == "< {a: {b: 1}} | keys[0] >");
  CHECK(parts("{{ \"}}\" }}x") == "< \"}}\" >[x]");
  CHECK(parts("{{ \"\\({a: {}})\" }}") == "< \"\\({a: {}})\" >");
}

TEST_CASE("a template that does not end is named with its place", "[unit][expr][template]") {
  CHECK(parts("one\ntwo {{ .a") ==
        "p.yaml:4:14: '{{' has no '}}' that ends it (brackets and quotes must be closed before)");
  CHECK(parts("{{ \"}}") == "p.yaml:3:10: '{{' has no '}}' that ends it (brackets and quotes must be closed before)");
  CHECK(parts("x{{ }}") == "p.yaml:3:11: nothing between '{{' and '}}'");
}
