"""The repair end to end, over SSH on real hosts: what is planned is done, once, proved, and can be put back exactly."""
import json
import os
import pathlib
import re
import tempfile
import unittest

import yaml

import hosts
from hosts import TRUEUP, audit, booted, lab, run, variant

ROOT = "flashinfer.arch-set-empty"
UNIT = "sglang-k26.service"
SAMPLED = '{"text": "hello", "sampling_params": {"temperature": 1.0, "top_p": 0.95, "top_k": 40}}'


def with_neighbour(document):
    """Another service on the same host, in order, that uses the toolkit which is the default."""
    environment = document["environment"]
    environment["python_envs"].append(
        {"path": "/opt/neighbour", "python": "3.12.3", "packages": {"torch": "2.8.0+cu128", "torch_cuda": "12.8"}})
    environment["services"].append(
        {"unit": "neighbour.service", "state": "active", "result": "success",
         "exec": "/opt/neighbour/bin/python /srv/neighbour/serve.py"})


def trueup(*arguments, expect=0, stdin=None):
    """Runs a command to its end. `expect`: its exit status, or several that will do."""
    done = run(TRUEUP, *arguments, check=False, input=stdin)
    wanted = expect if isinstance(expect, (tuple, set)) else (expect,)
    if done.returncode not in wanted:
        raise AssertionError(f"{arguments} ended with {done.returncode}, not {expect}\n{done.stdout}\n{done.stderr}")
    return done


def on(host, command, check=True):
    return lab("exec", host, "--", "sh", "-c", command, check=check).stdout


def history():
    return json.loads(trueup("history", "--format", "json").stdout)["runs"]


def last_run(kind="apply"):
    return next(entry["id"] for entry in history() if entry["kind"] == kind)


class Repairs(unittest.TestCase):
    """Boots one host for each of `names` and gives what every test of a repair needs."""

    names = ()
    options = ()
    change = staticmethod(with_neighbour)

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)
        paths = [variant(directory.name, "ct200", name, cls.change) for name in cls.names]
        boot = booted(*paths, options=cls.options)
        cls.inventory = boot.__enter__()
        cls.addClassCleanup(boot.__exit__, None, None, None)

    def plan(self, *arguments, expect=0):
        """A saved plan: its path."""
        path = str(self.directory / f"plan-{len(list(self.directory.iterdir()))}.json")
        trueup("plan", "-i", self.inventory, "-o", path, *arguments, expect=expect)
        return path

    def steps(self, plan, host):
        document = json.loads(pathlib.Path(plan).read_text(encoding="utf-8"))
        return next(entry for entry in document["hosts"] if entry["name"] == host)["steps"]

    def assert_unchanged(self, host):
        self.assertEqual(lab("changed", host, check=False).stdout, "")

    def assert_faulty(self, host):
        self.assertIn(ROOT, [finding["check"] for finding in audit("-i", self.inventory, "-l", host).findings(host)])

    def assert_repaired(self, host):
        result = audit("-i", self.inventory, "-l", host)
        self.assertEqual((result.status, result.findings(host)), (0, []), result.errors)
        self.assertEqual(on(host, "readlink -f /usr/local/cuda").strip(), "/usr/local/cuda-12.8")
        self.assertIn("token", on(host, f"ask-server http://{host}:30000/generate '{SAMPLED}'"))


class TheIncident(Repairs):
    names = ("ct200",)

    def neighbour(self):
        return on("ct200", "systemctl show neighbour -p InvocationID -p MainPID -p NRestarts -p Environment")

    # One test, for it is one story: each chapter begins where the last one ended.
    def test_the_story(self):
        before, earlier = self.neighbour(), len(history())
        first = audit("-i", self.inventory)
        self.assertEqual(first.status, 3)
        self.assertEqual([f["check"] for f in first.findings("ct200") if f["root"]], [ROOT])

        shown = trueup("plan", "-i", self.inventory, "--detailed-exitcode", expect=5).stdout
        for words in ("/usr/local/cuda-13.0", "CUDA_HOME", UNIT, "cuda-toolkit-13-0", ROOT):
            self.assertIn(words, shown)
        plan = self.plan()
        self.assertEqual(os.stat(plan).st_mode & 0o777, 0o600)
        steps = self.steps(plan, "ct200")
        self.assertEqual([step["kind"] for step in steps],
                         ["cuda_toolkit", "systemd_override", "cache", "service"])
        self.assert_unchanged("ct200")
        self.assertEqual(on("ct200", "ls -d /var/lib/trueup 2> /dev/null; true"), "")

        trueup("apply", "-i", self.inventory, plan)
        applied = last_run()
        self.assert_repaired("ct200")
        self.assertEqual(self.neighbour(), before)
        self.assertIn("verified", on("ct200", f"cat /var/lib/trueup/runs/{applied}/journal"))

        repaired = lab("changed", "ct200", check=False).stdout
        trueup("plan", "-i", self.inventory, "--detailed-exitcode")
        self.assertIn("was applied here before", trueup("apply", "-i", self.inventory, plan, expect=8).stdout)
        self.assertEqual(lab("changed", "ct200", check=False).stdout, repaired)
        self.assert_repaired("ct200")

        trueup("rollback", "-i", self.inventory, applied, "--yes")
        self.assert_unchanged("ct200")
        self.assertEqual(self.neighbour(), before)
        self.assert_faulty("ct200")
        kinds = [entry["kind"] for entry in history()][:-earlier or None]
        self.assertEqual(kinds[:2], ["audit", "rollback"])
        self.assertEqual(kinds.count("apply"), 2)

        pruned = trueup("prune", "-i", self.inventory, "--host-state", "--yes").stdout
        self.assertIn(f"run {applied} is undone", pruned)
        self.assertEqual(on("ct200", "ls /var/lib/trueup/runs"), "")
        self.assert_unchanged("ct200")

        # The same without a plan that was saved, twice.
        trueup("apply", "-i", self.inventory, "--yes")
        self.assert_repaired("ct200")
        repaired = lab("changed", "ct200", check=False).stdout
        trueup("apply", "-i", self.inventory, "--yes")
        self.assertEqual(lab("changed", "ct200", check=False).stdout, repaired)


