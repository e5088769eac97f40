"""What the controller remembers of its runs, and that it never stands in an audit's way."""
import json
import os
import pathlib
import sqlite3
import subprocess
import tempfile
import unittest

from hosts import TRUEUP, run

PLAYBOOK = """
checks:
  always.wrong: {title: "it is wrong", severity: error, assert: 'false', because: so}
"""


class History(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.top = pathlib.Path(directory.name)
        self.state = self.top / "state" / "deeper"
        self.store = self.state / "trueup" / "store.db"
        (self.top / "p.yaml").write_text(PLAYBOOK, encoding="utf-8")

    def trueup(self, *arguments, state=None):
        env = {**os.environ, "XDG_STATE_HOME": str(state or self.state)}
        return run(TRUEUP, *arguments, env=env, check=False)

    def audit(self, *arguments, **kwargs):
        return self.trueup("audit", "-p", str(self.top / "p.yaml"), *arguments, **kwargs)

    def history(self):
        done = self.trueup("history", "--format", "json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_every_audit_is_recorded_newest_first(self):
        self.assertEqual(self.history(), {"schema": 1, "runs": []})
        reports = [json.loads(self.audit("--format", "json").stdout) for _ in range(2)]
        runs = self.history()["runs"]
        self.assertEqual([r["id"] for r in runs], [r["run"]["id"] for r in reversed(reports)])
        for recorded in runs:
            self.assertEqual((recorded["kind"], recorded["exit"]), ("audit", 3))
            self.assertEqual(recorded["hosts"], [{"name": "localhost", "status": "audited"}])
        table = self.trueup("history").stdout.splitlines()
        self.assertEqual(table[0].split(), ["RUN", "KIND", "STARTED", "(UTC)", "EXIT", "HOSTS"])
        self.assertEqual([line.split()[0] for line in table[1:]], [r["id"] for r in runs])

    def test_it_is_private(self):
        self.audit()
        for path, mode in ((self.state, 0o700), (self.store.parent, 0o700), (self.store, 0o600)):
            self.assertEqual(path.stat().st_mode & 0o777, mode, path)
        self.assertEqual([path.name for path in self.store.parent.iterdir()], ["store.db"])

    def test_nothing_is_recorded_where_that_is_not_wanted(self):
        self.assertEqual(self.audit("--no-store").returncode, 3)
        self.assertFalse(self.state.exists())

    def test_other_commands_leave_nothing(self):
        for arguments in (["facts"], ["lint"], ["explain", "localhost"], ["version"]):
            self.trueup(*arguments)
            self.assertFalse(self.state.exists(), arguments)

    def test_without_a_state_directory_of_its_own_it_is_the_home(self):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.top), "XDG_STATE_HOME": "relative"}
        run(TRUEUP, "audit", "-p", str(self.top / "p.yaml"), env=env, check=False, cwd=self.top)
        self.assertTrue((self.top / ".local/state/trueup/store.db").exists())
        self.assertFalse((self.top / "relative").exists())

    def test_what_is_wrong_with_the_store_is_a_warning_and_the_audit_is_done(self):
        def no_directory():
            self.state.mkdir(parents=True)
            (self.state / "trueup").write_text("")
            return "is no directory"

        def open_to_all():
            self.store.parent.mkdir(parents=True)
            self.store.parent.chmod(0o777)
            return "others can write to"

        def corrupt():
            self.store.parent.mkdir(parents=True, mode=0o700)
            self.store.write_bytes(b"SQLite format 3\0" + b"x" * 5000)
            return "the store"

        def foreign():
            self.store.parent.mkdir(parents=True, mode=0o700)
            with sqlite3.connect(self.store) as other:
                other.execute("CREATE TABLE bookmarks (url)")
            other.close()
            return "no store of trueup"

        def full():
            os.symlink("/dev/full", self.top / "full")
            self.store.parent.mkdir(parents=True, mode=0o700)
            os.symlink("/dev/full", self.store)
            return "is no file"

        for number, spoil in enumerate((no_directory, open_to_all, corrupt, foreign, full)):
            with self.subTest(spoil=spoil.__name__):
                self.state = self.top / str(number)
                self.store = self.state / "trueup" / "store.db"
                says = spoil()
                before = self.store.read_bytes() if spoil in (corrupt, foreign) else None
                done = self.audit()
                self.assertEqual(done.returncode, 3)
                self.assertIn("always.wrong", done.stdout)
                self.assertIn("warning: this run is not recorded: ", done.stderr)
                self.assertIn(says, done.stderr)
                failed = self.trueup("history")
                self.assertEqual((failed.returncode, failed.stdout), (1, ""))
                self.assertIn(says, failed.stderr)
                if before is not None:
                    self.assertEqual(self.store.read_bytes(), before)

    def test_audits_at_the_same_time_are_all_recorded(self):
        env = {**os.environ, "XDG_STATE_HOME": str(self.state)}
        command = [TRUEUP, "audit", "-q", "-p", str(self.top / "p.yaml")]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        started = [subprocess.Popen(command, env=env, **quiet) for _ in range(4)]
        self.assertEqual([process.communicate()[1] for process in started], [""] * 4)
        self.assertEqual(len(self.history()["runs"]), 4)

    def test_of_a_host_what_the_report_says_is_kept_and_no_more(self):
        self.audit("--format", f"json:{self.top}/report.json")
        reported = json.loads((self.top / "report.json").read_text(encoding="utf-8"))["hosts"][0]
        store = sqlite3.connect(self.store)
        self.addCleanup(store.close)
        [(name, status, detail)] = store.execute("SELECT name, status, detail FROM hosts").fetchall()
        self.assertEqual((name, status), (reported["name"], reported["status"]))
        for field, value in json.loads(detail).items():
            self.assertEqual(value, reported[field], field)


if __name__ == "__main__":
    unittest.main(verbosity=2)
