"""Every case in tests/data/cases as a host, audited over SSH and scored. The rules: tests/data/cases/README.md.

usage: test_cases.py [CASE...]    scores these cases (ids); without any, all of them

TRUEUP_UPDATE_GOLDEN=1 rewrites the rows of these cases in docs/cases.md, and fails where a row changed.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import unittest

import yaml

import hosts
from hosts import CASES, SOURCE, audit, booted

TABLE = SOURCE / "docs" / "cases.md"
GROUP = 4  # hosts that boot and are audited together
MUST_BE_SEEN = ("critical", "high")
REPORTED = ("error", "warning")


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def all_cases():
    """The cases by id, in the order of their files."""
    found = {}
    for path in sorted(CASES.glob("*.yaml"), key=lambda path: path.stem):
        case = read(path)
        if isinstance(case, dict) and "id" in case:
            found[case["id"]] = {**case, "path": path}
    return found


def shipped_checks():
    """The severities of all checks in the playbooks; a template stays as it is written."""
    checks = {}
    for path in sorted((SOURCE / "playbooks").glob("*.yaml")):
        checks.update({name: check["severity"] for name, check in (read(path).get("checks") or {}).items()})
    return checks


TOPICS = read(CASES / "topics.yaml")
NOT_YET = read(CASES / "not-yet.yaml") or []
KNOWN = all_cases()
CHOSEN = list(KNOWN)


def topics_of(entries):
    return [entry["topic"] for entry in entries or []]


class Score:
    """What a host's findings are worth for its case."""

    def __init__(self, case, host):
        self.case, self.findings = case, host["findings"]
        self.unseen = [f"probe {p['id']}: {p['status']} {p['detail']}" for p in host["probes"] if p["status"] not in ("ok", "absent")]
        expected = case.get("expected_findings") or []
        self.missed = [e for e in expected if e["severity"] in MUST_BE_SEEN and not self.by(e["topic"])]
        forbidden = set(topics_of(case.get("must_not_report")))
        listed = set(topics_of(expected))
        self.false = [
            f
            for f in self.findings
            if f["severity"] in REPORTED
            and (
                forbidden & set(TOPICS.get(f["check"], []))
                or case["kind"] == "control" and not listed & set(TOPICS.get(f["check"], []))
            )
        ]

    def by(self, topic, severities=REPORTED):
        """The checks whose findings report a topic."""
        return sorted({f["check"] for f in self.findings if f["severity"] in severities and topic in TOPICS.get(f["check"], [])})

    def row(self):
        cells = []
        for entry in self.case.get("expected_findings") or []:
            must = entry["severity"] in MUST_BE_SEEN
            checks = self.by(entry["topic"], REPORTED if must else REPORTED + ("info",))
            says = ", ".join(f"`{check}`" for check in checks) or ("**not reported**" if must else "not reported")
            cells.append(f"{entry['topic']} ({entry['severity']}): {says}")
        verdict = "false alarm" if self.false else "not detected" if self.missed else "healthy" if not cells else "detected"
        return f"| {self.case['id']} | {self.case['kind']} | {verdict} | {'<br>'.join(cells)} |"

    def account(self):
        """All that was found, for whoever has to find out why."""
        lines = [f"{len(self.findings)} findings:"] + [
            f"  {f['severity']:8}{f['check']} @ {f['about']}: {f['title']}  {TOPICS.get(f['check'], [])}" for f in self.findings
        ]
        return "\n".join(lines + self.unseen)


def score_group(ids):
    with booted(*[KNOWN[name]["path"] for name in ids]) as inventory:
        result = audit("-i", inventory)
    if result.document is None:
        raise AssertionError(f"the audit gave no report: {result.errors}")
    scores = {}
    for name in ids:
        host = result.host(name)
        if host["status"] == "unreachable":
            raise AssertionError(f"{name}: {host['error']}")
        scores[name] = Score(KNOWN[name], host)
    return scores


