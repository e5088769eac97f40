"""The kinds of actions through real shells, with real programs, on an overlay of this machine's root.

What each has to do: inspect, difference, apply, verify; again without a change; undo, and inspect prints what it
printed before, with nothing left but what is trueup's.
"""
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import apt_repository
from overlay_host import OverlayHost, available

SCRIPTS = os.environ.get("TRUEUP_ACTION_SCRIPTS", "build/dev/trueup_action_scripts")
SHELLS = [shell for shell in ("dash", "bash", "busybox sh") if shutil.which(shell.split()[0])]
# Nothing in it is a file's name; each is one word for a shell that gets it as data.
NASTY = ["a b", "it's", '"quoted"', "$(id)", "`id`", "${HOME}", "-rf", "*", "?", "[a-z]", "\\", "a;b", "a&b", "a|b",
         "#x", "~",
         "!x", "%s", "%n", "a\\nb", "'; touch /planted; '", '"; touch /planted; "', "é", ">x", "<x", "(", "{a,b}"]


def ask(*asked):
    done = subprocess.run([SCRIPTS], input=json.dumps(asked), text=True, capture_output=True, check=True)
    return json.loads(done.stdout)


def make(*asked):
    answer = ask(*asked)
    return answer["library"], answer["made"]


class Step:
    """One step on one host: what the executor does, without its journal."""

    def __init__(self, host, kind, params, shell="dash", number="01"):
        self.host, self.kind, self.params, self.shell = host, kind, params, shell
        self.directory = f"/var/lib/trueup/runs/r1/step/{number}"
        host.sh(f"mkdir -p -m 700 {self.directory}")
        self.made = None

    def ask(self, inspected=None):
        asked = {"kind": self.kind, "params": self.params}
        if inspected is not None:
            asked["inspected"] = inspected
        library, (made,) = make(asked)
        if "error" in made:
            raise AssertionError(made["error"])
        self.host.write("/var/lib/trueup/runs/r1/lib", library)
        return made

    def script(self, text, **variables):
        self.host.write("/var/lib/trueup/runs/r1/script", f". /var/lib/trueup/runs/r1/lib\n{text}")
        words = [f"{name}={value}" for name, value in variables.items()]
        return self.host.run("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
                             f"TRUEUP_STEP={self.directory}", *words,
                             "sh", "-c",
                             f"umask 077; cd {self.directory} && exec {self.shell} /var/lib/trueup/runs/r1/script")

    def inspect(self):
        done = self.script(self.ask()["inspect"])
        if done.returncode != 0:
            raise AssertionError(f"inspect ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def difference(self):
        self.seen = self.inspect()
        self.made = self.ask(self.seen)
        return self.made

    def do(self, what, **variables):
        return self.script(self.made[what], **variables)


class ActionTest(unittest.TestCase):
    def setUp(self):
        self.host = OverlayHost().__enter__()
        self.addCleanup(self.host.__exit__)

    def succeed(self, step, what, **variables):
        done = step.do(what, **variables)
        self.assertEqual(done.returncode, 0, f"{what}: {done.stdout}{done.stderr}")
        return done

    def whole_life(self, step):
        """All that a step has to do, undo included; what was seen before and after it."""
        made = step.difference()
        self.assertEqual(made["refused"], [])
        self.assertTrue(made["needed"], step.seen)
        before = step.seen
        self.succeed(step, "apply")
        self.succeed(step, "verify")
        after = step.inspect()
        self.assertFalse(step.ask(after)["needed"], after)
        self.succeed(step, "apply", TRUEUP_RESUMED="1")
        self.succeed(step, "verify")
        self.assertEqual(step.inspect(), after, "the second time changed something")
        self.succeed(step, "undo")
        self.assertEqual(step.inspect(), before)
        self.succeed(step, "undo")
        self.assertEqual(step.inspect(), before)
        return made


class Values(ActionTest):
    def test_contents_arrive_as_they_are_in_every_shell(self):
        for shell in SHELLS:
            for value in ["\n".join(NASTY), "\n".join(NASTY) + "\n", "-n", "tab\there\n\n", "\n", " ", ""]:
                step = Step(self.host, "file", {"path": "/srv/x/value", "content": value}, shell)
                with self.subTest(shell=shell, value=value):
                    self.assertEqual(step.difference()["refused"], [])
                    self.succeed(step, "apply")
                    self.assertEqual(self.host.run("cat", "/srv/x/value").stdout, value)
                    self.succeed(step, "verify")
                    self.host.sh(f"rm -rf /srv/x {step.directory}")
        self.assertEqual(self.host.run("test", "-e", "/planted").returncode, 1)

    def test_paths_arrive_as_they_are(self):
        name = " ".join(value for value in NASTY if "/" not in value)
        for path in (f"/srv/-rf {name[:60]}/{name[:60]}", f"/srv/{name[60:]}/x"):
            step = Step(self.host, "file", {"path": path, "content": "x"})
            with self.subTest(path=path):
                self.whole_life(step)
                self.assertEqual(self.host.run("ls", "/srv").stdout, "")
                self.host.sh(f"rm -rf {step.directory}")


class Arguments(ActionTest):
    """Whatever a parameter of any kind holds is data for the shells that get it, or is refused beforehand."""

    PLAIN = "plainword"
    ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{}\n-----END PGP PUBLIC KEY BLOCK-----\n"
    HEALTH = {"url": "http://h/", "request": {"url": "http://h/", "body": "{}"}}
    REPOSITORY = {"url": "https://h/", "key": ARMOR.format("x"), "fingerprint": "A" * 40}
    # Steps in which each parameter has a place.
    STEPS = {
        "cuda_toolkit": [{"version": "13.0", "repository": REPOSITORY}],
        "package": [{"packages": ["ninja-build"]}],
        "alternatives": [{"group": "cuda", "path": "/opt/x"}],
        "file": [{"path": "/etc/x/y", "content": "x"}],
        "systemd_override": [{"unit": "x.service", "environment": {"A": "x"}}],
        "cache": [{"path": "/root/.cache/flashinfer/x"}],
        "command": [{"check": ["x"], "apply": ["x"], "undo": ["x"]},
                    {"check": ["x"], "apply": ["x"], "irreversible": "x"}],
        "service": [{"unit": "x.service", "state": "started", "health": HEALTH},
                    {"unit": "x.service", "state": "stopped"}],
    }
    # How a value becomes that parameter, where it is more than the value.
    SHAPES = {
        "cuda_toolkit.repository.url": "https://h/{}", "cuda_toolkit.repository.key": ARMOR,
        "package.packages": ["{}"], "alternatives.path": "/opt/{}", "alternatives.link": "/opt/{}",
        "file.path": "/srv/{}/x", "systemd_override.environment": {"A": "{}"}, "systemd_override.unset": ["{}"],
        "cache.path": "/root/.cache/flashinfer/{}", "cache.units": ["{}"], "command.check": ["/bin/x", "{}"],
        "command.apply": ["/bin/x", "{}"], "command.undo": ["/bin/x", "{}"], "service.drain": ["/bin/x", "{}"],
        "service.health.url": "http://h/{}", "service.health.request.url": "http://h/{}",
        "service.health.request.headers_from": "/etc/{}",
    }
    # A drop-in has quotes of its own; SystemdOverride shows what comes out of them.
    QUOTED = {"systemd_override.environment"}

    @classmethod
    def shaped(cls, name, value):
        def fill(shape):
            if isinstance(shape, dict):
                return {key: fill(each) for key, each in shape.items()}
            return [fill(each) for each in shape] if isinstance(shape, list) else shape.replace("{}", value)

        return fill(cls.SHAPES.get(name, "{}"))

    @classmethod
    def steps_with(cls, kind, name, value):
        for params in cls.STEPS[kind]:
            params = json.loads(json.dumps(params))
            at = params
            *above, last = name.split(".")
            for each in above:
                at = at.get(each, {})
            at[last] = cls.shaped(f"{kind}.{name}", value)
            yield {"kind": kind, "params": params, "without_difference": True}

    def words(self, shell, scripts):
        """The arguments that the function in each of these scripts is called with."""
        functions = {script.split()[0] for script in scripts if script}
        text = "show() { for each do printf '%s\\0' \"$each\"; done; printf '!\\n\\0'; }\n"
        text += "".join(f"{function}() {{ show \"$@\"; }}\n" for function in sorted(functions)) + "".join(scripts)
        self.host.write("/probe", text)
        done = self.host.run("sh", "-c", f"exec {shell} /probe")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [call.split("\0")[:-1] for call in done.stdout.split("!\n\0")[:-1]]

    def test_every_parameter_of_every_kind(self):
        kinds = ask()["kinds"]
        self.assertEqual(sorted(kinds), sorted(self.STEPS))
        values = [value.replace("/", "") or "x" for value in NASTY]
        arrived = set()
        for kind, names in kinds.items():
            for name in names:
                asked = [step for value in (self.PLAIN, *values) for step in self.steps_with(kind, name, value)]
                made = ask(*asked)["made"]
                count = len(self.STEPS[kind])
                for which in range(count):
                    plain, *others = made[which::count]
                    if "error" in plain:
                        self.assertTrue(all("error" in other for other in others), f"{kind}.{name}: {plain['error']}")
                        continue
                    self.compare(f"{kind}.{name}", plain, list(zip(values, others)), arrived)
        # Not all of it was refused.
        self.assertLessEqual({"file.content", "file.path", "command.apply", "command.check", "command.undo",
                              "systemd_override.environment", "service.drain", "service.health.request.body",
                              "service.health.request.contains", "cache.path"}, arrived)
        self.assertEqual(self.host.run("test", "-e", "/planted").returncode, 1)

    def compare(self, name, plain, others, arrived):
        accepted = [(value, other) for value, other in others if "error" not in other]
        for shell in SHELLS:
            for script in ("inspect", "apply", "verify", "undo", "prune"):
                if not plain[script]:
                    continue
                expected, *found = self.words(shell, [plain[script], *(other[script] for _, other in accepted)])
                self.assertEqual(len(found), len(accepted), name)
                for (value, _), words in zip(accepted, found):
                    with self.subTest(name=name, value=value, script=script, shell=shell):
                        if name in self.QUOTED:
                            self.assertEqual(len(words), len(expected))
                        else:
                            self.assertEqual(words, [word.replace(self.PLAIN, value) for word in expected])
                    if any(self.PLAIN in word for word in expected):
                        arrived.add(name)


class File(ActionTest):
    def test_a_new_file_and_its_directories_come_and_go(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                step = Step(self.host, "file", {"path": "/etc/a/b/c", "content": "x\n", "mode": "0640"}, shell)
                self.whole_life(step)
                self.assertEqual(self.host.run("test", "-e", "/etc/a").returncode, 1)
                self.host.sh(f"rm -rf {step.directory}")

    def test_what_was_there_comes_back_with_mode_owner_and_time(self):
        self.host.write("/etc/x.conf", "old KEY\n", 0o604)
        self.host.sh("chown daemon:sys /etc/x.conf; touch -d @1000000 /etc/x.conf")
        step = Step(self.host, "file", {"path": "/etc/x.conf", "content": "new\n", "owner": "daemon", "group": "sys"})
        made = self.whole_life(step)
        self.assertIn("-old KEY\n+new\n", made["diff"])
        self.assertEqual(self.host.sh("stat -c '%a %U %G %Y' /etc/x.conf; cat /etc/x.conf"),
                         "604 daemon sys 1000000\nold KEY\n")

    def test_a_file_that_shall_go_comes_back(self):
        self.host.write("/etc/x.conf", "old\n")
        self.whole_life(Step(self.host, "file", {"path": "/etc/x.conf", "state": "absent"}))

    def test_what_somebody_changed_since_is_not_replaced(self):
        step = Step(self.host, "file", {"path": "/etc/x.conf", "content": "new\n"})
        step.difference()
        self.succeed(step, "apply")
        self.host.sh("echo theirs >>/etc/x.conf")
        done = step.do("undo")
        self.assertEqual(done.returncode, 3)
        self.assertIn("changed since", done.stdout.splitlines()[-1])
        self.assertEqual(self.host.sh("cat /etc/x.conf"), "new\ntheirs\n")
        self.assertNotEqual(step.do("verify").returncode, 0)

    def test_what_somebody_changed_since_is_not_done_again(self):
        for before in ("", "old\n"):
            if before:
                self.host.write("/etc/x.conf", before)
            step = Step(self.host, "file", {"path": "/etc/x.conf", "content": "new\n"})
            step.difference()
            self.succeed(step, "apply")
            self.host.sh("echo theirs >>/etc/x.conf")
            done = step.do("apply", TRUEUP_RESUMED="1")
            self.assertEqual(done.returncode, 3)
            self.assertIn("/etc/x.conf was changed since", done.stdout.splitlines()[-1])
            self.assertEqual(self.host.sh("cat /etc/x.conf"), "new\ntheirs\n")
            self.host.sh(f"rm -rf /etc/x.conf {step.directory}")

    def test_secrets_stay_on_the_host(self):
        self.host.write("/etc/x.conf", "API_KEY=planted-old\n")
        step = Step(self.host, "file", {"path": "/etc/x.conf", "content": "API_KEY=planted-new\nB=1\n"})
        made = step.difference()
        self.assertNotIn("planted", step.seen + made["diff"])
        self.assertIn("+B=1", made["diff"])

    def test_a_link_is_not_followed(self):
        self.host.sh("ln -s /etc/passwd /etc/x.conf")
        made = Step(self.host, "file", {"path": "/etc/x.conf", "content": ""}).difference()
        self.assertIn("is a link to /etc/passwd", made["refused"][0])

    def test_below_what_another_decides_it_is_done_as_that_user(self):
        self.host.sh("useradd -m -d /home/svc svc")
        step = Step(self.host, "file", {"path": "/home/svc/a/x", "content": "x", "owner": "svc"})
        self.whole_life(step)
        self.succeed(step, "apply")
        self.assertEqual(self.host.sh("stat -c '%U %a' /home/svc/a /home/svc/a/x"), "svc 755\nsvc 644\n")
        made = Step(self.host, "file", {"path": "/home/svc/y", "content": "x"}, number="02").difference()
        self.assertIn("can belong to that one only", made["refused"][0])
        # Between plan and apply the directory becomes a link to root's: as that user, nothing can be written there.
        step = Step(self.host, "file", {"path": "/home/svc/b/x", "content": "x", "owner": "svc"}, number="03")
        step.difference()
        self.host.sh("ln -s /etc /home/svc/b")
        self.assertNotEqual(step.do("apply").returncode, 0)
        self.assertEqual(self.host.run("test", "-e", "/etc/x").returncode, 1)


class Alternatives(ActionTest):
    def setUp(self):
        super().setUp()
        self.host.sh("rm -f /etc/alternatives/cuda* /var/lib/dpkg/alternatives/cuda*; "
                     "mkdir -p /usr/local/cuda-12.8/bin /usr/local/cuda-13.0/bin")

    def group(self, *versions):
        for version in versions:
            self.host.sh(f"update-alternatives --quiet --install /usr/local/cuda cuda /usr/local/cuda-{version} "
                         f"{version.replace('.', '')}")

    STATES = {
        "auto": "",
        "manual on the other": "update-alternatives --quiet --set cuda /usr/local/cuda-13.0",
        "link turned by hand": "ln -sfn /usr/local/cuda-13.0 /usr/local/cuda",
        "link taken away": "rm /usr/local/cuda",
        "entry turned by hand": "ln -sfn /opt/elsewhere /etc/alternatives/cuda",
    }

    def test_every_state_of_a_group_comes_back(self):
        for name, script in self.STATES.items():
            for shell in SHELLS:
                with self.subTest(state=name, shell=shell):
                    self.setUp()
                    self.group("12.8", "13.0")
                    self.host.sh(script or "true")
                    step = Step(self.host, "alternatives", {"group": "cuda", "path": "/usr/local/cuda-12.8"}, shell)
                    self.whole_life(step)
                    self.succeed(step, "undo")

    def test_a_group_that_is_not_there_is_made_and_goes(self):
        for script in ("true", "ln -s cuda-12.8 /usr/local/cuda", "ln -s /gone /usr/local/cuda"):
            with self.subTest(link=script):
                self.setUp()
                self.host.sh(script)
                step = Step(self.host, "alternatives",
                            {"group": "cuda", "path": "/usr/local/cuda-12.8", "link": "/usr/local/cuda",
                                                        "priority": 128})
                self.whole_life(step)

    def test_what_somebody_changed_since_stays(self):
        self.group("12.8", "13.0")
        step = Step(self.host, "alternatives", {"group": "cuda", "path": "/usr/local/cuda-12.8"})
        step.difference()
        self.succeed(step, "apply")
        self.host.sh("update-alternatives --quiet --set cuda /usr/local/cuda-13.0")
        self.assertEqual(step.do("undo").returncode, 3)


    def test_what_somebody_changed_since_is_not_set_again(self):
        self.group("12.8", "13.0")
        step = Step(self.host, "alternatives", {"group": "cuda", "path": "/usr/local/cuda-12.8"})
        step.difference()
        self.succeed(step, "apply")
        self.host.sh("update-alternatives --quiet --set cuda /usr/local/cuda-13.0")
        self.assertEqual(step.do("apply", TRUEUP_RESUMED="1").returncode, 3)
        self.assertEqual(self.host.sh("readlink -f /usr/local/cuda"), "/usr/local/cuda-13.0\n")

    def test_what_somebody_changed_while_it_was_half_undone_stays(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                self.setUp()
                self.host.sh("mkdir -p /usr/local/cuda-12.6/bin")
                self.group("12.6", "12.8", "13.0")
                step = Step(self.host, "alternatives", {"group": "cuda", "path": "/usr/local/cuda-12.8"}, shell)
                step.difference()
                self.succeed(step, "apply")
                # It comes as far as the group's record.
                half = step.script("_alt_put_link() { return 1; }\n" + step.made["undo"])
                self.assertEqual(half.returncode, 1, half.stdout)
                self.host.sh("update-alternatives --quiet --set cuda /usr/local/cuda-12.6")
                done = step.do("undo")
                self.assertEqual(done.returncode, 3, done.stdout)
                self.assertEqual(self.host.sh("readlink -f /usr/local/cuda"), "/usr/local/cuda-12.6\n")
                self.host.sh("update-alternatives --quiet --auto cuda")
                self.succeed(step, "undo")
                self.assertEqual(step.inspect(), step.seen)
                self.host.sh(f"rm -rf {step.directory}")


class Cache(ActionTest):
    PATH = "/home/svc/.cache/flashinfer/0.6.7"

    def setUp(self):
        super().setUp()
        self.host.sh("useradd -m -d /home/svc svc; useradd -m -d /home/evil evil; umask 022; "
                     f"setpriv --reuid svc --regid svc --clear-groups mkdir -p {self.PATH}/120f; "
                     f"echo x >{self.PATH}/120f/m.so; "
                     f"chown -R svc:svc {self.PATH}")

    def step(self, path=PATH, shell="dash", **params):
        return Step(self.host, "cache", {"path": path, **params}, shell)

    def identity(self, path):
        return self.host.sh(f"stat -c '%d:%i:%U:%a' {path}")

    def test_set_aside_and_put_back(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                before = self.identity(self.PATH)
                step = self.step(shell=shell)
                self.whole_life(step)
                self.assertEqual(self.identity(self.PATH), before)
                self.assertEqual(self.host.sh("ls /home/svc/.cache/flashinfer"), "0.6.7\n")
                self.host.sh(f"rm -rf {step.directory}")

    def test_what_was_built_since_gives_way(self):
        before = self.identity(self.PATH)
        step = self.step()
        step.difference()
        self.succeed(step, "apply")
        self.assertEqual(self.identity(self.PATH + ".trueup-r1"), before)
        self.host.sh(f"mkdir -p {self.PATH}/new; chown -R svc {self.PATH}")
        self.succeed(step, "undo")
        self.assertEqual(self.identity(self.PATH), before)
        self.assertEqual(self.host.sh("ls /home/svc/.cache/flashinfer"), "0.6.7\n")

    def test_prune_removes_it_for_good(self):
        step = self.step()
        step.difference()
        self.succeed(step, "apply")
        self.succeed(step, "prune")
        self.assertEqual(self.host.sh("ls /home/svc/.cache/flashinfer"), "")
        self.succeed(step, "prune")
        self.assertEqual(step.do("undo").returncode, 3)

    def test_another_directory_than_the_one_looked_at_is_left_alone(self):
        for swap in (f"mv {self.PATH} {self.PATH}.mine; mkdir {self.PATH}; chown svc {self.PATH}",
                     f"mv {self.PATH} {self.PATH}.mine; ln -s /etc {self.PATH}",
                     "mv /home/svc/.cache /home/svc/c; mkdir -p /srv/flashinfer/0.6.7; ln -s /srv /home/svc/.cache"):
            with self.subTest(swap=swap):
                self.setUp()
                step = self.step()
                self.assertEqual(step.difference()["refused"], [])
                self.host.sh(swap)
                listing = self.host.sh("ls -d /etc* /srv/* /srv/*/* 2>/dev/null || true")
                self.assertNotEqual(step.do("apply").returncode, 0)
                self.assertEqual(self.host.sh("ls -d /etc* /srv/* /srv/*/* 2>/dev/null || true"), listing)

    def test_another_number_of_the_device_is_no_other_directory(self):
        """After a reboot a run that was interrupted found its cache changed, and no cache could be put back."""
        step = self.step()
        step.difference()
        self.host.write("/usr/sbin/stat", "#!/bin/sh\nfor word do shift; set -- \"$@\" \"$(printf %s \"$word\" | sed s/%d/4711/)\"; "
                                          "done\nexec /usr/bin/stat \"$@\"\n", 0o755)
        self.assertEqual(step.inspect(), step.seen)
        self.succeed(step, "apply")
        self.host.sh("rm /usr/sbin/stat")
        self.succeed(step, "undo")
        self.assertEqual(step.inspect(), step.seen)

    def test_a_process_that_uses_it_is_named(self):
        library = make()[0]
        self.host.write("/probe", library + f"_cache_users {self.PATH}\n")
        done = self.host.run("sh", "-c", f"sleep 100 <{self.PATH}/120f/m.so & sh /probe; kill $!")
        self.assertEqual(done.stdout, "program sleep\n")

    def test_what_is_no_cache_of_its_owner(self):
        self.host.sh("mkdir -p /srv/models/llama; chown -R svc /srv/models; mkdir -p /home/svc/a/b; "
                     "ln -s /home/svc/a/b /home/svc/a/link; "
                     "chown -R svc /home/svc/a; mkdir -p /home/evil/x/triton; chown svc /home/evil/x/triton")
        for path, why in (("/srv/models/llama", "nothing in its name"), ("/home/svc/a/link", "is a link"),
                          ("/home/evil/x/triton", "decides"), ("/home/svc/a", "nothing in its name")):
            with self.subTest(path=path):
                try:
                    refused = " ".join(self.step(path).difference()["refused"])
                except AssertionError as error:
                    refused = str(error)
                self.assertIn(why, refused)
        self.assertFalse(self.step("/home/svc/.cache/flashinfer/9").difference()["needed"])
        self.assertEqual(self.step(owner="root").difference()["refused"][0],
                         f"{self.PATH} belongs to svc, expected root")

    def test_in_a_sticky_directory_it_is_its_owners(self):
        self.host.sh("mkdir -m 1777 /srv/tmp; mkdir -p /srv/tmp/torchinductor_svc/a; "
                     "chown -R svc /srv/tmp/torchinductor_svc")
        self.whole_life(self.step("/srv/tmp/torchinductor_svc"))


class Command(ActionTest):
    def params(self, **more):
        return {"check": ["/usr/bin/test", "-e", "/srv/done it"], "apply": ["/usr/bin/touch", "--", "/srv/done it"],
                "undo": ["/bin/rm", "-f", "/srv/done it"], **more}

    def test_check_apply_undo(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                step = Step(self.host, "command", self.params(), shell)
                self.whole_life(step)
                self.host.sh(f"rm -rf {step.directory}")

    def test_values_are_single_arguments(self):
        self.host.write("/usr/local/bin/args", '#!/bin/sh\nprintf "%s\\n" "$#" "$@" >/srv/args\n', 0o755)
        step = Step(self.host, "command", self.params(apply=["/usr/local/bin/args", *NASTY]))
        step.difference()
        step.do("apply")
        self.assertEqual(self.host.sh("cat /srv/args").splitlines(), [str(len(NASTY)), *NASTY])

    def test_what_others_may_write_is_not_run_as_root(self):
        self.host.write("/srv/tool", "#!/bin/sh\ntouch /planted\n", 0o777)
        step = Step(self.host, "command", self.params(apply=["/srv/tool"]))
        step.difference()
        self.assertNotEqual(step.do("apply").returncode, 0)
        self.assertEqual(self.host.run("test", "-e", "/planted").returncode, 1)

    def test_what_cannot_be_undone_is_said(self):
        params = self.params(irreversible="it is gone")
        del params["undo"]
        step = Step(self.host, "command", params)
        self.assertEqual(step.difference()["irreversible"], "it is gone")
        self.succeed(step, "apply")
        done = step.do("undo")
        self.assertEqual((done.returncode, done.stdout), (3, "cannot be undone: it is gone\n"))


class SystemdTest(ActionTest):
    """With a stand-in for systemctl: what systemd itself makes of it is shown on booted hosts."""

    UNIT = "sglang.service"
    TEXT = "[Service]\nExecStart=/opt/serve --port 30000\nEnvironment=HF_HOME=/data\n"

    def setUp(self):
        super().setUp()
        stub = pathlib.Path(__file__).with_name("systemctl").read_text(encoding="utf-8")
        self.host.write("/usr/bin/systemctl", stub, 0o755)
        self.host.sh("rm -rf /etc/systemd/system; mkdir -p -m 755 /etc/systemd/system; mkdir -p /srv")
        self.host.write("/opt/serve", "#!/bin/sh\nexec sleep 1000\n", 0o755)
        self.unit(self.TEXT)

    def unit(self, text, name=UNIT):
        self.host.write(f"/etc/systemd/system/{name}", text)
        self.host.sh("systemctl daemon-reload")

    def calls(self, *verbs):
        lines = self.host.sh("cat /var/lib/stub/calls").splitlines()
        return [line for line in lines if line.split()[0] in verbs]


class SystemdOverride(SystemdTest):
    PIN = {"CUDA_HOME": "/usr/local/cuda-13.0"}
    CONF = "/etc/systemd/system/sglang.service.d/zz-trueup.conf"

    def step(self, environment=None, shell="dash", number="01", **params):
        return Step(self.host, "systemd_override",
                    {"unit": self.UNIT, "environment": environment or self.PIN, **params}, shell, number)

    def test_a_drop_in_comes_and_goes(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                step = self.step(shell=shell)
                made = self.whole_life(step)
                self.assertEqual(made["current"], "CUDA_HOME not set")
                self.assertIn('+Environment="CUDA_HOME=/usr/local/cuda-13.0"', made["diff"])
                self.assertEqual(self.host.sh("ls /etc/systemd/system"), "sglang.service\n")
                self.host.sh(f"rm -rf {step.directory}")

    def test_values_arrive_as_they_are(self):
        for files in ("", "EnvironmentFile=/etc/default/sglang\n"):
            self.host.write("/etc/default/sglang", "A=1\n")
            self.unit(self.TEXT + files)
            values = NASTY + ["", " ", "a  b", " lead", "trail ", "\\\\", 'a"b\\"c', "$$", "%%h"]
            step = self.step({f"X{i}": value for i, value in enumerate(values)})
            self.whole_life(step)
            self.succeed(step, "apply")
            seen = step.inspect().splitlines()
            for i, value in enumerate(values):
                with self.subTest(value=value, files=bool(files)):
                    self.assertIn(f"now.X{i}={ascii_only(value)}", seen)
            self.host.sh(f"rm -rf {step.directory} /etc/systemd/system/*.d")

    def test_an_environment_file_does_not_win(self):
        self.host.write("/etc/default/sglang", "CUDA_HOME=/usr/local/cuda-12.8\n")
        self.unit(self.TEXT + "EnvironmentFile=-/etc/default/sglang\n")
        step = self.step()
        made = self.whole_life(step)
        self.assertEqual(made["current"], "CUDA_HOME=/usr/local/cuda-12.8")
        self.succeed(step, "apply")
        self.assertIn("EnvironmentFile=/etc/systemd/system/sglang.service.d/zz-trueup.env\n",
                      self.host.sh(f"cat {self.CONF}"))
        # What is proven is the value, not that the files are there.
        self.host.sh("echo 'CUDA_HOME=\"/elsewhere\"' >/etc/systemd/system/sglang.service.d/zz-trueup.env")
        self.assertNotEqual(step.do("verify").returncode, 0)

    def test_an_environment_file_that_comes_later_is_noticed(self):
        step = self.step()
        step.difference()
        self.succeed(step, "apply")
        self.host.write("/etc/default/late", "CUDA_HOME=/elsewhere\n")
        self.host.write("/etc/systemd/system/sglang.service.d/late.conf",
                        "[Service]\nEnvironmentFile=/etc/default/late\n")
        self.host.sh("systemctl daemon-reload")
        done = step.do("verify")
        self.assertEqual(done.returncode, 1)
        self.assertIn("something sets it behind us", done.stdout)

    def test_what_is_unset_at_the_end_is_set_all_the_same(self):
        self.unit(self.TEXT + "UnsetEnvironment=CUDA_HOME HF_HOME\n")
        step = self.step()
        self.whole_life(step)
        self.succeed(step, "apply")
        self.assertIn("unset.HF_HOME", self.step({"HF_HOME": "x"}).inspect())

    def test_a_variable_is_taken_away(self):
        for more in ("Environment=CUDA_HOME=/x\n", "EnvironmentFile=/etc/default/sglang\n"):
            self.host.write("/etc/default/sglang", "CUDA_HOME=/x\n")
            self.unit(self.TEXT + more)
            step = Step(self.host, "systemd_override", {"unit": self.UNIT, "unset": ["CUDA_HOME"]})
            made = self.whole_life(step)
            self.assertEqual((made["current"], made["wanted"]), ("CUDA_HOME=/x", "CUDA_HOME not set"))
            self.host.sh(f"rm -rf {step.directory}")

    def test_a_second_fix_keeps_what_the_first_set(self):
        first, second = self.step(), self.step({"MAX_JOBS": "4"}, number="02")
        first.difference()
        self.succeed(first, "apply")
        self.whole_life(second)
        second.difference()
        self.succeed(second, "apply")
        text = self.host.sh(f"cat {self.CONF}")
        self.assertIn('"CUDA_HOME=/usr/local/cuda-13.0"', text)
        self.assertIn('"MAX_JOBS=4"', text)
        # Another value for the same name takes the place of the first.
        third = self.step({"MAX_JOBS": "8"}, number="03")
        third.difference()
        self.succeed(third, "apply")
        self.assertNotIn("MAX_JOBS=4", self.host.sh(f"cat {self.CONF}"))
        # Undone out of order, nothing is taken that came later.
        self.assertEqual(first.do("undo").returncode, 3)

    def test_a_drop_in_that_somebody_edited_since_is_not_written_again(self):
        step = self.step()
        step.difference()
        self.succeed(step, "apply")
        self.host.sh(f"echo '# theirs' >>{self.CONF}")
        done = step.do("apply", TRUEUP_RESUMED="1")
        self.assertEqual(done.returncode, 3)
        self.assertIn("was changed since", done.stdout.splitlines()[-1])
        self.assertIn("# theirs", self.host.sh(f"cat {self.CONF}"))

    def test_ours_sorts_behind_all_others(self):
        self.host.write("/etc/systemd/system/sglang.service.d/zzz.conf", "[Service]\nEnvironment=CUDA_HOME=/late\n")
        self.host.sh("systemctl daemon-reload")
        step = self.step()
        self.whole_life(step)
        self.succeed(step, "apply")
        self.assertEqual(self.host.sh("ls /etc/systemd/system/sglang.service.d"), "zzz.conf\nzzz.conf-trueup.conf\n")

    def test_what_sets_it_itself_is_named(self):
        for text, who in (("#!/bin/bash\nexport CUDA_HOME=/x\n", "/opt/serve"),
                          ("#!/bin/sh\n CUDA_HOME=/x exec y\n", "/opt/serve")):
            self.host.write("/opt/serve", text, 0o755)
            self.assertIn(who, self.step().difference()["refused"][0])
        for text in ("#!/bin/sh\nexport CUDA_HOME=${CUDA_HOME:-/x}\n", "#!/bin/sh\n# CUDA_HOME=/x\n",
                     "#!/bin/sh\necho $CUDA_HOME\n"):
            self.host.write("/opt/serve", text, 0o755)
            self.assertEqual(self.step().difference()["refused"], [], text)

    def test_edits_of_others_are_not_brought_into_effect(self):
        self.unit(self.TEXT, "other.service")
        self.host.sh("echo >>/etc/systemd/system/other.service")
        self.assertIn("files of other.service changed", self.step().difference()["refused"][0])
        self.host.sh("systemctl daemon-reload; echo >>/etc/systemd/system/sglang.service")
        self.assertEqual(self.step().difference()["refused"], [])

    def test_an_edit_of_the_unit_is_seen(self):
        before = self.step().inspect()
        self.unit(self.TEXT + "# note\n")
        self.assertNotEqual(self.step().inspect(), before)
        self.host.write("/etc/systemd/system/sglang.service.d/a.conf", "[Service]\n")
        self.host.sh("systemctl daemon-reload")
        self.assertIn("/a.conf", self.step().inspect())

    def test_secrets_are_not_told(self):
        self.unit(self.TEXT + "Environment=HF_TOKEN=planted-a\nEnvironmentFile=/etc/default/s\n")
        self.host.write("/etc/default/s", "API_KEY=planted-b\n")
        step = self.step({"HF_TOKEN": "planted-c", **self.PIN})
        made = step.difference()
        self.assertNotIn("planted", step.seen + made["diff"] + made["current"] + made["wanted"])

    def test_a_link_in_our_place_is_refused(self):
        self.host.sh(f"mkdir -p {os.path.dirname(self.CONF)}; ln -s /etc/passwd {self.CONF}; systemctl daemon-reload")
        self.assertIn("is a link or a directory", self.step().difference()["refused"][0])

    def test_there_is_no_such_unit(self):
        made = Step(self.host, "systemd_override", {"unit": "gone.service", "environment": self.PIN}).difference()
        self.assertIn("not-found", made["refused"][0])


def ascii_only(text):
    return "".join(c if 31 < ord(c) < 127 else "?" * len(c.encode()) for c in text)


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer("")

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def answer(self, body):
        self.server.asked.append((self.command, self.path, body, self.headers.get("Authorization"),
                                  self.headers.get("Content-Type")))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b'{"text": "four words of it"}')

    def log_message(self, *_):
        pass


class Service(SystemdTest):
    def setUp(self):
        super().setUp()
        self.host.sh(f"systemctl start {self.UNIT}")

    def step(self, state, shell="dash", number="01", **params):
        return Step(self.host, "service", {"unit": self.UNIT, "state": state, **params}, shell, number)

    def active(self):
        return self.host.sh(f"cat /var/lib/stub/{self.UNIT}.active").strip()

    def server(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        server.asked, server.statuses = [], []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server, f"http://127.0.0.1:{server.server_port}"

    def test_stop_and_start_again(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                step = self.step("stopped", shell)
                self.whole_life(step)
                self.assertEqual(self.active(), "active")
                self.host.sh(f"rm -rf {step.directory}")

    def test_start_and_stop_again(self):
        self.host.sh(f"systemctl stop {self.UNIT}; echo failed >/var/lib/stub/{self.UNIT}.active")
        step = self.step("started")
        made = step.difference()
        self.assertEqual(made["refused"], [])
        self.succeed(step, "apply")
        self.succeed(step, "verify")
        self.succeed(step, "apply", TRUEUP_RESUMED="1")
        self.assertEqual(len(self.calls("start")), 2)  # that of setUp, and one
        self.assertFalse(step.ask(step.inspect())["needed"])
        self.succeed(step, "undo")
        self.assertEqual(self.active(), "inactive")
        self.assertTrue(self.calls("reset-failed"))

    def test_a_restart_that_finds_it_up_starts_it_anew(self):
        step = self.step("started", restart=True)
        step.difference()
        self.succeed(step, "apply")
        self.assertEqual(self.active(), "active")
        self.succeed(step, "undo")
        self.assertEqual(self.active(), "inactive")

    def test_halves_of_a_restart(self):
        stop, start = self.step("stopped", restart=True), self.step("started", number="02", restart=True)
        stop.difference()
        start.difference()
        self.succeed(stop, "apply")
        self.assertEqual(start.inspect(), start.seen, "the stop changed what the start expects")
        self.succeed(start, "apply")
        self.succeed(start, "verify")
        self.assertEqual(self.active(), "active")
        self.succeed(start, "undo")
        self.assertEqual(self.active(), "inactive")
        self.succeed(stop, "undo")
        self.assertEqual(self.active(), "active")

    def test_drained_once_before_the_stop(self):
        self.host.write("/usr/local/bin/drain",
                        '#!/bin/sh\nprintf "%s|" "$@" >>/srv/drained\n'
                        'exec cat /var/lib/stub/sglang.service.active >>/srv/drained\n', 0o755)
        step = self.step("stopped", drain=["/usr/local/bin/drain", "a b", "$(id)"])
        self.assertEqual(step.difference()["irreversible"], "")
        self.succeed(step, "apply")
        self.succeed(step, "apply")
        self.assertEqual(self.host.sh("cat /srv/drained"), "a b|$(id)|active\n")

    def test_what_does_not_drain_is_not_stopped(self):
        step = self.step("stopped", drain=["/bin/false"])
        step.difference()
        self.assertEqual(step.do("apply").returncode, 1)
        self.assertEqual(self.active(), "active")

    def test_others_that_would_stop_with_it_are_named(self):
        self.unit(self.TEXT, "front.service")
        self.host.sh(f"systemctl start front.service; echo RequiredBy=front.service >/var/lib/stub/{self.UNIT}.more")
        self.assertIn("front.service would be stopped", self.step("stopped").difference()["refused"][0])
        self.host.sh("systemctl stop front.service")
        self.assertEqual(self.step("stopped").difference()["refused"], [])

    def test_a_unit_that_fails_to_start(self):
        self.host.sh(f"systemctl stop {self.UNIT}; echo failed >/var/lib/stub/{self.UNIT}.starts")
        step = self.step("started")
        step.difference()
        done = step.do("apply")
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed", done.stdout)
        self.succeed(step, "undo")

    def test_a_stop_that_is_still_under_way_is_waited_for(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                self.setUp()
                self.host.sh(f"echo deactivating >/var/lib/stub/{self.UNIT}.stops")
                step = self.step("stopped", shell)
                step.difference()
                done = step.do("apply")
                self.assertEqual(done.returncode, 1)
                self.assertIn("is deactivating", done.stdout)
                self.host.sh(f"echo 3 >/var/lib/stub/{self.UNIT}.stopping")
                self.succeed(step, "undo")
                self.assertEqual(self.active(), "active")
                self.assertEqual(len(self.calls("start")), 2)  # that of setUp, and one

    def test_a_stop_may_take_as_long_as_systemd_gives_it(self):
        library = make()[0]
        for span, seconds in (("1min 30s", 185), ("20s", 60), ("10min", 1205), ("1h 1min", 1800), ("infinity", 1800),
                              ("500ms", 60), ("", 60)):
            self.host.sh(f"echo 'TimeoutStopUSec={span}' >/var/lib/stub/{self.UNIT}.more")
            for shell in SHELLS:
                self.host.write("/probe", library + f"_stop_patience {self.UNIT} 60\n")
                with self.subTest(span=span, shell=shell):
                    self.assertEqual(self.host.run("sh", "-c", f"{shell} /probe").stdout, f"{seconds}\n")

    def test_a_stop_that_does_not_end_is_given_up(self):
        self.host.sh(f"echo deactivating >/var/lib/stub/{self.UNIT}.stops")
        step = self.step("stopped", patience="1s")
        step.difference()
        step.do("apply")
        done = step.do("undo")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is still being stopped, after 5 s", done.stdout)

    def start_with(self, health, **params):
        self.host.sh(f"systemctl stop {self.UNIT}; rm -rf /var/lib/trueup/runs/r1/step")
        step = self.step("started", health=health, **params)
        step.difference()
        self.succeed(step, "apply")
        return step

    def test_health_and_a_request_that_exercises_it(self):
        for lacks in ("", "curl"):
            server, url = self.server()
            server.statuses = [503, 503, 200, 200]
            if lacks:
                self.host.sh(f"rm -f /usr/bin/{lacks}")
            self.host.write("/etc/key", "Authorization: Bearer planted\"x\n", 0o600)
            body = json.dumps({"prompt": "it's \"$(id)\" \\ `x`", "top_k": 20})
            step = self.start_with({"url": f"{url}/health", "request": {"url": f"{url}/v1/completions", "body": body,
                                                                        "headers_from": "/etc/key",
                                                                            "contains": "four words"}})
            with self.subTest(lacks=lacks):
                self.succeed(step, "verify")
                self.assertEqual([each[:2] for each in server.asked],
                                 [("GET", "/health")] * 3 + [("POST", "/v1/completions")])
                self.assertEqual(server.asked[-1][2:], (body, 'Bearer planted"x', "application/json"))
                self.assertEqual(self.host.sh(f"cd {step.directory}; ls"), "invocation\nstarted\n")

    def test_an_answer_that_is_not_the_expected(self):
        server, url = self.server()
        for request, statuses, why in (({"url": f"{url}/v1", "body": "{}"}, [200, 500], "answered the request"),
                                       ({"url": f"{url}/v1", "contains": "five"}, [], "lacks what was expected")):
            server.statuses = statuses
            step = self.start_with({"url": f"{url}/health", "request": request})
            done = step.do("verify")
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stdout)

    def test_patience_has_an_end(self):
        server, url = self.server()
        server.statuses = [503] * 1000
        step = self.start_with({"url": f"{url}/health"}, patience="3s")
        done = step.do("verify")
        self.assertEqual(done.returncode, 1)
        self.assertIn("did not answer", done.stdout)

    def test_a_unit_that_starts_again_meanwhile_ends_the_waiting(self):
        _, url = self.server()
        for change in (f"cat /proc/sys/kernel/random/uuid >/var/lib/stub/{self.UNIT}.invocation",
                       f"echo 1 >/var/lib/stub/{self.UNIT}.restarts", f"echo failed >/var/lib/stub/{self.UNIT}.active"):
            step = self.start_with({"url": f"{url}/health"})
            self.host.sh(change)
            done = step.do("verify")
            self.assertEqual(done.returncode, 1)
            self.assertIn("did not stay up", done.stdout)
            self.host.sh(f"echo 0 >/var/lib/stub/{self.UNIT}.restarts")

    def test_without_a_client_it_says_so_beforehand(self):
        self.host.sh("rm -f /usr/bin/curl /usr/bin/python3")
        step = self.start_with({"url": "http://127.0.0.1:1/health"})
        self.assertIn("not exercised", step.made["wanted"])
        self.assertIn("not exercised", self.succeed(step, "verify").stdout)

    def test_the_text_of_the_unit_is_told_without_secrets(self):
        self.unit(self.TEXT + "Environment=API_KEY=planted\n")
        seen = self.step("stopped").inspect()
        self.assertIn("text=Environment=HF_HOME=/data", seen)
        self.assertNotIn("planted", seen)


class AnyPackageManager:
    """What a test of `package` has, whatever brings the packages; in scripts that hang, $AT_WORK says that they do."""

    AT_WORK = "/srv/at-work"

    def step(self, *packages, shell="dash", number="01", **params):
        return Step(self.host, "package", {"packages": list(packages), **params}, shell, number)

    def test_a_package_whose_script_fails_is_taken_away_again(self):
        before = self.installed()
        step = self.step("broken")
        seen = step.difference() and step.seen
        self.assertEqual(step.do("apply").returncode, 1)
        self.assertNotEqual(self.installed(), before)
        self.succeed(step, "undo")
        self.assertEqual(self.installed(), before)
        self.assertEqual(step.inspect(), seen)

    def broken_off(self, step):
        """apply, ended with all its descendants while the package manager is at work."""
        script = self.host.start("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
                                 f"TRUEUP_STEP={step.directory}", "sh", "-c",
                                 f"cd {step.directory}; . /var/lib/trueup/runs/r1/lib; {step.made['apply']}")
        while self.host.run("test", "-e", self.AT_WORK).returncode:
            self.assertIsNone(script.poll(), "it ended before it could be broken off")
        os.killpg(script.pid, 9)
        script.communicate()
        self.host.sh(f"rm {self.AT_WORK}")


@unittest.skipUnless(shutil.which("apt-get") and shutil.which("dpkg-deb"), "apt and dpkg are missing")
class AptTest(ActionTest):
    REPOSITORY = "/srv/repository"
    PACKAGES = [
        {"name": "tool", "version": "1.0", "depends": "tool-lib", "size": 2000},
        {"name": "tool-lib", "version": "1.0", "files": {"/opt/tool/lib": "x\n"}},
        {"name": "tool", "version": "2.0", "depends": "tool-lib"},
        {"name": "breaks-tool", "version": "1", "conflicts": "tool-lib"},
        {"name": "needs-newer", "version": "1", "depends": "tool-lib (>= 2.0)"},
        {"name": "tool-lib", "version": "2.0", "files": {"/opt/tool/lib": "y\n"}},
        {"name": "cuda-drivers", "version": "580", "files": {"/opt/driver": "x"}},
        {"name": "needs-driver", "version": "1", "depends": "cuda-drivers"},
        {"name": "broken", "version": "1", "postinst": "exit 1\n"},
        {"name": "slow", "version": "1", "postinst": "[ -e /srv/quick ] || { touch /srv/at-work; exec sleep 1000; }\n"},
        {"name": "slow-unpack", "version": "1",
         "preinst": "[ -e /srv/quick ] || { touch /srv/at-work; exec sleep 1000; }\n"},
        {"name": "uses-tool", "version": "1", "depends": "tool-lib"},
    ]

    def setUp(self):
        super().setUp()
        apt_repository.repository(self.host, self.REPOSITORY, self.PACKAGES)
        apt_repository.only_repository(self.host, self.REPOSITORY)

    def installed(self):
        """Of the packages that are ours, those that have a state."""
        text = self.host.sh("dpkg-query -W -f '${Package} ${Version} ${Status}\\n' | sort")
        names = {package["name"] for package in self.PACKAGES}
        return [line for line in text.splitlines() if line.split()[0] in names]


class Package(AnyPackageManager, AptTest):
    def test_installed_in_exact_versions_and_taken_away(self):
        for shell in SHELLS:
            with self.subTest(shell=shell):
                before = self.installed()
                step = self.step("tool=1.0", shell=shell)
                made = self.whole_life(step)
                self.assertEqual(made["diff"], "+ tool 1.0\n+ tool-lib 2.0\n")
                self.assertEqual(self.installed(), before)
                self.assertEqual(self.host.run("test", "-e", "/opt/tool").returncode, 1)
                self.assertNotIn("\ntool", self.host.sh("ls /var/cache/apt/archives"))
                self.host.sh(f"rm -rf {step.directory}")

    def test_dependencies_are_marked_as_such(self):
        step = self.step("tool")
        step.difference()
        self.succeed(step, "apply")
        self.assertEqual(self.host.sh("apt-mark showmanual tool tool-lib"), "tool\n")

    def test_an_older_version_comes_back(self):
        self.host.sh("apt-get -y install tool=1.0 tool-lib=1.0")
        before = self.installed()
        step = self.step("tool=2.0")
        made = self.whole_life(step)
        self.assertEqual(made["diff"], "~ tool 1.0 -> 2.0\n")
        self.assertEqual(self.installed(), before)
        # From what was kept, when the repository has only the new one any more.
        step.difference()
        self.host.sh(f"rm -rf {step.directory}/*")
        self.succeed(step, "apply")
        self.host.sh(f"rm {self.REPOSITORY}/*")
        self.succeed(step, "undo")
        self.assertEqual(self.installed(), before)

    def test_nothing_is_written_by_a_look(self):
        step = self.step("tool")
        step.inspect()
        places = "/etc /var/cache /var/lib/apt /var/lib/dpkg /var/log"
        self.host.sh("touch -d '1 second ago' /srv/mark; "
                     f"find {places} -xdev -newer /srv/mark -exec touch -h -d '1 hour ago' {{}} +")
        step.inspect()
        self.assertEqual(self.host.sh(f"find {places} -xdev -newer /srv/mark"), "")

    def test_what_it_would_do_beyond_is_refused(self):
        self.host.sh("apt-get -y install tool=1.0 tool-lib=1.0")
        for package, why in (("breaks-tool", "it would remove tool"),
                             ("needs-newer", "it would upgrade tool-lib from 1.0 to 2.0"),
                             ("needs-driver", "it would install cuda-drivers, which belongs to the driver"),
                             ("cuda-drivers", "belongs to the driver"),
                             ("nonesuch", "Unable to locate package nonesuch")):
            with self.subTest(package=package):
                self.assertIn(why, " ".join(self.step(package).difference()["refused"]))

    def test_a_plan_whose_packages_changed_is_not_made(self):
        step = self.step("tool")
        step.difference()
        apt_repository.repository(self.host, self.REPOSITORY,
                                  self.PACKAGES + [{"name": "tool", "version": "3.0", "depends": "tool-lib"}])
        self.host.sh("apt-get -q update")
        self.assertNotEqual(step.inspect(), step.seen)
        done = step.do("apply")
        self.assertEqual(done.returncode, 1)
        self.assertIn("something else", done.stdout)

    def test_a_package_that_cannot_be_fetched_changes_nothing(self):
        before = self.installed()
        for spoil in (f"rm {self.REPOSITORY}/tool-lib_2*", f"echo >>{self.REPOSITORY}/tool-lib_2.0_all.deb"):
            apt_repository.repository(self.host, self.REPOSITORY, self.PACKAGES)
            step = self.step("tool")
            step.difference()
            self.host.sh(spoil)
            self.assertEqual(step.do("apply").returncode, 1)
            self.assertEqual(self.installed(), before)
            self.succeed(step, "undo")
            self.host.sh(f"rm -rf {step.directory}")

    def test_what_we_broke_off_is_finished_or_undone_and_what_others_did_is_not(self):
        before = self.installed()
        for package, end in [(package, end) for package in ("slow", "slow-unpack") for end in ("resume", "undo",
            "others")]:
            step = self.step(package)
            step.difference()
            self.broken_off(step)
            self.assertNotEqual(self.installed(), before)
            # What apt leaves in /tmp when it installs many and is ended.
            self.host.sh("touch /srv/quick; mkdir -m 700 /tmp/apt-dpkg-install-AbCdEf")
            with self.subTest(package=package, end=end):
                if end == "resume":
                    self.assertEqual(step.do("apply").returncode, 1, "without the journal's word nothing is repaired")
                    self.succeed(step, "apply", TRUEUP_RESUMED="1")
                    self.succeed(step, "verify")
                if end == "others":
                    other = self.step("tool", number="02")
                    self.assertIn("half done", " ".join(other.difference()["refused"]))
                    self.assertEqual(other.do("apply", TRUEUP_RESUMED="1").returncode, 1)
                self.succeed(step, "undo")
                self.assertEqual(self.installed(), before)
                self.assertEqual(self.host.sh("ls /tmp"), "")
            self.host.sh(f"rm -rf /srv/quick {step.directory}")

    def test_what_others_need_by_now_stays(self):
        step = self.step("tool")
        step.difference()
        self.succeed(step, "apply")
        self.host.sh("apt-get -y install uses-tool")
        done = step.do("undo")
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("uses-tool", done.stdout)
        self.host.sh("apt-get -y purge uses-tool; apt-get -y install tool=1.0 --allow-downgrades")
        self.assertEqual(step.do("undo").returncode, 3)

    def test_who_holds_the_package_manager_is_named(self):
        step = self.step("tool", patience="2s")
        step.difference()
        holder = self.host.start("/usr/bin/python3", "-c",
                                 "import fcntl, time; f = open('/var/lib/dpkg/lock-frontend', 'w'); "
                                 "fcntl.lockf(f, fcntl.LOCK_EX); open('/srv/held', 'w'); time.sleep(1000)")
        self.addCleanup(holder.communicate)
        self.addCleanup(os.killpg, holder.pid, 9)
        while self.host.run("test", "-e", "/srv/held").returncode:
            self.assertIsNone(holder.poll())
        done = step.do("apply")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"held by process \d+ \(python3")


class CudaToolkit(AptTest):
    PACKAGES = (apt_repository.toolkit("12.8", "12.8.90-1") + apt_repository.toolkit("13.0", "13.0.96-1") +
                apt_repository.toolkit("12.9", "12.9.79-1") +
                [{"name": "cuda-drivers", "version": "580"},
                 {"name": "cuda-13-0", "version": "13", "depends": "cuda-toolkit-13-0, cuda-drivers"}])
    BY_HAND = "mkdir -p /usr/local/cuda-12.8/bin; "
    PACKAGED = "apt-get -y -q install cuda-toolkit-12-8 cuda-toolkit-config-common=12.8.90-1; "
    STATES = {
        "auto": PACKAGED,
        "manual": PACKAGED + "update-alternatives --quiet --set cuda /usr/local/cuda-12.8",
        "link by hand to a packaged one": PACKAGED + "ln -sfn /usr/local/cuda-12.8 /usr/local/cuda",
        "link by hand to another": PACKAGED + "mkdir -p /opt/cuda-12.6; ln -sfn /opt/cuda-12.6 /usr/local/cuda",
        "entry by hand": PACKAGED + "mkdir -p /opt/cuda-12.6; ln -sfn /opt/cuda-12.6 /etc/alternatives/cuda",
        "plain link of a runfile": BY_HAND + "ln -s /usr/local/cuda-12.8 /usr/local/cuda",
        "relative link": BY_HAND + "ln -s cuda-12.8 /usr/local/cuda",
        "no link": BY_HAND,
        "no link and nothing": "true",
        "dangling link": "ln -s /usr/local/cuda-11.0 /usr/local/cuda",
        "dangling group": PACKAGED + "rm -rf /usr/local/cuda-12.8",
        "a directory": "mkdir -p /usr/local/cuda/bin",
    }

    def step(self, shell="dash", number="01", **params):
        return Step(self.host, "cuda_toolkit", {"version": "13.0", **params}, shell, number)

    def files(self):
        return self.host.sh("find /etc/alternatives /var/lib/dpkg/alternatives /usr/local /etc/ld.so.conf.d "
                            "-printf '%p %y %m %u %l\\n' | sort; "
                            "cat /var/lib/dpkg/alternatives/cuda* 2>/dev/null || true")

    def test_the_default_stays_in_every_state_it_can_be_in(self):
        for name, script in self.STATES.items():
            with self.subTest(state=name):
                self.setUp()
                self.host.sh(script)
                default, installed, files = self.host.run("readlink", "-f",
                                                          "/usr/local/cuda").stdout, self.installed(), self.files()
                step = self.step(SHELLS[len(name) % len(SHELLS)])
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
                self.assertEqual(self.installed(), installed)
                self.assertEqual(self.files(), files)

    def test_a_default_that_moves_meanwhile_is_noticed(self):
        self.host.sh(self.PACKAGED)
        step = self.step()
        step.difference()
        self.succeed(step, "apply")
        self.host.sh("update-alternatives --quiet --auto cuda")
        self.assertEqual(step.do("verify").returncode, 1)
        self.assertEqual(step.do("undo").returncode, 3)

    def test_a_default_that_moves_while_it_is_half_undone_stays(self):
        other = ("mkdir -p /opt/cuda-12.6; "
                 "update-alternatives --quiet --install /usr/local/cuda cuda /opt/cuda-12.6 1; "
                 "update-alternatives --quiet --set cuda /opt/cuda-12.6")
        for ends in ("_fail 'the package manager is held'", "kill -9 $$"):
            with self.subTest(ends=ends):
                self.setUp()
                self.host.sh(self.PACKAGED)
                files = self.files()
                step = self.step()
                step.difference()
                self.succeed(step, "apply")
                half = step.script(f"_pm_undo() {{ {ends}; }}\n" + step.made["undo"])
                self.assertNotEqual(half.returncode, 0)
                self.host.sh(other)
                done = step.do("undo")
                self.assertEqual(done.returncode, 3, done.stdout)
                self.assertEqual(self.host.sh("readlink -f /usr/local/cuda"), "/opt/cuda-12.6\n")
                self.host.sh("update-alternatives --quiet --set cuda /usr/local/cuda-12.8; "
                             "update-alternatives --quiet --remove cuda /opt/cuda-12.6")
                self.succeed(step, "undo")
                self.assertEqual(self.files(), files)

    def test_a_toolkit_that_is_there_is_left_alone(self):
        self.host.write("/usr/local/cuda-13.0/bin/nvcc", "#!/bin/sh\n", 0o755)
        self.assertFalse(self.step().difference()["needed"])

    def test_a_default_of_the_major_version_stays_too(self):
        self.host.sh(self.PACKAGED)
        step = Step(self.host, "cuda_toolkit", {"version": "12.9"})
        step.difference()
        self.succeed(step, "apply")
        self.succeed(step, "verify")
        self.assertEqual(self.host.sh("readlink -f /usr/local/cuda /usr/local/cuda-12"), "/usr/local/cuda-12.8\n" * 2)

    def test_a_driver_in_the_transaction_is_refused(self):
        packages = [dict(package) for package in self.PACKAGES]
        packages[4]["depends"] += ", cuda-drivers"
        apt_repository.repository(self.host, self.REPOSITORY, packages)
        self.host.sh("apt-get -q update")
        self.assertIn("cuda-drivers, which belongs to the driver", " ".join(self.step().difference()["refused"]))

    # All that apt knows of repositories; which packages came by themselves is its own affair.
    CONFIG = ("find /etc/apt /var/lib/apt /usr/share/keyrings ! -type d ! -name extended_states -printf '%p %s\\n' "
              "| sort")

    def test_a_repository_that_is_used_once(self):
        with tempfile.TemporaryDirectory() as home:
            armored, fingerprint = apt_repository.make_key(home)
            apt_repository.repository(self.host, "/srv/nvidia", self.PACKAGES, home)
            other = tempfile.mkdtemp()
            self.addCleanup(shutil.rmtree, other)
            wrong_key, wrong_fingerprint = apt_repository.make_key(other)
            subprocess.run(["gpg", "--homedir", home, "--batch", "--import"], input=wrong_key, text=True, check=True,
                           capture_output=True)
            both = subprocess.run(["gpg", "--homedir", home, "--batch", "--armor", "--export"], text=True, check=True,
                                  capture_output=True).stdout
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
        apt_repository.repository(self.host, self.REPOSITORY, [{"name": "x", "version": "1"}])
        self.host.sh("apt-get -q update")
        before, config = self.installed(), self.host.sh(self.CONFIG)
        given = {"url": "file:///srv/nvidia", "suite": "./", "key": armored, "fingerprint": fingerprint}
        for shell in SHELLS:
            step = self.step(shell, repository=given)
            made = step.difference()
            self.assertEqual(made["refused"], [])
            self.assertIn("resolved at apply", made["wanted"])
            self.succeed(step, "apply")
            self.succeed(step, "verify")
            self.assertNotEqual(self.installed(), before)
            self.succeed(step, "apply", TRUEUP_RESUMED="1")
            self.succeed(step, "undo")
            self.assertEqual(self.installed(), before)
            self.assertEqual(self.host.sh(self.CONFIG), config)
            self.host.sh(f"rm -rf {step.directory}")
        for change, why in (({"fingerprint": wrong_fingerprint}, f"has the fingerprint {fingerprint}"),
                            ({"key": wrong_key, "fingerprint": wrong_fingerprint}, "could not be read"),
                            ({"key": both}, "is not one OpenPGP key"),
                            ({"url": "file:///srv/gone"}, "could not be read"),
                            ({"most": "1KiB"}, "KiB, and 1 are agreed to")):
            with self.subTest(change=list(change)):
                step = self.step(repository={**given, **change})
                step.difference()
                done = step.do("apply")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(why, done.stdout.splitlines()[-1])
                self.assertEqual(self.installed(), before)
                self.succeed(step, "undo")
                self.assertEqual(step.inspect(), step.seen)
                self.host.sh(f"rm -rf {step.directory}")


if __name__ == "__main__":
    why = available()
    if why:
        print(f"skipped: {why}")
        sys.exit(77)
    unittest.main()
