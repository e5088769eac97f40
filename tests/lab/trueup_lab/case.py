"""Case files: what one host looks like. Fields are explained in README.md."""

import difflib
import functools
import hashlib
import re

import yaml

from .system import LabError

# Allowed fields: a mapping lists its keys, a list holds the shape of each element, ANY is not looked into.
ANY = None
SHAPE = {
    "id": ANY,
    "title": ANY,
    "summary": ANY,
    "kind": ANY,
    "source": ANY,
    "inferred": ANY,
    "symptom": ANY,
    "root_cause": ANY,
    "expected_findings": ANY,
    "expected_remediation": ANY,
    "must_not_report": ANY,
    "fixed_by": ANY,
    "confidence": ANY,
    "environment": {
        "os": {"id": ANY, "version": ANY},
        "kernel": ANY,
        "arch": ANY,
        "cpus": ANY,
        "memory": {"total_gib": ANY},
        "gpus": [
            {
                "name": ANY,
                "count": ANY,
                "compute_cap": ANY,
                "pci": ANY,
                "memory": ANY,
                "persistence_mode": ANY,
                "mig": ANY,
                "ecc_errors": {"corrected": ANY, "uncorrected": ANY},
                "remapped_rows": {"correctable": ANY, "uncorrectable": ANY, "pending": ANY, "failure": ANY},
            }
        ],
        "driver": ANY,
        "driver_cuda_max": ANY,
        "kernel_module": {"loaded": ANY, "on_disk": ANY, "flavour": ANY},
        "driver_libraries": [{"path": ANY, "version": ANY, "names": ANY}],
        "nvswitches": ANY,
        "cuda_toolkits": [{"path": ANY, "version": ANY, "has_nvcc": ANY, "lacks": ANY}],
        "cuda_symlink": ANY,
        "env": {"login": ANY, "service": ANY},
        "nvcc_on_path": ANY,
        "host_compiler": ANY,
        "python_envs": [
            {"path": ANY, "python": ANY, "packages": ANY, "installed": ANY, "ptxas": ANY, "libraries": ANY}
        ],
        "services": [
            {"unit": ANY, "manager": ANY, "user": ANY, "home": ANY, "state": ANY, "result": ANY, "exec": ANY, "env": ANY}
        ],
        "processes": [{"name": ANY, "parent_pid": ANY, "cgroup": ANY, "gpu": ANY, "gpu_memory_mib": ANY}],
        "jit_caches": [
            {
                "path": ANY,
                "kind": ANY,
                "built_for": ANY,
                "cuda_home": ANY,
                "python_env": ANY,
                "needed": ANY,
                "modified": ANY,
            }
        ],
        "mounts": [{"path": ANY, "fstype": ANY, "options": ANY}],
        "system_packages": ANY,
        "kernel_log": ANY,
        "kernel_log_before": ANY,
        "other": ANY,
    },
    "host": {"files": ANY, "commands": ANY, "setup": ANY, "repository": ANY},
}


REPOSITORIES = ("apt", "apt-unlisted")


def _check(node, shape, path, where):
    if isinstance(shape, list) and isinstance(node, yaml.SequenceNode):
        for index, element in enumerate(node.value):
            _check(element, shape[0], f"{path}[{index}]", where)
    elif isinstance(shape, dict) and isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value not in shape:
                near = difflib.get_close_matches(key.value, shape, n=1)
                place = f"{where}:{key.start_mark.line + 1}:{key.start_mark.column + 1}"
                hint = f"; did you mean '{near[0]}'?" if near else ""
                raise LabError(f"{place}: unknown field '{key.value}'{f' in {path}' if path else ''}{hint}")
            _check(value, shape[key.value], f"{path}.{key.value}" if path else key.value, where)
    elif isinstance(shape, (dict, list)) and node.tag != "tag:yaml.org,2002:null":
        kind = "a list" if isinstance(shape, list) else "a mapping"
        raise LabError(f"{where}:{node.start_mark.line + 1}:{node.start_mark.column + 1}: expected {kind} for '{path}'")


