import functools
import os
import pathlib
import re
import subprocess

import torch

from ..compilation_context import CompilationContext


@functools.cache
def get_cuda_path() -> str:
    cuda_home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if cuda_home is not None:
        return cuda_home
    nvcc_path = subprocess.run(["which", "nvcc"], capture_output=True)
    if nvcc_path.returncode == 0:
        return os.path.dirname(os.path.dirname(nvcc_path.stdout.decode("utf-8").strip()))
    cuda_home = "/usr/local/cuda"
    if not os.path.exists(cuda_home):
        raise RuntimeError(f"Could not find nvcc and default {cuda_home=} doesn't exist")
    return cuda_home


@functools.cache
def get_cuda_version():
    try:
        nvcc = os.path.join(get_cuda_path(), "bin/nvcc")
        text = subprocess.check_output([nvcc, "--version"], text=True)
        matches = re.findall(r"release (\d+\.\d+),", text)
        if not matches:
            raise RuntimeError(f"Could not parse CUDA version from nvcc --version output: {text}")
        return tuple(int(part) for part in matches[0].split("."))
    except (RuntimeError, FileNotFoundError, subprocess.CalledProcessError) as e:
        if torch.version.cuda is None:
            raise RuntimeError("nvcc not found and PyTorch is not built with CUDA support. "
                               "Could not determine CUDA version.") from e
        return tuple(int(part) for part in torch.version.cuda.split("."))


def is_cuda_version_at_least(version_str: str) -> bool:
    return get_cuda_version() >= tuple(int(part) for part in version_str.split("."))


def generate_ninja_build_for_op(name, sources, build_dir, data_dir):
    cuda_home = get_cuda_path()
    flags = CompilationContext().get_nvcc_flags_list()
    nvcc = os.environ.get("FLASHINFER_NVCC", "$cuda_home/bin/nvcc")
    output = build_dir / f"{name}.so"
    return "\n".join([
        "ninja_required_version = 1.3", f"cxx = {os.environ.get('CXX', 'c++')}", f"nvcc = {nvcc}", f"cuda_home = {cuda_home}", "",
        "common_cflags = -DTORCH_EXTENSION_NAME=$name -isystem /usr/include/" + pathlib.Path(__file__).resolve().parents[3].name +
        " -isystem $cuda_home/include -isystem " + f"{data_dir}/include",
        "cuda_cflags = $common_cflags -std=c++17 " + " $\n    ".join(flags),
        "ldflags = -shared -L$cuda_home/lib64 -L$cuda_home/lib64/stubs -lcudart -lcuda", "",
        "rule cuda_compile", "  command = $nvcc $cuda_cflags -c $in -o $out", "",
        "rule link", "  command = $cxx $in $ldflags -o $out", "",
        *(f"build {build_dir}/{name}.cuda.o: cuda_compile {data_dir}/csrc/{source}" for source in sources),
        f"build {output}: link {build_dir}/{name}.cuda.o", f"default {output}", ""])


def run_ninja(workdir, ninja_file):
    command = ["ninja", "-v", "-C", str(workdir), "-f", str(ninja_file)]
    try:
        subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=str(workdir), check=True, text=True)
    except subprocess.CalledProcessError as e:
        raise RuntimeError("Ninja build failed. Ninja output:\n" + e.output) from e
