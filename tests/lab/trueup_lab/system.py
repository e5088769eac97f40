"""The few kernel interfaces that Python 3.11 lacks, process identity, and locks."""

import contextlib
import ctypes
import fcntl
import os
import signal

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_PRIVATE, MS_REC = 1 << 18, 1 << 14
PR_SET_PDEATHSIG = 1


class LabError(Exception):
    """What the user can act on; printed as one line."""


def _checked(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def unshare_mounts():
    """A mount namespace of our own from here on; nothing mounted later is seen outside, and all goes with us."""
    _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    _checked(_libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "/")


def fork_into_pid_namespace():
    """As os.fork; the child is process 1 of a namespace of its own, and when it dies all that it started dies."""
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    _checked(_libc.unshare(CLONE_NEWPID), "unshare")
    pid = os.fork()
    if pid:
        _checked(_libc.setns(own, CLONE_NEWPID), "setns")
        os.close(own)
    return pid


def mount(source, target, kind, data=""):
    _checked(_libc.mount(source.encode(), target.encode(), kind.encode(), 0, data.encode()), target)


def die_with_parent():
    _checked(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def start_time(pid):
    """Start of a process in clock ticks since boot, which with the pid names it for good; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def identity(pid):
    return [pid, start_time(pid)]


def is_alive(process):
    pid, started = process
    return started is not None and start_time(pid) == started


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(text) for text in file.read().split()]
    except OSError:
        return []


@contextlib.contextmanager
def locked(path):
    """Exclusive among processes until the block ends or the process dies."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