def rows_of(text):
    """The table's rows by case."""
    return {match[1]: match[0] for match in re.finditer(r"^\| ([a-z0-9-]+) \| (?!kind).*\|$", text, re.MULTILINE)}


def table(rows):
    verdicts = [row.split(" | ")[2] for row in rows.values()]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("detected", "healthy", "not detected", "false alarm") if v in verdicts)
    return "\n".join(
        [
            "# What `trueup audit` reports on known hosts",
            "",
            "Written by `tests/integration/test_cases.py`, which boots every case in `tests/data/cases/` as a host and audits it over",
            "SSH. *Detected*: whatever must be found (critical, high) is reported as an error or a warning. *Healthy*: nothing is to be",
            "found, and nothing is reported above info. *False alarm*: something is reported that must not be.",
            "",
            f"{len(rows)} cases: {counts}.",
            "",
            "| case | kind | verdict | expected, and the checks that report it |",
            "| --- | --- | --- | --- |",
            *rows.values(),
            "",
        ]
    )


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        groups = [CHOSEN[start : start + GROUP] for start in range(0, len(CHOSEN), GROUP)]
        cls.scores = {}
        cls.lost = []  # what happened to groups that could not be scored
        # While one group is audited the next one boots.
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for job in [pool.submit(score_group, group) for group in groups]:
                try:
                    cls.scores.update(job.result())
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    cls.lost.append(str(error))

    def test_every_case_was_audited(self):
        self.assertEqual(self.lost, [])

    def test_every_case_is_detected_and_no_false_alarm_is_raised(self):
        for name, score in self.scores.items():
            with self.subTest(case=name):
                if score.false:
                    checks = ", ".join(f"{f['check']} @ {f['about']}" for f in score.false)
                    self.fail(f"{name}: false alarm: {checks}\n{score.account()}")
                if name in NOT_YET:
                    self.assertTrue(score.missed, f"{name} is detected: take it out of tests/data/cases/not-yet.yaml")
                elif score.missed:
                    missed = "; ".join(f"{e['topic']} ({e['what']})" for e in score.missed)
                    self.fail(f"{name}: not detected: {missed}\n{score.account()}")

    def test_the_table_in_the_docs_says_so(self):
        text = TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""
        old = rows_of(text)
        rows = {name: self.scores[name].row() if name in self.scores else old.get(name) for name in KNOWN}
        new = table({name: row for name, row in rows.items() if row})
        if new != text and os.environ.get("TRUEUP_UPDATE_GOLDEN"):
            TABLE.write_text(new, encoding="utf-8")
        self.assertEqual(text, new, "docs/cases.md is out of date; TRUEUP_UPDATE_GOLDEN=1 rewrites it")


class Mapping(unittest.TestCase):
    def test_every_check_that_alarms_is_mapped_and_no_other(self):
        checks = shipped_checks()
        alarming = {name for name, severity in checks.items() if severity != "info"}
        self.assertEqual(sorted(alarming - set(TOPICS)), [], "checks without topics in topics.yaml")
        self.assertEqual(sorted(set(TOPICS) - set(checks)), [], "topics.yaml maps checks that do not exist")

    def test_topics_are_those_of_the_cases(self):
        known = {t for case in KNOWN.values() for key in ("expected_findings", "must_not_report") for t in topics_of(case.get(key))}
        self.assertEqual(sorted({t for topics in TOPICS.values() for t in topics} - known), [])

    def test_what_is_not_detected_yet_is_a_case(self):
        self.assertEqual(sorted(set(NOT_YET) - set(KNOWN)), [])


if __name__ == "__main__":
    if sys.argv[1:]:
        unknown = [name for name in sys.argv[1:] if name not in KNOWN]
        if unknown:
            sys.exit(f"no such case: {', '.join(unknown)}")
        CHOSEN = sys.argv[1:]
        del sys.argv[1:]
    hosts.main()
