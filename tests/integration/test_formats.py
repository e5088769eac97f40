"""The formats for pipelines, read back by readers that are not ours: they agree with the JSON report, and nothing that a host
says becomes markup, a command, a link or a mention."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ET

from hosts import TRUEUP, run

FORMATS = ["junit", "markdown", "github", "ndjson"]
CHECKS = ["disk.wrong", "disk.small", "gpu.lost", "always.holds"]
PLAYBOOK = """
checks:
  disk.wrong:
    title: "{{ .item.mount }} is wrong"
    severity: error
    needs: [disks]
    for_each: .disks[]
    assert: .item.fstype != "wrong"
    about: .item.mount
    because: "because of {{ .item.mount }}"
    evidence: ["device: {{ .item.device }}", "{{ .item.mount }}"]
  disk.small: {title: "{{ .item.mount }} is small", severity: warning, needs: [disks], for_each: ".disks[]",
               assert: .item.size_bytes > 5, about: .item.mount, because: b}
  gpu.lost: {title: a GPU is lost, severity: error, needs: [gpus], assert: 'true', because: b}
  always.holds: {title: t, severity: error, assert: 'true', because: b}
"""
HOSTILE = ("\x1b[31m\x07\r\n\t::error::pwned\n::add-mask::y\n##[error]z\n\u009b\u202e\u200b\ufeff\u2028\ufffe\uffff"
           "</script><script>alert(1)</script><img src=x onerror=y> <!-- --> ]]> <![CDATA[ &lt; &#64; \"'` ``` ~~~ **b** _i_ | "
           "# h\n# heading\n- item\n1. one\n> quote\n    indented\n\n</details>\n[l](http://x) ![i](y) www.example.com "
           "https://example.com a@example.com @everyone #1 :x: $x$ 100%0A%25 \\" + 3000 * "w")


def disk(mount, fstype="ext4", size=9):
    return {"mount": mount, "device": "/dev/" + mount, "fstype": fstype, "options": [], "size_bytes": size, "free_bytes": 1,
            "unknown": {}}


def facts(name, disks, gpus=True):
    document = {"schema": 1, "name": name, "disks": disks, "unknown": {}}
    if gpus is True:
        document["gpus"] = []
    else:
        document["unknown"]["gpus"] = gpus
    return document


FLEET = [facts("gpu001", [disk("/a", "wrong"), disk("/b", "wrong"), disk("/c", size=1)]),
         facts("gpu002", [disk("/a", "wrong")]),
         facts("gpu003", [disk("/c", size=1)], gpus="nvidia-smi hangs"),
         facts("gpu004", [disk("/a")])]
HOSTILE_HOST = [facts("bad", [disk(HOSTILE, "wrong")], gpus=HOSTILE)]


class Case(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.playbook = self.file("p.yaml", PLAYBOOK)

    def file(self, name, text):
        (self.directory / name).write_text(text, encoding="utf-8")
        return str(self.directory / name)

    def audit(self, *where, environment=None):
        """Every format of one run, as bytes, and the JSON report."""
        outputs = [word for name in FORMATS + ["json"] for word in ["--format", f"{name}:{self.directory / name}"]]
        done = run(TRUEUP, "audit", "--no-store", "-q", "-p", self.playbook, *outputs, *where, check=False,
                   env={**os.environ, "GITHUB_STEP_SUMMARY": "", **(environment or {})})
        texts = {name: (self.directory / name).read_bytes().decode("utf-8") for name in FORMATS + ["json"]}
        self.document = json.loads(texts["json"])
        self.assertEqual(done.returncode, self.document["run"]["exit"], done.stderr)
        return texts

    def stored(self, hosts):
        return ["--from", self.file("facts.json", json.dumps(hosts))]

    def unreachable(self):
        return ["-i", self.file("inv.yaml", "hosts: {away: {address: 127.0.0.1, port: 1}}\n")]


# --- readers ---

def read_junit(case, text):
    """The suites by name: properties, and cases by name with what became of them. Strict about what JUnit readers know."""
    allowed = {"testsuites": {"name", "tests", "failures", "errors", "skipped", "time"},
               "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
               "properties": set(), "property": {"name", "value"}, "testcase": {"classname", "name"},
               "failure": {"type", "message"}, "error": {"type", "message"}, "skipped": {"message"}, "system-out": set()}
    root = ET.fromstring(text.encode("utf-8"))
    case.assertEqual(root.tag, "testsuites")
    for element in root.iter():
        case.assertIn(element.tag, allowed)
        case.assertEqual(set(element.keys()), allowed[element.tag], element.tag)
    suites = []
    for suite in root:
        cases = {}
        for test in suite.findall("testcase"):
            case.assertNotIn(test.get("name"), cases)
            case.assertEqual(test.get("classname"), suite.get("name"))
            verdicts = [child for child in test if child.tag != "system-out"]
            case.assertLessEqual(len(verdicts), 1)
            cases[test.get("name")] = (verdicts[0].tag if verdicts else "passed", "".join(test.itertext()))
        for tag, attribute in [("failure", "failures"), ("error", "errors"), ("skipped", "skipped")]:
            case.assertEqual(int(suite.get(attribute)), sum(verdict == tag for verdict, _ in cases.values()))
        case.assertEqual(int(suite.get("tests")), len(cases))
        properties = {p.get("name"): p.get("value") for p in suite.find("properties")}
        suites.append((suite.get("name"), properties, cases))
    for attribute in ["tests", "failures", "errors", "skipped"]:
        case.assertEqual(int(root.get(attribute)), sum(int(suite.get(attribute)) for suite in root))
    return suites


def read_github(case, text):
    """As the runner does (actions/runner src/Runner.Common/ActionCommand.cs, TryParseV2): (level, title, message) each."""
    commands = []
    case.assertTrue(text.endswith("\n"))
    for line in text[:-1].split("\n"):
        match = re.fullmatch(r"::(\w+) title=([^:,]*)::(.*)", line)
        case.assertIsNotNone(match, line)
        level, title, message = match.groups()
        case.assertIn(level, ["error", "warning", "notice"])
        for escape, raw in [("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")]:
            title = title.replace(escape, raw)
        for escape, raw in [("%0D", "\r"), ("%0A", "\n"), ("%25", "%")]:
            message = message.replace(escape, raw)
        commands.append((level, title, message))
    return commands


def read_ndjson(case, text):
    lines = [json.loads(line) for line in text.splitlines()]
    case.assertEqual([line["sequence"] for line in lines], list(range(1, len(lines) + 1)))
    case.assertEqual([line["kind"] for line in lines].index("summary"), len(lines) - 1)
    case.assertTrue(text.isascii())
    return lines


def read_markdown(text):
    """cmark-gfm, GitHub's own parser: the document as a tree."""
    done = subprocess.run(["cmark-gfm", "-t", "xml", "-e", "table", "-e", "autolink", "-e", "strikethrough", "-e", "tasklist"],
                          input=text.encode("utf-8"), capture_output=True, check=True, timeout=60)
    return ET.fromstring(re.sub(rb"<!DOCTYPE[^>]*>", b"", done.stdout))


