"""What differs on a host from its state right after boot.

The host's own files are the upper layer of its overlay, so only what lies there can differ from the base image. Mounts
that the overlay does not hold (the case's own, and those in memory) are walked whole through /proc/PID/root.
"""

import hashlib
import os
import re
import stat

# In memory, kept by the system while it runs, and nothing of a visitor's; each with the reason why.
CHURN = (
    r"/run/systemd(/.*)?",  # systemd's and logind's own state: sessions, units, sockets, journald's numbers
    r"/run/log(/.*)?",  # the journal while it is not persistent
    r"/run/utmp",
    r"/run/sshd(/.*)?",
    r"/run/sshd\.pid",
    r"/run/motd\.dynamic",  # login records, sshd's listener, the login's greeting
    r"/run/sudo(/.*)?",  # what sudo remembers of a login
    r"/run/user(/.*)?",  # logind's per-user directories
    r"/run/credentials(/.*)?",
    r"/run/dbus(/.*)?",
    r"/run/host(/.*)?",
    r"/run/mount(/.*)?",
    r"/run/lock/subsys",
    r"/run/trueup-lab/repository",  # what `lab repository` wrote
    r"/run/trueup-lab/gpu/\d+",  # the pids that the host's own fake GPU programs leave
    r"/dev/(pts|char|net|mqueue|fd|ptmx)(/.*)?",  # pseudo terminals come with a login
    r"/dev/log",
)
# On disk: logs and login records, the package manager's books (compared as packages and versions), and what is trueup's.
NOT_OURS = (
    r"/var/log/(journal|apt|lab)(/.*)?",
    r"/var/log/(wtmp|btmp|lastlog|faillog|auth\.log|dpkg\.log|alternatives\.log)(\..*)?",
    r"/var/log/(wtmp|lastlog)\.db(-.*)?",
    r"/var/lib/(wtmpdb|lastlog)(/.*)?",  # login records of Debian 13
    r"/var/lib/(dpkg|apt)(/.*)?",
    r"/var/cache/apt(/.*)?",
    r"/var/cache/debconf(/.*)?",
    r"/etc/ld\.so\.cache",
    r"/var/cache/ldconfig(/.*)?",
    r"/var/lib/trueup(/.*)?",
    r"/var/lib/sudo(/.*)?",  # sudo's record that it has lectured someone
    r"/var/lib/systemd(/.*)?",  # stamps and seeds that systemd keeps for itself
    r"/var/tmp/systemd-private-.*",
    r"/tmp/systemd-private-.*",
    r"/(tmp|var/tmp)/\.(X11|ICE|XIM|font)-unix",
    r"/\.lab-fill",  # what `lab fill` wrote
)
_left_out = re.compile("|".join(CHURN + NOT_OURS)).fullmatch


def _state(path):
    """What is compared of one file: (kind, mode, owner, group, content hash, link target or device number)."""
    info = os.lstat(path)
    mode, detail = info.st_mode, ""
    if stat.S_ISLNK(mode):
        return ["link", 0, info.st_uid, info.st_gid, os.readlink(path)]
    if stat.S_ISREG(mode):
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        kind, detail = "file", digest.hexdigest()
    elif stat.S_ISDIR(mode):
        kind = "directory"
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        kind, detail = "device", f"{os.major(info.st_rdev)}:{os.minor(info.st_rdev)}"
    else:
        kind = "fifo" if stat.S_ISFIFO(mode) else "socket"
    return [kind, stat.S_IMODE(mode), info.st_uid, info.st_gid, detail]


def _is_whiteout(info):
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def _is_opaque(path):
    try:
        return os.getxattr(path, "trusted.overlay.opaque") == b"y"
    except OSError:
        return False


