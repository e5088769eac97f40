"""A fleet of two hundred in which hosts fail in every way and phase: each is named with what happened and where; all
others are audited as if nothing were wrong. The hosts are simulated (tests/fleet)."""
import os
import sys
import unittest

import fleet
from hosts import TRUEUP, audit

PROGRAM = os.environ.get("TRUEUP_FLEET", "")
SEED = 20261201
HOSTS = 200
# What an audit must say of a host with this fault: the error's kind, and its message: phase and reason.
HANDSHAKE_CUT = ("unreachable", "SSH handshake: the host closed the connection before the key exchange was done")
# A reset may come before we have even seen the connection made.
EARLY_RESET = ("unreachable", "SSH handshake: the host closed the connection|connecting to .*reset by peer")
AUTH_CUT = ("auth", "authenticating as root: the host hung up while root logged in")
SHELL_CUT = ("unreachable", "starting a shell: the connection was cut")
FAILURES = {
    "refuse": ("unreachable", "connecting to .*refused the connection"),
    "silent": ("timeout", "connecting to .*no answer within 8 s"),
    "wrong-key": ("host_key", "checking the host key: .*has changed"),
    "huge": ("limit", "probing: the host sends more than all its probes together may"),
    "noise": ("unreachable", "probing: the shell ended with status 0 before its last probe"),
    "killed": ("unreachable", "probing: the shell ended with status 137 before its last probe"),
    "hang:banner": ("timeout", "SSH handshake: the connection was accepted, but no SSH banner came: .*8 s"),
    "hang:kex": ("timeout", "SSH handshake: no answer within 8 s"),
    "hang:auth": ("timeout", "authenticating as root: no answer within 8 s"),
    "hang:channel": ("timeout", "starting a shell: no answer within 8 s"),
    "hang:exec": ("timeout", "starting a shell: no answer within 8 s"),
    "hang:output": ("timeout", "probing: .*20 s.*"),
    "cut:banner": HANDSHAKE_CUT,
    "cut:kex": HANDSHAKE_CUT,
    "cut:auth": AUTH_CUT,
    "cut:channel": SHELL_CUT,
    "cut:exec": SHELL_CUT,
    "cut:output": ("unreachable", "probing: the connection was cut"),
    "reset:banner": EARLY_RESET,
    "reset:kex": EARLY_RESET,
    "reset:auth": AUTH_CUT,
    "reset:channel": SHELL_CUT,
    "reset:exec": SHELL_CUT,
    "reset:output": ("unreachable", "probing: the connection was cut"),
    "garbage:banner": HANDSHAKE_CUT,
    "garbage:kex": HANDSHAKE_CUT,
    # It comes with the last message of the key exchange or after that.
    "garbage:auth": ("unreachable|auth", "SSH handshake: the SSH handshake failed: .+|authenticating as root: .+"),
    "garbage:channel": ("unreachable", "starting a shell: the host opened no channel"),
    "garbage:exec": ("unreachable", "starting a shell: (the host runs no command|cannot write)"),
    "garbage:output": ("unreachable", "probing: cannot read from the shell: .+"),
}
SURVIVED = ["flaky", "latency", "trickle"]


class FaultsInAFleet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.faults = fleet.seeded_faults([*FAILURES, *SURVIVED], HOSTS, SEED)
        with fleet.Fleet(TRUEUP, PROGRAM, HOSTS, cls.faults) as cls.fleet:
            cls.audit = audit("-i", cls.fleet.inventory, "--forks", "100", "--connect-timeout", "8s", "--host-timeout",
                              "20s", env={**os.environ, "SSH_AUTH_SOCK": ""})

    def host_with(self, fault):
        [number] = [number for number, its in self.faults.items() if its == fault]
        return self.audit.host(self.fleet.name(number))

    def test_the_run_says_that_not_everything_was_looked_at(self):
        self.assertEqual(self.audit.status, 4, self.audit.errors)
        self.assertEqual([host["name"] for host in self.audit.document["hosts"]],
                         [self.fleet.name(number) for number in range(1, HOSTS + 1)])

    def test_each_failure_names_phase_and_reason(self):
        for fault, (kind, message) in FAILURES.items():
            with self.subTest(fault=fault):
                host = self.host_with(fault)
                self.assertIsNotNone(host["error"], host["status"])
                self.assertRegex(host["error"]["kind"], f"^({kind})$", host["error"])
                self.assertRegex(host["error"]["message"], f"on host {host['name']}: ({message})")
                self.assertEqual(host["findings"], [])

    def test_what_can_be_survived_is(self):
        for fault in SURVIVED:
            with self.subTest(fault=fault):
                host = self.host_with(fault)
                self.assertEqual((host["status"], host["error"]), ("audited", None))

    def test_all_others_are_audited(self):
        for number in set(range(1, HOSTS + 1)) - set(self.faults):
            host = self.audit.host(self.fleet.name(number))
            self.assertEqual((host["status"], host["error"]), ("audited", None), host["name"])

    def test_no_answer_was_lost(self):
        self.assertEqual(self.fleet.answers, HOSTS - len(FAILURES))


class HangsUnderADeadline(unittest.TestCase):
    def test_the_hosts_own_deadline_ends_a_hang_in_any_phase(self):
        phases = {"silent": "connecting to", "hang:banner": "SSH handshake", "hang:kex": "SSH handshake",
                  "hang:auth": "authenticating as root", "hang:channel": "starting a shell",
                  "hang:exec": "starting a shell", "hang:output": "probing"}
        faults = dict(enumerate(phases, 1))
        with fleet.Fleet(TRUEUP, PROGRAM, len(faults), faults) as hosts:
            result = audit("-i", hosts.inventory, "--connect-timeout", "60s", "--host-timeout", "10s",
                           env={**os.environ, "SSH_AUTH_SOCK": ""})
        self.assertEqual(result.status, 4, result.errors)
        for number, fault in faults.items():
            with self.subTest(fault=fault):
                error = result.host(hosts.name(number))["error"]
                self.assertEqual(error["kind"], "timeout", error)
                self.assertRegex(error["message"], f"on host {hosts.name(number)}: {phases[fault]}.*10 s")


if __name__ == "__main__":
    if not PROGRAM:
        print("skipped: built without libssh, so there is no simulated fleet (Debian's libssh-dev)")
        sys.exit(77)
    unittest.main(verbosity=2)
