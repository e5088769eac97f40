"""Hosts that are not connected to: stored facts, the script for a host that SSH does not reach, and what it printed."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from hosts import SOURCE, TRUEUP, run

ROOT = "flashinfer.arch-set-empty"


def trueup(*arguments, **kwargs):
    return run(TRUEUP, *arguments, check=False, **kwargs)


def recorded(case):
    """The facts of a recorded host, as `trueup facts` would print them."""
    path = SOURCE / "tests" / "data" / "derive" / f"{case}.json"
    return json.loads(path.read_text(encoding="utf-8"))["environment"]


class Stored(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return str(pathlib.Path(self.directory.name) / name)

    def file(self, name, content):
        text = content if isinstance(content, str) else json.dumps(content)
        pathlib.Path(self.path(name)).write_text(text, encoding="utf-8")
        return self.path(name)

    def ct200(self):
        return self.file("ct200.json", {**recorded("ct200"), "name": "ct200"})

    def refused(self, *arguments, says):
        done = trueup(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for text in says:
            self.assertIn(text, done.stderr)


class Facts(Stored):
    def test_an_audit_of_stored_facts_finds_the_same_and_says_whose_word_it_is(self):
        facts = self.ct200()
        done = trueup("audit", "--from", facts, "--format", "json")
        self.assertEqual(done.returncode, 3, done.stderr)
        [host] = json.loads(done.stdout)["hosts"]
        self.assertEqual([f["check"] for f in host["findings"] if f["root"] and f["severity"] == "error"], [ROOT])
        self.assertEqual(host["name"], "ct200")
        self.assertEqual(host["unverified_source"], facts)
        table = trueup("audit", "--from", facts).stdout
        self.assertIn("unverified", table)
        self.assertIn("1 of unverified source", table.splitlines()[-1])

    def test_files_of_several_hosts_and_several_files_work_with_a_limit(self):
        both = self.file("both.json", "\n".join(json.dumps({**recorded("ct200"), "name": n}) for n in ["gpu1", "gpu2"]))
        third = self.file("third.json", [{**recorded("ct200"), "name": "gpu3"}])
        done = trueup("audit", "--from", both, "--from", third, "-l", "gpu[2:3]", "--format", "json")
        self.assertEqual([h["name"] for h in json.loads(done.stdout)["hosts"]], ["gpu2", "gpu3"])
        self.refused("audit", "--from", both, "-l", "gpu9", says=["gpu9", "did you mean 'gpu"])
        self.refused("audit", "--from", both, "--from", both, says=["both.json:1:1", "gpu1 stands in", "already"])

    def test_what_facts_prints_is_read_back(self):
        first = trueup("facts")
        self.assertIn(first.returncode, [0, 4], first.stderr)
        again = trueup("facts", "--from", self.file("facts.json", first.stdout))
        before, after = json.loads(first.stdout), json.loads(again.stdout)
        self.assertTrue(after.pop("unverified_source").endswith("facts.json"))
        self.assertEqual(after, before)
        self.assertEqual(after["name"], "localhost")

    def test_an_inventory_adds_its_consumers_and_groups(self):
        inventory = self.file("inv.yaml", "hosts:\n  ct200: {}\n  other: {}\n"
                                          "groups: {inference: {hosts: [ct200, other]}}\n")
        done = trueup("audit", "--from", self.ct200(), "-i", inventory, "-l", "inference", "--format", "json")
        self.assertEqual([h["name"] for h in json.loads(done.stdout)["hosts"]], ["ct200"], done.stderr)

    def test_what_is_no_facts_is_refused_by_place(self):
        self.refused("audit", "--from", "/no/such/file", says=["--from", "/no/such/file", "No such file"])
        self.refused("audit", "--from", self.file("a", "{\n  \"schema\": 1,\n  oops"), says=["a:3:", "not JSON"])
        self.refused("audit", "--from", self.file("b", ""), says=["b: empty", "trueup facts"])
        report = trueup("audit", "--from", self.ct200(), "--format", "json").stdout
        self.refused("audit", "--from", self.file("c", report), says=["c:1:1", "these are no facts", "run"])
        self.refused("audit", "--from", self.file("d", {**recorded("ct200"), "schema": 9}), says=["schema: 9", "only 1"])
        self.refused("audit", "--from", self.file("e", {**recorded("ct200"), "gpus": "many"}),
                     says=["gpus: expected a list, got 'many'"])


class Explain(Stored):
    def test_the_incident_is_explained_from_the_symptom_to_the_cure(self):
        done = trueup("explain", "ct200", "--from", self.ct200())
        self.assertEqual(done.returncode, 3, done.stderr)
        text = done.stdout
        last = -1
        for part in ["ct200: sglang-k26.service failed", "seen ", "(service.failed)", "cause ", "chain ", "confidence", "high",
                     "before ", "FlashInfer 0.6.5 built", "next start", "meets the same", "proper", "CUDA 13.0 installed beside",
                     "stop-gap", "12.0a", "rejected", "compute_120f", "check ", ROOT]:
            self.assertIn(part, text)
            found = text.find(part, last + 1)
            self.assertGreater(found, last, f"{part} comes too early in\n{text}")
            last = found

    def test_for_programs(self):
        done = trueup("explain", "--from", self.ct200(), "--format", "json")
        [host] = json.loads(done.stdout)["hosts"]
        cause = next(c for c in host["causes"] if c["finding"]["check"] == ROOT)
        verdicts = {a["verdict"] for a in cause["alternatives"]}
        self.assertEqual(verdicts, {"proper", "stop_gap", "rejected"})
        self.assertEqual(cause["alternatives"][0]["verdict"], "proper")
        self.assertEqual(cause["confidence"]["level"], "high")

    def test_a_check_narrows_and_a_misspelt_one_is_named(self):
        facts = self.ct200()
        for asked in [ROOT, "service.failed", "service.failed@sglang-k26.service"]:
            done = trueup("explain", "ct200", asked, "--from", facts, "--format", "json")
            self.assertEqual(done.returncode, 3, done.stderr)
            [host] = json.loads(done.stdout)["hosts"]
            self.assertEqual([c["finding"]["check"] for c in host["causes"]], [ROOT])
        self.refused("explain", "ct200", "flashinfer.arch-set-emtpy", "--from", facts,
                     says=["'flashinfer.arch-set-emtpy'", f"did you mean '{ROOT}'"])
        self.refused("explain", "ct201", "--from", facts, says=["'ct201'", "did you mean 'ct200'"])
        two = self.file("two.json", [{**recorded("ct200"), "name": n} for n in ["a", "b"]])
        self.refused("explain", "--from", two, says=["explain shows one host", "selects 2"])

    def test_a_check_that_holds_has_nothing_to_explain(self):
        done = trueup("explain", "ct200", "driver.library-mismatch", "--from", self.ct200())
        self.assertIn("ct200: driver.library-mismatch holds, or does not apply", done.stdout)
        self.assertEqual(done.returncode, 3)  # of the host, as in an audit


class ProbeScript(Stored):
    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.kept.cleanup)
        cls.script = os.path.join(cls.kept.name, "probe.sh")
        pathlib.Path(cls.script).write_text(run(TRUEUP, "probe-script").stdout, encoding="utf-8")
        # From a pipe that ends at once, as `kubectl exec -i POD -- sh < probe.sh` gives it.
        with open(cls.script, "rb") as script:
            cls.output = subprocess.run(["/bin/sh"], stdin=script, capture_output=True, text=True, timeout=120).stdout

    def audit_of(self, text):
        done = trueup("audit", "--from-output", self.file("gpu1.out", text), "--format", "json")
        document = json.loads(done.stdout) if done.stdout else None
        return done, document["hosts"][0] if document else None

    def test_its_output_gives_what_an_audit_of_this_machine_gives(self):
        done, host = self.audit_of("some banner\n" + self.output)
        self.assertIn(done.returncode, [0, 3, 4], done.stderr)
        [local] = json.loads(trueup("audit", "--format", "json").stdout)["hosts"]
        self.assertEqual(host["name"], os.uname().nodename)
        self.assertTrue(host["unverified_source"].endswith("gpu1.out"))
        self.assertEqual({p["id"]: p["status"] for p in host["probes"]}, {p["id"]: p["status"] for p in local["probes"]})
        self.assertEqual(sorted(f["key"] for f in host["findings"]), sorted(f["key"] for f in local["findings"]))

    def test_it_runs_from_a_file_without_any_input(self):
        output = subprocess.run(["/bin/sh", self.script], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=120).stdout
        facts = trueup("facts", "--from-output", self.file("here.out", output))
        self.assertEqual(json.loads(facts.stdout)["host"]["kernel"], os.uname().release)

    def test_cut_output_is_incomplete_and_forged_frames_are_found(self):
        lines = self.output.splitlines(keepends=True)
        done, host = self.audit_of("".join(lines[: len(lines) // 2]))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(host["status"], "partial")
        self.assertIn("it was cut", host["error"]["message"])
        self.assertIn("lost", [p["status"] for p in host["probes"]])

        nonce = next(line for line in lines if "trueup-output 1 " in line).split()[2]
        ends = [i for i, line in enumerate(lines) if line.startswith(nonce) and line.split()[2:3] == ["x"]]
        probe = lines[ends[0]].split()[1]
        forged = lines[: ends[0] + 1] + [f"{nonce} {probe} x 0 1.00\n"] + lines[ends[0] + 1:]
        done, host = self.audit_of("".join(forged))
        self.assertEqual([p["status"] for p in host["probes"]].count("garbled"), 1)

    def test_what_no_script_printed_is_refused(self):
        self.refused("audit", "--from-output", "/no/such/file", says=["--from-output", "/no/such/file"])
        self.refused("audit", "--from-output", self.file("a", "hello\n"), says=["a: not the output of a probe script"])
        self.refused("facts", "--from-output", self.file("b", self.output + self.output), says=["b:", "a second output in one file"])
        other = self.file("p.yaml", "probes:\n  disks: {into: disks, script: 'echo a', parse: {json: {}}}\n")
        self.refused("audit", "-p", other, "--from-output", self.file("c", self.output), says=["c:", "other probes", "run a new script"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
