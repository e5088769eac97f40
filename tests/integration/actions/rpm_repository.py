"""A dnf repository of small packages that behave as NVIDIA's for RHEL do, alternatives scripts included, and an
OverlayHost that has dnf for its package manager.

Debian 12's dnf is RHEL 9's (4.14 in both; RHEL 8 has 4.7). What differs here from a host of theirs: rpm's database lies
in the home of whoever asks, so a macro says where it is there; nothing of the system is in it, so a package claims to
be that; dnf.conf is as lax as can be, so it is written as theirs; `rpm -e` warns; the program of alternatives is
Debian's, under their name too.
"""
import ast
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

# `$1 = 0`: it goes, and no other version of it comes.
CONFIG = """alternatives --install /usr/local/cuda cuda /usr/local/cuda-{v} {n}
alternatives --install /usr/local/cuda-{major} cuda-{major} /usr/local/cuda-{v} {n}
"""
UNCONFIG = """[ "$1" != 0 ] || {{ alternatives --remove cuda /usr/local/cuda-{v}
alternatives --remove cuda-{major} /usr/local/cuda-{v}; }}
"""
NVCC = '#!/bin/sh\necho "Cuda compilation tools, release {v}, V{v}.88"\n'
# What every host of theirs has: where scripts' interpreter is from.
SYSTEM = {"name": "system", "version": "9-1", "provides": "/bin/sh, system-release = 9"}


ALL = ("cuda-nvcc", "cuda-cudart-devel", "cuda-nvrtc-devel", "libcublas-devel", "libcurand-devel", "cuda-driver-devel",
       "cuda-cccl", "cuda-cuobjdump", "cuda-nvdisasm")


def toolkit(version, common, stems=ALL):
    """The packages of one toolkit; `common`: the version of what it shares with others. For apt, -devel- is -dev-."""
    dashed, values = version.replace(".", "-"), {"v": version, "n": version.replace(".", ""),
                                                 "major": version.split(".")[0]}
    parts = [f"{stem}-{dashed}" for stem in stems]
    files = {parts[0]: {f"/usr/local/cuda-{version}/bin/nvcc": NVCC.format(**values)}}
    return [
        {"name": f"cuda-toolkit-{dashed}", "version": f"{version}.2-1", "requires": ", ".join(parts)},
        *({"name": part, "version": f"{version}.88-1", "requires": f"cuda-toolkit-{dashed}-config-common",
           "files": files.get(part, {f"/usr/local/cuda-{version}/share/{part}": "x\n"})} for part in parts),
        {"name": f"cuda-toolkit-{dashed}-config-common", "version": f"{version}.96-1",
         "requires": f"cuda-toolkit-config-common >= {common}",
         "files": {f"/etc/ld.so.conf.d/988_cuda-{version}.conf": f"/usr/local/cuda-{version}/lib64\n"},
         "post": CONFIG.format(**values), "preun": UNCONFIG.format(**values)},
        {"name": "cuda-toolkit-config-common", "version": common},
    ]


def spec_of(package, root):
    version, release = package["version"].rsplit("-", 1)
    epoch, version = version.split(":") if ":" in version else ("", version)
    fields = {"Name": package["name"], "Epoch": epoch, "Version": version, "Release": release, "Summary": "for tests",
              "License": "none", "BuildArch": "noarch",
              **{field.capitalize(): package[field] for field in ("requires", "provides", "conflicts", "obsoletes")
                 if field in package}}
    return ("".join(f"{name}: {value}\n" for name, value in fields.items() if value) + "%description\nfor tests\n" +
            f"%install\nmkdir -p %{{buildroot}}; cp -a {root}/. %{{buildroot}}\n" +
            "".join(f"%{script}\n{package[script]}" for script in ("pre", "post", "preun", "postun")
                    if script in package) +
            "%files\n" + "".join(f"{path}\n" for path in owned_by(package)))