class AnEditedUnit(Repairs):
    names = ("ct200", "ct210")

    def test_that_host_is_refused_with_the_difference_and_the_other_is_done(self):
        plan = self.plan()
        unit = f"/etc/systemd/system/{UNIT}"
        on("ct200", f"sed -i 's/^Environment=/Environment=MAX_JOBS=4\\n&/' {unit}; systemctl daemon-reload")
        edited = lab("changed", "ct200", check=False).stdout
        done = trueup("apply", "-i", self.inventory, plan, expect=8)
        self.assertIn("MAX_JOBS", done.stdout + done.stderr)
        self.assertEqual(lab("changed", "ct200", check=False).stdout, edited)
        self.assert_faulty("ct200")
        self.assert_repaired("ct210")


class ACanary(Repairs):
    names = ("ct200", "ct210", "ct220")

    def test_when_it_fails_the_others_stay_untouched(self):
        plan = self.plan()
        on("ct200", "touch /etc/lab-broken")
        trueup("apply", "-i", self.inventory, plan, "--canary", "1", expect=6)
        on("ct200", "rm /etc/lab-broken")
        for host in self.names:
            self.assert_unchanged(host)
        self.assertEqual(on("ct210", "ls -d /var/lib/trueup 2> /dev/null; true"), "")

    @staticmethod
    def change(document):
        break_on_demand(document)


def break_on_demand(document):
    """The server ends at once while /etc/lab-broken is there, and never gets ready while /etc/lab-loading is."""
    files = document["host"]["files"]
    path = next(path for path in files if path.endswith("launch_server.py"))
    text = files[path]
    text = text.replace("server = http.server",
                        "if os.path.exists('/etc/lab-broken'):\n    sys.exit(1)\nserver = http.server")
    text = text.replace("send_response(200)", "send_response(503 if os.path.exists('/etc/lab-loading') else 200)")
    assert "lab-broken" in text and "lab-loading" in text
    files[path] = text


class TakenOutOfService(Repairs):
    """By programs of the inventory: a host in doubt stays out until somebody settles it, and the report says how."""

    names = ("ct200",)

    @staticmethod
    def change(document):
        break_on_demand(document)

    def setUp(self):
        self.log = self.directory / "programs.log"
        program = self.directory / "program"
        program.write_text(f'#!/bin/sh\necho "$1 $TRUEUP_HOST ${{TRUEUP_OUTCOME:-}}" >>{self.log}\n', encoding="utf-8")
        program.chmod(0o755)
        document = yaml.safe_load(pathlib.Path(self.inventory).read_text(encoding="utf-8"))
        document.setdefault("defaults", {})["vars"] = {"before_host": [str(program), "drain"],
                                                       "after_host": [str(program), "un drain"]}
        path = self.directory / "programs.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        self.program, self.inventory = program, str(path)

    def test_none_runs_that_no_plan_has_shown(self):
        plan = self.plan()
        self.assertIn(f"{self.program} drain (run here", trueup("plan", "-i", self.inventory).stdout)
        changed = self.directory / "changed.yaml"
        changed.write_text(pathlib.Path(self.inventory).read_text(encoding="utf-8").replace("- drain", "- reboot"),
                           encoding="utf-8")
        refused = trueup("apply", "-i", changed, plan, expect=8)
        self.assertIn(f"host ct200: the plan showed `{self.program} drain` as its before_host", refused.stderr)
        self.assertEqual(self.called(), [])

    def called(self):
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line.strip() for line in lines]

    def test_it_comes_back_when_it_is_settled(self):
        plan = self.plan()
        self.assertEqual(self.called(), [])
        on("ct200", "touch /etc/lab-broken")
        shown = json.loads(trueup("apply", "-i", self.inventory, plan, "--keep", "--format", "json", expect=7).stdout)
        on("ct200", "rm /etc/lab-broken")
        host = shown["hosts"][0]
        self.assertEqual(host["outcome"], "stuck")
        self.assertIn("still out of service: it may be between old and new", host["drained"])
        self.assertIn("TRUEUP_HOST=ct200 TRUEUP_ADDRESS=", host["drained"])
        self.assertIn(f"{self.program} 'un drain'`", host["drained"])
        self.assertEqual(self.called(), ["drain ct200"])
        trueup("resume", "-i", self.inventory, shown["run"]["id"])
        self.assertEqual(self.called(), ["drain ct200", "un drain ct200 verified"])
        rolled_back = trueup("rollback", "-i", self.inventory, shown["run"]["id"], "--yes")
        self.assertIn(f"for ct200, here: before_host {self.program} drain runs first, after_host {self.program} 'un drain' at "
                      "the end", rolled_back.stderr)
        self.assertEqual(self.called(), ["drain ct200", "un drain ct200 put back"])
        self.assert_unchanged("ct200")