def tags(tree):
    return [element.tag.split("}")[-1] for element in tree.iter()]


# --- tests ---

class Agreement(Case):
    def finding_count(self, severity=None):
        return sum(f["severity"] == severity or severity is None for h in self.document["hosts"] for f in h["findings"])

    def test_junit_says_what_json_says(self):
        for where in [self.stored(FLEET), self.unreachable()]:
            suites = read_junit(self, self.audit(*where)["junit"])
            self.assertEqual(suites[0][0], "trueup")
            self.assertEqual([name for name, _, _ in suites[1:]], [h["name"] for h in self.document["hosts"]])
            for host, (_, properties, cases) in zip(self.document["hosts"], suites[1:]):
                self.assertEqual(list(cases), ["host.looked-at"] + CHECKS)
                errors = [f for f in host["findings"] if f["severity"] == "error"]
                self.assertEqual({c for c, (verdict, _) in cases.items() if verdict == "failure"}, {f["check"] for f in errors})
                for finding in host["findings"]:
                    self.assertIn(f"{finding['severity']} {finding['key']}: {finding['title']}", cases[finding["check"]][1])
                for gap in host["not_evaluated"]:
                    self.assertEqual(cases[gap["check"]][0], "error")
                    self.assertIn(gap["why"], cases[gap["check"]][1])
                self.assertEqual(cases["host.looked-at"][0], "error" if host["error"] else "passed")
                if host["status"] == "unreachable":
                    self.assertEqual({cases[check][0] for check in CHECKS}, {"skipped"})
                self.assertEqual(int(properties["errors"]), len(errors))
                self.assertEqual(int(properties["not_evaluated"]), len(host["not_evaluated"]))

    def test_ndjson_says_what_json_says(self):
        for where in [self.stored(FLEET), self.unreachable()]:
            lines = read_ndjson(self, self.audit(*where)["ndjson"])
            self.assertEqual(lines[-1]["summary"], self.document["summary"])
            self.assertEqual(lines[-1]["run"], self.document["run"])
            hosts = [line for line in lines if line["kind"] == "host"]
            for line, host in zip(hosts, self.document["hosts"], strict=True):
                self.assertEqual(line["findings"], len(host["findings"]))
                found = [{k: v for k, v in f.items() if k not in ["schema", "sequence", "kind", "host"]}
                         for f in lines if f["kind"] == "finding" and f["host"] == host["name"]]
                self.assertEqual(found, host["findings"])
                self.assertEqual({**line, "findings": host["findings"]}, {**line, **host})

    def test_github_says_what_json_says(self):
        for where in [self.stored(FLEET), self.unreachable()]:
            commands = read_github(self, self.audit(*where)["github"])
            on = {"findings": 0, "unreached": 0, "gaps": 0}
            for _, title, message in commands[:-1]:
                hosts = int((re.match(r"on (\d+) hosts: ", message) or [None, 1])[1])
                kind = "unreached" if title == "not reached" else "gaps" if "not evaluated" in title else "findings"
                on[kind] += hosts
            summary = self.document["summary"]
            self.assertEqual(on["findings"], summary["errors"])
            self.assertEqual(on["unreached"], summary["unreachable"])
            self.assertEqual(on["gaps"], sum(1 for h in self.document["hosts"] if h["not_evaluated"]))
            level, title, message = commands[-1]
            self.assertEqual((level, title), ("notice", "trueup"))
            self.assertIn(f"{summary['errors']} error", message)
            self.assertIn(f"{summary['not_evaluated']} check", message)

    @unittest.skipUnless(shutil.which("cmark-gfm"), "Markdown is read by cmark-gfm, which is not installed")
    def test_markdown_says_what_json_says(self):
        for where in [self.stored(FLEET), self.unreachable()]:
            text = self.audit(*where)["markdown"]
            tree = read_markdown(text)
            rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter() if row.tag.endswith("table_row")]
            [cells] = rows
            summary = self.document["summary"]
            self.assertEqual([int(cells[i]) for i in [0, 2, 5, 6, 7, 8]],
                             [summary[key] for key in ["hosts", "unreachable", "errors", "warnings", "infos", "not_evaluated"]])
            headings = ["".join(h.itertext()) for h in tree.iter() if h.tag.endswith("}heading")]
            titles = {f["title"] for h in self.document["hosts"] for f in h["findings"] if f["root"]}
            for title in titles:
                self.assertTrue(any(title in heading for heading in headings), title)

    def test_the_order_of_hosts_and_the_bytes_do_not_depend_on_who_ends_first(self):
        inventory = self.file("two.yaml", "hosts:\n" + "".join(f"  here{i}: {{transport: local}}\n" for i in range(4)))
        first = self.audit("-i", inventory, "--forks", "4")
        again = self.audit("-i", inventory, "--forks", "1")
        def timeless(text):
            text = re.sub(r'(time|timestamp)="[^"]*"|"(duration_ms|started|finished|id|version)": ?("[^"]*"|\d+)', "", text)
            return re.sub(r'name="run" value="[^"]*"', "", text)
        for name in FORMATS:
            self.assertEqual(timeless(first[name]), timeless(again[name]), name)


