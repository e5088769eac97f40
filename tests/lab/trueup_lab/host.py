"""The life of test hosts: boot, the process that watches over them, running something inside, the end.

A host's mounts and processes live in namespaces of its own, below an nspawn that dies with its parent, the keeper. The
keeper ends when its owner does. So whatever is killed, nothing of a host stays but its directory, which the next `down`
or `up` removes.
"""

import array
import concurrent.futures
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import termios
import time
import traceback

from . import base, build, changed, driver, repository, system, units
from .system import LabError

ADDRESSES = pathlib.Path("/run/trueup-lab")  # one lock file per loopback address, shared by all lab directories
BOOT_LIMIT = 110.0
HIDE_KERNEL_LOG = "umount -l /dev/kmsg && rm /dev/kmsg"  # once journald reads it, no other program has a part in it
POWER = "power"  # a file in a host's directory: when it ends, the keeper boots it again


def lab_directory():
    return pathlib.Path(os.environ.get("TRUEUP_LAB_DIR") or "/var/lib/trueup-lab")


def claim_address():
    """A free 127.10.0.N with the lock that holds it: (N, descriptor). It is free again when the last holder is gone."""
    ADDRESSES.mkdir(exist_ok=True)
    for number in range(1, 255):
        descriptor = os.open(ADDRESSES / f"127.10.0.{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return number, descriptor
        except BlockingIOError:
            os.close(descriptor)
    raise LabError("all of 127.10.0.1 to 127.10.0.254 are taken by test hosts")


class Host:
    """A host's directory and what is written there."""

    def __init__(self, name):
        self.name = name
        self.directory = lab_directory() / name
        self.root = self.directory / "root"

    def read(self):
        try:
            return json.loads((self.directory / "host.json").read_text())
        except (OSError, ValueError):
            return None

    def update(self, **values):
        record = dict(self.read() or {}, **values)
        partial = self.directory / "host.json.new"
        partial.write_text(json.dumps(record, indent=1))
        partial.rename(self.directory / "host.json")

    def running(self):
        """The record of a host that runs; an error otherwise."""
        record = self.read()
        if record is None or "init" not in record or not system.is_alive(record["init"]):
            raise LabError(f"no test host '{self.name}' is running")
        return record

    def enter(self, command, **options):
        """Runs a command inside; options as for subprocess.run."""
        pid = self.running()["init"][0]
        return subprocess.run(
            [
                "nsenter",
                f"--target={pid}",
                "--mount",
                "--uts",
                "--ipc",
                "--pid",
                "--root",
                "--",
                "/usr/bin/env",
                "-i",
                "--chdir=/",
                f"PATH={units.UNIT_PATH}:/sbin:/bin",
                "HOME=/root",
                "LC_ALL=C.UTF-8",
                *command,
            ],
            **options,
        )


# ---- cgroups: each host has one of its own, as nspawn would otherwise put all hosts' services into the same ----------


def _hierarchies():
    """Mount points of the cgroup trees that systemd keeps its units in."""
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields, _, tail = line.partition(" - ")
            kind, _, options = tail.split()[:3]
            if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options):
                yield fields.split()[4]


def _join_cgroup(name):
    for top in _hierarchies():
        group = pathlib.Path(top) / "trueup-lab" / name
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.procs").write_text("0")


def _remove_cgroup(name):
    for top in _hierarchies():
        group = pathlib.Path(top) / "trueup-lab" / name
        for directory, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)


# ---- boot ------------------------------------------------------------------------------------------------------------


def _make_disk(host, disk):
    """The place of the upper layer: on the build machine's disk, or on one of `disk` MiB in memory."""
    top = host.directory / "disk"
    top.mkdir()
    if disk:
        system.mount("disk", str(top), "tmpfs", f"size={disk}m,mode=755")
    for name in ("upper", "work"):
        (top / name).mkdir()
    return top


def _file_system(given):
    """Type of one of the case's mounts: the one asked for where it can be made here, else ext4."""
    kind = given.get("fstype", "ext4")
    return kind if shutil.which(f"mkfs.{kind}") else "ext4"


