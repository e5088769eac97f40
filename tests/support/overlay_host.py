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
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" || exit
for at in dev sys; do mount --rbind "/$at" "$1/root/$at" || exit; done
mount -t proc proc "$1/root/proc" || exit
for at in usr/local home srv; do mount --bind "$1/own/$at" "$1/root/$at" || exit; done
mount -t tmpfs -o mode=1777 tmpfs "$1/root/tmp" && mount -t tmpfs tmpfs "$1/root/run" || exit
echo ready
cat  # by a shell that waits: process 1 has to see to the ends of those whose parents were ended
exit
"""


def available():
    if os.geteuid() != 0:
        return "needs root"
    for program in ("unshare", "nsenter", "chroot", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is missing"
    if not os.path.isdir("/dev/shm"):
        return "there is no /dev/shm"
    try:
        with OverlayHost() as host:
            host.sh("true")
    except RuntimeError as error:
        return str(error)
    except AssertionError as error:  # in a chroot, say
        return "an overlay of this machine's root cannot be entered: " + str(error).strip().splitlines()[-1]
    return ""


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
        # A process that holds the namespaces: with its end, all that runs there ends.
        self._holder = subprocess.Popen(["unshare", "-m", "-p", "--fork", "--kill-child", "--propagation", "private",
                                         "sh", "-c", _MOUNTS,
                                         "host", self._directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE,
                                        text=True)
        if self._holder.stdout.readline() != "ready\n":
            why = self._holder.communicate()[1].strip()
            shutil.rmtree(self._directory)
            raise RuntimeError(f"no overlay can be mounted here: {why}")
        with open(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children", encoding="ascii") as file:
            self._inside = file.read().split()[0]
        return self

    def __exit__(self, *_):
        self._holder.communicate()
        shutil.rmtree(self._directory)

    def _command(self, command):
        return ["nsenter", "-t", self._inside, "-m", "-p", "chroot", os.path.join(self._directory, "root"), *command]

    def run(self, *command, stdin="", timeout=PATIENCE):
        """A program there, to its end."""
        return subprocess.run(self._command(command), input=stdin, text=True, errors="replace", capture_output=True,
                              timeout=timeout)

    def start(self, *command):
        """The same, without waiting for its end; a process group of its own."""
        return subprocess.Popen(self._command(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT,
                                text=True, start_new_session=True)

    def sh_bytes(self, script, data):
        subprocess.run(self._command(["/bin/sh", "-e", "-c", script]), input=data, check=True, capture_output=True,
                       timeout=PATIENCE)

    def sh(self, script, **kwargs):
        done = self.run("/bin/sh", "-e", "-c", script, **kwargs)
        if done.returncode != 0:
            raise AssertionError(f"{script}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def write(self, path, text, mode=0o644):
        """A file of root's, its directories too."""
        self.sh(f"mkdir -p '{os.path.dirname(path)}' && cat >'{path}' && chmod {mode:o} '{path}'", stdin=text)
