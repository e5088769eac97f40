"""The kinds `package` and `cuda_toolkit` through a real dnf, on an overlay of this machine's root: as in
test_actions.py, and what rpm does otherwise. What differs here from a host of Red Hat's stands in rpm_repository.py.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import apt_repository
import rpm_repository
from overlay_host import available
from test_actions import SHELLS, ActionTest, AnyPackageManager, Step

SLOW = "[ -e /srv/quick ] || { touch /srv/at-work; exec sleep 1000; }; echo ran >/srv/ran\n"
LONG = "a-package-whose-name-is-longer-than-any-column-of-any-table-of-dnf"
LONG_VERSION = "7:1.2345678901234567890.20260101git0123456789abcdef-123456789.el9"


class DnfTest(ActionTest):
    REPOSITORY = "/srv/repository"

    def setUp(self):
        super().setUp()
        rpm_repository.repository(self.host, self.REPOSITORY, self.PACKAGES)
        rpm_repository.only_dnf(self.host, self.REPOSITORY)

    def installed(self):
        return self.host.sh("rpm -qa | sort").split()

    def refused(self, step):
        return " ".join(step.difference()["refused"])


class Package(AnyPackageManager, DnfTest):
    PACKAGES = [
        {"name": "tool", "version": "1.0-1", "requires": "tool-lib"},
        {"name": "tool", "version": "2.0-1", "requires": "tool-lib, tool-extra", "files": {"/opt/tool/bin": "x\n"}},
        {"name": "tool-lib", "version": "1.0-1", "files": {"/opt/tool/lib": "x\n"}},
        {"name": "tool-lib", "version": "2.0-1", "files": {"/opt/tool/lib": "y\n"}},
        {"name": "tool-extra", "version": "1-1"},
        {"name": "uses-tool", "version": "1-1", "requires": "tool-lib"},
        {"name": "breaks-tool", "version": "1-1", "conflicts": "tool-lib"},
        {"name": "old-tool", "version": "1-1"},
        {"name": "replaces-old-tool", "version": "1-1", "obsoletes": "old-tool"},
        {"name": "needs-newer", "version": "1-1", "requires": "tool-lib >= 2.0"},
        {"name": "nvidia-kmod-common", "version": "3:580.95-1.el9"},
        {"name": "needs-driver", "version": "1-1", "requires": "nvidia-kmod-common"},
        {"name": "needs-nothing-there", "version": "1-1", "requires": "nothing-there"},
        {"name": "called-otherwise", "version": "1-1", "provides": "virtual"},
        {"name": LONG, "version": LONG_VERSION},
        {"name": "broken", "version": "1-1", "requires": "tool-lib", "pre": "exit 1\n"},
        {"name": "slow", "version": "1-1", "requires": "tool-lib", "files": {"/opt/slow": "x\n"}, "post": SLOW},
        {"name": "slow-unpack", "version": "1-1", "requires": "tool-lib", "pre": SLOW},
        {"name": "slow-upgrade", "version": "1-1", "files": {"/opt/slow": "x\n", "/opt/slow-old": "x\n"}},
        {"name": "slow-upgrade", "version": "2-1", "files": {"/opt/slow": "y\n", "/opt/slow-new": "x\n"}, "post": SLOW},
    ]

    def test_installed_in_exact_versions_and_taken_away(self):
        before = self.installed()
        step = self.step("tool=1.0-1", LONG)
        made = self.whole_life(step)
        self.assertEqual(made["diff"], f"+ {LONG} {LONG_VERSION}\n+ tool 1.0-1\n+ tool-lib 2.0-1\n")
        self.assertGreater(made["download"], 10000)
        self.assertEqual(self.installed(), before)
        self.assertEqual(self.host.run("test", "-e", "/opt/tool").returncode, 1)

    def test_an_older_version_comes_back(self):
        self.host.sh("dnf -y install tool-1.0-1 tool-lib-1.0-1")
        before = self.installed()
        # The new one brings what the old one does not need: neither can go without the other.
        step = self.step("tool=2.0-1", shell=SHELLS[-1])
        made = self.whole_life(step)
        self.assertEqual((made["diff"], made["irreversible"]), ("+ tool-extra 1-1\n~ tool 1.0-1 -> 2.0-1\n", ""))
        self.assertEqual(self.installed(), before)
        # From what was kept, when the repository has only the new one any more.
        step.difference()
        self.host.sh(f"rm -rf {step.directory}/*")
        self.succeed(step, "apply")
        self.host.sh(f"rm -r {self.REPOSITORY} /var/cache/dnf/*")
        self.succeed(step, "undo")
        self.assertEqual(self.installed(), before)
        step = self.step("tool-lib=2.0-1", number="02")
        packages = [package for package in self.PACKAGES if package["version"] != "1.0-1"]
        rpm_repository.repository(self.host, self.REPOSITORY, packages)
        self.host.sh("dnf -q makecache --refresh")
        self.assertIn("tool-lib", step.difference()["irreversible"])

    def test_nothing_is_written_by_a_look(self):
        step = self.step("tool")
        step.inspect()
        places = ("/etc/dnf /etc/yum.repos.d /var/cache/dnf /var/lib/dnf /var/lib/rpm /var/log/dnf* /var/log/hawkey* "
                  "/tmp")
        self.host.sh("touch -d '1 second ago' /srv/mark; "
                     f"find {places} -xdev -newer /srv/mark -exec touch -h -d '1 hour ago' {{}} +")
        self.assertIn("step=install tool 2.0-1", step.inspect())
        # But the memory that all share who read rpm's database, as for any `rpm -q`.
        self.assertEqual(self.host.sh(f"find {places} -xdev -newer /srv/mark ! -name rpmdb.sqlite-shm"), "")

    def test_what_it_would_do_beyond_is_refused(self):
        self.host.sh("dnf -y --setopt=obsoletes=False install tool-1.0-1 tool-lib-1.0-1 old-tool")
        for package, why in (("breaks-tool", "conflicts with tool-lib"),
                             ("replaces-old-tool", "it would remove old-tool"),
                             ("needs-newer", "it would upgrade tool-lib from 1.0-1 to 2.0-1"),
                             ("needs-driver", "it would install nvidia-kmod-common, which belongs to the driver"),
                             ("nvidia-kmod-common", "belongs to the driver"),
                             ("needs-nothing-there", "nothing provides nothing-there"),
                             ("nonesuch", "No match for argument: nonesuch"),
                             ("virtual", "no package is virtual"),
                             ("uses-tool=1", "no package is uses-tool=1"),
                             ("tool=9.0-1", "No match for argument: tool-9.0-1")):
            with self.subTest(package=package):
                self.assertIn(why, self.refused(self.step(package)))
        self.host.sh("rm -r /var/cache/dnf/*")
        self.assertIn("no cache for 'local'", self.refused(self.step("uses-tool")))
        self.host.sh("rm /usr/bin/dnf; cp /bin/true /usr/bin/dnf5; ln -s dnf5 /usr/bin/dnf")
        self.assertIn("dnf5 is not supported yet", self.refused(self.step("uses-tool")))

    def test_a_plan_whose_packages_changed_is_not_made(self):
        step = self.step("tool")
        step.difference()
        rpm_repository.repository(self.host, self.REPOSITORY,
                                  self.PACKAGES + [{"name": "tool", "version": "3.0-1", "requires": "tool-lib"}])
        # Its index is as old as it is, as for apt.
        self.assertEqual(step.inspect(), step.seen)
        self.host.sh("dnf -q makecache --refresh")
        self.assertNotEqual(step.inspect(), step.seen)
        before = self.installed()
        done = step.do("apply")
        self.assertEqual(done.returncode, 1)
        self.assertIn("would now do something else: tool 3.0-1", done.stdout)
        self.assertEqual(self.installed(), before)

    def test_a_package_that_cannot_be_fetched_changes_nothing(self):
        before = self.installed()
        for spoil in (f"rm {self.REPOSITORY}/tool-lib-2*",
                      f"sed -i s/tool-lib/tool-bil/ {self.REPOSITORY}/tool-lib-2*", f"mv {self.REPOSITORY} /srv/gone"):
            with self.subTest(spoil=spoil):
                rpm_repository.repository(self.host, self.REPOSITORY, self.PACKAGES)
                self.host.sh("dnf -q makecache --refresh")
                step = self.step("tool")
                step.difference()
                self.host.sh(spoil)
                done = step.do("apply")
                self.assertEqual((done.returncode, done.stdout.splitlines()[-1]),
                                 (1, "the packages could not be fetched"), done.stderr)
                self.assertEqual(self.installed(), before)
                self.succeed(step, "undo")
                self.assertEqual(self.installed(), before)
                self.host.sh(f"rm -rf {step.directory}")

    def files(self):
        return self.host.sh("find /opt -type f -exec grep -H . {} + | sort")

    def test_what_we_broke_off_is_finished_or_undone(self):
        self.host.sh("dnf -y install slow-upgrade-1-1")
        before, files = self.installed(), self.files()
        for package, end in (("slow", "resume"), ("slow-unpack", "undo"), ("slow-upgrade=2-1", "resume"),
                             ("slow-upgrade=2-1", "undo")):
            with self.subTest(package=package, end=end):
                self.host.sh("rm -f /srv/quick")
                step = self.step(package)
                step.difference()
                self.broken_off(step)
                self.host.sh("touch /srv/quick")
                self.assertNotEqual(self.installed(), before)
                if "=" in package:
                    other = self.step("tool", number="02")
                    self.assertIn("slow-upgrade.noarch is installed in two versions", self.refused(other))
                    self.assertEqual(other.do("apply", TRUEUP_RESUMED="1").returncode, 1)
                if end == "resume":
                    self.succeed(step, "apply", TRUEUP_RESUMED="1")
                    self.succeed(step, "verify")
                    self.host.sh("rm /srv/ran")
                self.succeed(step, "undo")
                self.assertEqual(self.installed(), before)
                self.assertEqual(self.files(), files)
                self.host.sh(f"rm -rf {step.directory}; rm -f /srv/ran")

    def test_dependencies_are_marked_as_such_and_what_others_need_by_now_stays(self):
        step = self.step("tool")
        step.difference()
        self.succeed(step, "apply")
        self.assertEqual(self.host.sh("dnf -q repoquery --userinstalled --qf '%{name}'").split(), ["system", "tool"])
        self.host.sh("dnf -y install uses-tool")
        before = self.installed()
        done = step.do("undo")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("others need what would be taken away: remove uses-tool", done.stdout)
        self.assertEqual(self.installed(), before)
        self.host.sh("dnf -y remove uses-tool; dnf -y install tool-1.0-1")
        self.assertEqual(step.do("undo").returncode, 3)

    def test_who_holds_the_package_manager_is_named(self):
        step = self.step("tool", patience="2s")
        step.difference()
        before = self.installed()
        # rpm at work without dnf, and a dnf: that one's file counts while its process lives.
        for hold in ("import fcntl; f = open('/var/lib/rpm/.rpm.lock', 'w'); fcntl.lockf(f, fcntl.LOCK_EX)",
                     "import os; open('/var/lib/dnf/rpmdb_lock.pid', 'w').write(str(os.getpid()))"):
            holder = self.host.start("/usr/bin/python3", "-c", f"{hold}; open('/srv/held', 'w'); import time; "
                                     "time.sleep(1000)")
            self.addCleanup(holder.stdout.close)
            while self.host.run("test", "-e", "/srv/held").returncode:
                self.assertIsNone(holder.poll())
            done = step.do("apply")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stdout, r"held by process \d+ \(python3")
            os.killpg(holder.pid, 9)
            holder.wait()
            self.host.sh("rm /srv/held")
        self.assertEqual(self.installed(), before)
        # The file of a dnf that was ended counts for nothing.
        self.succeed(step, "apply")


class Tables(ActionTest):
    def table(self, text):
        """What is read out of what dnf says."""
        step = Step(self.host, "package", {"packages": ["tool"]})
        step.ask()
        self.host.write("/srv/table", text)
        done = step.script("_pm_setup; _dnf_transaction </srv/table")
        return done.returncode, done.stdout

    def test_tables_of_other_versions_are_read_whole_or_not_at_all(self):
        head = "Dependencies resolved.\n====\n Package  Arch  Version  Repository  Size\n====\n"
        long = ("Installing:\n cuda-toolkit-13-0-config-common\n" + " " * 20 +
                "noarch 13.0.96-1 cuda-rhel8-x86_64 7.7 k\n")
        rest = ("Installing dependencies:\n tool  noarch  3:1.2345678901234567890-1.el8\n" + " " * 30 + "local  1 k\n"
                "Skipping packages with broken dependencies:\n other  noarch  1-1  local  1 k\n")
        self.assertEqual(self.table(head + long + rest + "\nTransaction Summary\n====\nInstall  2 Packages\n"
                                    "Skip     1 Package\n\nTotal download size: 8 k\n"),
                         (0, "install cuda-toolkit-13-0-config-common 13.0.96-1\n"
                          "install tool 3:1.2345678901234567890-1.el8\n"))
        for what, text, why in (
                ("module", "Enabling module streams:\n nvidia-driver          580-open\n", "Enabling module streams"),
                ("group", "Installing group/module packages:\n x  noarch  1-1  local  1 k\n", "group/module"),
                ("other architecture", "Installing dependencies:\n glibc  i686  2.34-1  base  1 M\n", "glibc for i686"),
                ("lost row", "", "2 packages, of which 1")):
            with self.subTest(what):
                status, text = self.table(head + long + text + "\nTransaction Summary\n====\nInstall  2 Packages\n")
                self.assertEqual(status, 1)
                self.assertIn(why, text)


class CudaToolkit(DnfTest):
    PACKAGES = (rpm_repository.toolkit("12.8", "12.8.90-1", ("cuda-nvcc",)) +
                rpm_repository.toolkit("13.0", "13.0.96-1") +
                [{"name": "cuda-drivers", "version": "580-1"},
                 {"name": "cuda-13-0", "version": "13-1", "requires": "cuda-toolkit-13-0, cuda-drivers"}])
    PACKAGED = "dnf -y install cuda-toolkit-12-8 cuda-toolkit-config-common-12.8.90-1; "
    def step(self, shell="dash", number="01", **params):
        return Step(self.host, "cuda_toolkit", {"version": "13.0", **params}, shell, number)

    def files(self):
        return self.host.sh("find /etc/alternatives /var/lib/dpkg/alternatives /usr/local /etc/ld.so.conf.d "
                            "-printf '%p %y %m %u %l\\n' | sort; "
                            "cat /var/lib/dpkg/alternatives/cuda* 2>/dev/null || true")

    def whole_life_beside(self, step):
        """whole_life, and where the default leads meanwhile."""
        default, installed, files = (self.host.run("readlink", "-f", "/usr/local/cuda").stdout, self.installed(),
                                     self.files())
        made = step.difference()
        self.assertEqual(made["refused"], [])
        self.succeed(step, "apply")
        self.succeed(step, "verify")
        self.assertEqual(self.host.run("readlink", "-f", "/usr/local/cuda").stdout, default)
        self.assertEqual(self.host.sh("/usr/local/cuda-13.0/bin/nvcc --version | grep -o 'release 13.0'"),
                         "release 13.0\n")
        self.assertFalse(step.ask(step.inspect())["needed"])
        self.succeed(step, "apply", TRUEUP_RESUMED="1")
        self.succeed(step, "verify")
        self.succeed(step, "undo")
        self.assertEqual(step.inspect(), step.seen)
        self.assertEqual((self.installed(), self.files()), (installed, files))

    def test_the_default_stays(self):
        self.host.sh(self.PACKAGED)
        self.whole_life_beside(self.step(SHELLS[1]))

    def test_what_building_kernels_needs_has_other_names_there(self):
        step = self.step(packages="minimal")
        self.whole_life_beside(step)
        self.assertIn("+ libcublas-devel-13-0 13.0.88-1\n", step.made["diff"])
        self.assertNotIn("cuda-toolkit-13-0 ", step.made["diff"])

    def test_a_driver_in_the_transaction_is_refused(self):
        packages = [dict(package) for package in self.PACKAGES]
        for package in packages:
            if package["name"] == "cuda-nvcc-13-0":
                package["requires"] += ", cuda-drivers"
        rpm_repository.repository(self.host, self.REPOSITORY, packages)
        self.host.sh("dnf -q makecache --refresh")
        self.assertIn("cuda-drivers, which belongs to the driver", self.refused(self.step()))

    # All that is known of repositories and keys. What dnf did is in its history, as for any user of it, and what it has
    # to tidy up in its list of temporary files.
    CONFIG = ("find /etc/yum.repos.d /etc/dnf /var/cache/dnf ! -name tempfiles.json -printf '%p %y\\n' | sort; "
              "rpm -qa 'gpg-pubkey*'")

    def test_a_repository_that_is_used_once(self):
        homes = [tempfile.mkdtemp() for _ in range(2)]
        for home in homes:
            self.addCleanup(shutil.rmtree, home)
        armored, fingerprint = apt_repository.make_key(homes[0])
        wrong_key, wrong_fingerprint = apt_repository.make_key(homes[1])
        rpm_repository.repository(self.host, "/srv/nvidia", self.PACKAGES, homes[0])
        subprocess.run(["gpgconf", "--homedir", homes[0], "--kill", "all"], check=False)
        rpm_repository.repository(self.host, "/srv/unsigned", self.PACKAGES)
        rpm_repository.repository(self.host, self.REPOSITORY, [{"name": "x", "version": "1-1"}])
        self.host.sh("dnf -q makecache --refresh")
        before, config = self.installed(), self.host.sh(self.CONFIG)
        given = {"url": "file:///srv/nvidia", "key": armored, "fingerprint": fingerprint}
        for change, why in (({"key": wrong_key, "fingerprint": wrong_fingerprint}, "could not be fetched"),
                            ({"url": "file:///srv/unsigned"}, "could not be fetched"),
                            ({"url": "file:///srv/gone"}, "file:///srv/gone could not be read"),
                            ({"most": "1KiB"}, "KiB, and 1 are agreed to")):
            with self.subTest(change=list(change)):
                step = self.step(repository={**given, **change})
                step.difference()
                done = step.do("apply")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(why, done.stdout.splitlines()[-1])
                self.assertEqual([line for line in self.installed() if not line.startswith("gpg-pubkey")], before)
                self.succeed(step, "undo")
                self.assertEqual(step.inspect(), step.seen)
                self.assertEqual((self.installed(), self.host.sh(self.CONFIG)), (before, config))
                self.host.sh(f"rm -rf {step.directory}")
        step = self.step(repository=given)
        made = step.difference()
        self.assertEqual(made["refused"], [])
        self.assertIn("resolved at apply", made["wanted"])
        self.succeed(step, "apply")
        self.succeed(step, "verify")
        self.assertEqual(self.host.sh(self.CONFIG), config)
        self.assertIn("cuda-toolkit-13-0-13.0.2-1.noarch", self.installed())
        self.succeed(step, "apply", TRUEUP_RESUMED="1")
        self.host.sh("rm -r /srv/nvidia")
        self.succeed(step, "undo")
        self.assertEqual((self.installed(), self.host.sh(self.CONFIG)), (before, config))

    def test_it_can_be_undone_without_the_repositories(self):
        before = self.installed()
        step = self.step()
        step.difference()
        self.succeed(step, "apply")
        self.host.sh(f"rm -r {self.REPOSITORY} /var/cache/dnf/*")
        self.succeed(step, "undo")
        self.assertEqual(self.installed(), before)


if __name__ == "__main__":
    why = available() or rpm_repository.missing()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
