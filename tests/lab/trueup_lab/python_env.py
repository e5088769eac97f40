"""Python environments: interpreter, metadata of the distributions, and the few files of theirs that tell something."""

import calendar
import hashlib
import os
import re

from . import elf, toolkit
from .case import version_key
from .tree import GUEST, GUEST_FILES

SITE_FILES = {str(path.relative_to(GUEST / "site")): path.read_text() for path in (GUEST / "site").rglob("*.py")}
DEFAULT_PYTHON = {
    ("ubuntu", "22.04"): "3.10",
    ("ubuntu", "24.04"): "3.12",
    ("ubuntu", "26.04"): "3.14",
    ("debian", "12"): "3.11",
    ("debian", "13"): "3.13",
}
TRITON_OF_TORCH = {
    "2.0": "2.0.0",
    "2.1": "2.1.0",
    "2.4": "3.0.0",
    "2.5": "3.1.0",
    "2.6": "3.2.0",
    "2.7": "3.3.0",
    "2.8": "3.4.0",
    "2.9": "3.5.1",
    "2.10": "3.6.0",
    "2.11": "3.6.0",
    "2.12": "3.7.0",
    "2.13": "3.7.1",
    "2.14": "3.8.0",
}
WHEELS = (
    "cuda-runtime",
    "cuda-nvrtc",
    "cublas",
    "cudnn",
    "cufft",
    "curand",
    "cusolver",
    "cusparse",
    "nccl",
    "nvjitlink",
)


def date(text):
    """Seconds since the epoch of noon UTC on an ISO date."""
    year, month, day = (int(part) for part in str(text)[:10].split("-"))
    return calendar.timegm((year, month, day, 12, 0, 0))


class PythonEnv:
    """One entry of `python_envs` with its dependencies filled in."""

    def __init__(self, case, given):
        self.path = given["path"].rstrip("/")
        self.is_system = self.path.endswith("-packages")
        self.full_python = str(given.get("python") or self._implied_python(case))
        self.python = ".".join(self.full_python.split(".")[:2])
        self.site = self.path if self.is_system else f"{self.path}/lib/python{self.python}/site-packages"
        self.interpreter = f"/usr/bin/python{self.python}" if self.is_system else f"{self.path}/bin/python"
        self.programs = "/usr/local/bin" if self.is_system else f"{self.path}/bin"
        self.is_conda = "conda" in self.path
        self.installed = date(given["installed"]) if given.get("installed") else None
        self.libraries = given.get("libraries") or {}
        packages = {name: str(version) for name, version in (given.get("packages") or {}).items()}
        self.torch_cuda = packages.pop("torch_cuda", None)
        self.packages = self._completed(case, packages)
        self.ptxas = given.get("ptxas") or self._bundled_ptxas()

    def _implied_python(self, case):
        places = [self.path] + [
            entry["path"] for entry in case.get("cuda_toolkits", []) if entry["path"].startswith(self.path)
        ]
        for place in places:
            match = re.search(r"/python(3\.\d+)", place)
            if match:
                return match[1]
        system = case.get("os", {})
        name, version = str(system.get("id")), str(system.get("version"))
        short = ".".join(version.split(".")[:2]) if name == "ubuntu" else version.split(".")[0]
        return DEFAULT_PYTHON.get((name, short), "3.12")

    def _completed(self, case, packages):
        engine = packages.get("vllm")
        if "torch" not in packages and (engine or "flashinfer-python" in packages):
            newer = not engine or version_key(engine) >= (0, 20)
            packages["torch"] = "2.11.0" if newer else "2.9.1"
            self.torch_cuda = self.torch_cuda or ("13.0" if newer else "12.8")
        if "flashinfer-python" in packages:
            packages.setdefault("ninja", "1.13.0")
        if "torch" in packages and self.torch_cuda not in (None, "none"):
            minor = ".".join(packages["torch"].split(".")[:2])
            packages.setdefault("triton", TRITON_OF_TORCH.get(minor, "3.6.0"))
            for name, version in cuda_wheels(self.torch_cuda).items():
                packages.setdefault(name, version)
        for entry in case.get("cuda_toolkits", []):
            if entry["path"].startswith(self.site + "/"):
                facts = toolkit.facts(toolkit.release_of(entry["version"]))
                packages.setdefault("nvidia-cuda-nvcc", facts[0])
                packages.setdefault("nvidia-cuda-runtime", facts[3])
        return packages

    def _bundled_ptxas(self):
        triton = self.packages.get("triton")
        if triton is None:
            return {}
        key = version_key(triton)
        if key >= (3, 6):
            return {"ptxas": "12.8.93", "ptxas-blackwell": "13.1.80" if key >= (3, 7) else "12.9.86"}
        return {"ptxas": "12.8.93" if key >= (3, 3) else "12.4.99" if key >= (3,) else "12.1.105"}


