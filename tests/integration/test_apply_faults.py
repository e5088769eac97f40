"""What happens in between: each fault at steps of a real repair. Afterwards the host is exactly as before or exactly
repaired, and what trueup says of it is true.

Each fault is made at the first step and at one in the middle; with TRUEUP_FULL in the environment at every step.
"""
import contextlib
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import hosts
from hosts import PATIENCE, SOURCE, TRUEUP, lab, run
from test_apply import UNIT, Repairs, break_on_demand, history, last_run, on, trueup

FULL = "TRUEUP_FULL" in os.environ
HOST = "ct200"
# Holds the package manager's lock as apt does, until it is ended.
HOLD_LOCK = (
    "import fcntl, signal; f = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
    "open('/run/locked', 'w').close(); signal.pause()"
)


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"it did not come true: {what}"
        time.sleep(0.05)


def journals():
    """run -> its events: (event, step, detail)."""
    text = on(HOST, "cd /var/lib/trueup/runs 2> /dev/null && grep . */journal /dev/null; true")
    found = {}
    for line in text.splitlines():
        name, _, event = line.partition("/journal:")
        words = event.split(" ", 3)
        step = words[2] if len(words) > 2 and words[2].isdigit() else ""
        found.setdefault(name, []).append((words[1], step, " ".join(words[2:])))
    return found