def owned_by(package):
    """Its files, and the directories that go with it: those below /opt/ and /usr/local/."""
    files = package.get("files", {})
    above = {str(directory) for path in files for directory in pathlib.PurePath(path).parents
             if len(directory.parts) > (3 if path.startswith("/usr/local/") else 2) and not path.startswith("/etc/")}
    return [f"%dir {path}" for path in sorted(above)] + list(files)


@functools.lru_cache(maxsize=None)
def build(package):
    """The name and the bytes of one package, given as repr makes it: once for all tests."""
    package = ast.literal_eval(package)
    with tempfile.TemporaryDirectory() as work:
        os.mkdir(f"{work}/root")
        for path, text in package.get("files", {}).items():
            at = f"{work}/root{path}"
            os.makedirs(os.path.dirname(at), exist_ok=True)
            with open(at, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(at, 0o755 if text.startswith("#!") else 0o644)
        with open(f"{work}/a.spec", "w", encoding="utf-8") as file:
            file.write(spec_of(package, f"{work}/root"))
        defines = {"_topdir": f"{work}/top", "_rpmdir": f"{work}/out", "_rpmfilename": "%{NVRA}.rpm", "_dbpath": work,
                   "_tmppath": work, "_build_id_links": "none"}
        subprocess.run(["rpmbuild", "-bb", "--quiet", *(word for each in defines.items() for word in ("--define",
                        " ".join(each))), f"{work}/a.spec"], check=True, capture_output=True)
        made = next(pathlib.Path(f"{work}/out").glob("*.rpm"))
        return made.name, made.read_bytes()


@functools.lru_cache(maxsize=None)
def _archive(packages, key):
    with tempfile.TemporaryDirectory() as into:
        for name, data in map(build, packages):
            pathlib.Path(f"{into}/{name}").write_bytes(data)
        if key:
            subprocess.run(["rpmsign", "--define", "__gpg /usr/bin/gpg", "--define", "_gpg_name trueup", "--define",
                            f"_gpg_path {key}", "--addsign", *map(str, pathlib.Path(into).glob("*.rpm"))], check=True,
                           capture_output=True)
        subprocess.run(["createrepo_c", "-q", into], check=True, capture_output=True)
        return subprocess.run(["tar", "-C", into, "-c", "."], check=True, capture_output=True).stdout


def archive(packages, key=None):
    """Packages and their index; with `key` (a GnuPG home of ours) the packages are signed."""
    return _archive(tuple(map(repr, packages)), key)


def repository(host, at, packages, key=None):
    """Writes the repository to `at` on the host."""
    host.sh_bytes(f"rm -rf {at}; mkdir -p {at}; tar -C {at} --no-same-owner -x", archive(packages, key))


def only_dnf(host, at):
    """The host's package manager is dnf, and it knows this repository alone."""
    host.sh("rm -f /usr/bin/apt-get; ln -sf /usr/bin/update-alternatives /usr/sbin/alternatives; "
            "rm -rf /etc/yum.repos.d /var/cache/dnf /var/lib/dnf /var/lib/rpm /root/.rpmdb; "
            "mkdir -p /etc/yum.repos.d /etc/rpm /var/lib/rpm /var/cache/dnf /var/lib/dnf; "
            "echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros; "
            "printf '[main]\\ngpgcheck=1\\ninstallonly_limit=3\\nclean_requirements_on_remove=True\\nbest=True\\n"
            "skip_if_unavailable=False\\n' >/etc/dnf/dnf.conf; "
            f"printf '[local]\\nname=local\\nbaseurl=file://{at}\\ngpgcheck=0\\n' >/etc/yum.repos.d/local.repo")
    host.sh_bytes("mkdir /srv/system; tar -C /srv/system -x; rpm -i --nodeps --force-debian /srv/system/*.rpm; "
                  "rm -r /srv/system; dnf -q makecache", archive([SYSTEM]))


def missing():
    names = [name for name in ("dnf", "rpmbuild", "createrepo_c", "rpmsign", "gpg") if shutil.which(name) is None]
    return f"without {', '.join(names)} (packages dnf, rpm, createrepo-c, gnupg)" if names else ""