def cuda_wheels(release):
    """The CUDA wheels that a torch built for `release` pins: {distribution: version}."""
    major = release.split(".")[0]
    nvcc, _, _, cudart, cublas = toolkit.facts(release)[:5]
    versions = {
        "cuda-runtime": cudart,
        "cuda-nvrtc": nvcc,
        "nvjitlink": nvcc,
        "cublas": cublas,
        "cudnn": "9.15.1.9",
        "cufft": "12.0.0.61" if major == "13" else "11.3.3.83",
        "curand": "10.4.0.35" if major == "13" else "10.3.9.90",
        "cusolver": "12.0.4.66" if major == "13" else "11.7.3.90",
        "cusparse": "12.6.3.3" if major == "13" else "12.5.8.93",
        "nccl": "2.27.7",
    }
    suffix = lambda name: f"-cu{major}" if major != "13" or name in ("cudnn", "nccl") else ""
    return {f"nvidia-{name}{suffix(name)}": version for name, version in versions.items()}


def write(case, tree, dates):
    for env in (PythonEnv(case, given) for given in case.get("python_envs", [])):
        installed = env.installed or dates["installed"]
        _interpreter(tree, env, installed)
        for name, version in env.packages.items():
            _distribution(tree, env, name, version, installed)
        _files(case, tree, env, installed)


def _interpreter(tree, env, installed):
    system = f"/usr/bin/python{env.python}"
    if not os.path.exists(system):  # the base image's own interpreter plays every version
        tree.link(system, "python3")
    tree.file(f"/usr/include/python{env.python}/Python.h", f"#define PY_VERSION \"{env.full_python}\"\n")
    if env.is_system:
        return
    if env.is_conda:
        tree.file(
            f"{env.path}/include/python{env.python}/Python.h",
            f"#define PY_VERSION \"{env.full_python}\"\n",
            mtime=installed,
        )
        tree.file(
            f"{env.path}/conda-meta/history", "==> 2025-01-01 00:00:00 <==\n# cmd: conda create\n", mtime=installed
        )
        tree.file(
            f"{env.path}/conda-meta/python-{env.full_python}-0_cpython.json",
            f'{{"name": "python", "version": "{env.full_python}", "channel": "conda-forge"}}\n',
            mtime=installed,
        )
    else:
        tree.file(
            f"{env.path}/pyvenv.cfg",
            "home = /usr/bin\ninclude-system-site-packages = false\n"
            f"version = {env.full_python}\nexecutable = {system}\ncommand = {system} -m venv {env.path}\n",
            mtime=installed,
        )
        tree.file(
            f"{env.path}/bin/activate",
            f"VIRTUAL_ENV={env.path}\nexport VIRTUAL_ENV\nPATH=\"$VIRTUAL_ENV/bin:$PATH\"\nexport PATH\n",
            mtime=installed,
        )
        tree.link(f"{env.path}/lib64", "lib", installed)
    tree.link(f"{env.path}/bin/python", system, installed)
    tree.link(f"{env.path}/bin/python3", "python", installed)
    tree.link(f"{env.path}/bin/python{env.python}", "python", installed)


def _requires(env, name):
    if name == "torch":
        pins = cuda_wheels(env.torch_cuda) if env.torch_cuda not in (None, "none") else {}
        return [f"{wheel}=={version}" for wheel, version in pins.items()]
    return {"flashinfer-python": ["ninja", "torch"], "vllm": ["torch"], "sglang": ["torch"]}.get(name, [])


def _distribution(tree, env, name, version, installed):
    directory = f"{re.sub(r'[-_.]+', '_', name)}-{version}.dist-info"
    base = f"{env.site}/{directory}"
    requires = "".join(f"Requires-Dist: {other}\n" for other in _requires(env, name))
    tree.file(
        f"{base}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}", mtime=installed
    )
    tree.file(f"{base}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n", mtime=installed)
    tree.file(f"{base}/INSTALLER", "pip\n", mtime=installed)
    tree.file(
        f"{base}/RECORD",
        "".join(f"{directory}/{file},,\n" for file in ("METADATA", "WHEEL", "INSTALLER", "RECORD")),
        mtime=installed,
    )
    tree.directory(base, installed)


def flashinfer_rules(version):
    """(SM 12.x rule: 'none', 'gate-120f', 'gate'; whether an existing build file is kept) of a FlashInfer release."""
    nightly = re.search(r"\.dev(\d{8})", version)
    key = version_key(version)
    if nightly:
        day = int(nightly[1])
        rule = "none" if day < 20260322 else "gate-120f" if day < 20260404 else "gate"
    else:
        rule = "none" if key < (0, 6, 7) else "gate-120f" if key < (0, 6, 8) else "gate"
    return rule, (0, 4) <= key[:2] and key <= (0, 6, 11) and ".post" not in version


