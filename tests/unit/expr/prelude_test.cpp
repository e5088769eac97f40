#include "expr/prelude.hpp"

#include <nlohmann/json.hpp>
#include <random>

#include "expr/jq.hpp"
#include "support/catch.hpp"
#include "trueup/version.hpp"

using namespace trueup;
using nlohmann::json;

namespace {

// All outputs of an expression over `input`, or its error. What is no object stands in one, as facts do.
json evaluate(const std::string& expression, const json& input) {
  const auto facts = input.is_object() ? input : json{{"input", input}};
  std::vector<JqProgram::Complaint> complaints;
  const auto code = ".facts as $facts | " + std::string(facts_prelude()) + "$facts | " +
                    (input.is_object() ? "" : ".input | ") + "(" + expression + "\n)";
  const auto program = JqProgram::compile(prelude(code) + code, complaints);
  for (const auto& complaint : complaints) UNSCOPED_INFO(complaint.message);
  REQUIRE(program);
  const auto value = JqValue::parse(facts.dump());
  REQUIRE(value.has_value());
  json outputs = json::array();
  const auto ran = program->run({}, *value, [&](std::string_view output) { outputs.push_back(json::parse(output)); });
  if (!ran) return ran.error().message;
  return outputs.size() == 1 ? outputs.front() : outputs;
}

}  // namespace

TEST_CASE("jq orders versions as Version does", "[unit][expr][prelude]") {
  std::mt19937 random(20261130);
  const auto pick = [&](std::initializer_list<const char*> from) {
    return std::string(*(from.begin() + std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(random)));
  };
  json pairs = json::array();
  json texts = json::array();
  for (int i = 0; i < 3000; ++i) {
    const auto version = [&] {
      auto text = pick({"", "", "", "v", " "}) + pick({"0", "1", "12", "12", "00", ""});
      for (int n = std::uniform_int_distribution<int>(0, 2)(random); n > 0; --n)
        text += pick({".0", ".8", ".10", ".08", "."});
      text += pick({"", "", "", "a1", "b2", "rc1", "rc.2", "-c1", ".alpha", "_beta-3", "pre1", "preview", ".a.1", "x"});
      text += pick({"", "", "", ".post1", "post", "-post-2", ".post."}) +
              pick({"", "", "", ".dev1", "dev", ".dev20260323"});
      return text + pick({"", "", "+cu130", "+cu128", "+", "  ", "\n"});
    };
    pairs.push_back({version(), version()});
    texts.push_back(pairs.back()[0]);
  }
  const auto readable = evaluate("[.[] | (try (_ver | true) catch false)]", texts);
  const auto orders = evaluate(
      "[.[] | .[1] as $b | .[0] | try [ver_lt($b), ver_le($b), ver_eq($b), ver_ge($b), ver_gt($b)] catch null]", pairs);
  REQUIRE(orders.size() == pairs.size());
  int compared = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    CAPTURE(pairs[i].dump());
    const auto a = Version::parse(pairs[i][0].get<std::string>());
    const auto b = Version::parse(pairs[i][1].get<std::string>());
    REQUIRE(readable[i] == a.has_value());
    REQUIRE(orders[i].is_null() == !(a && b));
    if (!a || !b) continue;
    ++compared;
    REQUIRE(orders[i] == json({*a < *b, *a <= *b, *a == *b, *a >= *b, *a > *b}));
  }
  CHECK(compared > 500);
}

TEST_CASE("a version that is absent is unknown, one that is none is an error", "[unit][expr][prelude]") {
  CHECK(evaluate("null | ver_ge(\"12.9\")", nullptr) == nullptr);
  CHECK(evaluate("\"12\" | ver_ge(null)", nullptr) == nullptr);
  const json bad = "expected a version such as 12.8 or 0.6.7.post3, got \"junk\"";
  CHECK(evaluate("\"12.9\" | ver_ge(\"junk\")", nullptr) == bad);
  CHECK(evaluate("\"junk\" | ver_ge(\"12.9\")", nullptr) == bad);
  CHECK(evaluate("12.9 | ver_ge(\"12.9\")", nullptr) == "expected a version such as 12.8 or 0.6.7.post3, got 12.9");
}

TEST_CASE("compute capabilities, sizes and ages", "[unit][expr][prelude]") {
  CHECK(evaluate("[.[] | compute_cap]", {"12.0", "sm_120a", "compute_90", "8.6", "120f", nullptr}) ==
        json({120, 120, 90, 86, 120, nullptr}));
  CHECK(evaluate("\"N/A\" | compute_cap", nullptr) ==
        "expected a compute capability such as 12.0 or sm_120, got \"N/A\"");
  CHECK(evaluate("[2 | kib, mib, gib]", nullptr) == json({2048, 2097152, 2147483648}));
  CHECK(evaluate("[.[] | size_text]", {0, 1536, 1073741824, 3.5e12, nullptr}) ==
        json({"0 B", "1.5 KiB", "1 GiB", "3.2 TiB", nullptr}));
  const json host = {{"host", {{"clock", 1000}}}};
  CHECK(evaluate("[age(400), age(null)]", host) == json({600, nullptr}));
  CHECK(evaluate("age(400)", {{"host", nullptr}}) == nullptr);
  CHECK(evaluate("[30, 600, 7200, 259200 | age_text]", nullptr) ==
        json({"30 seconds", "10 minutes", "2 hours", "3 days"}));
  CHECK(evaluate("[known(\"gpus\"), known(\"caches\")]", {{"unknown", {{"caches", "no"}}}, {"gpus", nullptr}}) ==
        json({true, false}));
}

TEST_CASE("the prelude closes what the tokenizer refuses", "[unit][expr][prelude]") {
  for (const auto* name : {"env", "input", "inputs", "input_filename", "input_line_number", "debug", "stderr", "halt",
                           "halt_error", "get_search_list", "modulemeta", "now", "localtime"}) {
    CAPTURE(name);
    CHECK(evaluate(name, nullptr) == std::string(name) + " is not for checks");
  }
}
