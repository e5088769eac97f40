"""A root file system to break: an overlay of this machine's own, in memory, seen through chroot in a mount namespace.

Real programs (apt, dpkg, update-alternatives, mv, setpriv) on real paths, and nothing of it outside. Not a booted host:
no systemd runs there. Needs root and the right to mount; `available()` says why not.
"""
import os
import shutil
import subprocess
import tempfile

PATIENCE = 300
_MOUNTS = """
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" || exit 97
for at in proc dev sys; do mount --rbind "/$at" "$1/root/$at" || exit 97; done
for at in usr/local home srv; do mount --bind "$1/own/$at" "$1/root/$at" || exit 97; done
mount -t tmpfs -o mode=1777 tmpfs "$1/root/tmp" && mount -t tmpfs tmpfs "$1/root/run" || exit 97
root=$1
shift
exec chroot "$root/root" "$@"
"""


def available():
    if os.geteuid() != 0:
        return "needs root"
    for program in ("unshare", "chroot", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is missing"
    if not os.path.isdir("/dev/shm"):
        return "there is no /dev/shm"
    with OverlayHost() as host:
        done = host.run("true")
        return "" if done.returncode == 0 else f"no overlay can be mounted here: {done.stderr.strip()}"


class OverlayHost:
    """`with OverlayHost() as host`: changes stay from one run to the next, until the end. /usr/local, /home and /srv
    are empty at first, and no overlay, so that their inodes stay what they are."""

    def __enter__(self):
        self._directory = tempfile.mkdtemp(prefix="trueup-overlay-", dir="/dev/shm")
        os.chmod(self._directory, 0o755)
        for name in ("upper", "work", "root", "own/usr/local", "own/home", "own/srv"):
            path = os.path.join(self._directory, name)
            os.makedirs(path)
            os.chmod(path, 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self._directory)

    def run(self, *command, stdin="", timeout=PATIENCE):
        """A program there. Its /tmp and /run are empty, and gone afterwards."""
        return subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", _MOUNTS, "host", self._directory,
                               *command], input=stdin, text=True, errors="replace", capture_output=True, timeout=timeout)

    def sh(self, script, **kwargs):
        done = self.run("/bin/sh", "-e", "-c", script, **kwargs)
        if done.returncode != 0:
            raise AssertionError(f"{script}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def write(self, path, text, mode=0o644):
        """A file of root's, its directories too."""
        self.sh(f"mkdir -p '{os.path.dirname(path)}' && cat >'{path}' && chmod {mode:o} '{path}'", stdin=text)