def _walk_upper(upper, base, found, relative=""):
    """Fills `found` with the state of all that the upper layer changes; None: removed."""
    here = upper + relative
    with os.scandir(here) as entries:
        names = {entry.name: entry for entry in entries}
    if _is_opaque(here) and os.path.isdir(base + relative):
        for name in os.listdir(base + relative):
            if name not in names:
                _mark_removed(base, f"{relative}/{name}", found)
    for name, entry in names.items():
        path = f"{relative}/{name}"
        if _left_out(path):
            continue
        info = entry.stat(follow_symlinks=False)
        if _is_whiteout(info):
            _mark_removed(base, path, found)
            continue
        found[path] = _state(upper + path)
        lower = base + path
        if stat.S_ISDIR(info.st_mode):
            _walk_upper(upper, base, found, path)
        elif os.path.isdir(lower) and not os.path.islink(lower):
            _mark_removed(base, path, found, only_below=True)


def _mark_removed(base, path, found, only_below=False):
    if not os.path.lexists(base + path) or _left_out(path):
        return
    if not only_below:
        found[path] = None
    if os.path.isdir(base + path) and not os.path.islink(base + path):
        for name in os.listdir(base + path):
            _mark_removed(base, f"{path}/{name}", found)


def _walk_mount(root, top, found):
    device = os.lstat(root + top).st_dev
    found[top] = _state(root + top)
    pending = [top]
    while pending:
        directory = pending.pop()
        for name in os.listdir(root + directory):
            path = f"{directory}/{name}"
            if _left_out(path):
                continue
            try:
                info = os.lstat(root + path)
                if info.st_dev != device:
                    continue
                found[path] = _state(root + path)
            except OSError:
                continue
            if stat.S_ISDIR(info.st_mode):
                pending.append(path)


def _packages(path):
    packages, name = {}, None
    try:
        with open(path) as file:
            for line in file:
                key, _, value = line.rstrip("\n").partition(": ")
                if key == "Package":
                    name, installed = value, True
                elif key == "Status" and name:
                    installed = value.endswith(" installed")
                elif key == "Version" and name and installed:
                    packages[name] = value
    except OSError:
        pass
    return packages


def _mount_points(pid):
    with open(f"/proc/{pid}/mountinfo") as file:
        return {line.split()[4] for line in file}


def snapshot(pid, upper, base, mounts):
    """pid: the host's process 1; mounts: directories of the case's own that the overlay does not hold."""
    root = f"/proc/{pid}/root"
    found = {"/": _state(upper)}
    _walk_upper(upper, base, found)
    memory = {}
    for top in _mount_points(pid) & {"/run", "/run/lock", "/dev", "/dev/shm", "/tmp", *mounts}:
        _walk_mount(root, top, memory)
    return {"disk": found, "memory": memory, "packages": _packages(root + "/var/lib/dpkg/status")}


def _describe(path, before, after):
    if before is None:
        return f"added {path} ({after[0]})"
    if after is None:
        return f"removed {path} ({before[0]})"
    if before[0] != after[0]:
        return f"type of {path}: {before[0]} -> {after[0]}"
    parts = []
    if before[1] != after[1]:
        parts.append(f"mode {before[1]:04o} -> {after[1]:04o}")
    if before[2:4] != after[2:4]:
        parts.append(f"owner {before[2]}:{before[3]} -> {after[2]}:{after[3]}")
    if before[4] != after[4]:
        parts.append(f"target {before[4]} -> {after[4]}" if before[0] == "link" else "content")
    return f"changed {path}: {', '.join(parts)}"


def differences(before, after, base):
    """One line per thing that differs, in the order of paths."""
    lines = []

    def lower(path):
        return _state(base + path) if os.path.lexists(base + path) else None

    for kind, fallback in (("disk", lower), ("memory", lambda path: None)):
        for path in sorted(before[kind].keys() | after[kind].keys()):
            old = before[kind][path] if path in before[kind] else fallback(path)
            new = after[kind][path] if path in after[kind] else fallback(path)
            if old != new:
                lines.append(_describe(path, old, new))
    for name in sorted(before["packages"].keys() | after["packages"].keys()):
        old, new = before["packages"].get(name), after["packages"].get(name)
        if old != new:
            lines.append(f"package {name}: {old or 'not installed'} -> {new or 'not installed'}")
    return lines
