"""A repository of small packages that behave as NVIDIA's do, alternatives scripts included, for an OverlayHost."""
import hashlib
import os
import subprocess
import tempfile

CONFIG = """update-alternatives --quiet --install /usr/local/cuda cuda /usr/local/cuda-{v} {n}
update-alternatives --quiet --install /usr/local/cuda-{major} cuda-{major} /usr/local/cuda-{v} {n}
"""
UNCONFIG = """update-alternatives --quiet --remove cuda /usr/local/cuda-{v}
update-alternatives --quiet --remove cuda-{major} /usr/local/cuda-{v}
"""
NVCC = '#!/bin/sh\necho "Cuda compilation tools, release {v}, V{v}.88"\n'


def toolkit(version, common):
    """The packages of one toolkit; `common`: the version of what it shares with others."""
    dashed, values = version.replace(".", "-"), {"v": version, "n": version.replace(".", ""),
                                                 "major": version.split(".")[0]}
    return [
        {"name": f"cuda-toolkit-{dashed}", "version": f"{version}.2-1",
         "depends": f"cuda-nvcc-{dashed}, cuda-toolkit-{dashed}-config-common"},
        {"name": f"cuda-nvcc-{dashed}", "version": f"{version}.88-1",
         "files": {f"/usr/local/cuda-{version}/bin/nvcc": NVCC.format(**values)}},
        {"name": f"cuda-toolkit-{dashed}-config-common", "version": f"{version}.96-1",
         "depends": f"cuda-toolkit-config-common (>= {common})",
         "files": {f"/etc/ld.so.conf.d/988_cuda-{version}.conf": f"/usr/local/cuda-{version}/lib64\n"},
         "conffiles": [f"/etc/ld.so.conf.d/988_cuda-{version}.conf"],
         "postinst": CONFIG.format(**values), "prerm": UNCONFIG.format(**values)},
        {"name": "cuda-toolkit-config-common", "version": common},
    ]


def build(package, into):
    """The .deb of one package, and its paragraph for the index."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in package.get("files", {}).items():
            at = root + path
            os.makedirs(os.path.dirname(at), exist_ok=True)
            with open(at, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(at, 0o755 if text.startswith("#!") else 0o644)
        os.mkdir(f"{root}/DEBIAN")
        control = (f"Package: {package['name']}\nVersion: {package['version']}\nArchitecture: all\n"
                   "Maintainer: nobody <nobody@invalid>\n"
                   f"Installed-Size: {package.get('size', 10)}\n" +
                   "".join(f"{field}: {package[field.lower()]}\n" for field in ("Depends", "Conflicts",
                       "Essential") if field.lower() in package) +
                   "Description: for tests\n")
        for name, text in {"control": control,
                           "conffiles": "".join(f"{path}\n" for path in package.get("conffiles", ())),
                           **{script: f"#!/bin/sh\nset -e\n{package[script]}" for script in ("preinst", "postinst",
                               "prerm", "postrm")
                              if script in package}}.items():
            if text:
                with open(f"{root}/DEBIAN/{name}", "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(f"{root}/DEBIAN/{name}", 0o755 if text.startswith("#!") else 0o644)
        for directory, _, _ in os.walk(root):
            os.chmod(directory, 0o755)
        name = f"{package['name']}_{package['version']}_all.deb"
        subprocess.run(["dpkg-deb", "-Zgzip", "--root-owner-group", "-b", root, f"{into}/{name}"], check=True,
                       capture_output=True)
    with open(f"{into}/{name}", "rb") as file:
        data = file.read()
    return control.replace("Description:",
                           f"Filename: ./{name}\nSize: {len(data)}\n"
                           f"SHA256: {hashlib.sha256(data).hexdigest()}\nDescription:")


def repository(host, at, packages, key=None):
    """Writes the repository to `at` on the host; with `key` (a GnuPG home of ours) it is signed."""
    with tempfile.TemporaryDirectory() as into:
        index = "\n".join(build(package, into) for package in packages)
        with open(f"{into}/Packages", "w", encoding="utf-8") as file:
            file.write(index)
        with open(f"{into}/Release", "w", encoding="utf-8") as file:
            file.write("Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n "
                       f"{hashlib.sha256(index.encode()).hexdigest()} {len(index)} Packages\n")
        if key:
            subprocess.run(["gpg", "--homedir", key, "--batch", "--yes", "--clearsign", "-o", f"{into}/InRelease",
                            f"{into}/Release"],
                           check=True, capture_output=True)
        archive = subprocess.run(["tar", "-C", into, "-c", "."], check=True, capture_output=True).stdout
        host.sh_bytes(f"rm -rf {at}; mkdir -p {at}; tar -C {at} --no-same-owner -x; chmod -R a+rX {at}", archive)


def only_repository(host, at):
    """apt on the host knows this one alone, and what is installed counts for nothing that may be missing there."""
    host.sh("rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/preferences.d/* /etc/apt/apt.conf.d/* "
            "/var/lib/apt/lists/*; "
            f"mkdir -p /var/lib/apt/lists/partial /var/cache/apt/archives/partial; "
            f"echo 'deb [trusted=yes] file:{at} ./' >/etc/apt/sources.list; "
            "rm -f /var/cache/apt/*.bin; apt-get -q update")


def make_key(home):
    """A key in a GnuPG home of its own: its armored public part and its fingerprint."""
    os.chmod(home, 0o700)
    gpg = ["gpg", "--homedir", home, "--batch", "--pinentry-mode", "loopback", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-gen-key", "trueup tests <nobody@invalid>", "rsa2048", "sign", "never"], check=True,
                   capture_output=True)
    armored = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True, text=True).stdout
    listing = subprocess.run([*gpg, "--with-colons", "--fingerprint"], check=True, capture_output=True,
                             text=True).stdout
    fingerprint = next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr:"))
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)
    return armored, fingerprint
