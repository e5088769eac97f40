#!/usr/bin/env python3
"""Asks released packages which CUDA version, toolkit and targets they would use, on hosts of tests/data/grid/grid.json.

    record.py --work DIR [--torch VERSION] PACKAGE VERSION...

See README.md beside this file. Needs root: each host is a mount namespace of its own with an overlay over /usr. The packages
come from PyPI through pip into DIR; nothing is built and nothing of theirs runs but the code that answers.
"""

import argparse
import datetime
import importlib
import itertools
import json
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import traceback
import types
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "grid"
STUBS = HERE / "stubs"
TORCH_FILES = re.compile(r"torch/(_appdirs|_utils_internal|torch_version|utils/(cpp_extension|_cpp_extension_versioner|file_baton))\.py")
AXES = ("layouts", "environments", "gpus", "torch")


# --- the cells -------------------------------------------------------------------------------------------------------------


def cells(grid, library):
    """The names of all cells, each a tuple of one name per axis, each once and in order."""
    found = {}
    for product in grid["ask"]:
        axes = [list(grid[axis]) if product[axis] == "all" else product[axis] for axis in AXES]
        if library in product.get("libraries", [library]):
            found.update((cell, None) for cell in itertools.product(*axes))
    return list(found)


def wanted(grid, library, options):
    return [cell for cell in cells(grid, library) if re.search(options.cells, "; ".join(cell))]


# --- a host, from inside its mount namespace -------------------------------------------------------------------------------


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def lay_out(layout, scratch):
    """Makes /usr that of `layout`: an overlay, so that nothing reaches the machine's own."""
    mount("-t", "tmpfs", "tmpfs", scratch)
    for name in ("upper", "work", "home"):
        os.mkdir(f"{scratch}/{name}")
    mount("-t", "overlay", "-o", f"lowerdir=/usr,upperdir={scratch}/upper,workdir={scratch}/work", "overlay", "/usr")
    for path in [*pathlib.Path("/usr/local").glob("cuda*"), *map(pathlib.Path, ("/usr/bin/nvcc", "/usr/local/bin/nvcc"))]:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    if not layout.get("which", True):
        for path in ("/usr/bin/which", "/usr/local/bin/which"):
            pathlib.Path(path).unlink(missing_ok=True)
    for path in layout.get("directories", []):
        pathlib.Path(path).mkdir(parents=True)
    for path, what in layout.get("nvcc", {}).items():
        file = pathlib.Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        answers = re.fullmatch(r"[0-9.]+", what)
        file.write_text(
            "#!/bin/sh\n"
            + (f"echo 'Cuda compilation tools, release {what}, V{what}.0'\n" if answers else "echo nothing of use\n")
            + ("exit 1\n" if what == "fails" else "")
        )
        file.chmod(0o644 if what == "no x" else 0o755)
    smi = pathlib.Path("/usr/bin/nvidia-smi")
    smi.unlink(missing_ok=True)
    smi.write_text('#!/bin/sh\ncat "$HOME/compute_caps"\n')
    smi.chmod(0o755)
    for path, target in layout.get("links", {}).items():
        pathlib.Path(path).symlink_to(target)


