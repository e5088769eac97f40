#include "expr/paths.hpp"

#include <string>

#include "support/catch.hpp"

using namespace trueup;

namespace {

std::string wrong(std::string_view text, std::string_view for_each = "") {
  std::vector<JqProblem> problems;
  const auto items = tokenize_jq(for_each);
  const auto item = for_each.empty() ? JqType{} : check_paths(items, {}, problems);
  REQUIRE(problems.empty());
  check_paths(tokenize_jq(text), {.item = item}, problems);
  std::string all;
  for (const auto& problem : problems)
    all += (all.empty() ? "" : " | ") + std::to_string(problem.offset) + ": " + problem.message;
  return all;
}

}  // namespace

TEST_CASE("paths that the schema does not have are found", "[unit][expr][paths]") {
  CHECK(wrong(".gpu") == "0: the facts have no section 'gpu'; did you mean 'gpus'?");
  CHECK(wrong(".gpus[].compute_cp") == "7: '.gpus[]' has no field 'compute_cp'; did you mean 'compute_cap'?");
  CHECK(wrong(".gpus[0].nam") == "8: '.gpus[0]' has no field 'nam'; did you mean 'name'?");
  CHECK(wrong(".gpus.name") == "5: '.gpus' is a list: write '.gpus[].name' for that of each item");
  CHECK(wrong(".host.kernel.release") == "12: '.host.kernel' is a string: it has no 'release'");
  CHECK(wrong(".os[\"versoin\"]") == "3: '.os' has no field 'versoin'; did you mean 'version'?");
  CHECK(wrong(".gpus | map(.nam)") == "12: '.' has no field 'nam'; did you mean 'name'?");
  CHECK(wrong("[.gpus[] | select(.nam == \"x\")] == []") == "18: '.' has no field 'nam'; did you mean 'name'?");
  CHECK(wrong("any(.services[]; .unt == \"x\")") == "17: '.' has no field 'unt'; did you mean 'unit'?");
  CHECK(wrong(".services[] as $s | $s.unt") == "22: '$s' has no field 'unt'; did you mean 'unit'?");
  CHECK(wrong("\"\\(.drivr)\"") == "3: the facts have no section 'drivr'; did you mean 'driver'?");
  CHECK(wrong("{a: .drivr}") == "4: the facts have no section 'drivr'; did you mean 'driver'?");
  CHECK(wrong("if .drivr then 1 else .oss end") ==
        "3: the facts have no section 'drivr'; did you mean 'driver'? | 22: the facts have no section 'oss'; did you "
        "mean 'os'?");
  CHECK(wrong(".derived.resolutions[].outcom") ==
        "22: '.derived.resolutions[]' has no field 'outcom'; did you mean 'outcome'?");
  CHECK(wrong("known(\"cahes\")") == "6: the facts have no section 'cahes'; did you mean 'caches'?");
  CHECK(wrong(".python_envs[].packages[] | select(.name == \"torch\") | .verson") ==
        "55: '.' has no field 'verson'; did you mean 'version'?");
}

TEST_CASE("paths of the item are those of what for_each gives", "[unit][expr][paths]") {
  CHECK(wrong(".item.nam", ".gpus[]") == "5: '.item' has no field 'nam'; did you mean 'name'?");
  CHECK(wrong(".item.nam", ".gpus[] | select(.index > 0)") == "5: '.item' has no field 'nam'; did you mean 'name'?");
  CHECK(wrong(".item as $i | .gpus[] | .name == $i.nam", ".gpus[]") ==
        "35: '$i' has no field 'nam'; did you mean 'name'?");
  CHECK(wrong(".item.anything", ".gpus[] | {anything: .name}") == "");
  CHECK(wrong(".item.anything") == "");
}

TEST_CASE("what cannot be followed is let pass", "[unit][expr][paths]") {
  for (const auto* text : {".gpus | group_by(.name) | .[] | length > 1",
                           ".services[].unit_env.CUDA_HOME",
                           ".services[0].unit_env | .ANY",
                           "reduce .gpus[] as $g ({}; .total += 1) | .total",
                           "def f: .x; .gpus[] | f",
                           ".gpus | to_entries[] | .key, .value",
                           "try error({a: 1}) catch .a",
                           ".gpus[0] |= .x",
                           ". as [$a] | $a.x",
                           "{x: 1} | .x",
                           ".gpus | length as $n | $n",
                           ".unknown.gpus",
                           "[limit(1; .gpus[])][0].name",
                           "first(.gpus[]).name",
                           ".gpus | sort_by(.index) | .[0].name",
                           ".gpus[1:] | .[].name",
                           ".gpus[]?.name",
                           "label $out | .gpus[] | break $out",
                           ".gpus | map({n: .name}) | .[].n",
                           "[.gpus[].name] | index(\"x\")",
                           "..|.x?"})
    CHECK(wrong(text) == "");
}
