"""Six ways not to reach a host: six different messages, each saying what to do; the other hosts are audited all the same."""
import contextlib
import os
import re
import socket
import subprocess
import tempfile
import unittest

import hosts
import yaml
from hosts import audit, booted


@contextlib.contextmanager
def silent_listener():
    """Accepts connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Unreachable(unittest.TestCase):
    def setUp(self):
        self.boot = booted("ct201")
        self.path = self.boot.__enter__()
        self.addCleanup(self.boot.__exit__, None, None, None)
        with open(self.path, encoding="utf-8") as file:
            self.inventory = yaml.safe_load(file)
        [self.good] = self.inventory["hosts"].values()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def other_key(self):
        path = os.path.join(self.directory.name, "other_key")
        if not os.path.exists(path):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        return path

    def changed_known_hosts(self):
        self.other_key()
        with open(self.other_key() + ".pub", encoding="utf-8") as file:
            kind, key = file.read().split()[:2]
        path = os.path.join(self.directory.name, "known_hosts")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{self.good['address']} {kind} {key}\n")
        return path

    def settings(self, **changes):
        defaults = self.inventory.get("defaults", {})
        return {**defaults, **self.good, **changes}

    def test_each_failure_says_which_and_what_to_do(self):
        with silent_listener() as silent:
            entries = {
                "fine": self.settings(),
                "changed-key": self.settings(known_hosts=self.changed_known_hosts()),
                "refused-key": self.settings(key=self.other_key()),
                "closed-port": self.settings(address="127.0.0.1", port=closed_port()),
                "silent": self.settings(address="127.0.0.1", port=silent),
                "no-such-name": self.settings(address="no-such-name.invalid"),
                "sudo-password": self.settings(user="opspw", become="sudo"),
            }
            path = os.path.join(self.directory.name, "inventory.yaml")
            with open(path, "w", encoding="utf-8") as file:
                yaml.safe_dump({"hosts": entries}, file)
            result = audit("-i", path, "--connect-timeout", "2s", env={**os.environ, "SSH_AUTH_SOCK": ""})
        self.assertEqual(result.status, 4, result.errors)
        self.assertEqual(result.host("fine")["status"], "audited")
        expected = {
            "changed-key": ("host_key", r"SHA256:.*SHA256:"),
            "refused-key": ("auth", r"other_key"),
            "closed-port": ("unreachable", r"refused"),
            "silent": ("timeout", r"handshake|banner|says nothing"),
            "no-such-name": ("unreachable", r"no-such-name\.invalid"),
            "sudo-password": ("escalation", r"sudo.*password"),
        }
        messages = set()
        for name, (kind, pattern) in expected.items():
            with self.subTest(host=name):
                host = result.host(name)
                # Without root the login's own probes still answer.
                self.assertEqual(host["status"], "partial" if kind == "escalation" else "unreachable")
                self.assertEqual(host["error"]["kind"], kind, host["error"])
                self.assertRegex(host["error"]["message"], re.compile(pattern, re.S))
                self.assertTrue(host["error"]["hint"], host["error"])
                messages.add(host["error"]["message"])
        self.assertEqual(len(messages), len(expected))

    def test_a_host_that_was_not_looked_at_is_not_one_without_work(self):
        path = os.path.join(self.directory.name, "inventory.yaml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump({"hosts": {"gone": self.settings(address="127.0.0.1", port=closed_port()),
                                      "locked": self.settings(user="opspw", become="sudo")}}, file)
        plan_file = os.path.join(self.directory.name, "plan.json")
        planned = hosts.run(hosts.TRUEUP, "plan", "-i", path, "-o", plan_file, check=False)
        self.assertEqual(planned.returncode, 4, planned.stderr)
        self.assertRegex(planned.stdout, r"unreached +gone\n +why .*\n? .*refused the\s+connection\n +do .*is sshd running")
        self.assertRegex(planned.stdout, r"incomplete +locked\n +why .*sudo wants a password")
        self.assertIn("2 hosts · 1 not reached · 1 incomplete", planned.stdout)
        self.assertNotIn("nothing to do", planned.stdout)
        applied = hosts.run(hosts.TRUEUP, "apply", "-i", path, plan_file, check=False)
        self.assertEqual(applied.returncode, 4, applied.stdout + applied.stderr)
        self.assertRegex(applied.stdout, r"failed +gone\n .*refused the\s+connection\n +do .*is sshd running")
        self.assertIn("2 failed", applied.stdout)
        # One missing password is one thing to say, not one for each probe and check that waits for it.
        audited = hosts.run(hosts.TRUEUP, "audit", "-i", path, "-l", "locked", check=False)
        self.assertEqual(audited.returncode, 4)
        self.assertEqual(" ".join(audited.stdout.split()).count("sudo wants a password"), 2, audited.stdout)  # why, and what for

    def test_sudo_with_and_without_a_password(self):
        path = os.path.join(self.directory.name, "inventory.yaml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump({"hosts": {"nopasswd": self.settings(user="ops", become="sudo"),
                                      "password": self.settings(user="opspw", become="sudo")}}, file)
        secret = os.path.join(self.directory.name, "password")
        with open(secret, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write("trueup-lab\n")
        result = audit("-i", path, "--become-password-file", secret)
        for name in ["nopasswd", "password"]:
            self.assertEqual(result.host(name)["status"], "audited", result.host(name)["error"])
            self.assertEqual(result.findings(name), [])
        with open(secret, "w", encoding="utf-8") as file:
            file.write("not-the-password\n")
        result = audit("-i", path, "-l", "password", "--become-password-file", secret)
        self.assertEqual(result.status, 4)
        self.assertEqual(result.host("password")["error"]["kind"], "escalation")
        self.assertNotIn("not-the-password", result.text + result.errors)


if __name__ == "__main__":
    hosts.main()
