#include "load/playbook.hpp"

#include "support/catch.hpp"
#include "support/playbook_text.hpp"

using namespace trueup;
using Texts = std::vector<std::string>;

namespace {

Texts errors_of(std::map<std::string, std::string> files, const Texts& paths = {"p.yaml"}) {
  Errors errors;
  load_playbooks(paths, test::TextFiles(std::move(files)), errors);
  return test::texts(errors);
}

Texts errors_of(const std::string& text) { return errors_of({{"p.yaml", text}}); }

// A probe as one line, with one key set otherwise.
std::string probe(const std::string& more, const std::string& id = "gpus", const std::string& into = "gpus") {
  return "  " + id + ": {script: 'true', parse: lines, into: " + into + more + "}\n";
}

std::string check(const std::string& more, const std::string& id = "a") {
  return "  " + id + ": {title: t, severity: error, assert: 'true', because: b" + more + "}\n";
}

}  // namespace

TEST_CASE("a playbook is read with all its keys and places", "[unit][load][playbook]") {
  const auto p = test::playbook(R"(probes:
  gpus:
    needs: [nvidia-smi, g++]
    if_missing: absent
    level: login
    deep: true
    limit: 500ms
    max_bytes: 64KiB
    script: |
      nvidia-smi -L
    parse: {lines: {}}
    into: gpus
checks:
  gpus.some:
    title: "{{ .item.name }}"
    severity: warning
    needs: [gpus, derived]
    for_each: .gpus[]
    when: "true"
    assert: |
      .item.index
      >= 0
    unknown_because: why
    about: .item.uuid
    because: b
    evidence:
      - one
      - >-
        two
        lines
    causes: [gpus.other]
    fix: tidy
    references: [https://example.org/]
    tags: [fast]
  gpus.other: {title: t, severity: '{{ "info" }}', assert: 'true', because: b}
signatures:
  xid: {pattern: 'Xid .*: [0-9]+', meaning: the driver gave up}
fixes:
  tidy:
    title: Tidy up {{ .item.name }}
    when: .item.index > 0
    why_not: the first one stays
    steps:
      - file: {path: "/etc/{{ .item.name }}", mode: 420, content: "{{ .item.uuid }}", owner: , parts: [1, "{{ 2 }}"]}
      - cache: {path: "{{ .each }}"}
        for_each: .item.mig_devices[]
        when: .each != ""
)");
  REQUIRE(p.probes.size() == 1);
  const auto& gpus = p.probes.front();
  CHECK(gpus.id == "gpus");
  CHECK(gpus.needs == Texts{"nvidia-smi", "g++"});
  CHECK(gpus.if_missing == IfMissing::absent);
  CHECK(gpus.level == ProbeLevel::login);
  CHECK(gpus.deep);
  CHECK(gpus.limit == std::chrono::milliseconds(500));
  CHECK(gpus.max_bytes == 65'536);
  CHECK(gpus.script == "nvidia-smi -L\n");
  CHECK(gpus.parser == R"({"lines":{}})");
  CHECK(gpus.into == "gpus");
  CHECK(to_string(gpus.at) == "p.yaml:2:3");
  REQUIRE(p.checks.size() == 2);
  const auto& some = p.checks.front();
  CHECK(to_string(some.title.at) == "p.yaml:15:13");
  CHECK(to_string(some.assertion.at) == "p.yaml:21:7");
  CHECK(some.assertion.text == ".item.index\n>= 0\n");
  CHECK(some.needs == Texts{"gpus", "derived"});
  CHECK(some.when->text == "true");
  CHECK(some.about->text == ".item.uuid");
  CHECK(some.unknown_because->text == "why");
  REQUIRE(some.evidence.size() == 2);
  CHECK(some.evidence[1].text == "two lines");
  CHECK(to_string(some.evidence[1].at) == "p.yaml:29");
  CHECK(some.causes == Texts{"gpus.other"});
  CHECK(some.fixes == Texts{"tidy"});
  CHECK(some.tags == Texts{"fast"});
  CHECK(p.signatures.front().meaning == "the driver gave up");
  CHECK(p.files == Texts{"p.yaml"});
  CHECK(p.digests.at("p.yaml").size() == 64);
  REQUIRE(p.fixes.size() == 1);
  const auto& tidy = p.fixes.front();
  CHECK(tidy.title.text == "Tidy up {{ .item.name }}");
  CHECK(tidy.when->text == ".item.index > 0");
  CHECK(tidy.why_not->text == "the first one stays");
  REQUIRE(tidy.steps.size() == 2);
  const auto& file = tidy.steps[0];
  CHECK(file.kind == "file");
  CHECK(to_string(file.at) == "p.yaml:44:9");
  CHECK_FALSE(file.for_each);
  REQUIRE(file.params.members.size() == 5);
  CHECK(file.params.members[0].first == "path");
  CHECK(file.params.members[0].second.text.text == "/etc/{{ .item.name }}");
  CHECK(to_string(file.params.members[0].second.text.at) == "p.yaml:44:23");
  CHECK(to_string(file.params.members[1].second.at) == "p.yaml:44:47");
  CHECK(file.params.members[1].second.json == "420");
  CHECK(file.params.members[3].second.kind == ParamTree::Kind::null);
  CHECK(file.params.members[4].second.items[0].json == "1");
  CHECK(file.params.members[4].second.items[1].text.text == "{{ 2 }}");
  CHECK(tidy.steps[1].for_each->text == ".item.mig_devices[]");
  CHECK(tidy.steps[1].when->text == ".each != \"\"");
}

TEST_CASE("every mistake in a fix is named at its place", "[unit][load][playbook]") {
  CHECK(
      errors_of(
          "fixes:\n  a: {title: t, steps: [], stpes: x}\n  b: {steps: [x, {}, {file: {}, cache: {}}, {file: x}]}\n") ==
      Texts{"p.yaml:2:24: fix a: 'steps': expected a list of steps, got an empty list",
            "p.yaml:2:28: fix a: unknown key 'stpes'; did you mean 'steps'?", "p.yaml:3:6: fix b: 'title' is missing",
            "p.yaml:3:15: fix b: 'steps': expected an action with its parameters, as in 'service: {unit: x.service, "
            "...}', got 'x'",
            "p.yaml:3:18: fix b: 'steps': expected an action with its parameters, as in 'service: {unit: x.service, "
            "...}'",
            "p.yaml:3:33: fix b: steps: 'cache': a step is one action, and this one is 'file' already",
            "p.yaml:3:52: fix b: steps: 'file': expected a mapping of parameters, got 'x'"});
  CHECK(
      errors_of("checks:\n" + check(", fix: [tidy-upp]") +
                "fixes:\n  tidy-up: {title: t, steps: [{file: {}}]}\n  tidy-up2: {title: t, steps: [{file: {}}]}\n") ==
      Texts{"p.yaml:2:68: check a: 'fix': there is no fix 'tidy-upp'; did you mean 'tidy-up'?"});
}

TEST_CASE("every mistake in a probe is named at its place", "[unit][load][playbook]") {
  CHECK(errors_of("probes:\n" +
                  probe(", limit: 5 parsecs, max_bytes: 1TB, level: hots, needs: [-rf, /bin/sh], limt: 5s")) ==
        Texts{"p.yaml:2:107: probe gpus: 'needs': '-rf': expected the name of a program, without a path",
              "p.yaml:2:112: probe gpus: 'needs': '/bin/sh': expected the name of a program, without a path",
              "p.yaml:2:93: probe gpus: 'level': expected one of host, login, got 'hots'; did you mean 'host'?",
              "p.yaml:2:59: probe gpus: 'limit': expected a duration such as 500ms, 5s, 2m or 1h, got '5 parsecs'",
              "p.yaml:2:81: probe gpus: 'max_bytes': expected a size such as 64KiB, 1MiB or 2GiB, got '1TB'",
              "p.yaml:2:122: probe gpus: unknown key 'limt'; did you mean 'limit'?"});
  CHECK(errors_of("probes:\n" + probe(", limit: 1h, max_bytes: 1GiB")) ==
        Texts{"p.yaml:2:59: probe gpus: 'limit': at most 10m, got '1h'",
              "p.yaml:2:74: probe gpus: 'max_bytes': at most 64MiB, got '1GiB'"});
  CHECK(
      errors_of("probes:\n" + probe("", "-x", "gpu")) ==
      Texts{
          "p.yaml:2:44: probe -x: 'into': the environment has no section 'gpu'; did you mean 'gpus'?",
          "p.yaml:2:3: probe '-x': expected lower-case letters, digits, '.', '_' and '-', not beginning with a sign"});
  CHECK(errors_of("probes:\n" + probe("") + probe("", "gpus2")) ==
        Texts{"p.yaml:3:47: probe gpus2: section 'gpus' is already filled by probe 'gpus' at p.yaml:2:3"});
  CHECK(errors_of("probes: {gpus: {}}\n") ==
        Texts{"p.yaml:1:16: probe gpus: 'into' is missing", "p.yaml:1:16: probe gpus: 'script' is missing",
              "p.yaml:1:16: probe gpus: 'parse' is missing"});
  const auto parser = errors_of("probes:\n  gpus: {script: 'true', into: gpus, parse: {cvs: {}}}\n");
  REQUIRE(parser.size() == 1);
  CHECK_THAT(parser[0], ContainsSubstring("p.yaml:2:45: probe gpus: 'parse': "));
  CHECK_THAT(parser[0], ContainsSubstring("did you mean 'csv'?"));
}

TEST_CASE("a probe comes after those that it reads", "[unit][load][playbook]") {
  const auto p =
      test::playbook("probes:\n" + probe(", reads: [os, host]") + probe("", "os", "os") + probe("", "host", "host"));
  REQUIRE(p.probes.size() == 3);
  CHECK(p.probes[0].id == "os");
  CHECK(p.probes[1].id == "host");
  CHECK(p.probes[2].reads == Texts{"os", "host"});
  CHECK(errors_of("probes:\n" + probe(", reads: [os, hots]") + probe(", reads: [host, os], level: login", "os", "os") +
                  probe("", "host", "host")) ==
        Texts{"p.yaml:2:60: probe gpus: 'reads': probe 'os' reads others itself; expected one that reads none",
              "p.yaml:2:64: probe gpus: 'reads': there is no probe 'hots'; did you mean 'host'?",
              "p.yaml:3:56: probe os: 'reads': probe 'host' runs at another level",
              "p.yaml:3:62: probe os: 'reads': probe 'os' reads others itself; expected one that reads none"});
}

TEST_CASE("a script gets no interpolation", "[unit][load][playbook]") {
  CHECK(
      errors_of(
          "probes:\n  gpus:\n    into: gpus\n    parse: lines\n    script: |\n      true\n      echo {{ .item }}\n") ==
      Texts{"p.yaml:7:12: probe gpus: 'script': scripts get no interpolation; where a program wants two braces, keep "
            "them "
            "apart: '{''{.ID}''}'"});
  CHECK(
      errors_of("probes:\n  gpus: {into: gpus, parse: lines, script: \"docker ps --format '{''{.ID}''}'\"}\n").empty());
}

TEST_CASE("every mistake in a check is named at its place", "[unit][load][playbook]") {
  CHECK(errors_of("checks:\n" + check(", needs: [gpus, cahes], causes: [aa, a], asert: x, evidence: {}, fix: [-x]")) ==
        Texts{"p.yaml:2:76: check a: 'needs': the environment has no section 'cahes'; did you mean 'caches'?",
              "p.yaml:2:121: check a: 'evidence': expected a text or a list of texts, got a mapping",
              "p.yaml:2:97: check a: 'causes': a check does not explain itself",
              "p.yaml:2:101: check a: unknown key 'asert'; did you mean 'assert'?",
              "p.yaml:2:93: check a: 'causes': there is no check 'aa'; did you mean 'a'?",
              "p.yaml:2:131: check a: 'fix': there is no fix '-x'"});
  CHECK(
      errors_of("checks: {a: {severity: eror}}\n") ==
      Texts{"p.yaml:1:13: check a: 'title' is missing",
            "p.yaml:1:24: check a: 'severity': expected one of error, warning, info, got 'eror'; did you mean 'error'?",
            "p.yaml:1:13: check a: 'assert' is missing", "p.yaml:1:13: check a: 'because' is missing"});
  CHECK(errors_of("check: {}\nprobes: []\n") ==
        Texts{"p.yaml:2:9: playbook: 'probes': expected a mapping from ids, got a list",
              "p.yaml:1:1: playbook: unknown key 'check'; did you mean 'checks'?"});
}

TEST_CASE("signatures are patterns that grep can use", "[unit][load][playbook]") {
  const auto of = [](const std::string& pattern) {
    const auto errors = errors_of("signatures:\n  a: {meaning: m, pattern: " + pattern + "}\n");
    return errors.empty() ? std::string() : errors.front();
  };
  CHECK(of("'NVRM: Xid'").empty());
  CHECK(of("'a('") == "p.yaml:2:28: signature a: 'pattern': not an extended regular expression: Unmatched ( or \\(");
  CHECK(of("'x*'") == "p.yaml:2:28: signature a: 'pattern': this pattern matches every line");
  CHECK(of("\"a\\tb\"") == "p.yaml:2:28: signature a: 'pattern': a pattern holds no tab, newline or NUL");
}

TEST_CASE("ids are unique over all files, and files are read once", "[unit][load][playbook]") {
  const std::map<std::string, std::string> files = {
      {"top.yaml", "include: [sub/a.yaml, sub/b.yaml]\nchecks:\n" + check("", "x")},
      {"sub/a.yaml", "include: [../common.yaml]\nchecks:\n" + check("", "x")},
      {"sub/b.yaml", "include: ../common.yaml\n"},
      {"common.yaml", "checks:\n" + check("", "y")}};
  CHECK(errors_of(files, {"top.yaml", "common.yaml"}) ==
        Texts{"sub/a.yaml:3:3: check 'x' is already defined at top.yaml:3:3"});
}

TEST_CASE("includes that are missing or go round are named where they stand", "[unit][load][playbook]") {
  CHECK(
      errors_of({{"a.yaml", "include: [b.yaml]\n"}, {"b.yaml", "include:\n  - a.yaml\n  - gone.yaml\n"}}, {"a.yaml"}) ==
      Texts{"b.yaml:2:5: includes go round in a circle: a.yaml -> b.yaml -> a.yaml", "b.yaml:3:5: no such file"});
  CHECK(errors_of({{"p.yaml", "include: [p.yaml]"}}, {"p.yaml", "q.yaml"}) ==
        Texts{"p.yaml:1:11: includes go round in a circle: p.yaml -> p.yaml", "q.yaml: no such file"});
}