def load(path):
    try:
        with open(path) as file:
            text = file.read()
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if not isinstance(node, yaml.MappingNode):
            raise LabError(f"{path}: a case is a mapping")
        _check(node, SHAPE, "", path)
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LabError(f"{path}: {' '.join(str(error).split())}") from error
    name = str(document.get("id") or "")
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,62})", name):
        raise LabError(f"{path}: 'id' names the host: lower-case letters, digits and '-', not '{name}'")
    case = Case(name, document)
    if case.repository not in (None, *REPOSITORIES):
        raise LabError(f"{path}: host.repository is one of {', '.join(REPOSITORIES)}, not '{case.repository}'")
    return case


def version_key(text):
    """Comparable form of the leading numbers of a version."""
    return tuple(int(part) for part in re.match(r"[0-9.]*", str(text)).group().split(".") if part)


class Case:
    """A case file with the defaults of an ordinary host filled in."""

    def __init__(self, name, document):
        self.name = name
        self.environment = document.get("environment") or {}
        host = document.get("host") or {}
        self.files = host.get("files") or {}
        self.commands = host.get("commands") or {}
        self.setup = host.get("setup")
        self.repository = host.get("repository")
        self.symptom = [str(line) for line in document.get("symptom") or [] if not str(line).startswith("(")]

    def get(self, field, default=None):
        value = self.environment.get(field)
        return default if value is None else value

    def strings(self, field):
        return [str(line) for line in self.get(field, [])]

    @property
    def arch(self):
        return str(self.get("arch", "x86_64"))

    @property
    def triplet(self):
        return f"{self.arch}-linux-gnu"

    @property
    def library_directory(self):
        return f"/usr/lib/{self.triplet}"

    @property
    def cuda_target(self):
        return "sbsa-linux" if self.arch == "aarch64" else "x86_64-linux"

    @property
    def driver(self):
        return str(self.environment["driver"]) if "driver" in self.environment else None

    @property
    def is_wsl(self):
        return "microsoft" in str(self.get("kernel", "")).lower()

    @property
    def is_container(self):
        return self.get("other", {}).get("container") is True

    @property
    def module(self):
        """The nvidia kernel module: {loaded, on_disk, flavour}; None for a version that is not there."""
        given = self.get("kernel_module", {})
        loaded = str(given.get("loaded", self.driver or "none"))
        loaded = None if loaded == "none" else loaded
        caps = [version_key(gpu["compute_cap"]) for gpu in self.get("gpus", [])]
        flavour = given.get("flavour") or ("open" if any(cap >= (10, 0) for cap in caps) else "proprietary")
        return {"loaded": loaded, "on_disk": str(given.get("on_disk") or loaded or "") or None, "flavour": flavour}

    @property
    def driver_libraries(self):
        given = self.get("driver_libraries")
        if given is None:
            given = [{"path": self.library_directory, "version": self.driver}] if self.driver else []
        return [
            {
                "path": entry["path"],
                "version": str(entry["version"]),
                "names": entry.get("names") or ["libcuda.so", "libcuda.so.1", f"libcuda.so.{entry['version']}"],
            }
            for entry in given
        ]

    @property
    def gpus(self):
        """One entry per GPU, in nvidia-smi's order."""
        gpus = []
        for group in self.get("gpus", []):
            for _ in range(int(group.get("count", 1))):
                index = len(gpus)
                digest = hashlib.sha256(f"{self.name}/{index}".encode()).hexdigest()
                gpus.append(
                    dict(
                        group,
                        index=index,
                        pci=str(
                            group.get("pci") or f"0000:{0x01 + 0x20 * index:02x}:00.0"
                            if index < 8
                            else f"0000:{0x02 + 4 * index:02x}:00.0"
                        ),
                        uuid="GPU-%s-%s-%s-%s-%s"
                        % (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]),
                        serial=str(1650000000000 + int(digest[:8], 16) % 10**9),
                    )
                )
        return gpus

    @property
    def login(self):
        return {key: str(value) for key, value in ((self.get("env", {}).get("login")) or {}).items()}

    @property
    def service_environment(self):
        return {key: str(value) for key, value in ((self.get("env", {}).get("service")) or {}).items()}

    @functools.cached_property
    def account(self):
        """Whose programs these are: `user` where the case has paths in its home, else root."""
        return "user" if "/home/user" in yaml.safe_dump(self.environment) else "root"

    @property
    def cuda_link_target(self):
        link = self.get("cuda_symlink")
        return link.rpartition("->")[2].strip() if link else None

    def package_version(self, name):
        return str(self.get("system_packages", {}).get(name, "")) or None