class Hostile(Case):
    def test_junit(self):
        suites = read_junit(self, self.audit(*self.stored(HOSTILE_HOST))["junit"])
        self.assertEqual(len(suites), 2)
        _, _, cases = suites[1]
        self.assertEqual(cases["disk.wrong"][0], "failure")
        self.assertIn("</script><script>alert(1)</script>", cases["disk.wrong"][1])
        self.assertIn("]]> <![CDATA[ &lt;", cases["disk.wrong"][1])
        self.assertIn("\\x1b[31m\\x07", cases["disk.wrong"][1])
        self.assertIn("\\u202e\\u200b", cases["disk.wrong"][1])

    def test_github(self):
        commands = read_github(self, self.audit(*self.stored(HOSTILE_HOST))["github"])
        self.assertEqual([level for level, _, _ in commands], ["error", "warning", "notice"])
        self.assertIn("::error::pwned\\n::add-mask::y", commands[0][1])
        self.assertIn("100%0A%25", commands[1][2] + commands[0][2])

    def test_ndjson(self):
        lines = read_ndjson(self, self.audit(*self.stored(HOSTILE_HOST))["ndjson"])
        self.assertEqual([line["kind"] for line in lines], ["host", "finding", "summary"])
        self.assertEqual(lines[1]["title"], self.document["hosts"][0]["findings"][0]["title"])

    @unittest.skipUnless(shutil.which("cmark-gfm"), "Markdown is read by cmark-gfm, which is not installed")
    def test_markdown(self):
        text = self.audit(*self.stored(HOSTILE_HOST))["markdown"]
        tree = read_markdown(text)
        self.assertFalse({"link", "image", "html_inline", "block_quote", "strikethrough"} & set(tags(tree)))
        html = [e.text.strip() for e in tree.iter() if e.tag.endswith("html_block")]
        self.assertEqual(set(html), {"<details><summary>why, evidence, fixes</summary>", "</details>"})
        self.assertEqual(html.count("</details>"), 1)
        self.assertEqual(tags(tree).count("heading"), 4)
        outside = "".join(e.text or "" for e in tree.iter() if e.tag.endswith("}text"))
        for mark in ["@", "#1", "://", "www.", ":x:", "$x$", "<", "&", "**"]:
            self.assertNotIn(mark, outside)
        literal = "".join(e.text or "" for e in tree.iter() if e.tag.endswith("}code") or e.tag.endswith("}code_block"))
        self.assertIn("@everyone", literal)
        self.assertIn("</script><script>alert(1)</script>", literal)