def _mount_filesystems(host, case):
    """The case's own mounts, writable until the files are there. Returns what settles them."""
    pending = []
    for number, given in enumerate(case.get("mounts", [])):
        kind = _file_system(given)
        image = host.directory / f"mount{number}"
        with open(image, "wb") as file:
            file.truncate((512 if kind == "xfs" else 64) << 20)
        subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True, stdout=subprocess.DEVNULL)
        target = host.root / given["path"].lstrip("/")
        kept = host.directory / f"kept{number}"
        if target.is_dir():
            subprocess.run(["cp", "-a", str(target), str(kept)], check=True)
        target.mkdir(parents=True, exist_ok=True)
        options = [word for word in str(given.get("options", "")).split(",") if word]
        quota = [word for word in options if "quota" in word]
        with_quota = ["mount", "-t", kind, "-o", ",".join(["loop", *quota]), str(image), str(target)]
        if subprocess.run(with_quota, stderr=subprocess.DEVNULL).returncode:  # a kernel without quotas
            options = [word for word in options if word not in quota]
            subprocess.run(["mount", "-t", kind, "-o", "loop", str(image), str(target)], check=True)
        if kept.is_dir():
            subprocess.run(["cp", "-aT", str(kept), str(target)], check=True)
        pending.append((str(target), ",".join(["remount", *options])))
    return pending


def _mount_root(host, plan, top):
    system.mount(
        "overlay",
        str(host.root),
        "overlay",
        f"lowerdir={plan['base']},upperdir={top}/upper,workdir={top}/work," "redirect_dir=off,metacopy=off,index=off",
    )


def _write_files(host, case, plan):
    top = _make_disk(host, plan["disk"])
    host.root.mkdir()
    _mount_root(host, plan, top)
    mounts = _mount_filesystems(host, case)
    builder = os.fork()
    if builder == 0:
        try:
            os.chroot(host.root)
            os.chdir("/")
            os.umask(0o022)
            build.build(case, f"127.10.0.{plan['number']}", plan["keys"], bool(plan["real_nvcc"]))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(builder, 0)[1] != 0:
        os._exit(1)
    for target, options in mounts:
        subprocess.run(["mount", "-o", options, target], check=True)


def _become_host(host, case, plan, is_new):
    """In the child that becomes nspawn: mounts, writes the files of a new host, and executes it. Does not return."""
    system.die_with_parent()
    _join_cgroup(plan["cgroup"])
    system.unshare_mounts()
    system.mount("proc", "/proc", "proc")
    if is_new:
        _write_files(host, case, plan)
    else:
        _mount_root(host, plan, host.directory / "disk")
    arguments = [
        "systemd-nspawn",
        "--quiet",
        f"--directory={host.root}",
        "--register=no",
        "--keep-unit",
        f"--machine=lab-{plan['number']}",
        f"--hostname={case.name}",
        "--kill-signal=SIGRTMIN+3",
        "--console=pipe",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        f"--bind={host.directory}/kmsg:/dev/kmsg",
    ]
    if plan["packages"]:
        arguments.append(f"--bind-ro={plan['packages']}:{repository.PLACE}")
    for path in plan["real_nvcc"]:
        arguments.append(f"--bind-ro=/usr/local/cuda-13.0:{path}")
    environment = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "SYSTEMD_NSPAWN_TMPFS_TMP": "0"}
    os.execvpe("systemd-nspawn", [*arguments, f"{build.HOME}/init"], environment)


