#include "check/check_set.hpp"

#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "support/playbook_text.hpp"

using namespace trueup;
using nlohmann::json;

namespace {

json facts() {
  return json::parse(R"({"schema": 1, "unknown": {"caches": "permission denied"}, "host": {"clock": 1000},
    "gpus": [{"index": 0, "name": "A", "compute_cap": "12.0"}, {"index": 1, "name": "B", "compute_cap": null}],
    "disks": [{"mount": "/", "free_bytes": 10}, {"mount": "/data", "free_bytes": 5000}],
    "services": [{"unit": "a.service", "state": "failed"}, {"unit": "b.service", "state": "active"}], "caches": null,
    "driver": {"loaded": "580.95"}, "derived": {"resolutions": []}})");
}

std::vector<Check> checks(const std::string& yaml) {
  return test::playbook("checks:\n" + yaml + "\nfixes: {tidy-up: {title: t, steps: [{file: {}}]}}\n").checks;
}

Assessment assess(const std::string& yaml, const json& of = facts()) {
  std::vector<Error> errors;
  const auto set = CheckSet::compile(checks(yaml), errors);
  CHECK(test::texts(errors) == std::vector<std::string>{});
  REQUIRE(set.has_value());
  auto assessment = set->assess(of);
  REQUIRE(assessment.has_value());
  return *std::move(assessment);
}

std::vector<std::string> compile_errors(const std::string& yaml) {
  std::vector<Error> errors;
  const auto set = CheckSet::compile(checks(yaml), errors);
  CHECK(set.has_value() == errors.empty());
  return test::texts(errors);
}

// A check as one line; `more` begins with a comma where there is more.
std::string check(const std::string& id, const std::string& assertion, const std::string& more = "") {
  return "  " + id + ": {title: " + id + ", severity: error, because: b, assert: '" + assertion + "'" + more + "}\n";
}

std::vector<std::string> keys(const Assessment& assessment) {
  std::vector<std::string> result;
  for (const auto& finding : assessment.findings) result.push_back((finding.root ? "" : "  ") + finding.key());
  return result;
}

std::vector<std::string> whys(const Assessment& assessment) {
  std::vector<std::string> result;
  for (const auto& entry : assessment.not_evaluated)
    result.push_back(entry.check + "@" + entry.about + ": " + entry.why);
  return result;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a check goes through its items and reports those that fail", "[unit][check]") {
  const auto a = assess(R"(
  disk.full:
    title: "{{ .item.mount }} is full"
    severity: '{{ if .item.mount == "/" then "error" else "info" end }}'
    for_each: .disks[]
    assert: .item.free_bytes > 100
    about: .item.mount
    because: Nothing can be written to {{ .item.mount }}.
    evidence: ["free: {{ .item.free_bytes }} bytes", "{{ null }}", "{{ .gpus[].name }}"]
    fix: [tidy-up]
    references: ["https://example.org/disks"]
)");
  REQUIRE(a.findings.size() == 1);
  const auto& f = a.findings.front();
  CHECK(f.check == "disk.full");
  CHECK(f.title == "/ is full");
  CHECK(f.severity == Severity::error);
  CHECK(f.about == "/");
  CHECK(f.because == "Nothing can be written to /.");
  CHECK(f.evidence == Texts{"free: 10 bytes", "A", "B"});
  CHECK(f.fixes == Texts{"tidy-up"});
  CHECK(f.references == Texts{"https://example.org/disks"});
  CHECK(a.held == 1);
}

TEST_CASE("unknown is neither a pass nor a finding", "[unit][check]") {
  const auto a =
      assess(check("needs-caches", "true", ", needs: [gpus, caches]") +
             check("no-value", "null", ", unknown_because: 'driver {{ .driver.loaded }} does not tell'") +
             check("cap", ".item.compute_cap | ver_ge(\"9.0\")", ", for_each: '.gpus[]', about: .item.name") +
             check("not-here", "false", ", when: '.gpus == []'") + check("when-null", "false", ", when: 'null'"));
  CHECK(a.findings.empty());
  CHECK(a.held == 1);
  CHECK(a.not_applicable == 1);
  CHECK(whys(a) == Texts{"needs-caches@: needs caches: permission denied", "no-value@: driver 580.95 does not tell",
                         "cap@B: its assertion gives null", "when-null@: when: not known"});
}

