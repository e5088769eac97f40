"""Test hosts and trueup itself, for tests written with unittest.

`lab()` boots hosts with tests/lab and takes them down again; `audit()` runs the program that CMake built. Where no host can
boot the test file exits with status 77 and a line `skipped: REASON`, which ctest counts as skipped.
"""
import atexit
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
TRUEUP = os.environ.get("TRUEUP_BINARY", str(SOURCE / "build" / "trueup"))
LAB = str(SOURCE / "tests" / "lab" / "lab")
CASES = SOURCE / "tests" / "data" / "cases"
# A directory of hosts of its own for each test program, so that they can run side by side.
if "TRUEUP_LAB_DIR" not in os.environ:
    os.environ["TRUEUP_LAB_DIR"] = f"/var/lib/trueup-lab-test-{os.getpid()}"
    atexit.register(shutil.rmtree, os.environ["TRUEUP_LAB_DIR"], ignore_errors=True)
# Audits of tests are nobody's history.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="trueup-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
PATIENCE = 120  # seconds after which anything that should have ended is a failure


def run(*command, check=True, **kwargs):
    """Runs a program to its end; shows what it printed when it fails."""
    done = subprocess.run(command, text=True, capture_output=True, timeout=PATIENCE, **kwargs)
    if check and done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def lab(*arguments, check=True):
    return run(LAB, *arguments, check=check)


@contextlib.contextmanager
def booted(*cases, options=()):
    """Boots one host per case (a path, or the name of a file in tests/data/cases) and yields the inventory's path."""
    paths = [str(c) if os.sep in str(c) else str(CASES / f"{c}.yaml") for c in cases]
    names = [case_id(path) for path in paths]
    with tempfile.TemporaryDirectory() as directory:
        inventory = os.path.join(directory, "inventory.yaml")
        try:
            lab("up", *paths, "-o", inventory, *options)
            yield inventory
        finally:
            lab("down", *names)


def case_id(path):
    with open(path, encoding="utf-8") as case:
        return yaml.safe_load(case)["id"]


def variant(directory, case, name, change=None):
    """A case file like `case` for a host of another name; `change` gets the document to alter. Its path."""
    text = (CASES / f"{case}.yaml").read_text(encoding="utf-8").replace(case, name)
    document = yaml.safe_load(text)
    if change:
        change(document)
    path = pathlib.Path(directory) / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return str(path)


class Audit:
    """What one run of `trueup audit --format json` gave."""

    def __init__(self, done):
        self.status = done.returncode
        self.errors = done.stderr
        self.text = done.stdout
        self.document = json.loads(done.stdout) if done.stdout.strip() else None

    def host(self, name):
        return next(h for h in self.document["hosts"] if h["name"] == name)

    def findings(self, name, at_least="warning"):
        levels = ["info", "warning", "error"]
        wanted = levels[levels.index(at_least):]
        return [f for f in self.host(name)["findings"] if f["severity"] in wanted]

    def probe(self, host, probe):
        return next(p for p in self.host(host)["probes"] if p["id"] == probe)


def audit(*arguments, env=None, check=False):
    """Runs an audit to its end; its JSON report as an Audit."""
    return Audit(run(TRUEUP, "audit", "--format", "json", *arguments, check=check, env=env))


def main():
    """unittest.main for files that need test hosts: skips the file aloud where none can boot."""
    available = lab("available", check=False)
    if available.returncode != 0:
        print(f"skipped: {(available.stdout + available.stderr).strip()}")
        sys.exit(77)
    unittest.main(verbosity=2)