class Injected(Repairs):
    """What tests need that make a fault while a repair goes on."""

    names = (HOST,)
    change = staticmethod(break_on_demand)

    def setUp(self):
        self.assert_unchanged(HOST)
        self.seen = set(journals())

    def journal(self):
        """The events of the run that this test began; empty: it has not begun."""
        return next((events for name, events in journals().items() if name not in self.seen), [])

    def wait_for(self, event, step=""):
        def has_come():
            return any(seen == event and step in ("", number) for seen, number, _ in self.journal())

        eventually(has_come, f"{event} {step}")

    @contextlib.contextmanager
    def applying(self, plan, *arguments):
        """`apply` as a process that is being followed; it is ended when the block ends."""
        process = subprocess.Popen([TRUEUP, "apply", "-i", self.inventory, plan, *arguments], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def places(self, plan):
        steps = [f"{number + 1:02}" for number in range(len(self.steps(plan, HOST)))]
        return steps if FULL else sorted({steps[0], steps[len(steps) // 2]})

    def at_each_step(self, fault):
        """Calls `fault(plan, step)` for each place, on a host as it was at first."""
        for step in self.places(self.plan()):
            with self.subTest(step=step):
                self.seen = set(journals())
                fault(self.plan(expect=(0, 3)), step)  # 3: of what the last fault left in logs, no step rids it
                self.settle()

    def assert_ran_once(self):
        """A step whose end is journaled did not begin again, unless it was put back in between."""
        done = set()
        for event, step, _ in self.journal():
            if event == "done":
                done.add(step)
            elif event in ("undo", "undone"):
                done.discard(step)
            elif event == "begin":
                self.assertNotIn(step, done)

    def status(self, run_id=None):
        return trueup("status", "-i", self.inventory, run_id or last_run(), expect=(0, 3, 4, 6, 7)).stdout

    def settle(self, run_id=None):
        """Brings the host to exactly the new or exactly the old state, whichever is nearer, and then to the old. `run_id`: by
        default the last."""
        events = self.journal()
        run_id = run_id or last_run()
        if events:
            ends = [detail for event, _, detail in events if event == "end"]
            state = ends[-1] if ends and events[-1][0] in ("end", "verified") else "interrupted"
            self.assertIn("verified" if events[-1][0] == "verified" else state, self.status(run_id))
            is_back = any(event in ("failed", "changed", "undo") for event, _, _ in events)
            if state != "undone" and is_back:
                trueup("resume", "-i", self.inventory, run_id, expect=6)  # on it goes, to where it was going
            elif state != "undone":
                trueup("resume", "-i", self.inventory, run_id)
                self.assert_repaired(HOST)
                trueup("rollback", "-i", self.inventory, run_id, "--yes")
        self.assert_ran_once()
        self.assert_unchanged(HOST)
        self.assert_faulty(HOST)


class Faults(Injected):
    def test_the_controller_is_killed(self):
        def fault(plan, step):
            with self.applying(plan) as process:
                self.wait_for("begin", step)
                process.kill()
            self.wait_for("end")
            self.assertEqual(self.journal()[-1][0], "end")

        self.at_each_step(fault)

    def test_the_connection_is_cut(self):
        def fault(plan, step):
            with self.applying(plan) as process:
                self.wait_for("begin", step)
                on(HOST, "pkill -KILL -f '^sshd: .*@notty'; true")
                out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, out + err)

        self.at_each_step(fault)

    def test_the_power_fails(self):
        def fault(plan, step):
            with self.applying(plan) as process:
                self.wait_for("begin", step)
                lab("reboot", HOST)
                out, err = process.communicate(timeout=PATIENCE)
            # 4: all was done before the host went down, and nobody could look any more.
            self.assertIn(process.returncode, (0, 4, 6, 7), out + err)

        self.at_each_step(fault)

    def test_the_repository_fails(self):
        for state in ("unreachable", "corrupt", "missing"):
            with self.subTest(state=state):
                self.seen = set(journals())
                plan = self.plan()
                on(HOST, "apt-get clean")
                lab("repository", HOST, state)
                trueup("apply", "-i", self.inventory, plan, expect=6)
                lab("repository", HOST, "ok")
                self.settle()

    def test_the_package_manager_is_locked_for_a_while(self):
        plan = self.plan()
        on(HOST, f"systemd-run -q --unit=holder python3 -c \"{HOLD_LOCK}\"")
        eventually(lambda: on(HOST, "ls /run/locked 2> /dev/null; true"), "the lock is held")
        with self.applying(plan) as process:
            self.wait_for("begin", "01")
            on(HOST, "systemctl stop holder; rm -f /run/locked")
            out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, out + err)
        self.settle()

    def test_the_service_ends_at_its_start(self):
        plan = self.plan()
        on(HOST, "touch /etc/lab-broken")
        trueup("apply", "-i", self.inventory, plan, expect=6)
        on(HOST, "rm /etc/lab-broken")
        self.settle()

    def test_the_service_never_gets_ready(self):
        playbooks = self.directory / "playbooks"
        playbooks.mkdir()
        options = []
        for path in sorted((SOURCE / "playbooks").glob("*.yaml")):
            text = path.read_text(encoding="utf-8").replace("patience: 30m", "patience: 5s")
            (playbooks / path.name).write_text(text, encoding="utf-8")
            options += ["-p", str(playbooks / path.name)]
        plan = self.plan(*options)
        on(HOST, "touch /etc/lab-loading")
        trueup("apply", "-i", self.inventory, plan, *options, expect=6)
        on(HOST, "rm /etc/lab-loading")
        self.settle()

    def test_two_at_once(self):
        plan, other = self.plan(), self.plan()
        with self.applying(plan) as process:
            self.wait_for("begin", "01")
            held = trueup("apply", "-i", self.inventory, other, expect=8)
            # Whose turn it is explains why the host is no longer as planned.
            first = next(name for name in journals() if name not in self.seen)
            self.assertRegex(held.stderr, rf"run {first} of .*, since .*, works here")
            out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, out + err)
        self.settle(next(entry["id"] for entry in history() if entry["kind"] == "apply" and entry["exit"] == 0))

    def test_sudo_is_taken_away(self):
        as_ops = self.directory / "ops.yaml"
        text = pathlib.Path(self.inventory).read_text(encoding="utf-8")
        as_ops.write_text(text.replace("user: root", "user: ops\n    become: sudo"), encoding="utf-8")
        as_root, self.inventory = self.inventory, str(as_ops)

        def fault(plan, step):
            with self.applying(plan) as process:
                self.wait_for("begin", step)
                on(HOST, "mv /etc/sudoers.d/lab /root/lab.sudoers")
                try:
                    self.wait_for("end")
                    process.kill()
                finally:
                    on(HOST, "mv /root/lab.sudoers /etc/sudoers.d/lab")

        try:
            self.at_each_step(fault)
        finally:
            self.inventory = as_root


class AFullDisk(Injected):
    options = ("--disk", "2800")  # MiB: a plan for a toolkit wants 2 GiB to spare

    @contextlib.contextmanager
    def full_disk(self):
        try:
            lab("fill", HOST)
            yield
        finally:
            lab("fill", HOST, "--undo")

    def test_nothing_is_begun_that_cannot_be_written_down(self):
        plan = self.plan()
        with self.full_disk():
            trueup("apply", "-i", self.inventory, plan, expect=(6, 8))
        self.settle()

    def test_it_gets_full_meanwhile(self):
        def fault(plan, step):
            with self.applying(plan) as process:
                self.wait_for("begin", step)
                with self.full_disk():
                    eventually(lambda: process.poll() is not None or self.journal()[-1][0] == "end", "the run ends")
                process.communicate(timeout=PATIENCE)

        self.at_each_step(fault)


if __name__ == "__main__":
    hosts.main()
