#include "expr/jq_text.hpp"

#include <string>

#include "support/catch.hpp"

using namespace trueup;

namespace {

std::string problems(std::string_view text) {
  std::string all;
  for (const auto& [offset, message] : tokenize_jq(text).problems)
    all += (all.empty() ? "" : " | ") + std::to_string(offset) + ": " + message;
  return all;
}

std::string tokens(std::string_view text) {
  std::string all;
  for (const auto& token : tokenize_jq(text).tokens) all += (all.empty() ? "" : " ") + std::string(token.text);
  return all;
}

}  // namespace

TEST_CASE("names that reach the controller are refused wherever they are code", "[unit][expr][jq_text]") {
  CHECK(problems("$ENV.PATH") == "0: '$ENV' is not for checks: it would read trueup's own environment");
  CHECK(problems("$  ENV") == "0: '$ENV' is not for checks: it would read trueup's own environment");
  CHECK(problems("\"a\\( $ENV )\"") == "5: '$ENV' is not for checks: it would read trueup's own environment");
  CHECK(problems("\"\\(\"\\(env)\")\"") == "6: 'env' is not for checks: it would read trueup's own environment");
  CHECK(problems("import \"a\" as a; .") == "0: 'import' is not for checks: a check loads no files");
  CHECK(problems("include \"a\"; .") == "0: 'include' is not for checks: a check loads no files");
  CHECK(problems("[inputs] | input") == "1: 'inputs' is not for checks: a check sees nothing but the facts | "
                                        "11: 'input' is not for checks: a check sees nothing but the facts");
  CHECK(problems("{env}") == "1: 'env' is not for checks: it would read trueup's own environment");
  CHECK(problems("{a: env}") == "4: 'env' is not for checks: it would read trueup's own environment");
  CHECK(problems(".[env:1]") == "2: 'env' is not for checks: it would read trueup's own environment");
  CHECK(problems("a::b") == "0: a check loads no modules");
  CHECK(problems("now - 5") == "0: 'now' is not for checks: ages count by the host's clock: use age(TIME)");
}

TEST_CASE("the same words as text, fields and keys are fine", "[unit][expr][jq_text]") {
  for (const auto* text :
       {"\"import $ENV input\"", ".env.input", ".services[].import", "{input: .x, env: 1}", "# import\n1", ".[\"env\"]",
        "$environment", "envoy", "\"\\\"\" + \"\\\\\"", "\"a\\(.b + \"c\\(.d)\")e\""})
    CHECK(problems(text) == "");
}

TEST_CASE("brackets and strings must close", "[unit][expr][jq_text]") {
  CHECK(problems("(.a") == "0: this bracket or quote is never closed");
  CHECK(problems(".a)") == "2: ')' closes nothing");
  CHECK(problems("[(.a])") == "4: ']' closes nothing | 0: this bracket or quote is never closed | "
                              "1: this bracket or quote is never closed");
  CHECK(problems("\"abc") == "0: this string has no end");
  CHECK(problems("\"a\\(.b") == "0: this bracket or quote is never closed | 2: this bracket or quote is never closed");
  CHECK(problems("1 & 2") == "2: '&' means nothing in jq");
  CHECK(problems(std::string(101, '(')) .find("100: nested deeper than 100 brackets") == 0);
  CHECK(problems(std::string(20'000, ' ')) == "0: longer than 16384 bytes");
}

TEST_CASE("tokens are jq's", "[unit][expr][jq_text]") {
  CHECK(tokens(".a.b[0]|.\"c\"//1.5e-3!=.d?//@base64") == ".a .b [ 0 ] | . c // 1.5e-3 != .d ?// @base64");
  CHECK(tokens("\"x\\(.a)y\"") == "\" \\( .a ) \"");
  CHECK(tokens("..|$x") == ".. | $x");
  CHECK(tokenize_jq("a # b\n+ c").code == "a    \n+ c");
}

TEST_CASE("any bytes give tokens or problems", "[unit][expr][jq_text]") {
  const std::string alphabet = "\"\\()[]{}$.#\n a1|:;,?/=@\xff\xc3";
  unsigned state = 1;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) text += alphabet[((state = state * 1664525U + 1013904223U) >> 16U) % alphabet.size()];
    const auto result = tokenize_jq(text);
    REQUIRE(result.code.size() == text.size());
    if (!result.problems.empty()) continue;
    for (std::size_t i = 0; i < result.tokens.size(); ++i)
      if (result.tokens[i].kind == JqToken::Kind::open) REQUIRE(result.tokens[result.tokens[i].partner].partner == i);
  }
}