NORMALIZE = {
    "none": "        if major >= 9:\n            return (major, str(minor) + \"a\")",
    "gate": "        if major == 12:\n            from .jit.cpp_ext import is_cuda_version_at_least\n\n"
    "            if not is_cuda_version_at_least(\"12.9\"):\n"
    "                raise RuntimeError(\"SM 12.x requires CUDA >= 12.9\")\n"
    "            return (12, \"0f\" if minor == 0 else \"1a\")\n"
    "        if major >= 9:\n            return (major, str(minor) + \"a\")",
}
NORMALIZE["gate-120f"] = NORMALIZE["gate"].replace('"0f" if minor == 0 else "1a"', '"0f"')


def torch_targets(case, torch_cuda):
    key = version_key(torch_cuda)
    if case.arch == "aarch64":
        names = (
            ("80", "90")
            + (("100",) if key >= (12, 8) else ())
            + (("110",) if key >= (13,) else ())
            + (("120",) if key >= (12, 8) else ())
        )
    elif key < (12, 8):
        names = ("50", "60", "70", "75", "80", "86", "90")
    else:
        names = ("75", "80", "86", "90", "100", "120")
    return [f"sm_{name}" for name in names]


def _files(case, tree, env, installed):
    site, packages = env.site, env.packages
    put = lambda path, content, mode=0o644: tree.file(f"{site}/{path}", content, mode, installed)
    cuda = None if env.torch_cuda in (None, "none") else env.torch_cuda
    shared = {}
    if "torch" in packages:
        version = packages["torch"]
        shown = version if "+" in version else f"{version}+cu{cuda.replace('.', '')}" if cuda else version
        put(
            "torch/version.py",
            "from typing import Optional\n\n__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']\n"
            f"__version__ = '{shown}'\ndebug = False\ncuda: Optional[str] = {repr(cuda)}\n"
            f"git_version = '{hashlib.sha1(version.encode()).hexdigest()}'\nhip: Optional[str] = None\n",
        )
        for name in ("torch/__init__.py", "torch/cuda.py"):
            put(name, SITE_FILES[name])
        if cuda:
            shared["torch/lib/libtorch_cuda.so"] = {
                "needed": [f"libcudart.so.{cuda_major(cuda)}"],
                "archs": torch_targets(case, cuda),
            }
    if "flashinfer-python" in packages and version_key(packages["flashinfer-python"]) >= (0, 4):
        rule, keeps = flashinfer_rules(packages["flashinfer-python"])
        put("flashinfer/version.py", f"__version__ = '{packages['flashinfer-python']}'\n")
        for name, text in SITE_FILES.items():
            if name.startswith("flashinfer/"):
                put(name, text.replace("@NORMALIZE@", NORMALIZE[rule]).replace("@WRITE_ONCE@", str(keeps)))
        for header in ("csrc/sampling.cu", "include/flashinfer/sampling.cuh"):
            put(f"flashinfer/data/{header}", "// device code\n")
    if "vllm" in packages:
        version = packages["vllm"]
        put("vllm/__init__.py", "")
        put("vllm/version.py", f"__version__ = '{version}'\n")
        local = re.search(r"\+cu(\d\d)", version)
        major = local[1] if local else "12" if version_key(version) < (0, 20) else "13"
        shared["vllm/_C.abi3.so"] = {"needed": [f"libcudart.so.{major}"]}
    if "ninja" in packages:
        tree.file(
            f"{env.programs}/ninja", GUEST_FILES["ninja"].replace("@VERSION@", packages["ninja"]), 0o755, installed
        )
    for name, version in env.ptxas.items():
        put(f"triton/backends/nvidia/bin/{name}", toolkit.ptxas_program(str(version)), 0o755)
    if cuda:
        _runtime_libraries(tree, env, cuda, installed)
    for path, given in env.libraries.items():
        shared[path] = dict(shared.get(path, {}), **given)
    for path, given in shared.items():
        put(
            path,
            elf.shared_object(None, given.get("needed", ()), elf.fatbin(given.get("archs", ()), cuda or "12.8")),
            0o755,
        )


def cuda_major(release):
    """The number in the soname of libcudart."""
    major = release.split(".")[0]
    return major if major != "11" else "11.0"


def _runtime_libraries(tree, env, cuda, installed):
    major = cuda.split(".")[0]
    folders = {
        "libcudart": "cuda_runtime",
        "libcublas": "cublas",
        "libcublasLt": "cublas",
        "libcurand": "curand",
        "libnvrtc": "cuda_nvrtc",
        "libcusparse": "cusparse",
        "libcusolver": "cusolver",
        "libnvJitLink": "nvjitlink",
    }
    for stem, soname, _ in toolkit.libraries(cuda):
        folder = "cu13" if major == "13" else folders[stem]
        tree.file(f"{env.site}/nvidia/{folder}/lib/{soname}", elf.shared_object(soname), 0o644, installed)