def _spawn(host, case, plan, is_new=True):
    """Starts the child of the keeper that becomes the host; returns its pid."""
    if is_new:
        kernel_log = os.path.join(host.directory, "kmsg")
        os.mkfifo(kernel_log, 0o600)
        os.open(kernel_log, os.O_RDWR)  # stays open in the keeper, so that nobody on the host ever waits for a reader
    pid = system.fork_into_pid_namespace()
    if pid:
        return pid
    try:
        log = os.open(host.directory / "console.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(3, 256)
        _become_host(host, case, plan, is_new)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _keep(hosts, plans, owner, report):
    """The keeper: parent of all hosts of one `up`. Ends them when the owner is gone, and itself when they are."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.chdir("/")
    poll = select.poll()
    alive = {}  # pidfd of nspawn: (its pid, the host, its plan)

    def start(host, plan, is_new):
        pid = _spawn(host, plan["case"], plan, is_new)
        host.update(nspawn=system.identity(pid))
        descriptor = os.pidfd_open(pid)
        alive[descriptor] = (pid, host, plan)
        poll.register(descriptor, select.POLLIN)

    for host, plan in zip(hosts, plans):
        start(host, plan, True)
    os.write(report, b"started")
    os.close(report)
    owner_descriptor = None
    if owner:
        try:
            owner_descriptor = os.pidfd_open(owner[0])
            if not system.is_alive(owner):
                raise ProcessLookupError
            poll.register(owner_descriptor, select.POLLIN)
        except ProcessLookupError:
            down([host.name for host in hosts])
            return
    while alive:
        for descriptor, _ in poll.poll():
            if descriptor == owner_descriptor:
                down([host.name for _, host, _ in alive.values()])
                return
            poll.unregister(descriptor)
            os.close(descriptor)
            pid, host, plan = alive.pop(descriptor)
            os.waitpid(pid, 0)
            if (host.directory / POWER).exists():
                (host.directory / POWER).unlink()
                start(host, plan, False)


def up(cases, suite, say, owner=None, disk=None, real_nvcc=False):
    """Boots one host per case; returns them in order. On failure none of them stays."""
    names = [case.name for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"two cases have the id '{name}'")
    for case in cases:
        for given in case.get("mounts", []):
            if _file_system(given) != given.get("fstype", "ext4"):
                say(f"{case.name}: no mkfs.{given['fstype']} here, {given['path']} is ext4 instead")
    image = base.ensure(suite, say)
    packages = repository.ensure(say) if any(case.repository for case in cases) else None
    holds = [base.hold(path) for path in (image, packages) if path]
    top = lab_directory()
    top.mkdir(parents=True, exist_ok=True)
    hosts, plans = [Host(name) for name in names], []
    with system.locked(top / ".lock"):
        for host in hosts:
            record = host.read()
            if record and any(system.is_alive(record[key]) for key in ("nspawn", "booting") if record.get(key)):
                raise LabError(f"test host '{host.name}' is up already (in {top})")
            _remove(host)
            host.directory.mkdir(mode=0o700)
            host.update(booting=system.identity(os.getpid()))
    try:
        client = _new_key(hosts[0].directory / "id_ed25519")
        for host, case in zip(hosts, cases):
            number, _ = claim_address()
            if host is not hosts[0]:
                for name in ("id_ed25519", "id_ed25519.pub"):
                    shutil.copy(hosts[0].directory / name, host.directory / name)
            private, public = _new_key(host.directory / "host_key")
            (host.directory / "known_hosts").write_text(f"127.10.0.{number} {' '.join(public.split()[:2])}\n")
            # Not the number alone: the next host may have it while the last one's group is being removed.
            cgroup = f"{number}-{os.getpid()}"
            mounts = [entry["path"] for entry in case.get("mounts", [])]
            host.update(number=number, cgroup=cgroup, base=str(image), disk=disk, mounts=mounts)
            toolkits = [
                entry["path"]
                for entry in case.get("cuda_toolkits", [])
                if str(entry["version"]).startswith("13.0") and entry["path"].startswith("/usr/local/")
            ]
            plans.append(
                {
                    "case": case,
                    "number": number,
                    "cgroup": cgroup,
                    "base": str(image),
                    "packages": str(packages) if case.repository else None,
                    "disk": disk,
                    "real_nvcc": toolkits if real_nvcc else [],
                    "keys": {"authorized": client[1], "host_private": private, "host_public": public},
                }
            )
        _start_keeper(hosts, plans, owner)
        with concurrent.futures.ThreadPoolExecutor(len(hosts)) as pool:
            for result in [pool.submit(_finish_boot, host, plan) for host, plan in zip(hosts, plans)]:
                result.result()
    except BaseException:
        down(names)
        raise
    finally:
        for hold in holds:
            os.close(hold)
    return hosts


def _new_key(path):
    """(private, public) text of a fresh key pair, also left at path and path.pub."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(path)], check=True)
    return path.read_text(), path.with_name(path.name + ".pub").read_text()


def _start_keeper(hosts, plans, owner):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            if os.fork() == 0:
                _keep(hosts, plans, owner, writer)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    started = os.read(reader, 16)
    os.close(reader)
    if not started:
        raise LabError("the process that watches over the hosts did not start")


def _console(host):
    try:
        text = (host.directory / "console.log").read_text(errors="replace").strip()
    except OSError:
        text = ""
    return "\n".join(text.splitlines()[-15:]) or "no output" + _shortage()


def _shortage():
    """What makes systemd stop without a word: each host takes some seven inotify instances of root's."""
    limit = int(pathlib.Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    used = 0
    for descriptor in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            used += os.readlink(descriptor) == "anon_inode:inotify"
    return f"; {used} of {limit} inotify instances (fs.inotify.max_user_instances) are in use" if used + 7 > limit else ""


def _wait_for_boot(host, number):
    """Until sshd answers and systemd has done all its jobs."""
    deadline = time.monotonic() + BOOT_LIMIT
    nspawn = host.read()["nspawn"]
    init = None
    while time.monotonic() < deadline:
        if not system.is_alive(nspawn):
            raise LabError(f"{host.name} did not boot: {_console(host)}")
        init = next((pid for pid in system.children(nspawn[0]) if _command_name(pid) == "systemd"), None)
        if init and _answers(f"127.10.0.{number}"):
            host.update(init=system.identity(init))
            state = host.enter(
                ["timeout", "50", "systemctl", "is-system-running", "--wait"], capture_output=True, text=True
            )
            if state.stdout.strip() in ("running", "degraded"):
                return
            raise LabError(f"{host.name} did not finish booting: {state.stdout.strip()} {state.stderr.strip()}")
        time.sleep(0.02)
    raise LabError(f"{host.name} did not boot within {BOOT_LIMIT:.0f} s: {_console(host)}")


def reboot(name):
    """As when the power fails and comes back: nothing ends in order, and the host boots from what its disk holds."""
    host = Host(name)
    record = host.running()
    if record["disk"] or record["mounts"]:
        raise LabError(f"{name}: its disk is in memory, or it has mounts of its own: it cannot be booted again")
    before = record["nspawn"]
    (host.directory / POWER).touch()
    # Its first process, which ends when all others have: of nspawn alone they would outlive it for a while, at work on the
    # disk of the host that boots already.
    os.kill(record["init"][0], signal.SIGKILL)
    _gone(before)
    deadline = time.monotonic() + BOOT_LIMIT
    while host.read()["nspawn"] == before:
        if time.monotonic() > deadline:
            raise LabError(f"{name}: nobody boots it again")
        time.sleep(0.01)
    _wait_for_boot(host, record["number"])
    host.enter(["sh", "-c", HIDE_KERNEL_LOG], check=True)


def _finish_boot(host, plan):
    _wait_for_boot(host, plan["number"])
    _after_boot(host, plan["case"])


def _command_name(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


def _answers(address):
    with contextlib.closing(socket.socket()) as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((address, 22)) == 0


def _after_boot(host, case):
    _write_kernel_log(host, case)
    lines = driver.program_lines(case)
    if lines and units.speaking_unit(case) is None:
        host.enter(
            ["systemd-cat", "-t", str(case.get("other", {}).get("engine", "python3"))],
            input="\n".join(lines) + "\n",
            text=True,
            check=True,
        )
    for entry in case.get("processes", []):
        scope = os.path.basename(str(entry.get("cgroup", "")))
        prefix = ["systemd-run", "--quiet", "--scope", f"--unit={scope}"] if scope.endswith(".scope") else []
        existing = host.enter(["systemctl", "is-active", "--quiet", scope]).returncode == 0 if prefix else False
        command = [
            f"{build.HOME}/gpu-process",
            entry["name"],
            str(entry.get("gpu", 0)),
            str(entry.get("gpu_memory_mib", 0)),
        ]
        if existing:
            command = [
                "sh",
                "-c",
                f'for tree in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do '
                f'! [ -d "$tree/system.slice/{scope}" ] || echo $$ > "$tree/system.slice/{scope}/cgroup.procs"; done; exec "$@"',
                "sh",
                *command,
            ]
            prefix = []
        done = host.enter([*prefix, *command], capture_output=True, text=True)
        if done.returncode:
            raise LabError(f"{host.name}: cannot start {entry['name']}: {done.stderr.strip()}")
    if case.repository == "apt":
        repository.list_on(host, case)
    if case.setup:
        done = host.enter(["/bin/sh", "-eu"], input=case.setup, capture_output=True, text=True)
        if done.returncode:
            raise LabError(
                f"{host.name}: host.setup ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}"
            )
    _check_units(host, case)


def _write_kernel_log(host, case):
    """Kernel messages, by the way that journald reads them: records on /dev/kmsg, one read each."""
    messages = driver.kernel_messages(case)
    root = f"/proc/{host.running()['init'][0]}/root"
    with open(root + f"{build.HOME}/kernel-log", "w") as file:
        file.writelines(f"{seconds:.6f} {priority} {text}\n" for seconds, priority, text in messages)
    pipe = os.open(host.directory / "kmsg", os.O_RDWR | os.O_NONBLOCK)
    waiting = array.array("i", [0])
    for number, (seconds, priority, text) in enumerate(messages):
        os.write(pipe, f"{priority},{number},{int(seconds * 1e6)},-;{text}\n".encode())
        for _ in range(2000):
            fcntl.ioctl(pipe, termios.FIONREAD, waiting)
            if not waiting[0]:
                break
            time.sleep(0.001)
        else:
            raise LabError(f"{host.name}: journald does not read the kernel log")
    os.close(pipe)
    host.enter(["sh", "-c", HIDE_KERNEL_LOG], check=True)


def _systemctl(unit):
    if not unit.get("manager"):
        return ["systemctl"]
    ask = 'exec env XDG_RUNTIME_DIR="/run/user/$(id -u)" systemctl --user "$@"'
    return ["runuser", "-u", unit["manager"], "--", "sh", "-c", ask, "systemctl"]


def _check_units(host, case):
    """Each unit is in the state that the case gives, whatever its program did; an error if it is not."""
    for unit in units.services(case):
        state, result = str(unit.get("state", "active")), str(unit.get("result", "success"))
        for _ in range(400):
            text = host.enter(
                [*_systemctl(unit), "show", "-p", "ActiveState", "-p", "Result", unit["unit"]], capture_output=True, text=True
            )
            shown = dict(line.split("=", 1) for line in text.stdout.splitlines())
            if shown == {"ActiveState": state, "Result": result}:
                break
            time.sleep(0.025)
        else:
            raise LabError(f"{host.name}: {unit['unit']} is {shown}, the case says {state} with result {result}")


def upper_directory(host):
    """The upper layer as seen from here: nspawn lives in the mount namespace that has it."""
    return f"/proc/{host.running()['nspawn'][0]}/root{host.directory}/disk/upper"


def take_snapshot(host):
    record = host.running()
    host.enter(["journalctl", "--sync"], stderr=subprocess.DEVNULL)
    return changed.snapshot(record["init"][0], upper_directory(host), record["base"], record["mounts"])


def remember(host):
    (host.directory / "manifest.json").write_text(json.dumps(take_snapshot(host)))


def differences(name):
    host = Host(name)
    record = host.running()
    before = json.loads((host.directory / "manifest.json").read_text())
    return changed.differences(before, take_snapshot(host), record["base"])


def make_read_only(host):
    """Everything a program could write to, but /run, which logins need. Journald goes on in /run; no other program of
    the host may hold a file open for writing."""
    host.enter(["journalctl", "--relinquish-var"], check=True)
    done = host.enter(
        [
            "sh",
            "-c",
            "for top in /tmp /dev/shm; do ! mountpoint -q $top || mount -o remount,ro $top || exit; done; "
            "mount -o remount,ro /",
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise LabError(f"{host.name}: cannot be made read-only, some program holds a file open: {done.stderr.strip()}")


FILL = """
tops='/ /tmp /dev/shm'
# What others let go of while we write is taken too: several rounds, until not a byte is left.
# A probe that stays would only take its own place again.
for round in 1 2 3 4 5 6 7 8 9 10; do
  rm -f /.lab-probe
  for top in $tops; do
    dd if=/dev/zero of="$top/.lab-fill" bs=1M oflag=append conv=notrunc
    dd if=/dev/zero of="$top/.lab-fill" bs=1 count=4096 oflag=append conv=notrunc
  done
  echo x > /.lab-probe || { rm -f /.lab-probe; exit 0; }
done
rm -f /.lab-probe
exit 1
"""


def fill(host):
    """Writes until nothing more fits, on the disk and on what lies in memory beside it."""
    if not host.running().get("disk"):
        raise LabError(f"{host.name} has no disk of its own to fill: boot it with --disk MIB")
    if host.enter(["sh", "-c", f"exec 2> /dev/null\n{FILL}"]).returncode:
        raise LabError(f"{host.name}: the disk did not get full")


def free(host):
    """Takes away what `fill` wrote."""
    host.enter(["rm", "-f", "/.lab-fill", "/tmp/.lab-fill", "/dev/shm/.lab-fill"])


# ---- the end ---------------------------------------------------------------------------------------------------------


def _gone(process, limit=10.0):
    deadline = time.monotonic() + limit
    while system.is_alive(process):
        if time.monotonic() > deadline:
            raise LabError(f"process {process[0]} does not end")
        time.sleep(0.005)


def _remove(host):
    record = host.read() or {}
    if record.get("cgroup"):
        _remove_cgroup(record["cgroup"])
    shutil.rmtree(host.directory, ignore_errors=True)


def down(names):
    """Ends hosts and removes all that is left of them; of what is not there, nothing is said."""
    hosts = [Host(name) for name in names]
    for host in hosts:
        record = host.read() or {}
        for key in ("nspawn", "init"):
            if record.get(key) and system.is_alive(record[key]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(record[key][0], signal.SIGKILL)
    for host in hosts:
        record = host.read() or {}
        for key in ("nspawn", "init"):
            if record.get(key):
                _gone(record[key])
        _remove(host)


def all_names():
    try:
        return sorted(path.name for path in lab_directory().iterdir() if path.is_dir())
    except OSError:
        return []