TEST_CASE("an error in an expression costs that item of that check only", "[unit][check]") {
  const auto a = assess(
      check("bad-item", ".item.name | tonumber > 0", ", for_each: '.gpus[]', about: .item.name") +
      check("no-truth", "1") + check("nothing", "empty") + check("two", "true, false") +
      check("bad-stream", "true", ", for_each: '(.gpus[0], error(\"stop\"))'") +
      check("break-out", "error({__jq: 0})") + check("null-error", "error(null)") +
      check("severity", "false, empty", "").replace(check("severity", "false").find("error"), 5, "'{{ \"fatal\" }}'") +
      check("after", "false"));
  CHECK(keys(a) == Texts{"after"});
  const auto why = whys(a);
  REQUIRE(why.size() == 9);
  CHECK_THAT(why[0], ContainsSubstring("bad-item@A: error in its expression: assert:"));
  CHECK_THAT(why[1], ContainsSubstring("bad-item@B: "));
  CHECK(why[2] == "no-truth@: error in its expression: assert: expected true, false or null, got number");
  CHECK(why[3] == "nothing@: error in its expression: assert: gives no value");
  CHECK(why[4] == "two@: error in its expression: assert: gives more than one value");
  CHECK(why[5] == "bad-stream@: error in its expression: for_each: stop");
  CHECK_THAT(why[6], ContainsSubstring("break-out@: error in its expression"));
  CHECK_THAT(why[7], ContainsSubstring("null-error@: error in its expression"));
  CHECK(why[8] == "severity@: severity: expected error, warning or info, got 'fatal'");
}

TEST_CASE("checks with the same items are judged as if each stood alone", "[unit][check]") {
  const std::string each =
      ", for_each: '.disks[], error(\"stop\")', about: .item.mount, evidence: ['{{ .item.free_bytes }}']";
  const auto a = check("a", "false", each + R"(, when: '.item.mount != "/"')");
  const auto b = check("b", R"(if .item.mount == "/data" then error({__jq: 0}) else false end)", each);
  const auto c = check("c", "false", each + ", needs: [caches]");
  const auto d = check("d", ".item.free_bytes > 10", each);
  const auto together = assess(a + b + c + d);
  const auto apart = assess(a + check("x", "true") + b + check("y", "true") + c + check("z", "true") + d);
  CHECK(keys(together) == Texts{"a@/data", "b@/", "d@/"});
  const auto gaps = whys(together);
  REQUIRE(gaps.size() >= 4);  // jq 1.6 catches what b throws, item by item; jq 1.7 and newer end the check by it
  CHECK(gaps[0] == "a@: error in its expression: for_each: stop");
  CHECK_THAT(gaps[1], ContainsSubstring("{\"__jq\":0}"));
  CHECK(gaps[gaps.size() - 2] == "c@: needs caches: permission denied");
  CHECK(gaps.back() == "d@: error in its expression: for_each: stop");
  CHECK(keys(together) == keys(apart));
  CHECK(whys(together) == whys(apart));
  for (std::size_t i = 0; i < together.findings.size() && i < apart.findings.size(); ++i)
    CHECK(together.findings[i].evidence == apart.findings[i].evidence);
  CHECK(together.held == 1);
  CHECK(together.not_applicable == 1);
  CHECK(apart.held == 1 + 3);
}

TEST_CASE("a text that fails does not hide its finding", "[unit][check]") {
  const auto a = assess(check("c", "false", ", evidence: ['{{ .gpus }}', 'x {{ error(\"y\") }}', '{{ [] }}']"));
  REQUIRE(a.findings.size() == 1);
  CHECK(a.findings.front().evidence == Texts{"{{error: expected one value, got array}}", "x {{error: y}}",
                                             "{{error: expected one value, got array}}"});
}

TEST_CASE("findings are linked to what explains them", "[unit][check][causes]") {
  const std::string about_unit = ", for_each: '.services[]', about: .item.unit";
  const auto a = assess(check("symptom", "false", about_unit) +
                        check("cause", ".item.state == \"active\"", about_unit + ", causes: [symptom]") +
                        check("base", "false", ", causes: [cause]") + check("other", "false"));
  CHECK(keys(a) == Texts{"symptom@b.service", "base", "  cause@a.service", "  symptom@a.service", "other"});
  CHECK(a.findings[3].caused_by == Texts{"cause@a.service"});
}

