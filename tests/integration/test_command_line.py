"""The command line without any host: errors that teach, the exit status, and this machine's own audit."""
import json
import os
import pathlib
import shutil
import tempfile
import unittest

import hosts
from hosts import SOURCE, TRUEUP, audit, run


def trueup(*arguments, **kwargs):
    return run(TRUEUP, *arguments, check=False, **kwargs)


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def file(self, name, text):
        path = pathlib.Path(self.directory.name) / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def refused(self, *arguments, says):
        done = trueup(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, done.stderr)

    def test_usage_errors_name_the_nearest_right_word(self):
        self.refused(says="a command is missing")
        self.refused("audti", says=["'audti'", "did you mean 'audit'"])
        self.refused("audit", "--inventroy", "x", says=["--inventroy", "--inventory"])
        self.refused("audit", "--format", "jsn", says=["'jsn'", "did you mean 'json'"])
        self.refused("audit", "--host-timeout", "soon", says=["expected a duration", "'soon'"])
        self.refused("audit", "--fail-on", "fatal", says="fatal")

    def test_what_is_to_be_pruned_has_to_be_said(self):
        self.refused("prune", "--yes", says=["--host-state", "--store"])

    def test_an_empty_word_is_no_option_left_out(self):
        for option in ["--user", "--private-key", "--limit"]:
            self.refused("audit", option, "", says=[option, "empty"])

    def test_help_and_version_are_results(self):
        for arguments in [["--help"], ["audit", "--help"], ["--version"], ["version"]]:
            done = trueup(*arguments)
            self.assertEqual(done.returncode, 0)
            self.assertTrue(done.stdout)
            self.assertEqual(done.stderr, "")

    def test_help_says_how_a_command_is_called(self):
        self.assertIn("Usage: trueup audit [OPTIONS]", trueup("audit", "--help").stdout)
        self.assertIn("Usage: trueup inventory list [OPTIONS]", trueup("inventory", "list", "--help").stdout)
        for command in ["audit", "plan", "apply", "prune"]:
            text = trueup(command, "--help").stdout
            for raw in ["TEXT", "UINT", "{false}"]:
                self.assertNotIn(raw, text)

    def test_a_password_that_nobody_would_get_is_told(self):
        self.refused("audit", "--become-password-file", self.file("password", "x"),
                     says=["--become-password-file", "no selected host has sudo", "-b becomes root"])

    def test_without_an_inventory_there_is_this_machine(self):
        for command in [["facts", "gpu1"], ["explain", "gpu1"], ["audit", "-l", "gpu1"]]:
            self.refused(*command, says=["'gpu1'", "without -i there is one host, localhost"])

    def test_a_user_in_the_name_of_a_host_is_told_where_it_belongs(self):
        self.refused("audit", "-i", "root@gpu1,", says=["host name 'root@gpu1': '@'", "the account is said by 'user', or by -u"])

    def test_lint_says_what_is_in_an_inventory(self):
        done = trueup("lint", "-i", self.file("inv.yaml", "hosts: {a: {}, b: {}}\ngroups: {g: {hosts: [a]}}\n"))
        self.assertIn("/inv.yaml: 2 hosts, 1 group\n", done.stdout)
        done = trueup("lint", "-i", self.file("none.yaml", "hosts: {}\n"))
        self.assertIn("/none.yaml: 0 hosts, 0 groups; nothing would be looked at", done.stdout)

    def test_a_playbook_may_stand_beside_the_shipped_ones(self):
        playbook = self.file("p.yaml", f"include: [{os.path.relpath(SOURCE, self.directory.name)}/playbooks/disks.yaml]\n"
                                       "checks: {site.a: {title: t, severity: error, because: b, assert: 'false'}}\n")
        shipped, with_it = (trueup("lint", *arguments).stdout for arguments in [[], ["--also-playbook", playbook]])
        numbers = [[int(word) for word in text.split() if word.isdigit()] for text in (shipped, with_it)]
        self.assertEqual([b - a for a, b in zip(*numbers)], [1, 0, 1, 0, 0])  # files, probes, checks, signatures, fixes

    def test_the_script_at_the_top_is_told_apart_from_the_program(self):
        script = pathlib.Path(self.directory.name) / "run"
        shutil.copy(SOURCE / "run", script)
        helped = run(str(script), "audit", "--help", check=False)  # nothing is built there, and nothing is to be
        self.assertEqual((helped.returncode, helped.stderr), (0, ""))
        self.assertIn("./run audit [ARGS]", helped.stdout)
        words = trueup("--help").stdout.split("Subcommands:")[1]
        commands = [line.split()[0] for line in words.splitlines() if line.startswith("  ") and line[2] != " "]
        self.assertIn("plan", commands)
        for word, says in [("audti", "there are: audit, test, demo")] + [
                (command, f"build/trueup {command}") for command in commands if command != "audit"]:
            done = run(str(script), word, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(says, done.stderr)

    def test_a_missing_inventory_and_an_unknown_limit(self):
        self.refused("audit", "-i", "/no/such/file", says=["/no/such/file", "No such file"])
        inventory = self.file("inv.yaml", "hosts: {gpu-one: {}, gpu-two: {}}\n")
        self.refused("audit", "-i", inventory, "-l", "gpu-oen", says=["gpu-oen", "did you mean 'gpu-one'"])

    def test_a_plan_is_made_of_what_there_is(self):
        facts = self.file("facts.json", '{"schema": 1, "name": "gpu1", "gpus": []}')
        self.refused("plan", "--from", facts, "-o", self.file("plan.json", ""), says=["stored facts", "not saved"])
        self.refused("plan", "--from", facts, "--only", "flashinfer.arch-set-empti",
                     says=["--only", "did you mean 'flashinfer.arch-set-empty'"])
        self.refused("plan", "--from", facts, "--fix", "nosuch", says=["--fix", "'nosuch'"])
        self.refused("plan", "-o", "/no/such/directory/p.json", says=["/no/such/directory/p.json", "--out"])
        playbook = self.file("p.yaml", """
checks: {a.b: {title: wrong, severity: error, because: b, assert: 'false', fix: f}}
fixes: {f: {title: t, steps: [{no_such_action: {path: /x}}]}}
""")
        self.refused("lint", "-p", playbook, says=[":3:32: fix f: there is no action 'no_such_action'"])

    def test_what_is_wrong_in_a_fix_is_told_by_its_place_with_the_nearest_right_name(self):
        for step, says in (
                ("fiel: {path: /etc/x/y}", ":6:7: fix f: there is no action 'fiel'; did you mean 'file'?"),
                ("file: {path: /etc/x/y, contnet: x}",
                 ":6:30: fix f: file: unknown parameter 'contnet'; did you mean 'content'?"),
                ("file: {path: [x], content: x}", ":6:14: fix f: file: path: expected a text, got array"),
                ("cuda_toolkit: {version: 13.0}",
                 ":6:22: fix f: cuda_toolkit: version: expected a text, got number (put it in quotes)"),
                ("cuda_toolkit: {packages: full}", ":6:7: fix f: cuda_toolkit: parameter 'version' is missing"),
                ("cuda_toolkit: {version: '13.0', packages: ful}",
                 ":6:39: fix f: cuda_toolkit: packages: expected one of full, minimal, got 'ful'; did you mean 'full'"),
                ("command: {check: [a], apply: [b]}", ":6:7: fix f: command: 'undo' is missing"),
                ("command: {check: [-a], apply: [b], undo: [c]}", ":6:7: fix f: command: check: '-a' is no name"),
                ("service: {unit: x.service, state: started, health: {ulr: 'http://h/'}}",
                 "unknown parameter 'ulr'; did you mean 'url'?")):
            playbook = self.file("p.yaml", "checks: {a.b: {title: t, severity: error, because: b, assert: 'false', "
                                           f"fix: f}}}}\nfixes:\n  f:\n    title: t\n    steps:\n    - {step}\n")
            with self.subTest(step=step):
                self.refused("lint", "-p", playbook, says=[says])

    def test_a_finding_without_a_fix_is_left_out_of_the_plan(self):
        facts = self.file("facts.json", '{"schema": 1, "name": "gpu1", "gpus": []}')
        playbook = self.file("p.yaml", "checks: {a.b: {title: wrong, severity: error, because: b, assert: 'false'}}\n")
        done = trueup("plan", "--no-store", "--from", facts, "-p", playbook, "--format", "json")
        self.assertEqual(done.returncode, 3, done.stderr)
        plan = json.loads(done.stdout)
        self.assertEqual(plan["kind"], "plan")
        self.assertNotIn("mac", plan)
        self.assertEqual(plan["hosts"][0]["left_out"],
                         [{"key": "a.b", "title": "wrong", "severity": "error", "why": "no fix is known"}])
        self.assertEqual(plan["hosts"][0]["unverified_source"], facts)

    def test_expressions_that_reach_out_are_refused_by_place(self):
        for expression in ["$ENV.SECRET", "env.SECRET", "input", 'import "a" as a; true', "debug", "now", "halt"]:
            with self.subTest(expression=expression):
                playbook = self.file("p.yaml", f"""
checks:
  reaches.out:
    title: t
    severity: error
    assert: '{expression}'
    because: b
""")
                done = trueup("audit", "-p", playbook, env={**os.environ, "SECRET": "hunter2"})
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn("p.yaml:6:", done.stderr)
                self.assertNotIn("hunter2", done.stdout + done.stderr)

    def test_lint_reports_all_errors_at_once(self):
        playbook = self.file("p.yaml", """
probes:
  a: {into: gpsu, script: 'true', parse: {kvv: {}}, limt: 5s}
checks:
  b: {title: t, severity: errr, assert: '.gpus[].compute_cp', because: x}
""")
        done = trueup("lint", "-p", playbook)
        self.assertEqual(done.returncode, 2)
        for text in ["p.yaml:3:", "'gpsu'; did you mean 'gpus'", "kvv", "'limt'; did you mean 'limit'", "p.yaml:5:", "errr"]:
            self.assertIn(text, done.stderr)

    def test_what_ships_is_right(self):
        done = trueup("lint")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_examples_are_right(self):
        for path in sorted((SOURCE / "examples").glob("*")):
            option = "-p" if "playbook" in path.name else "-i"
            if path.is_file() and path.suffix in [".yaml", ".ini"]:
                with self.subTest(example=path.name):
                    done = trueup("lint", option, str(path))
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_this_machine_can_be_audited(self):
        result = audit()
        self.assertIn(result.status, [0, 3, 4])
        self.assertEqual(result.status, result.document["run"]["exit"])
        [host] = result.document["hosts"]
        self.assertEqual(host["name"], "localhost")
        self.assertNotEqual(host["status"], "unreachable", host["error"])
        facts = json.loads(run(TRUEUP, "facts").stdout)
        self.assertEqual(facts["host"]["kernel"], os.uname().release)
        self.assertEqual(facts["schema"], 1)

    def test_reports_into_files_are_private_and_stdout_stays_clean(self):
        path = os.path.join(self.directory.name, "report.json")
        done = trueup("audit", "--format", f"json:{path}", "--format", f"table:{path}.txt")
        self.assertEqual(done.stdout, "")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        json.loads(pathlib.Path(path).read_text(encoding="utf-8"))

    def test_what_cannot_be_written_is_no_success(self):
        for arguments in [["--help"], ["version"], ["lint"], ["inventory", "list", "-i", "a,b,"]]:
            with self.subTest(arguments=arguments), open("/dev/full", "w", encoding="utf-8") as full:
                done = hosts.subprocess.run([TRUEUP, *arguments], stdout=full, stderr=hosts.subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot write to standard output", done.stderr)

    def test_a_report_that_cannot_be_written_is_told_before_the_audit(self):
        folder = self.directory.name
        for path, why in [(f"{folder}/missing/r.json", "No such file"), (folder, "Is a directory")]:
            self.refused("audit", "-i", "203.0.113.1,", "--format", f"json:{path}", says=[f"cannot write '{path}'", why])

    def test_inventories_that_are_no_files(self):
        self.refused("inventory", "list", "-i", "/dev/null", says="'/dev/null' is a device; expected a file or a pipe")
        self.refused("inventory", "list", "-i", self.directory.name, says="is a directory")
        piped = run("bash", "-c", f"{TRUEUP} inventory list -i <(echo 'hosts: {{a: }}')", check=False)
        self.assertEqual(piped.stdout, "a  a:22\n", piped.stderr)
        pipe = f"{self.directory.name}/pipe"
        os.mkfifo(pipe)
        late = run("sh", "-c", f"(echo 'hosts: {{b: }}' > {pipe}) & {TRUEUP} inventory list -i {pipe}", check=False)
        self.assertEqual(late.stdout, "b  b:22\n", late.stderr)
        endless = run("sh", "-c", f"yes '# a comment' | head -c 70M | {TRUEUP} inventory list -i -", check=False)
        self.assertEqual(endless.returncode, 2, endless.stderr)
        self.assertIn("standard input gives more than 64 MiB", endless.stderr)

    def test_the_list_shows_no_address_that_could_not_be_read(self):
        inventory = self.file("hosts.ini", "gpu1 ansible_host='{{ address_of_gpu1 }}'\ngpu2 ansible_host=10.9.8.7\n")
        listed = trueup("inventory", "list", "-i", inventory).stdout.splitlines()
        self.assertEqual(listed, ["gpu1  (address not usable)", "gpu2  10.9.8.7:22"])

    def test_two_reports_for_one_place_and_endless_files_are_refused(self):
        self.refused("audit", "--format", "json", "--format", "table", says="two reports for standard output")
        self.refused("audit", "--format", "json:", says="a path is missing")
        self.refused("inventory", "list", "-i", "/dev/zero", says="/dev/zero")

    def test_what_an_inventory_leaves_unread_is_said_once(self):
        self.file("hosts.ini", "[inference]\ngpu1\n")
        (pathlib.Path(self.directory.name) / "group_vars").mkdir()
        self.file("group_vars/inference", "$ANSIBLE_VAULT;1.1;AES256\n3133\n")
        inventory = str(pathlib.Path(self.directory.name) / "hosts.ini")
        for arguments in [["inventory", "list", "-i", inventory], ["lint", "-i", inventory],
                          ["audit", "-q", "-i", inventory, "-l", "all:!gpu1"]]:
            with self.subTest(arguments=arguments):
                self.assertEqual(trueup(*arguments).stderr.count("encrypted with ansible-vault"), 1)

    def test_deep_probes_run_only_when_asked_for(self):
        touched = os.path.join(self.directory.name, "touched")
        playbook = self.file("deep.yaml", f"""
probes:
  disks: {{into: disks, deep: true, script: 'echo ran >>{touched}; echo "[]"', parse: {{json: {{}}}}}}
checks:
  disk.none: {{title: t, severity: error, needs: [disks], assert: '.disks == []', because: b}}
""")
        done = trueup("audit", "-p", playbook, "--format", "json")
        self.assertEqual(done.returncode, 4, done.stderr)
        [host] = json.loads(done.stdout)["hosts"]
        self.assertIn("only a deep probe can tell", host["not_evaluated"][0]["why"])
        self.assertFalse(os.path.exists(touched))
        self.assertEqual(trueup("audit", "-p", playbook, "--deep").returncode, 0)
        self.assertTrue(os.path.exists(touched))
        self.assertIn("1 probes", trueup("lint", "-p", playbook).stdout)
        self.refused("lint", "-p", self.file("p.yaml", "probes: {a: {into: gpus, deeep: true, script: 'true', parse: {lines: {}}}}"),
                     says=["'deeep'; did you mean 'deep'"])

    def test_no_host_is_no_pass(self):
        inventory = self.file("inv.yaml", "hosts: {one: {}}\n")
        done = trueup("audit", "-i", inventory, "-l", "all:!one", "--format", "json")
        self.assertEqual(done.returncode, 4, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
