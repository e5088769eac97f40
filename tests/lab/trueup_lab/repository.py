"""NVIDIA's package repository in small: packages of the same names, files, dependencies and scripts, signed by a key of the
lab. Built once and cached beside the base images; hosts see it read-only at PLACE and serve it themselves over HTTP.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import textwrap
import time
from email.utils import formatdate

from . import toolkit
from .base import cache_directory, remove_unused
from .system import LabError, locked
from .tree import GUEST_FILES, HOME

PLACE = "/srv/packages"
NAME = "cuda-repository"  # in each host's /etc/hosts: its own address
PORT = 8088
UNIT = "lab-repository.service"
STATE_FILE = "/run/trueup-lab/repository"
STATES = ("ok", "unreachable", "corrupt", "missing", "silent")
DISTRIBUTIONS = ("ubuntu2204", "ubuntu2404", "debian12", "debian13")
RELEASES = {"12.8": "12.8.1", "12.9": "12.9.1", "13.0": "13.0.2"}  # toolkit: the version of its metapackage
DRIVER = "580.95.05"
# Path below the toolkit: the component that owns it; the first that matches. Paths of targets/*/ come as include/, lib/.
COMPONENTS = (
    (r"bin/cuobjdump", "cuda-cuobjdump"),
    (r"bin/nvdisasm", "cuda-nvdisasm"),
    (r"nvvm/.*", "cuda-nvvm"),
    (r"include/crt/.*", "cuda-crt"),
    (r"bin/.*", "cuda-nvcc"),
    (r"(include|lib)/(lib)?cublas.*", "libcublas-dev"),
    (r"(include|lib)/(lib)?curand.*", "libcurand-dev"),
    (r"(include|lib)/(lib)?cusparse.*", "libcusparse-dev"),
    (r"(include|lib)/(lib)?cusolver.*", "libcusolver-dev"),
    (r"(include|lib)/(lib)?nvrtc.*", "cuda-nvrtc-dev"),
    (r"lib/libnvJitLink.*", "libnvjitlink-dev"),
    (r"include/(nv|cub)/.*", "cuda-cccl"),
    (r"include/cuda_profiler_api.h", "cuda-profiler-api"),
    (r"lib/stubs/libcuda.so", "cuda-driver-dev"),
    (r"lib/stubs/libnvidia-ml.so", "cuda-nvml-dev"),
    (r"version.json", "cuda-toolkit"),
    (r"EULA.txt", "cuda-documentation"),
    (r"include|lib64", "cuda-toolkit-config-common"),
    (r".*", "cuda-cudart-dev"),
)


def place_of(system):
    """The repository's directory for a distribution, as NVIDIA names it."""
    name, version = str(system.get("id", "")), str(system.get("version", ""))
    short = "".join(version.split(".")[:2]) if name == "ubuntu" else version.split(".")[0]
    distribution = f"{name}{short}"
    if distribution not in DISTRIBUTIONS:
        raise LabError(f"no repository for {name} {version}; there are: {', '.join(DISTRIBUTIONS)}")
    return distribution


def url_of(distribution):
    return f"http://{NAME}:{PORT}/compute/cuda/repos/{distribution}/x86_64/"


def write(case, tree, address):
    """On a host that has it: what serves it there, and no other source than this one."""
    if case.repository is None:
        return
    tree.directory(PLACE)
    tree.append("/etc/hosts", f"{address} {NAME}\n")
    tree.file("/etc/apt/sources.list", "")
    tree.program(f"{HOME}/repository.py", GUEST_FILES["repository.py"])
    unit = f"/etc/systemd/system/{UNIT}"
    tree.file(
        unit,
        f"[Unit]\nDescription=package repository of the lab\n\n[Service]\nType=notify\n"
        f"ExecStart={HOME}/repository.py {address} {PORT} {PLACE} {STATE_FILE}\n",
    )
    tree.link(f"/etc/systemd/system/multi-user.target.wants/{UNIT}", unit)


def list_on(host, case):
    """As an operator adds it: by its keyring package; the index is fetched."""
    keyring = f"{PLACE}/compute/cuda/repos/{place_of(case.get('os', {}))}/x86_64/cuda-keyring_1.1-1_all.deb"
    script = f"dpkg -i {keyring} && apt-get -qq update"
    done = host.enter(["sh", "-c", script], capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"{host.name}: the repository cannot be added: {(done.stderr or done.stdout).strip()[-300:]}")


