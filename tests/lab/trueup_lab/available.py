"""Whether test hosts can boot here; each thing that they need is really tried."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

from . import host, system

PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "debootstrap": "debootstrap",
    "nsenter": "util-linux",
    "ssh-keygen": "openssh-client",
}


def reason_quick():
    """The first thing that is missing, of those that cost nothing to look at; None if all is there."""
    if os.geteuid() != 0:
        return "not root"
    for program, package in PROGRAMS.items():
        if not shutil.which(program):
            return f"no {program} (package {package})"
    if _in_chroot():
        return "in a chroot"
    if not list(host._hierarchies()):
        return "no cgroup file system is mounted"
    return None


def _in_chroot():
    try:
        return not os.path.samefile("/", "/proc/1/root")
    except OSError:  # process 1 may hide its root; a root that is no mount point is a chroot all the same
        with open("/proc/self/mountinfo") as file:
            return not any(line.split()[4] == "/" for line in file)


def reason():
    """As reason_quick, after trying mounts, an overlay in the lab's directory, cgroups, an address and a container."""
    quick = reason_quick()
    if quick:
        return quick
    top = host.lab_directory()
    try:
        top.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".try-", dir=top) as directory:
            return _in_child(_try_overlay, directory) or _try_address() or _try_container(directory)
    except OSError as error:
        return f"cannot write to {top}: {error.strerror}"


def _in_child(function, directory):
    """Runs it in a process of its own, whose namespaces go with it; what it returns or raises, as text."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = function(pathlib.Path(directory)) or ""
        except OSError as error:
            text = f"{function.__doc__}: {error.strerror}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader) as file:
        return file.read() or None


def _try_overlay(directory):
    """mounts are not allowed"""
    system.unshare_mounts()
    for name in ("lower", "upper", "work", "root"):
        (directory / name).mkdir()
    try:
        system.mount(
            "overlay",
            str(directory / "root"),
            "overlay",
            f"lowerdir={directory}/lower,upperdir={directory}/upper,workdir={directory}/work",
        )
    except OSError as error:
        return f"no overlay file system in {directory.parent}: {error.strerror}"
    return None


def _try_address():
    with socket.socket() as probe:
        try:
            probe.bind(("127.10.0.254", 0))
        except OSError as error:
            return f"cannot listen on 127.10.0.254: {error.strerror}"
    return None


def _try_container(directory):
    """systemd-nspawn runs /usr/bin/true of this machine in an otherwise empty root."""
    root = pathlib.Path(directory) / "container"
    (root / "etc").mkdir(parents=True)
    (root / "usr").mkdir()
    (root / "etc" / "os-release").write_text("ID=lab\n")
    for name in ("bin", "lib", "lib64", "sbin"):
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(os.readlink(f"/{name}"))
    number, lock = host.claim_address()
    group = f"{number}-{os.getpid()}"
    try:
        done = subprocess.run(
            [
                "systemd-nspawn",
                "--quiet",
                f"--directory={root}",
                "--register=no",
                "--keep-unit",
                "--bind-ro=/usr",
                f"--machine=lab-{number}",
                "--console=pipe",
                "--",
                "/usr/bin/true",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            preexec_fn=lambda: host._join_cgroup(group),
        )
        if done.returncode:
            return f"systemd-nspawn does not work: {' '.join((done.stderr or done.stdout).split())[:200]}"
    except (OSError, subprocess.SubprocessError) as error:
        return f"systemd-nspawn does not work: {error}"
    finally:
        host._remove_cgroup(group)
        os.close(lock)
    return None
