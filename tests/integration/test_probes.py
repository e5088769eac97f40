"""Scripts of the shipped probes, run here with stand-ins for the programs that they ask: what these tell, or do not tell,
is what comes out. Paths below /var/log are moved into a directory of the test."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)

SOURCE = pathlib.Path(__file__).parents[2]
ABSENT, UNKNOWN = 221, 222
CONSUMERS = "\n!end services\n!end processes\n"
SHELLS = [shell for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(shell[0])]


class Probe:
    """What a script printed and how it ended."""

    def __init__(self, done):
        self.status, self.text = done.returncode, done.stdout
        self.records = [
            [tuple(line.split("=", 1)) for line in block.splitlines() if "=" in line]
            for block in done.stdout.split("\n\n")
        ]

    def values(self, key):
        return [value for record in self.records for name, value in record if name == key]

    def record(self, key, value):
        return next(dict(record) for record in self.records if (key, value) in record)


class ProbesTest(unittest.TestCase):
    def setUp(self):
        self.tree = pathlib.Path(tempfile.mkdtemp(prefix="trueup-test-"))
        self.tree.chmod(0o755)
        (self.tree / "bin").mkdir()
        (self.tree / "bin").chmod(0o755)
        self.addCleanup(shutil.rmtree, self.tree)

    def program(self, name, text):
        path = self.tree / "bin" / name
        path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def run_probe(self, playbook, probe, functions="", stdin="", prefix=(), shell=("dash",)):
        """`functions` stand in for those of the libraries and for programs."""
        text = (SOURCE / "playbooks" / playbook).read_text(encoding="utf-8")
        script = yaml.safe_load(text)["probes"][probe]["script"].replace("/var/log", f"{self.tree}/log")
        parts = [(SOURCE / "src/probe" / name).read_text(encoding="utf-8") for name in ("lib.sh", "consumers.sh")]
        places = (SOURCE / "src/probe/cache_places.txt").read_text(encoding="utf-8")
        table = "\n".join(line for line in places.splitlines() if not line.startswith("#"))
        text = "\n".join([*parts, f"cache_places={shlex.quote(table)}", 'may_run() { [ -x "$1" ]; }', functions, script])
        environment = {
            "PATH": f"{self.tree}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": f"{self.tree}/home", "LC_ALL": "C", "TZ": "UTC",
            "TRUEUP_SIGNATURES": "a.b\tknown line\n", "TREE": str(self.tree),
        }
        return Probe(subprocess.run([*prefix, *shell, "-c", text], input=stdin, env=environment, cwd="/", timeout=60,
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=False))

    # --- containers ---

    INFO = """echo '{"CgroupDriver": "systemd"}'"""

    def docker(self, inspect, ids=("a" * 64, "b" * 64), info=INFO, logs="echo known line"):
        lines = "\n".join(ids)
        self.program("docker", f"case $1 in\nps) printf '%s\\n' '{lines}' ;;\ninfo) {info} ;;\n"
                               f"inspect) shift\n{inspect} ;;\nlogs) {logs} ;;\nesac\n")
        return self.run_probe("containers.yaml", "containers")

    DESCRIBE = r"""for id; do printf '[{"Id": "%s", "Name": "/n", "State": {"Status": "running"},
        "HostConfig": {"Runtime": "nvidia"}, "Config": {"Image": "x", "Env": ["NVIDIA_VISIBLE_DEVICES=all"]}}]\n' "$id"; done"""

    def test_containers_that_the_engine_describes(self):
        probe = self.docker(self.DESCRIBE)
        self.assertEqual(probe.status, 0)
        self.assertEqual(probe.values("id"), ["a" * 64, "b" * 64])
        self.assertEqual(probe.values("cgroup_driver"), ["systemd"] * 2)
        self.assertEqual(probe.values("log"), ["a.b: known line"] * 2)
        self.assertNotIn("unknown.", probe.text)

    def test_containers_that_it_does_not_describe_are_unknown(self):
        for inspect in ("exit 1", "echo cannot connect; exit 1", "kill -9 $$"):
            with self.subTest(inspect):
                probe = self.docker(inspect)
                self.assertEqual(probe.values("id"), ["a" * 64, "b" * 64])
                self.assertEqual(len(probe.values("unknown.gpus")), 2)

    def test_containers_that_it_describes_in_part(self):
        gone = 'for id; do case $id in b*) echo "Error: No such object: $id"; exit 1 ;; esac; set -- "$id"; %s; done'
        self.assertEqual(self.docker(gone % self.DESCRIBE).values("id"), ["a" * 64])
        cut = 'set -- "$1"; %s; exit 1'
        probe = self.docker(cut % self.DESCRIBE)
        self.assertIn("unknown.gpus", probe.record("id", "b" * 64))
        self.assertNotIn("unknown.gpus", probe.record("id", "a" * 64))

    def test_many_containers(self):
        ids = [f"{number:064x}" for number in range(1, 204)]
        probe = self.docker(self.DESCRIBE, ids)
        self.assertEqual(sorted(probe.values("id")), ids)
        self.assertEqual(len(probe.values("unknown.gpus")), 3)

    def test_what_else_the_engine_does_not_tell(self):
        probe = self.docker(self.DESCRIBE, info="exit 1", logs="exit 1")
        self.assertEqual(len(probe.values("unknown.cgroup_driver")), 2)
        self.assertEqual(len(probe.values("unknown.log")), 2)

    def test_podman_under_the_name_of_docker_is_not_run(self):
        self.program("docker", f'echo ran >"{self.tree}/ran"\nexec /usr/bin/podman "$@"\n')
        self.assertEqual(self.run_probe("containers.yaml", "containers").status, ABSENT)
        self.program("podman", f'echo ran >"{self.tree}/ran"\n')
        (self.tree / "bin/docker").unlink()
        (self.tree / "bin/docker").symlink_to("podman")
        self.assertEqual(self.run_probe("containers.yaml", "containers").status, ABSENT)
        self.assertFalse((self.tree / "ran").exists())

    # --- packages ---

    ROOT_WITH_RPM = """
        id() { [ "$1" = -u ] && echo 0; }
        as_uid() { WHO=$1; export WHO; shift; "$@"; }
        command() { [ "$2" != dpkg-query ]; }"""

    def test_rpm_is_asked_as_nobody(self):
        self.program("rpm", '[ "$WHO" = 65534 ] || exit 9\nprintf "kernel-core\\t5.14.0-1\\nother\\t1\\n"\n')
        probe = self.run_probe("packages.yaml", "packages", self.ROOT_WITH_RPM)
        self.assertEqual((probe.status, probe.values("name")), (0, ["kernel-core"]))
        self.program("rpm", 'printf "kernel-core\\t5.14.0-1\\n"\nexit 1\n')
        self.assertEqual(self.run_probe("packages.yaml", "packages", self.ROOT_WITH_RPM).status, UNKNOWN)

    def updates(self, dump):
        (self.tree / "dump").write_text(dump, encoding="utf-8")
        return self.run_probe("packages.yaml", "updates", 'command() { :; }\nmay_run() { :; }\n'
                              'timeout() { shift; case $1 in */apt-config) cat "$TREE/dump" ;; *) "$@" ;; esac; }')

    def test_the_last_word_of_apt_counts(self):
        on = 'APT::Periodic::Unattended-Upgrade "1";\n'
        more = 'Unattended-Upgrade::Package-Blacklist "";\nUnattended-Upgrade::Package-Blacklist:: "nvidia-";\n'
        self.assertEqual(self.updates(on + more).values("automatic"), ["unattended-upgrades"])
        self.assertEqual(self.updates(on + more).values("excluded"), ["nvidia-"])
        self.assertEqual(self.updates('APT::Periodic::Unattended-Upgrade "0";\n' + more).values("automatic"), [""])
        self.assertEqual(self.updates(more).values("automatic"), [""])
        (self.tree / "dump").unlink()
        probe = self.run_probe("packages.yaml", "updates", "command() { :; }\nmay_run() { :; }\ntimeout() { return 124; }")
        self.assertEqual((probe.values("automatic"), len(probe.values("unknown.automatic"))), ([], 1))

    @unittest.skipUnless(os.access("/usr/bin/apt-config", os.X_OK), "no apt-config here")
    def test_apt_itself_says_which_word_is_the_last(self):
        parts = self.tree / "apt.conf.d"
        parts.mkdir()
        (parts / "20auto").write_text('APT::Periodic::Unattended-Upgrade "1";\n', encoding="utf-8")
        (parts / "30auto.bak").write_text('APT::Periodic::Unattended-Upgrade "2";\n', encoding="utf-8")
        (parts / "50site").write_text('APT::Periodic { Unattended-Upgrade "0"; };\n', encoding="utf-8")
        main = self.tree / "apt.conf"
        main.write_text(f'Dir::Etc::Parts "{parts}";\nDir::Etc::Main "/nonexistent";\n', encoding="utf-8")
        functions = f'command() {{ :; }}\ntimeout() {{ shift; APT_CONFIG={main} "$@"; }}'
        self.assertEqual(self.run_probe("packages.yaml", "updates", functions).values("automatic"), [""])
        (parts / "50site").unlink()
        self.assertEqual(self.run_probe("packages.yaml", "updates", functions).values("automatic"), ["unattended-upgrades"])

    # --- the previous boot ---

    def journal(self):
        directory = self.tree / "log/journal/0123"
        directory.mkdir(parents=True)
        (directory / "system.journal").write_text("x", encoding="utf-8")
        return directory

    def test_the_previous_boot_as_the_journal_tells_it(self):
        self.journal()
        self.program("journalctl", "echo 'known line'\ncase $* in *'-k '*) ;; *) echo 'Journal stopped' ;; esac\n")
        probe = self.run_probe("previous-boot.yaml", "previous_boot")
        self.assertEqual((probe.values("source"), probe.values("clean")), (["journal"], ["yes"]))
        self.assertEqual(probe.values("signatures"), ["a.b: known line"])

    def test_how_it_ended_is_unknown_where_the_journal_stops_telling(self):
        self.journal()
        self.program("journalctl", "case $* in *'-k '*) echo 'known line' ;; *) exit 1 ;; esac\n")
        probe = self.run_probe("previous-boot.yaml", "previous_boot")
        self.assertEqual((probe.values("clean"), len(probe.values("unknown.clean"))), ([], 1))

    def test_a_journal_that_takes_too_long_is_unknown(self):
        self.journal()
        self.program("journalctl", "")
        self.assertEqual(self.run_probe("previous-boot.yaml", "previous_boot", "timeout() { return 124; }").status, UNKNOWN)

    def test_no_journal_of_another_boot_is_absent(self):
        self.journal()
        self.program("journalctl", "exit 1\n")
        self.assertEqual(self.run_probe("previous-boot.yaml", "previous_boot").status, ABSENT)
        shutil.rmtree(self.tree / "log")
        self.assertEqual(self.run_probe("previous-boot.yaml", "previous_boot").status, ABSENT)

    def test_a_journal_that_cannot_be_read_is_unknown(self):
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
        directory = self.journal()
        self.program("journalctl", "")
        for path, mode in ((directory, 0o700), (directory.parent, 0o711), (self.tree / "log", 0o600),
                           (directory / "system.journal", 0o640)):
            if not nobody:
                mode = 0o000
            before = path.stat().st_mode
            path.chmod(mode)
            with self.subTest(str(path.relative_to(self.tree))):
                self.assertEqual(self.run_probe("previous-boot.yaml", "previous_boot", prefix=nobody).status, UNKNOWN)
            path.chmod(before)

    # --- caches ---

    @unittest.skipUnless(os.geteuid() == 0, "not root: everything has one owner")
    def test_a_directory_of_a_cache_is_one_record_whoever_owns_it(self):
        version = self.tree / "home/.cache/flashinfer/0.6.8"
        for path, owner in (("", 0), ("120f", 0), ("120f/cached_ops", 0), ("120f/cached_ops/ours", 0),
                            ("120f/cached_ops/theirs", 12345), ("90a", 23456)):
            (version / path).mkdir(parents=True, exist_ok=True)
            os.chown(version / path, owner, owner)
        (version / "flashinfer_jit.log").touch()
        other = version.parent / "0.6.9"
        (other / "120f").mkdir(parents=True)
        for path in (other, other / "120f"):
            os.chown(path, 12345, 12345)
        triton = self.tree / "home/.triton/cache"
        for name, owner in (("a", 0), ("b", 12345)):
            (triton / name).mkdir(parents=True)
            os.chown(triton / name, owner, owner)
        for shell in SHELLS:
            with self.subTest(shell[0]):
                probe = self.run_probe("caches.yaml", "caches", stdin=CONSUMERS, shell=shell)
                paths = [path for path in probe.values("path") if path.startswith(str(self.tree))]
                self.assertEqual(sorted(paths), sorted(str(path) for path in (
                    version, version / "120f", version / "120f/cached_ops/ours", version / "120f/cached_ops/theirs",
                    version / "90a", other / "120f", triton)))

    @unittest.skipUnless(os.geteuid() == 0, "not root: everything has one owner")
    def test_who_may_write_what_root_owns(self):
        ops = self.tree / "home/.cache/flashinfer/0.6.8/120f/cached_ops"
        expected = {}
        for name, modes, who in (("owner", (0o755, 0o644, 0o755), "owner"), ("group", (0o2775, 0o664, 0o775), "group 1005"),
                                 ("file", (0o2775, 0o644, 0o775), "owner"), ("all", (0o777, 0o666, 0o777), "all"),
                                 ("both", (0o777, 0o664, 0o777), "group 1005")):
            expected[str(ops / name)] = who
            (ops / name).mkdir(parents=True)
            for path, mode in zip((ops / name, ops / name / "build.ninja", ops / name / "x.so"), modes):
                path.touch()
                os.chown(path, 0, 1005)
                path.chmod(mode)
        for shell in SHELLS:
            with self.subTest(shell[0]):
                probe = self.run_probe("caches.yaml", "caches", stdin=CONSUMERS, shell=shell)
                self.assertEqual({path: probe.record("path", path).get("writable_by") for path in expected}, expected)

    # --- what cannot be looked into ---

    def test_the_reason_is_never_empty(self):
        fails = 'as_uid() { shift; [ "$1" != sh ] || return 1; "$@"; }'
        for playbook, probe, field in (("python.yaml", "python_envs", "unknown.packages"),
                                       ("toolkits.yaml", "toolkits", "unknown.version")):
            (self.tree / "home/bin").mkdir(parents=True, exist_ok=True)
            (self.tree / "home/bin/nvcc").touch()
            stdin = f"python_env={self.tree}/home\nenv.CUDA_HOME={self.tree}/home\n" + CONSUMERS
            with self.subTest(probe):
                record = self.run_probe(playbook, probe, fails, stdin).record("path", f"{self.tree}/home")
                self.assertRegex(record[field], r"^it cannot be looked into: .")


if __name__ == "__main__":
    unittest.main()