def set_state(host, state):
    """How the repository answers from now on: one of STATES."""
    action = "stop" if state == "unreachable" else "start"
    note = f"rm -f {STATE_FILE}" if state in ("ok", "unreachable") else f"echo {state} > {STATE_FILE}"
    done = host.enter(["sh", "-c", f"{note} && systemctl {action} {UNIT}"], capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"{host.name}: {done.stderr.strip()}")


class Package:
    def __init__(self, name, version, depends=(), architecture="amd64"):
        self.name, self.version, self.depends, self.architecture = name, version, list(depends), architecture
        self.files = {}  # path: (content, mode), or a link's target
        self.scripts = {}
        self.conffiles = []

    def file(self, path, content="", mode=0o644):
        self.files[path] = (content.encode() if isinstance(content, str) else content, mode)

    def link(self, path, target):
        self.files[path] = target

    def build(self, work, pool):
        root = pathlib.Path(work) / self.name
        control = root / "DEBIAN"
        control.mkdir(parents=True)
        size = 0
        for path, what in self.files.items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(what, str):
                place.symlink_to(what)
            else:
                place.write_bytes(what[0])
                place.chmod(what[1])
                size += len(what[0])
        for directory in [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]:
            directory.chmod(0o755)
        fields = [
            ("Package", self.name),
            ("Version", self.version),
            ("Architecture", self.architecture),
            ("Priority", "optional"),
            ("Section", "multiverse/devel"),
            ("Maintainer", "trueup lab <lab@invalid>"),
            ("Installed-Size", str(size // 1024 + 1)),
            ("Depends", ", ".join(self.depends)),
            ("Description", f"{self.name} of a test host's repository"),
        ]
        (control / "control").write_text("".join(f"{key}: {value}\n" for key, value in fields if value))
        if self.conffiles:
            (control / "conffiles").write_text("".join(f"{path}\n" for path in self.conffiles))
        for name, text in self.scripts.items():
            (control / name).write_text(f"#!/bin/sh\nset -e\n{textwrap.dedent(text)}")
            (control / name).chmod(0o755)
        deb = pathlib.Path(pool) / f"{self.name}_{self.version}_{self.architecture}.deb"
        _run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(root), str(deb))
        shutil.rmtree(root)
        return deb


class _Collected:
    """What the toolkit's writer writes, sorted into components."""

    def __init__(self, root, target):
        self.root, self.target = root, target
        self.components = {name: {} for _, name in COMPONENTS}

    def _put(self, path, what):
        inside = path.removeprefix(f"{self.root}/")
        where = inside.removeprefix(f"targets/{self.target}/")
        owner = next(name for pattern, name in COMPONENTS if re.fullmatch(pattern, where))
        self.components[owner][path] = what

    def file(self, path, content="", mode=0o644):
        self._put(path, (content.encode() if isinstance(content, str) else content, mode))

    def link(self, path, target):
        self._put(path, target)


class _X86:
    cuda_target = "x86_64-linux"


def toolkit_packages(release, full):
    """Everything of one release, down to the metapackage that brings a driver."""
    major = release.split(".")[0]
    dash = release.replace(".", "-")
    root = f"/usr/local/cuda-{release}"
    nvcc, _, _, cudart, cublas = toolkit.facts(release)[:5]
    versions = {"cuda-cudart-dev": cudart, "libcublas-dev": cublas, "libcurand-dev": "10.4.0.35", "cuda-toolkit": full}
    files = _Collected(root, _X86.cuda_target)
    toolkit.installed(_X86, files, root, release, None, {"path": root, "version": full})
    files.file(f"{root}/targets/{_X86.cuda_target}/include/cuda_profiler_api.h", f"/* CUDA {release} */\n")
    files.file(f"{root}/EULA.txt", "End User License Agreement\n")

    packages = {}

    def add(stem, depends=(), version=None, architecture="amd64"):
        name = f"{stem}-{dash}"
        version = version or versions.get(stem, nvcc)
        packages[stem] = Package(name, f"{version}-1", depends, architecture)
        packages[stem].files.update(files.components.get(stem, {}))
        return packages[stem]

    def of(*stems):
        return [f"{stem}-{dash}" for stem in stems]

    common = Package(
        f"cuda-toolkit-{dash}-config-common",
        f"{cudart}-1",
        [f"cuda-toolkit-{major}-config-common", "cuda-toolkit-config-common"],
        "all",
    )
    common.files.update(files.components["cuda-toolkit-config-common"])
    number = release.replace(".", "")
    common.scripts = {
        "postinst": f"""\
            if [ "$1" = configure ]; then
              update-alternatives --install /usr/local/cuda cuda {root} {number}
              update-alternatives --install /usr/local/cuda-{major} cuda-{major} {root} {number}
              ldconfig
            fi
            """,
        "prerm": f"""\
            if [ "$1" = remove ] || [ "$1" = deconfigure ]; then
              update-alternatives --remove cuda {root}
              update-alternatives --remove cuda-{major} {root}
            fi
            """,
        "postrm": "ldconfig\n",
    }
    packages["common"] = common
    needs_common = [common.name]
    libraries = [
        stem
        for _, stem in COMPONENTS
        if stem.endswith("-dev") and stem != "cuda-nvml-dev" or stem in ("cuda-cccl", "cuda-profiler-api")
    ]
    for stem in (*libraries, "cuda-nvml-dev", "cuda-nvvm", "cuda-crt", "cuda-cuobjdump", "cuda-nvdisasm"):
        add(stem, needs_common)
    add("cuda-documentation")
    add("cuda-nvcc", [*of("cuda-nvvm", "cuda-crt"), *needs_common])
    add("cuda-compiler", of("cuda-nvcc", "cuda-cuobjdump"), full)
    add("cuda-libraries-dev", of(*libraries), full)
    add("cuda-tools", of("cuda-nvdisasm"), full)
    add(
        "cuda-toolkit",
        of("cuda-compiler", "cuda-libraries-dev", "cuda-tools", "cuda-documentation", "cuda-nvml-dev"),
    )
    add("cuda-runtime", ["cuda-drivers"], full)
    add("cuda", of("cuda-toolkit", "cuda-runtime"), full)
    return list(packages.values())


def shared_packages():
    """What floats, what brings a driver, and the configuration that several releases share."""
    newest = list(RELEASES)[-1]
    packages = []

    def meta(name, version, *depends):
        packages.append(Package(name, f"{version}-1", depends))

    def linker_entry(name, version, path, directory):
        package = Package(name, f"{version}-1", architecture="all")
        package.file(path, f"{directory}\n")
        package.conffiles = [path]
        packages.append(package)

    last = {release.split(".")[0]: release for release in RELEASES}
    for major, release in last.items():
        dash, full = release.replace(".", "-"), RELEASES[release]
        meta(f"cuda-toolkit-{major}", full, f"cuda-toolkit-{dash}")
        linker_entry(
            f"cuda-toolkit-{major}-config-common",
            toolkit.facts(release)[3],
            f"/etc/ld.so.conf.d/988_cuda-{major}.conf",
            f"/usr/local/cuda-{major}/targets/x86_64-linux/lib",
        )
    linker_entry(
        "cuda-toolkit-config-common",
        toolkit.facts(newest)[3],
        "/etc/ld.so.conf.d/000_cuda.conf",
        "/usr/local/cuda/targets/x86_64-linux/lib",
    )
    meta("cuda-toolkit", RELEASES[newest], f"cuda-toolkit-{newest.replace('.', '-')}")
    meta("cuda", RELEASES[newest], f"cuda-{newest.replace('.', '-')}")
    meta("cuda-drivers", DRIVER, "nvidia-open")
    meta("nvidia-open", DRIVER, "nvidia-driver", "nvidia-kernel-open-dkms")
    meta("nvidia-driver", DRIVER)
    meta("nvidia-kernel-open-dkms", DRIVER)
    return packages


def keyring_package(distribution, keyring):
    package = Package("cuda-keyring", "1.1-1", architecture="all")
    path = "/usr/share/keyrings/cuda-archive-keyring.gpg"
    package.file(path, keyring)
    source = f"/etc/apt/sources.list.d/cuda-{distribution}-x86_64.list"
    pin = "/etc/apt/preferences.d/cuda-repository-pin-600"
    package.file(source, f"deb [signed-by={path}] {url_of(distribution)} /\n")
    package.file(pin, "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n")
    package.conffiles = [source, pin]
    return package


class _Key:
    """A signing key that lives as long as the repository is being built: nothing is ever signed again."""

    def __init__(self, home):
        self.home = home
        os.mkdir(home, 0o700)
        self._gpg("--passphrase", "", "--quick-gen-key", "trueup lab <lab@invalid>", "ed25519", "sign", "never")
        listed = self._gpg("--with-colons", "--list-keys").decode()
        self.fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
        self.keyring = self._gpg("--export")
        self.armored = self._gpg("--armor", "--export")

    def _gpg(self, *arguments):
        return _run("gpg", "--homedir", self.home, "--batch", "--quiet", "--pinentry-mode", "loopback", *arguments)

    def sign(self, path):
        self._gpg("--output", str(path.with_name("InRelease")), "--clearsign", str(path))
        self._gpg("--output", str(path.with_name("Release.gpg")), "--armor", "--detach-sign", str(path))

    def end(self):
        subprocess.run(["gpgconf", "--homedir", self.home, "--kill", "all"], check=False)


def _run(*command):
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise LabError(f"no {command[0]} (package {'gnupg' if command[0] == 'gpg' else 'dpkg'})") from None
    if done.returncode:
        raise LabError(f"cannot build the repository: {command[0]}: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return done.stdout


def _index(directory, debs, key):
    """Packages and Release of a flat repository, signed both ways."""
    stanzas = []
    for deb in sorted(debs):
        data = deb.read_bytes()
        control = _run("dpkg-deb", "--field", str(deb)).decode()
        stanzas.append(
            f"{control}Filename: ./{deb.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
        )
    packages = "\n".join(stanzas).encode()
    (directory / "Packages").write_bytes(packages)
    release = directory / "Release"
    release.write_text(
        "Origin: NVIDIA\nLabel: NVIDIA CUDA\nArchitectures: amd64\n"
        f"Date: {formatdate(time.time() - 86400, usegmt=True)}\n"
        f"SHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} Packages\n"
    )
    key.sign(release)


def _build(top):
    pool = top / "pool"
    pool.mkdir()
    with tempfile.TemporaryDirectory(prefix="lab-") as work:  # gpg's sockets want a short path
        key = _Key(os.path.join(work, "key"))
        try:
            packages = shared_packages()
            for release, full in RELEASES.items():
                packages += toolkit_packages(release, full)
            debs = [package.build(work, pool) for package in packages]
            for distribution in DISTRIBUTIONS:
                directory = top / "compute/cuda/repos" / distribution / "x86_64"
                directory.mkdir(parents=True)
                for deb in debs:
                    os.link(deb, directory / deb.name)
                keyring = keyring_package(distribution, key.keyring).build(work, directory)
                (directory / f"{key.fingerprint[-8:]}.pub").write_bytes(key.armored)
                _index(directory, [directory / deb.name for deb in debs] + [keyring], key)
            (top / "fingerprint").write_text(f"{key.fingerprint}\n")
        finally:
            key.end()
    shutil.rmtree(pool)


def _recipe():
    sources = [pathlib.Path(__file__), pathlib.Path(toolkit.__file__)]
    guest = pathlib.Path(__file__).resolve().parent.parent / "guest"
    digest = hashlib.sha256()
    for path in (*sources, guest / "nvcc", guest / "ptxas"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def ensure(say):
    """Path of the repository, built on first use; two builders at once build it once."""
    path = cache_directory() / f"repository-{_recipe()}"
    if path.is_dir():
        return path
    cache_directory().mkdir(parents=True, exist_ok=True)
    with locked(cache_directory() / "repository.lock"):
        if path.is_dir():
            return path
        say("building the package repository of test hosts (some seconds, once)")
        remove_unused("repository")
        for partial in cache_directory().glob(".repository-*"):  # of a builder that was killed
            shutil.rmtree(partial, ignore_errors=True)
        partial = pathlib.Path(tempfile.mkdtemp(prefix=".repository-", dir=cache_directory()))
        try:
            _build(partial)
            for there in (partial, *partial.rglob("*")):
                there.chmod(0o755 if there.is_dir() else 0o644)  # for apt's own user
            partial.rename(path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return path
