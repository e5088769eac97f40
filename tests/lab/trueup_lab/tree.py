"""Writing into a host's file system from inside its root (the process has changed its root directory to it)."""

import os
import pathlib

GUEST = pathlib.Path(__file__).resolve().parent.parent / "guest"
GUEST_FILES = {
    path.name: path.read_text() for path in GUEST.iterdir() if path.is_file()
}  # read before the root changes
HOME = "/usr/lib/trueup-lab"  # on the host: what only the test host needs


class Tree:
    """Files with the owner that their place implies and a date of their own, so that nothing looks newly made."""

    def __init__(self, mtime):
        self.mtime = mtime
        self._dates = {}
        self._owners = {}
        with open("/etc/passwd") as file:
            for line in file:
                self.add_account(line)

    def add_account(self, line):
        fields = line.strip().split(":")
        if fields[5].startswith("/home/"):
            self._owners[fields[5] + "/"] = (int(fields[2]), int(fields[3]))

    def owner(self, path):
        return next((owner for home, owner in self._owners.items() if (path + "/").startswith(home)), (0, 0))

    def _place(self, path, mtime):
        path = os.path.normpath(path)
        missing = os.path.dirname(path)
        parents = []
        while not os.path.lexists(missing):
            parents.append(missing)
            missing = os.path.dirname(missing)
        for parent in reversed(parents):
            os.mkdir(parent, 0o755)
            self._own(parent, mtime)
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
            os.unlink(path)
        return path

    def _own(self, path, mtime):
        os.chown(path, *self.owner(path), follow_symlinks=False)
        self._dates[path] = mtime or self.mtime

    def file(self, path, content="", mode=0o644, mtime=None):
        path = self._place(path, mtime)
        data = content.encode() if isinstance(content, str) else content
        with open(path, "xb") as file:
            file.write(data)
        os.chmod(path, mode)
        self._own(path, mtime)

    def program(self, path, content, mtime=None):
        self.file(path, content, 0o755, mtime)

    def link(self, path, target, mtime=None):
        if os.path.normpath(path) == os.path.normpath(target):
            return
        path = self._place(path, mtime)
        os.symlink(target, path)
        self._own(path, mtime)

    def directory(self, path, mtime=None):
        path = os.path.normpath(path)
        if not os.path.isdir(path):
            os.mkdir(self._place(path, mtime), 0o755)
            self._own(path, mtime)

    def wrote(self, path):
        return os.path.normpath(path) in self._dates

    def append(self, path, content):
        old = ""
        mode = 0o644
        if os.path.exists(path):
            with open(path) as file:
                old = file.read()
            mode = os.stat(path).st_mode & 0o7777
        self.file(path, old + content, mode)

    def settle(self):
        """Sets the dates; last, since each new entry renews its directory's."""
        for path, mtime in sorted(self._dates.items(), reverse=True):
            if os.path.lexists(path):
                os.utime(path, (mtime, mtime), follow_symlinks=False)