class DefaultToolkit(Repairs):
    """Whatever state the default link is in, it leads to where it led, and a rollback gives the very same state."""

    names = ("ct200",)
    STATES = {
        "a link made by hand": "",
        "group in auto": "rm /usr/local/cuda; $register",
        "group in manual": "rm /usr/local/cuda; $register; update-alternatives --set cuda /usr/local/cuda-12.8",
        "a dangling link beside the one in use": "ln -sfnT /usr/local/cuda-11.0 /usr/local/cuda-13",
    }
    ASK = "readlink /usr/local/cuda /usr/local/cuda-13 /etc/alternatives/cuda; update-alternatives --query cuda 2>&1"

    def test_it_stays(self):
        for state, make in self.STATES.items():
            with self.subTest(state=state):
                on("ct200", "update-alternatives --quiet --remove-all cuda 2> /dev/null; rm -f /usr/local/cuda-13; "
                            "ln -sfnT /usr/local/cuda-12.8 /usr/local/cuda; register='update-alternatives --quiet "
                            f"--install /usr/local/cuda cuda /usr/local/cuda-12.8 128'; {make}")
                before = on("ct200", self.ASK, check=False)
                self.assertIn("/usr/local/cuda-12.8", before)
                trueup("apply", "-i", self.inventory, self.plan())
                self.assertEqual(on("ct200", "readlink -f /usr/local/cuda").strip(), "/usr/local/cuda-12.8")
                trueup("rollback", "-i", self.inventory, last_run(), "--yes")
                self.assertEqual(on("ct200", self.ASK, check=False), before)


class Refused(Repairs):
    """Plans that nobody may apply: each is told apart, and nothing is touched."""

    names = ("ct200",)

    def test_each_says_why(self):
        plan = pathlib.Path(self.plan())
        text = plan.read_text(encoding="utf-8")
        other_key = self.directory / "other.key"
        other_key.write_text("ab" * 32, encoding="utf-8")
        other_key.chmod(0o600)
        edited = self.directory / "edited.json"
        edited.write_text(text.replace("/usr/local/cuda-13.0", "/usr/local/cuda-13.1"), encoding="utf-8")
        cut = self.directory / "cut.json"
        cut.write_text(text[:len(text) // 2], encoding="utf-8")
        said = {
            "edited": trueup("apply", "-i", self.inventory, str(edited), expect=2).stderr,
            "other key": trueup("apply", "-i", self.inventory, str(plan), "--plan-key", str(other_key),
                                expect=2).stderr,
            "cut": trueup("apply", "-i", self.inventory, str(cut), expect=2).stderr,
        }
        self.assertIn("was changed since it was made", said["edited"])
        self.assertIn("was sealed with another key", said["other key"])
        self.assertIn("it is not JSON", said["cut"])
        self.assert_unchanged("ct200")
        self.assertEqual(on("ct200", "ls -d /var/lib/trueup 2> /dev/null; true"), "")


class Secrets(Repairs):
    """What is planted in a unit's file is nowhere in what the repair shows, keeps or passes on."""

    names = ("ct200",)
    PLANTED = "hunter2-3141592653"

    @classmethod
    def change(cls, document):
        document["environment"]["services"][0]["env"]["HF_TOKEN"] = cls.PLANTED

    def test_it_is_nowhere(self):
        plan = self.plan()
        done = trueup("apply", "-i", self.inventory, plan)
        run_id = last_run()
        rolled_back = trueup("rollback", "-i", self.inventory, run_id, "--yes")
        state = pathlib.Path(os.environ["XDG_STATE_HOME"]) / "trueup"
        kept = [pathlib.Path(plan), *(path for path in state.iterdir() if path.is_file())]
        for path in kept:
            self.assertNotIn(self.PLANTED.encode(), path.read_bytes(), path)
        for each in (done, rolled_back):
            self.assertNotIn(self.PLANTED, each.stdout + each.stderr)
        self.assertEqual(on("ct200", f"grep -rl {self.PLANTED} /var/lib/trueup; true"), "")
        self.assertEqual(on("ct200", f"journalctl -o export --no-pager | grep -c {self.PLANTED}; true").strip(), "0")


if __name__ == "__main__":
    hosts.main()