TEST_CASE("a circle of causes keeps a root", "[unit][check][causes]") {
  const auto a = assess(check("a", "false", ", causes: [b]") + check("b", "false", ", causes: [c]") +
                        check("c", "false", ", causes: [a]"));
  CHECK(keys(a) == Texts{"a", "  b", "  c"});
  const auto b = assess(check("a", "false", ", causes: [b]") + check("b", "false", ", causes: [a]") +
                        check("z", "false", ", causes: [b]"));
  CHECK(keys(b) == Texts{"z", "  b", "  a"});
}

TEST_CASE("a root counts as much as the worst that follows from it", "[unit][check][causes]") {
  auto info = check("info", "false", ", causes: [bad]");
  info.replace(info.find("error"), 5, "info");
  auto warning = check("warning", "false");
  warning.replace(warning.find("error"), 5, "warning");
  CHECK(keys(assess(warning + info + check("bad", "false"))) == Texts{"info", "  bad", "warning"});
}

TEST_CASE("keys are unique on a host", "[unit][check]") {
  CHECK(keys(assess(check("c", "false", ", for_each: '.gpus[]'"))) == Texts{"c", "c@#2"});
}

TEST_CASE("what a host can blow up is capped", "[unit][check][limits]") {
  auto host = facts();
  host["gpus"] = json::array();
  for (int i = 0; i < 10'050; ++i) host["gpus"].push_back({{"index", i}, {"name", std::string(5000, 'x')}});
  const auto a =
      assess(check("c", "false", ", for_each: '.gpus[]', evidence: ['{{ .gpus[].index }}', '{{ .item.name }}']"), host);
  CHECK(a.findings.size() == 1000);
  CHECK(whys(a) == Texts{"c@: more than 1000 findings; the others were left out",
                         "c@: more than 10000 items; the others were not looked at"});
  CHECK(a.findings.front().evidence.size() == 200);
  CHECK(a.findings.front().evidence.back() == "… and more");
  const auto b = assess(check("c", "false", ", for_each: '.gpus[0]', evidence: ['{{ .item.name }}']"), host);
  CHECK(b.findings.front().evidence.front() == std::string(2000, 'x') + "…");
}

TEST_CASE("text of a host that is no UTF-8 or holds control characters passes", "[unit][check]") {
  auto host = facts();
  host["gpus"] = json::array({{{"name", "\x1b[31m\xff\n" + std::string(1, '\0') + "x"}}});
  const auto a = assess(check("c", "false", ", for_each: '.gpus[]', about: .item.name"), host);
  CHECK(a.findings.front().about == "\x1b[31m\xef\xbf\xbd\n" + std::string(1, '\0') + "x");
}

TEST_CASE("every expression that does not compile is named with its place", "[unit][check][errors]") {
  CHECK(compile_errors(R"(  a:
    title: "x {{ .driver.loaded | foo }}"
    severity: error
    because: ok {{ .gpus[0].name
    assert: .gpus[0].name ==
  b:
    title: t
    severity: error
    assert: |
      .gpus
      | selct(.name == "A")
    because: "{{ $x }}"
    evidence: ["{{ }}", "{{ ver_ge }}"]
    about: "{{ .item }}"
)") == Texts{"p.yaml:3:35: check a: title: foo/0 is not defined",
             "p.yaml:5:17: check a: because: '{{' has no '}}' that ends it (brackets and quotes must be closed before)",
             "p.yaml:6:13: check a: assert: syntax error, unexpected ')'",
             "p.yaml:12:9: check b: assert: selct/1 is not defined; did you mean 'select'?",
             "p.yaml:13:18: check b: because: $x is not defined",
             "p.yaml:14:17: check b: evidence: nothing between '{{' and '}}'",
             "p.yaml:14:29: check b: evidence: ver_ge/0 is not defined; there is ver_ge/1",
             "p.yaml:15:13: check b: about: is an expression, no template: write the jq without '{{ }}'"});
}

TEST_CASE("an expression cannot leave its brackets", "[unit][check][errors]") {
  CHECK(compile_errors(check("a", "true) | (false")) ==
        Texts{"p.yaml:2:59: check a: assert: ')' closes nothing"});
  CHECK(compile_errors(check("a", "true; true")).size() == 1);
  CHECK(compile_errors(check("a", "true # (")).empty());
  CHECK_THAT(compile_errors(check("a", "true # \\")).at(0), ContainsSubstring("a comment may not hold a backslash"));
}

TEST_CASE("an empty expression is an error, a missing one was the loader's", "[unit][check][errors]") {
  CHECK(compile_errors(check("a", " ")) == Texts{"p.yaml:2:55: check a: assert: is empty"});
  std::vector<Error> errors;
  const auto set = CheckSet::compile({Check{}}, errors);
  CHECK(errors.empty());
  CHECK(set->assess(facts())->not_evaluated.size() == 1);
}

TEST_CASE("paths that the facts do not have are found without a host", "[unit][check][errors]") {
  CHECK(compile_errors(check("a", ".item.compute_cp", ", for_each: '.gpus[]'")) ==
        Texts{"p.yaml:2:60: check a: assert: '.item' has no field 'compute_cp'; did you mean 'compute_cap'?"});
}

namespace {

// One check that fails for each of two disks, with `fix` for it.
constexpr const char* kDiskCheck = R"(
checks:
  disk.full:
    {title: full, severity: error, for_each: ".disks[]", assert: "false", about: .item.mount, because: b, fix: [tidy, other]}
)";

std::vector<Proposal> proposals(const std::string& fixes, const json& of = facts()) {
  const auto playbook = test::playbook(kDiskCheck + fixes);
  std::vector<Error> errors;
  const auto set = CheckSet::compile(playbook.checks, playbook.fixes, errors);
  CHECK(test::texts(errors) == Texts{});
  REQUIRE(set.has_value());
  const auto assessment = set->assess(of);
  REQUIRE(assessment.has_value());
  std::vector<Proposal> all;
  for (const auto& finding : assessment->findings)
    for (const auto& proposal : finding.proposals) all.push_back(proposal);
  return all;
}

std::vector<std::string> fix_errors(const std::string& fixes) {
  const auto playbook = test::playbook(kDiskCheck + fixes);
  std::vector<Error> errors;
  (void)CheckSet::compile(playbook.checks, playbook.fixes, errors);
  return test::texts(errors);
}

const std::string kOther = "  other: {title: o, when: 'false', steps: [{file: {}}]}\n";

}  // namespace

TEST_CASE("a finding carries what its fixes propose", "[unit][check][fix]") {
  const auto all = proposals(R"(
fixes:
  tidy:
    title: tidy {{ .item.mount }}
    when: .item.free_bytes < 100
    why_not: "{{ .item.mount }} has room"
    steps:
      - file: {path: "{{ .item.mount }}x", mode: 420, keep: true, missing: "{{ null }}", env: {A: "{{ 1 + 1 }}", B: [x, "{{ .gpus }}"]}}
      - service: {unit: "{{ .each.unit }}"}
        for_each: .services[]
        when: .each.state == "failed"
)" + kOther);
  REQUIRE(all.size() == 4);
  CHECK(all[0].fix == "tidy");
  CHECK(all[0].title == "tidy /");
  CHECK(all[0].fit == Proposal::Fit::yes);
  REQUIRE(all[0].steps.size() == 2);
  CHECK(all[0].steps[0].kind == "file");
  CHECK(json::parse(all[0].steps[0].params) == json({{"path", "/x"},
                                                     {"mode", 420},
                                                     {"keep", true},
                                                     {"env", {{"A", 2}, {"B", json::array({"x", facts()["gpus"]})}}}}));
  CHECK(all[0].steps[1] == ProposedStep{"service", R"({"unit":"a.service"})"});
  CHECK(all[1] == Proposal{"other", "o", Proposal::Fit::no, "it does not fit here", {}});
  CHECK(all[2] == Proposal{"tidy", "tidy /data", Proposal::Fit::no, "/data has room", {}});
}

TEST_CASE("what a fix cannot tell is no proposal", "[unit][check][fix]") {
  const auto why = [&](const std::string& rest) {
    const auto all = proposals("fixes:\n  tidy: {title: t, " + rest + "}\n" + kOther);
    REQUIRE(all.size() == 4);
    CHECK(all[0].fit == Proposal::Fit::unknown);
    CHECK(all[0].steps.empty());
    return all[0].why;
  };
  CHECK(why("when: 'null', steps: [{file: {}}]") == "whether it fits is not known");
  CHECK(why("when: '.item.mount + 1 == 2', steps: [{file: {}}]").starts_with("when: "));
  CHECK(why("steps: [{file: {}, when: 'null'}]") == "file: when: not known (null)");
  CHECK(why("steps: [{file: {path: '/a/{{ .caches }}'}}]") == "file.path: not known (null)");
  CHECK(why("steps: [{file: {path: '{{ .gpus[].index }}'}}]") == "file.path: gives more than one value");
  CHECK(why("steps: [{file: {path: '{{ empty }}'}}]") == "file.path: gives no value");
}

TEST_CASE("a fix is given the best cure of the library that the check looked at", "[unit][check][fix]") {
  auto of = facts();
  const auto alternative = [](const char* verdict, const char* cuda) {
    return json{{"change", "c"},          {"verdict", verdict},      {"why", ""},
                {"cuda", cuda},           {"toolkit", ""},           {"set", {{"A", "b"}}},
                {"unset", json::array()}, {"caches", {"/c1", "/c2"}}};
  };
  of["derived"]["resolutions"] = {
      {{"consumer", "unit a"}, {"library", "triton"}, {"alternatives", {alternative("proper", "1.0")}}},
      {{"consumer", "unit a"},
       {"library", "flashinfer"},
       {"alternatives",
        {alternative("stop_gap", "12.9"), alternative("proper", "13.0"), alternative("proper", "13.1")}}},
      {{"consumer", "unit b"}, {"library", "flashinfer"}, {"alternatives", json::array()}}};
  const auto playbook = test::playbook(R"(
checks:
  c: {title: t, severity: error, for_each: '.derived.resolutions[] | select(.library == "flashinfer")', assert: "false",
      about: .item.consumer, because: b, fix: newer}
fixes:
  newer:
    title: CUDA {{ $advice.cuda }}
    when: $advice != null
    steps:
      - cuda_toolkit: {version: "{{ $advice.cuda }}", env: "{{ $advice.set }}"}
      - cache: {path: "{{ .each }}"}
        for_each: $advice.caches[]
)");
  std::vector<Error> errors;
  const auto set = CheckSet::compile(playbook.checks, playbook.fixes, errors);
  REQUIRE(test::texts(errors) == Texts{});
  const auto findings = set->assess(of)->findings;
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].proposals.front().title == "CUDA 13.0");
  CHECK(findings[0].proposals.front().steps ==
        std::vector<ProposedStep>{{"cuda_toolkit", R"({"env":{"A":"b"},"version":"13.0"})"},
                                  {"cache", R"({"path":"/c1"})"},
                                  {"cache", R"({"path":"/c2"})"}});
  CHECK(findings[1].proposals.front().fit == Proposal::Fit::no);
}

