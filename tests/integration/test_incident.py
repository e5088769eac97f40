"""The incident, end to end over SSH: one root cause on the host that carries it, none on its healthy twin."""
import re
import unittest

import hosts
from hosts import audit, booted, lab

ROOT = "flashinfer.arch-set-empty"
UNIT = "sglang-k26.service"


def chain(finding):
    return "\n".join(finding["evidence"])


def summary(result, name):
    """What must not depend on how the host is mounted: findings without the times and counters in their texts."""
    return sorted((f["check"], f["about"], f["severity"], f["root"]) for f in result.findings(name))


class Incident(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.boot = booted("ct200", "ct201")
        cls.inventory = cls.boot.__enter__()
        cls.addClassCleanup(cls.boot.__exit__, None, None, None)
        cls.result = audit("-i", cls.inventory)

    def test_exit_status_says_that_something_is_wrong(self):
        self.assertEqual(self.result.status, 3, self.result.errors)
        self.assertEqual(self.result.document["run"]["exit"], 3)

    def test_there_is_one_root_cause_and_it_is_the_right_one(self):
        roots = [f["check"] for f in self.result.findings("ct200") if f["root"]]
        self.assertEqual(roots, [ROOT])

    def test_the_chain_is_complete(self):
        [finding] = [f for f in self.result.findings("ct200") if f["check"] == ROOT]
        text = chain(finding)
        self.assertEqual(finding["about"], UNIT)
        for link in [r"12\.0", r"RTX PRO 6000", r"/root/venv_sglang211", r"flashinfer-python \d+\.\d+", r"/usr/local/cuda",
                     r"nvcc.*12\.8", r">= ?12\.9|12\.9", r"empty", r"requires GPUs with sm75 or higher"]:
            self.assertRegex(text, link)

    def test_the_failed_unit_is_a_symptom_not_a_cause(self):
        [failed] = [f for f in self.result.findings("ct200", "info") if f["check"] == "service.failed"]
        self.assertFalse(failed["root"])
        self.assertEqual(failed["caused_by"], [f"{ROOT}@{UNIT}"])

    def test_a_kill_without_an_oom_record_is_not_called_one(self):
        for finding in self.result.findings("ct200", "info"):
            text = " ".join([finding["check"], finding["title"]]).lower()
            self.assertNotRegex(text, r"\boom\b|out of memory", finding)

    def test_the_login_shell_has_no_nvcc_and_misleads_nobody(self):
        login = lab("exec", "ct200", "--", "sh", "-lc", "command -v nvcc || echo none").stdout
        self.assertEqual(login.strip(), "none")
        self.assertIn(ROOT, [f["check"] for f in self.result.findings("ct200")])

    def test_the_healthy_twin_is_clean(self):
        self.assertEqual(self.result.findings("ct201"), [])
        self.assertEqual(self.result.host("ct201")["not_evaluated"], [])
        self.assertEqual(self.result.host("ct201")["status"], "audited")
        alone = audit("-i", self.inventory, "-l", "ct201")
        self.assertEqual(alone.status, 0, alone.errors)

    def test_every_probe_answers(self):
        for name in ["ct200", "ct201"]:
            for probe in self.result.host(name)["probes"]:
                self.assertIn(probe["status"], ["ok", "absent"], probe)

    def test_the_audit_changes_nothing(self):
        audit("-i", self.inventory)
        self.assertEqual(lab("changed", "ct200").stdout, "")

    def test_one_login_and_one_channel_per_host(self):
        def sshd_log():
            return lab("exec", "ct200", "--", "journalctl", "-u", "ssh", "-o", "cat", "--no-pager").stdout.splitlines()

        before = len(sshd_log())
        audit("-i", self.inventory)
        lines = sshd_log()[before:]
        self.assertEqual(sum("Accepted publickey" in line for line in lines), 1, lines)
        self.assertEqual(sum(bool(re.search(r"Starting session: command", line)) for line in lines), 1, lines)

    def test_the_table_leads_with_the_cause(self):
        done = hosts.run(hosts.TRUEUP, "audit", "-i", self.inventory, check=False)
        self.assertEqual(done.returncode, 3)
        first = done.stdout.splitlines()[0]
        self.assertIn("error", first)
        self.assertIn("ct200", first)
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("1 root cause", done.stdout.splitlines()[-1])


class UnkindFileSystems(unittest.TestCase):
    def findings_with(self, *options):
        with booted("ct200", options=options) as inventory:
            result = audit("-i", inventory)
            self.assertEqual(result.status, 3, result.errors)
            return summary(result, "ct200"), result

    def test_read_only_root_and_full_disk_give_the_same_findings(self):
        ordinary, _ = self.findings_with()
        self.assertIn(ROOT, [check for check, *_ in ordinary])
        for option, itself in [("--read-only", "cache.read-only"), ("--full-disk", "cache.no-room")]:
            with self.subTest(option=option):
                found, result = self.findings_with(option)
                self.assertEqual([f for f in found if f[0] != itself], ordinary)
                for probe in result.host("ct200")["probes"]:
                    self.assertIn(probe["status"], ["ok", "absent"], probe)


if __name__ == "__main__":
    hosts.main()
