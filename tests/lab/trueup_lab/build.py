"""A case becomes the files of a host. Runs inside the host's root, in a process of its own.

So nothing may be imported here on first use, as time.strptime does: another Python may live in that root.
"""

import os
import shlex
import subprocess
import time

from . import caches, driver, python_env, repository, toolkit, units
from .tree import HOME, Tree

DAY = 86400


def dates_of(case):
    """When things were put there. The system is older than the environments, these are older than the caches, so that
    nothing looks changed behind something else's back unless the case says so."""
    now = int(time.time())
    given = [
        python_env.date(entry[key])
        for field, key in (("python_envs", "installed"), ("jit_caches", "modified"))
        for entry in case.get(field, [])
        if entry.get(key)
    ]
    system = min([now - 120 * DAY] + [moment - 30 * DAY for moment in given])
    installed = now - 60 * DAY
    return {"system": system, "installed": installed, "cache": max([now - 30 * DAY] + given)}


def build(case, address, keys, real_nvcc):
    """keys: {authorized, host_private, host_public}, the texts of the key files."""
    dates = dates_of(case)
    tree = Tree(dates["system"])
    _identity(case, tree, address, keys)
    driver.write(case, tree)
    toolkit.write(case, tree, real_nvcc)
    python_env.write(case, tree, dates)
    caches.write(case, tree, dates)
    units.write(case, tree)
    repository.write(case, tree, address)
    _packages(case, tree)
    for path, content in case.files.items():
        tree.file(path, str(content), 0o755 if str(content).startswith("#!") else 0o644)
    for name, given in case.commands.items():
        _command(case, tree, name, given or {})
    _init(case, tree)
    subprocess.run(["/sbin/ldconfig"], check=True, stderr=subprocess.DEVNULL)
    tree.settle()


def _identity(case, tree, address, keys):
    tree.file("/etc/hostname", f"{case.name}\n")
    tree.file("/etc/hosts", f"127.0.0.1 localhost\n{address} {case.name}\n::1 localhost ip6-localhost\n")
    tree.file("/etc/machine-id", os.urandom(16).hex() + "\n", 0o444)
    tree.append("/etc/ssh/sshd_config.d/lab.conf", f"ListenAddress {address}\n")
    tree.file("/etc/ssh/ssh_host_ed25519_key", keys["host_private"], 0o600)
    tree.file("/etc/ssh/ssh_host_ed25519_key.pub", keys["host_public"])
    for account in ("root", "user", "ops", "opspw"):
        tree.file(f"/etc/ssh/authorized_keys/{account}", keys["authorized"])
    system = case.get("os")
    if system:
        tree.file("/usr/lib/os-release", os_release(str(system["id"]), str(system.get("version", ""))))
        tree.link("/etc/os-release", "../usr/lib/os-release")
    if case.is_container:
        tree.file("/.dockerenv", "")


def os_release(name, version):
    if name == "ubuntu":
        short = ".".join(version.split(".")[:2])
        return (
            f'PRETTY_NAME="Ubuntu {version} LTS"\nNAME="Ubuntu"\nVERSION_ID="{short}"\nVERSION="{version} LTS"\nID=ubuntu\n'
            "ID_LIKE=debian\n"
        )
    if version in ("", "rolling"):
        return (
            f'NAME="{name.capitalize()} Linux"\nPRETTY_NAME="{name.capitalize()} Linux"\nID={name}\nBUILD_ID=rolling\n'
        )
    like = {"rhel": 'ID_LIKE="fedora"\n', "rocky": 'ID_LIKE="rhel centos fedora"\n'}.get(name, "")
    return f'NAME="{name.upper()}"\nVERSION="{version}"\nID="{name}"\n{like}VERSION_ID="{version}"\nPRETTY_NAME="{name.upper()} {version}"\n'


def _packages(case, tree):
    given = case.get("system_packages", {})
    tree.append(
        "/var/lib/dpkg/status",
        "".join(
            f"Package: {name}\nStatus: install ok installed\nPriority: optional\nSection: misc\nMaintainer: none <none@invalid>\n"
            f"Architecture: amd64\nVersion: {version}\nDescription: package of a test host\n\n"
            for name, version in given.items()
        ),
    )
    for name in given:
        tree.file(f"/var/lib/dpkg/info/{name}.list", "/.\n")


def _command(case, tree, name, given):
    base = f"{HOME}/commands/{name}"
    tree.file(f"{base}.stdout", str(given.get("stdout") or ""))
    tree.file(f"{base}.stderr", str(given.get("stderr") or ""))
    wait = f"sleep {shlex.quote(str(given['sleep']))}\n" if given.get("sleep") else ""
    text = f"#!/bin/sh\n{wait}cat {base}.stdout\ncat {base}.stderr >&2\nexit {int(given.get('exit', 0))}\n"
    places = {"/usr/local/sbin", "/usr/local/bin"}
    paths = [case.login.get("PATH", ""), case.service_environment.get("PATH", "")] + [
        unit["env"].get("PATH", "") for unit in units.services(case)
    ]
    # A directory that comes earlier in some PATH, or a program that the model made: there the case's word counts as well.
    for directory in {part for path in paths for part in path.split(":")} | {
        "/usr/bin",
        "/usr/sbin",
        "/usr/lib/wsl/lib",
    }:
        if directory.startswith("/") and tree.wrote(f"{directory}/{name}"):
            places.add(directory)
    for directory in places:
        tree.program(f"{directory}/{name}", text)


def _init(case, tree):
    """The first program of the host: lays the case over /proc, /sys and /dev, then becomes systemd."""
    mount = f"{HOME}/mount"
    if not case.is_wsl:
        for directory in ("/proc/driver", "/sys/module", "/sys/bus/pci/devices"):
            tree.directory(mount + directory)
        if not os.path.exists(f"{mount}/proc/modules"):
            tree.file(f"{mount}/proc/modules", "", 0o444)
    lines = ["#!/bin/sh", "mkdir -p /run/trueup-lab", "mkdir -m 1777 /run/trueup-lab/gpu"]
    directories = ("/proc/driver", "/sys/module", "/sys/bus/pci/devices")
    files = ("/proc/modules", "/proc/version", "/proc/sys/kernel/osrelease", "/proc/cpuinfo", "/proc/meminfo")
    for target in directories + files:
        if os.path.exists(mount + target):
            lines.append(
                f"[ ! -e {target} ] || {{ mount --bind {mount}{target} {target} && mount -o remount,bind,ro {target}; }}"
            )
    lines += [f"mknod -m 666 {path} c {major} {minor}" for path, major, minor in driver.device_nodes(case)]
    lines += ["exec /lib/systemd/systemd", ""]
    tree.program(f"{HOME}/init", "\n".join(lines))
