"""JIT caches as FlashInfer and Triton leave them: build files, built modules, dates."""

import base64
import hashlib
import json
import os
import re

from . import elf, toolkit
from .case import version_key
from .python_env import PythonEnv, date


def write(case, tree, dates):
    for cache in case.get("jit_caches", []):
        modified = date(cache["modified"]) if cache.get("modified") else dates["cache"]
        writer = {"flashinfer": _flashinfer, "triton": _triton}[cache["kind"]]
        writer(case, tree, cache, modified)


def _toolkit_release(case, cuda_home):
    """Release of the case's toolkit that a path leads to, or None."""
    link = case.cuda_link_target
    real = (
        cuda_home.replace("/usr/local/cuda", link, 1)
        if link and re.match(r"/usr/local/cuda(/|$)", cuda_home)
        else cuda_home
    )
    for entry in case.get("cuda_toolkits", []):
        if entry["path"] == real and entry.get("has_nvcc", True):
            return toolkit.release_of(entry["version"])
    return None


def _flashinfer(case, tree, cache, modified):
    version, _, arch = (part.strip() for part in str(cache["built_for"]).partition("/"))
    path = cache["path"]
    inside = path.partition("/.cache/flashinfer")[2].strip("/").split("/") if "/.cache/flashinfer" in path else []
    inside = [part for part in inside if part]
    if len(inside) < 1:
        path += f"/{version}"
    if len(inside) < 2 and arch:
        path += f"/{arch}"
    workspace = path.partition("/cached_ops/")[0]
    tree.file(f"{workspace}/flashinfer_jit.log", "", mtime=modified)
    if not arch:  # the set of targets was empty: nothing but the log of the import
        return
    operation = path.partition("/cached_ops/")[2] or "sampling"
    directory = f"{workspace}/cached_ops/{operation}"
    envs = [PythonEnv(case, given) for given in case.get("python_envs", [])]
    env = next((env for env in envs if env.path == cache.get("python_env")), envs[-1] if envs else None)
    data = f"{env.site}/flashinfer/data" if env else "/opt/venv/lib/python3.12/site-packages/flashinfer/data"
    cuda_home = str(cache.get("cuda_home") or case.service_environment.get("CUDA_HOME") or "/usr/local/cuda")
    python = env.python if env else "3.12"
    targets = [f"-gencode=arch=compute_{target},code=sm_{target}" for target in arch.split("_")]
    tree.file(
        f"{directory}/build.ninja",
        "\n".join(
            [
                "ninja_required_version = 1.3",
                "cxx = c++",
                "nvcc = $cuda_home/bin/nvcc",
                f"cuda_home = {cuda_home}",
                "",
                f"common_cflags = -DTORCH_EXTENSION_NAME={operation} -isystem /usr/include/python{python} $",
                "    -isystem $cuda_home/include $",
                f"    -isystem {data}/include $",
                f"    -isystem {data}/csrc",
                "cuda_cflags = $common_cflags -std=c++17 $",
                *(f"    {flag} $" for flag in targets),
                "    -DFLASHINFER_ENABLE_FP8_E8M0",
                "ldflags = -shared -L$cuda_home/lib64 -L$cuda_home/lib64/stubs -lcudart -lcuda",
                "",
                "rule cuda_compile",
                "  command = $nvcc $cuda_cflags -c $in -o $out",
                "",
                "rule link",
                "  command = $cxx $in $ldflags -o $out",
                "",
                f"build {directory}/{operation}.cuda.o: cuda_compile {data}/csrc/{operation}.cu",
                f"build {directory}/{operation}.so: link {directory}/{operation}.cuda.o",
                f"default {directory}/{operation}.so",
                "",
            ]
        ),
        mtime=modified,
    )
    tree.file(f"{workspace}/cached_ops/tmp/{operation}.lock", "", mtime=modified)
    tree.file(f"{workspace}/generated/{operation}/{operation}.cu", "// generated\n", mtime=modified)
    release = _toolkit_release(case, cuda_home)
    failed = any(
        line.startswith(("nvcc fatal", "ninja: build stopped")) or "bin/nvcc: not found" in line
        for line in case.symptom
    )
    if failed and not cache.get("needed"):
        return
    release = release or "12.8"
    needed = cache.get("needed") or [f"libcudart.so.{release.split('.')[0]}"]
    names = [f"sm_{target}" for target in arch.split("_")]
    image = elf.shared_object(None, needed, elf.fatbin(names, release))
    tree.file(f"{directory}/{operation}.cuda.o", image, mtime=modified)
    tree.file(f"{directory}/{operation}.so", image, 0o755, modified)
    tree.file(
        f"{directory}/.ninja_log",
        f"# ninja log v5\n0\t41230\t{modified}\t{directory}/{operation}.so\t0\n",
        mtime=modified,
    )
    tree.file(f"{directory}/.ninja_deps", "# ninjadeps\n", mtime=modified)
    for path in (f"{directory}", f"{workspace}/cached_ops", workspace, os.path.dirname(workspace)):
        tree.directory(path, modified)


def _triton(case, tree, cache, modified):
    caps = [str(gpu["compute_cap"]).replace(".", "") for gpu in case.gpus] or ["80"]
    target = f"sm_{caps[0]}{'a' if version_key(case.gpus[0]['compute_cap']) >= (9,) else ''}" if case.gpus else "sm_80"
    for kernel in ("fused_moe_kernel", "_fwd_kernel"):
        key = base64.b32encode(hashlib.sha256(f"{cache['built_for']}/{kernel}".encode()).digest()).decode().rstrip("=")
        directory = f"{cache['path']}/{key}"
        if "incomplete" in str(cache["built_for"]):  # the write was cut off: temporary directories and no metadata
            tree.file(f"{directory}/tmp.pid_4711_{key[:8].lower()}/{kernel}.ttir", "", mtime=modified)
            continue
        names = [f"{kernel}.{kind}" for kind in ("ttir", "ttgir", "llir", "ptx", "cubin", "json")]
        tree.file(
            f"{directory}/__grp__{kernel}.json",
            json.dumps({"child_paths": {name: f"{directory}/{name}" for name in names}}),
            mtime=modified,
        )
        for name in names:
            kind = name.rpartition(".")[2]
            content = {
                "json": json.dumps(
                    {
                        "name": kernel,
                        "target": {"backend": "cuda", "arch": int(caps[0]), "warp_size": 32},
                        "num_warps": 4,
                    }
                ),
                "ptx": f"//\n// Generated by LLVM NVPTX Back-End\n//\n\n.version 8.7\n.target {target}\n.address_size 64\n",
                "cubin": elf.cubin(target, "12.8"),
            }.get(kind, f"; {kernel}\n")
            tree.file(f"{directory}/{name}", content, mtime=modified)
        tree.directory(directory, modified)
    tree.directory(cache["path"], modified)