TEST_CASE("wrong expressions of a fix are found at their place", "[unit][check][fix]") {
  CHECK(fix_errors("fixes:\n  tidy: {title: '{{ .item.mont }}', steps: [{file: {path: '{{ $advice.cud }}'}}]}\n" +
                   kOther) == Texts{"p.yaml:6:26: fix tidy: title: '.item' has no field 'mont'; did you mean 'mount'? "
                                    "(with what check disk.full gives it)",
                                    "p.yaml:6:70: fix tidy: file.path: '$advice' has no field 'cud'; did you mean "
                                    "'cuda'? (with what check disk.full gives it)"});
  CHECK(
      fix_errors(
          "fixes:\n  tidy: {title: t, steps: [{file: {path: 'a{{ .each.index | nosuch }}'}, for_each: '.gpus[]'}]}\n" +
          kOther) == Texts{"p.yaml:6:61: fix tidy: file.path: nosuch/0 is not defined"});
  CHECK(fix_errors("fixes:\n  tidy: {title: t, steps: [{file: {path: '{{ $ENV.HOME }}'}}]}\n" + kOther).size() == 1);
  CHECK(fix_errors("fixes:\n  tidy: {title: t, when: '{{ true }}', steps: [{file: {path: '{{ .each }}'}}]}\n" + kOther)
            .size() == 2);
  // Checks are given no advice.
  const auto playbook = test::playbook("checks:\n" + check("a", "$advice") + "fixes:\n" + kOther);
  std::vector<Error> errors;
  CHECK_FALSE(CheckSet::compile(playbook.checks, playbook.fixes, errors));
  REQUIRE_FALSE(errors.empty());
  CHECK(errors.front().message == "check a: assert: $advice is not defined");
}