def in_child(function, *args):
    """What `function` answers in a forked process, so that modules and variables of one cell end with it."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            with os.fdopen(os.open(os.devnull, os.O_WRONLY), "w") as null:
                os.dup2(null.fileno(), 1)
                if not os.environ.get("GRID_VERBOSE"):
                    os.dup2(null.fileno(), 2)
            answer = json.dumps(function(*args))
            with os.fdopen(writer, "w") as pipe:
                pipe.write(answer)
        except BaseException:
            os.dup2(1, 2)
            with os.fdopen(writer, "w") as pipe:
                json.dump({"recorder": traceback.format_exc()}, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    answer = json.loads(text)
    if "recorder" in answer:
        raise RuntimeError(answer["recorder"])
    return answer


def answer_cell(grid, cell, library, home):
    _, environment, gpu_name, torch_name = cell
    os.environ.clear()
    os.environ.update({"HOME": home, "PATH": grid["path"], "LANG": "C", **grid["environments"][environment]})
    os.chdir("/")
    import torch

    gpus = grid["gpus"][gpu_name] if grid["torch"][torch_name]["cuda"] else []  # a CPU build sees none
    torch.cuda.capabilities = [tuple(int(part) for part in each.split(".")) for each in gpus]
    torch.cuda.archs = grid["torch"][torch_name]["archs"]
    torch.version.cuda = grid["torch"][torch_name]["cuda"]
    pathlib.Path(home, "compute_caps").write_text("".join(f"{each}\n" for each in grid["gpus"][gpu_name]))
    return LIBRARIES[library].ask()


def inside(options):
    grid = json.loads((DATA / "grid.json").read_text())
    lay_out(grid["layouts"][options.inside], options.scratch)
    os.environ["STUB_TORCH_FILES"] = options.torch or ""
    sys.path[:0] = [str(STUBS), *options.path]
    library = options.package
    LIBRARIES[library].prepare(options)
    for number, cell in enumerate(wanted(grid, library, options)):
        if cell[0] != options.inside:
            continue
        home = f"{options.scratch}/home/{number}"
        os.mkdir(home)
        print(json.dumps([list(cell), in_child(answer_cell, grid, cell, library, home)]), flush=True)


# --- what is asked ---------------------------------------------------------------------------------------------------------


def describe(error):
    text = re.sub(r"/[^ ']*/(flashinfer|home)/[^ ']*", r"...", str(error))
    return f"{type(error).__name__}: {text}"[:160]


def asked(answer, name, function):
    """Sets `name` to what `function` answers, or `no NAME` to the exception that it raises."""
    try:
        answer[name] = function()
        return True
    except Exception as error:
        answer["no " + name] = describe(error)
        return False


def codes_of(flags):
    """`sm_90`, `compute_120`: what nvcc is told to emit."""
    return sorted(set(re.findall(r"code=([a-z]+_[^ \]\n]*)", flags)))


def state_of(program):
    """What running `program` would meet."""
    if not os.path.isfile(program):
        return "missing"
    return "there" if os.access(program, os.X_OK) else "not executable"


class FlashInfer:
    """`flashinfer.jit`: the set that its import leaves, the version and root that it computes, and the build file it writes."""

    @staticmethod
    def prepare(options):
        import torch

        sys.meta_path.insert(0, torch.Finder("tvm_ffi"))
        import filelock, packaging.version  # noqa: F401, E401: once for all children

        if options.torch:
            import setuptools.command.build_ext  # noqa: F401
        for name in ("flashinfer", "flashinfer.jit"):  # their __init__ imports these modules first, then all that uses torch
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = ["/".join([options.path[0], *name.split(".")])]

    @staticmethod
    def ask():
        answer = {}
        warnings = []
        logging.Logger.warning = lambda self, text, *args: warnings.append(text % args)
        if not asked(answer, "import", lambda: importlib.import_module("flashinfer.jit.core") and None):
            return answer
        del answer["import"]
        core, cpp_ext = (importlib.import_module(f"flashinfer.jit.{name}") for name in ("core", "cpp_ext"))
        if failed := [text for text in warnings if "device capability" in text]:
            answer["swallowed"] = re.sub(r"/[^ ']*/nvcc", "...", failed[0])[:100]
        if context := getattr(core, "current_compilation_context", None):
            answer["targets"] = [f"{major}{minor}" for major, minor in sorted(context.TARGET_CUDA_ARCHS, key=str)]
        if hasattr(cpp_ext, "get_cuda_version"):
            asked(answer, "version", lambda: str(cpp_ext.get_cuda_version()))
        if hasattr(cpp_ext, "CUDA_HOME"):
            answer["torch_root"] = cpp_ext.CUDA_HOME
        else:
            asked(answer, "root", cpp_ext.get_cuda_path)

        def build_file():
            spec = core.gen_jit_spec("grid", [pathlib.Path("/grid.cu")])
            spec.write_ninja()
            return spec.ninja_path.read_text()

        if not asked(answer, "build", build_file):
            return answer
        text = answer.pop("build")
        root = re.search(r"^cuda_home = (.*)$", text, re.M)[1]
        nvcc = re.search(r"^nvcc = (.*)$", text, re.M)[1].replace("$cuda_home", root)
        answer["build"] = {
            "root": root,
            "nvcc": nvcc,
            "nvcc is": state_of(nvcc),
            "targets": codes_of(text),
        }
        return answer


class Torch:
    """`torch.utils.cpp_extension`: its constant, and the flags that it chooses."""

    @staticmethod
    def prepare(options):
        import setuptools.command.build_ext  # noqa: F401
        import torch  # noqa: F401

    @staticmethod
    def ask():
        cpp_extension = importlib.import_module("torch.utils.cpp_extension")
        answer = {"root": cpp_extension.CUDA_HOME}
        asked(answer, "targets", lambda: codes_of(" ".join(cpp_extension._get_cuda_arch_flags())))
        return answer


class TvmFfi:
    """`tvm_ffi.cpp.extension`: the root and the flags of a build."""

    @staticmethod
    def prepare(options):
        import torch

        sys.modules["torch"] = None  # it would look into it, and needs nothing of it here
        import tvm_ffi.cpp.extension  # noqa: F401

        sys.modules["torch"] = torch

    @staticmethod
    def ask():
        from tvm_ffi.cpp import extension

        answer = {}
        asked(answer, "root", extension._find_cuda_home)
        asked(answer, "targets", lambda: codes_of(extension._get_cuda_target()))
        return answer


class DeepGemm:
    """`deep_gemm`: the root, which its import computes for its compiled part."""

    @staticmethod
    def prepare(options):
        sys.modules["deep_gemm"] = types.ModuleType("deep_gemm")  # its __init__ loads that part
        sys.modules["deep_gemm"].__path__ = [f"{options.path[0]}/deep_gemm"]

    @staticmethod
    def ask():
        answer = {}
        asked(answer, "root", importlib.import_module("deep_gemm.cuda_helpers").find_cuda_home)
        return answer


LIBRARIES = {"flashinfer-python": FlashInfer, "torch": Torch, "apache-tvm-ffi": TvmFfi, "sgl-deep-gemm": DeepGemm}


# --- from outside ----------------------------------------------------------------------------------------------------------


def fetch(package, version, work):
    """The unpacked release; fetched by pip, built by nobody."""
    target = work / f"{package}-{version}"
    if target.is_dir():
        return target
    options = ["--no-build-isolation"]
    environment = {**os.environ, "PYTHONPATH": str(STUBS)}
    if package == "torch":  # the files in question are the same everywhere, and this wheel is a tenth of the others
        options = ["--platform", "manylinux_2_28_aarch64", "--python-version", "3.11", "--only-binary", ":all:"]
    else:  # source releases look at torch and its nvcc while pip reads their name
        nvcc = work / "cuda" / "bin" / "nvcc"
        nvcc.parent.mkdir(parents=True, exist_ok=True)
        nvcc.write_text("#!/bin/sh\necho 'release 12.8, V12.8.0'\n")
        nvcc.chmod(0o755)
        environment["STUB_TORCH_CUDA_HOME"] = str(work / "cuda")
    downloads = work / "downloads"
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options, "-d", downloads,
                    f"{package}=={version}"], check=True, env=environment)
    [archive] = [each for each in downloads.iterdir()
                 if re.match(re.escape(package).replace("\\-", "[-_]") + "-" + re.escape(version) + r"(-|\.tar)", each.name)]
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target, [name for name in wheel.namelist() if package != "torch" or TORCH_FILES.fullmatch(name)])
    else:
        tarfile.open(archive).extractall(target, filter="data")
        [inner] = target.iterdir()
        for each in inner.iterdir():
            each.rename(target / each.name)
    return target


def gate_of(source):
    """As the probe of python_envs reads it from the installed source."""
    file = source / "flashinfer" / "compilation_context.py"
    found = re.findall(r"SM 12\S* requires CUDA >= ([0-9.]*[0-9])", file.read_text()) if file.exists() else []
    return min(found, key=lambda text: [int(part) for part in text.split(".")]) if found else "none"


def record(package, version, options):
    grid = json.loads((DATA / "grid.json").read_text())
    source = fetch(package, version, options.work)
    torch = source if package == "torch" else fetch("torch", options.torch, options.work) if options.torch else ""
    out = DATA / f"{package}-{version}.json"
    answers = {}
    if options.cells and out.exists():  # the others keep the answers they have
        asked_anew = {"; ".join(cell) for cell in wanted(grid, package, options)}
        for group in json.loads(out.read_text())["answers"]:
            if kept := [name for name in group["cells"] if name not in asked_anew]:
                answers[json.dumps(group["answer"], sort_keys=True)] = kept
    scratch = options.work / "scratch"
    scratch.mkdir(exist_ok=True)
    for layout in dict.fromkeys(cell[0] for cell in wanted(grid, package, options)):
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__, "--work", options.work,
                   "--torch", torch, "--scratch", scratch, "--inside", layout, "--path", source,
                   "--cells", options.cells, package, version]
        for line in subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():
            cell, answer = json.loads(line)
            answers.setdefault(json.dumps(answer, sort_keys=True), []).append("; ".join(cell))
    with out.open("w") as file:
        head = {"package": package, "version": version, "recorded": datetime.date.today().isoformat(),
                "by": f"tests/grid/record.py, Python {sys.version.split()[0]}"}
        if package == "flashinfer-python":
            head["gate"] = gate_of(source)
        file.write("{" + json.dumps(head)[1:-1] + ",\n \"answers\": [\n")
        file.write(",\n".join(f'  {{"answer": {answer}, "cells": {json.dumps(names)}}}' for answer, names in answers.items()))
        file.write("\n]}\n")
    print(f"{out}: {sum(map(len, answers.values()))} cells, {len(answers)} different answers")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, required=True, help="where the releases are unpacked; kept")
    parser.add_argument("--torch", help="torch whose cpp_extension FlashInfer up to 0.4.0rc3 asks")
    parser.add_argument("--cells", default="", help="regular expression: ask only these anew, and keep the other answers")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    parser.add_argument("--path", action="append", help=argparse.SUPPRESS)
    parser.add_argument("package", choices=LIBRARIES)
    parser.add_argument("version", nargs="+")
    options = parser.parse_args()
    if options.inside:
        return inside(options)
    options.work.mkdir(parents=True, exist_ok=True)
    for version in options.version:
        record(options.package, version, options)


if __name__ == "__main__":
    main()
