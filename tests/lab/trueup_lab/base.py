"""Base images: a Debian suite installed once by debootstrap, cached, and shared read-only by all hosts."""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from .system import LabError, die_with_parent, locked

SUITES = ("bookworm", "trixie")
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "sudo",
    "procps",
    "iproute2",
    "busybox",
    "csh",
    "kmod",
    "pciutils",
    "binutils",
)

# Accounts besides root, all reachable with the client key: `user` is ordinary, `ops` has sudo without a password, `opspw`
# has sudo that asks for the password `trueup-lab`.
CUSTOMISE = r"""
set -eu
for account in user:1000 ops:1001 opspw:1002; do
  useradd --create-home --shell /bin/bash --uid "${account#*:}" "${account%:*}"
done
echo 'opspw:trueup-lab' | chpasswd
printf 'ops ALL=(ALL:ALL) NOPASSWD: ALL\nopspw ALL=(ALL:ALL) ALL\n' > /etc/sudoers.d/lab
chmod 0440 /etc/sudoers.d/lab
mkdir -p /etc/ssh/authorized_keys /usr/lib/trueup-lab
cat > /etc/ssh/sshd_config.d/lab.conf <<'END'
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile /etc/ssh/authorized_keys/%u
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
LogLevel VERBOSE
PrintMotd no
UseDNS no
END
rm -f /etc/ssh/ssh_host_*_key* /etc/machine-id /var/lib/dbus/machine-id /etc/hostname
: > /etc/machine-id
# An interpreter of another version than the environment it is started from still finds that environment's modules.
cat > /etc/python3/sitecustomize.py <<'END'
import glob, os, site, sys
prefix = os.path.dirname(os.path.dirname(sys.executable or "/usr/bin/python3"))
prefix = "/usr/local" if prefix == "/usr" else prefix
for directory in glob.glob(prefix + "/lib/python3*/site-packages") + glob.glob(prefix + "/lib/python3*/dist-packages"):
    site.addsitedir(directory)
END
for directory in /etc/python3.*; do ln -sf /etc/python3/sitecustomize.py "$directory/sitecustomize.py"; done
for unit in apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer dpkg-db-backup.timer fstrim.timer \
    getty-static.service console-getty.service systemd-firstboot.service ssh.socket \
    systemd-networkd.socket systemd-networkd.service systemd-resolved.service sshd-keygen.service; do
  systemctl mask "$unit" > /dev/null 2>&1
done
systemctl enable ssh.service > /dev/null 2>&1
rm -rf /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /usr/share/locale/*
ldconfig
"""


def cache_directory():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(cache) / "trueup" / "lab"


def base_path(suite):
    recipe = "\n".join((suite, *PACKAGES, CUSTOMISE))
    return cache_directory() / f"{suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def apt_setting(name):
    return (
        subprocess.run(["apt-config", "shell", "value", name], capture_output=True, text=True, check=True)
        .stdout.partition("=")[2]
        .strip()
        .strip("'")
    )


def debian_mirror():
    """The Debian mirror that this machine's own apt uses."""
    chosen = os.environ.get("TRUEUP_LAB_MIRROR")
    if chosen:
        return chosen
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
        capture_output=True,
        text=True,
    ).stdout
    for line in targets.splitlines():
        site, release, component = line.split()
        if (
            component == "main"
            and "/debian" in site
            and not any(part in release + site for part in ("security", "updates"))
        ):
            return site
    raise LabError("apt on this machine names no Debian mirror; give one in TRUEUP_LAB_MIRROR")


def ensure(suite, say):
    """Path of the base image of a suite, built on first use; two builders at once build it once."""
    path = base_path(suite)
    if path.is_dir():
        return path
    cache_directory().mkdir(parents=True, exist_ok=True)
    with locked(cache_directory() / f"{suite}.lock"):
        if path.is_dir():
            return path
        if not shutil.which("debootstrap"):
            raise LabError("debootstrap is not installed")
        say(f"building the base image of {suite} (about a minute, once)")
        remove_unused(suite)
        for partial in cache_directory().glob(f".{suite}-*"):  # of a builder that was killed
            shutil.rmtree(partial, ignore_errors=True)
        partial = tempfile.mkdtemp(prefix=f".{suite}-", dir=cache_directory())
        try:
            build(suite, partial)
            os.chmod(partial, 0o755)
            os.rename(partial, path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return path


def hold(path):
    """A descriptor that keeps `remove_unused` away from a base image until it is closed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def remove_unused(name):
    """Removes what older recipes of an image, or of the repository, made and no host uses."""
    for stale in cache_directory().glob(f"{name}-*"):
        descriptor = os.open(stale, os.O_RDONLY | os.O_DIRECTORY)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(stale)
        os.close(descriptor)


def build(suite, root):
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for scheme in ("http", "https"):
        proxy = apt_setting(f"Acquire::{scheme}::Proxy")
        if proxy:
            environment[f"{scheme}_proxy"] = proxy
    log = pathlib.Path(root).parent / f"{suite}.log"
    with open(log, "w") as output:
        for command in (
            ["debootstrap", "--variant=minbase", "--include=" + ",".join(PACKAGES), suite, root, debian_mirror()],
            ["chroot", root, "/bin/sh", "-c", CUSTOMISE],
        ):
            done = subprocess.run(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                preexec_fn=die_with_parent,
            )
            if done.returncode != 0:
                raise LabError(f"cannot build the base image of {suite}: {command[0]} failed, see {log}")