class StepSummary(Case):
    def test_the_summary_is_appended_and_what_was_there_stays(self):
        summary = self.file("summary.md", "of another command")
        texts = self.audit(*self.stored(FLEET), environment={"GITHUB_STEP_SUMMARY": summary})
        self.assertEqual(pathlib.Path(summary).read_text(encoding="utf-8"), "of another command\n\n" + texts["markdown"])

    def test_it_is_left_alone_without_that_format(self):
        summary = self.file("summary.md", "")
        run(TRUEUP, "audit", "--no-store", "-p", self.playbook, *self.stored(FLEET), "--format", "markdown", check=False,
            env={**os.environ, "GITHUB_STEP_SUMMARY": summary})
        self.assertEqual(pathlib.Path(summary).read_text(encoding="utf-8"), "")

    def test_a_summary_that_cannot_be_written_is_no_silent_success(self):
        full = self.file("full.md", 1048000 * "x")
        for path, says in [("/no/such/directory/s.md", "No such file"), (full, "1048000 bytes already")]:
            done = run(TRUEUP, "audit", "--no-store", "-p", self.playbook, *self.stored(FLEET[3:]), "--format", "github",
                       check=False, env={**os.environ, "GITHUB_STEP_SUMMARY": path})
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"cannot append to the step summary '{path}'", done.stderr)
            self.assertIn(says, done.stderr)


class Names(Case):
    def test_formats_of_audits_are_not_those_of_other_commands(self):
        done = run(TRUEUP, "audit", "--format", "junti", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean 'junit'?", done.stderr)
        done = run(TRUEUP, "history", "--format", "junit", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there are: table, json)", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
