"""CUDA toolkits, assemblers and host compilers: programs that answer as the real ones, headers, libraries to link."""

import json

from . import elf
from .case import version_key
from .tree import GUEST_FILES

# release: (nvcc, when it was built, build number, cudart, cuBLAS, newest gcc and clang that nvcc takes)
RELEASES = {
    "11.5": ("11.5.119", "Thu_Nov_18_09:45:30_PST_2021", 30672275, "11.5.117", "11.7.4.6", 11, 12),
    "11.8": ("11.8.89", "Wed_Sep_21_10:33:58_PDT_2022", 31833905, "11.8.89", "11.11.3.6", 11, 14),
    "12.0": ("12.0.140", "Fri_Jan__6_16:45:21_PST_2023", 32267302, "12.0.146", "12.0.2.224", 12, 14),
    "12.1": ("12.1.105", "Mon_Apr__3_17:16:06_PDT_2023", 32688072, "12.1.105", "12.1.3.1", 12, 15),
    "12.2": ("12.2.140", "Tue_Aug_15_22:02:13_PDT_2023", 33191640, "12.2.140", "12.2.5.6", 12, 16),
    "12.4": ("12.4.131", "Thu_Mar_28_02:18:24_PDT_2024", 34097967, "12.4.127", "12.4.5.8", 13, 17),
    "12.5": ("12.5.82", "Thu_Jun__6_02:18:23_PDT_2024", 34385749, "12.5.82", "12.5.3.2", 13, 17),
    "12.6": ("12.6.85", "Tue_Oct_29_23:50:19_PDT_2024", 35059454, "12.6.77", "12.6.4.1", 13, 18),
    "12.8": ("12.8.93", "Fri_Feb_21_20:23:50_PST_2025", 35583870, "12.8.90", "12.8.4.1", 14, 19),
    "12.9": ("12.9.86", "Tue_May_27_02:21:03_PDT_2025", 36037853, "12.9.79", "12.9.1.4", 14, 19),
    "13.0": ("13.0.88", "Wed_Aug_20_01:58:59_PM_PDT_2025", 36424714, "13.0.96", "13.1.0.3", 15, 20),
    "13.1": ("13.1.115", "Tue_Dec_16_07:23:41_PM_PST_2025", 37061995, "13.1.80", "13.2.1.1", 15, 21),
    "13.2": ("13.2.78", "Thu_Mar_19_11:12:51_PM_PDT_2026", 37668154, "13.2.75", "13.4.0.1", 15, 21),
    "13.3": ("13.3.33", "Wed_May_13_09:14:02_PM_PDT_2026", 38011406, "13.3.29", "13.5.1.2", 15, 21),
}

# target: first and last release whose nvcc has it (sources: LLVM's NVPTX tables, and nvcc 13.0.88 itself)
TARGETS = (
    ("50", "6.0", "12.9"),
    ("52", "6.5", "12.9"),
    ("60", "8.0", "12.9"),
    ("61", "8.0", "12.9"),
    ("70", "9.0", "12.9"),
    ("72", "9.1", "12.9"),
    ("75", "10.0", ""),
    ("80", "11.0", ""),
    ("86", "11.1", ""),
    ("87", "11.4", ""),
    ("88", "13.0", ""),
    ("89", "11.8", ""),
    ("90", "11.8", ""),
    ("90a", "12.0", ""),
    ("100", "12.8", ""),
    ("100a", "12.8", ""),
    ("100f", "12.9", ""),
    ("101", "12.8", "12.9"),
    ("101a", "12.8", "12.9"),
    ("101f", "12.9", "12.9"),
    ("103", "12.9", ""),
    ("103a", "12.9", ""),
    ("103f", "12.9", ""),
    ("107", "13.4", ""),
    ("107a", "13.4", ""),
    ("107f", "13.4", ""),
    ("110", "13.0", ""),
    ("110a", "13.0", ""),
    ("110f", "13.0", ""),
    ("120", "12.8", ""),
    ("120a", "12.8", ""),
    ("120f", "12.9", ""),
    ("121", "12.9", ""),
    ("121a", "12.9", ""),
    ("121f", "12.9", ""),
)

DEFAULT_GCC = {
    ("ubuntu", "22.04"): "11.4.0",
    ("ubuntu", "24.04"): "13.3.0",
    ("ubuntu", "26.04"): "15.2.0",
    ("debian", "12"): "12.2.0",
    ("debian", "13"): "14.2.0",
    ("rhel", "8"): "8.5.0",
    ("arch", "rolling"): "15.2.1",
}


def release_of(version):
    return ".".join(str(version).split(".")[:2])


def facts(release):
    made_up = (f"{release}.0", "Thu_Jan__1_00:00:00_UTC_2026", 0, f"{release}.0", f"{release}.0.0", 15, 21)
    return RELEASES.get(release, made_up)


def supported_targets(release):
    key = version_key(release)
    return [
        name for name, first, last in TARGETS if version_key(first) <= key and (not last or key <= version_key(last))
    ]


def compiler_program(name, release, version=None):
    """The text of a fake nvcc or ptxas of a release; version: the full one, where not the release's usual."""
    usual, date, build = facts(release)[:3]
    version = version or usual
    banner = (
        f"Copyright (c) 2005-{date[-4:]} NVIDIA Corporation\nBuilt on {date}\nCuda compilation tools, release {release}, "
        f"V{version}\nBuild cuda_{release}.r{release}/compiler.{build}_0"
    )
    text = GUEST_FILES[name]
    for key, value in (
        ("RELEASE", release),
        ("VERSION", version),
        ("BANNER", banner),
        ("TARGETS", " ".join(supported_targets(release))),
        ("COMPRESS_MODE", "true" if version_key(release) >= (12, 8) else "false"),
    ):
        text = text.replace(f"@{key}@", value)
    return text


def ptxas_program(version):
    return compiler_program("ptxas", release_of(version), version)


def write(case, tree, real_nvcc):
    """real_nvcc: a toolkit 13.0 of the build machine is mounted over the case's, so its place stays empty."""
    full = str(case.get("other", {}).get("nvcc_full_version", "")) or None
    for toolkit in case.get("cuda_toolkits", []):
        path, release = toolkit["path"], release_of(toolkit["version"])
        version = full if full and release_of(full) == release else None
        if real_nvcc and release == "13.0" and path.startswith("/usr/local/"):
            tree.directory(path)
        elif path == "/usr":
            _distribution(case, tree, release, version, toolkit)
        elif "site-packages" in path or "dist-packages" in path:
            _wheels(tree, path, release, version, toolkit)
        else:
            installed(case, tree, path, release, version, toolkit)
    link = case.get("cuda_symlink")
    if link:
        name, _, target = (part.strip() for part in link.partition("->"))
        tree.link(name, target)
    _host_compiler(case, tree)


def _put(tree, toolkit, root, relative, content, mode=0o644):
    """A file below the toolkit unless the case says that it lacks it."""
    if not any(relative == lack or relative.startswith(f"{lack}/") for lack in toolkit.get("lacks") or []):
        tree.file(f"{root}/{relative}", content, mode)


def _programs(tree, toolkit, root, release, version):
    if toolkit.get("has_nvcc", True):
        _put(tree, toolkit, root, f"bin/nvcc", compiler_program("nvcc", release, version), 0o755)
        _put(tree, toolkit, root, f"nvvm/bin/cicc", f"#!/bin/sh\necho 'cicc {release}'\n", 0o755)
        _put(tree, toolkit, root, f"nvvm/libdevice/libdevice.10.bc", "")
    _put(tree, toolkit, root, f"bin/ptxas", compiler_program("ptxas", release, version), 0o755)
    for name in ("cuobjdump", "fatbinary", "nvdisasm", "cudafe++", "nvlink"):
        _put(tree, toolkit, root, f"bin/{name}", f"#!/bin/sh\necho '{name}: release {release}'\n", 0o755)


def headers(release):
    """The headers that JIT libraries look for: {path below include: content}."""
    major, minor = release.split(".")
    gcc, clang = facts(release)[5:]
    guard = (
        f"#if __GNUC__ > {gcc}\n#error -- unsupported GNU version! gcc versions later than {gcc} are not supported! "
        "The nvcc flag '-allow-unsupported-compiler' can be used to override this version check; however, using an "
        "unsupported host compiler may cause compilation failure or incorrect run time execution. Use at your own risk.\n"
        f"#endif\n#if defined(__clang__) && (__clang_major__ >= {clang + 1})\n#error -- unsupported clang version!\n#endif\n"
    )
    plain = (
        "cuda_runtime.h",
        "cuda_runtime_api.h",
        "curand_kernel.h",
        "cublas_v2.h",
        "cublasLt.h",
        "nvrtc.h",
        "cuda_fp16.h",
        "cuda_bf16.h",
        "cuda_fp8.h",
        "cusparse.h",
        "cusolverDn.h",
        "nv/target",
        "cub/cub.cuh",
    )
    return {
        "cuda.h": f"#define CUDA_VERSION {int(major) * 1000 + int(minor) * 10}\n",
        "crt/host_config.h": guard,
        **{name: f"/* CUDA {release} */\n" for name in plain},
    }


def libraries(release):
    """(stem, soname, full version) of a toolkit's shared libraries."""
    major = release.split(".")[0]
    nvcc, _, _, cudart, cublas = facts(release)[:5]
    short = major if version_key(release) >= (12,) else "11.0"
    rows = [
        ("libcudart", short, cudart),
        ("libcublas", cublas.split(".")[0], cublas),
        ("libcublasLt", cublas.split(".")[0], cublas),
        ("libcurand", "10", "10.3.9.90"),
        ("libnvrtc", major if major != "11" else "11.2", nvcc),
        ("libcusparse", "12" if major != "11" else "11", f"{major}.5.0"),
        ("libcusolver", "12" if major == "13" else "11", "11.7.0"),
    ]
    if major != "11":
        rows.append(("libnvJitLink", major, nvcc))
    return [(stem, f"{stem}.so.{number}", full) for stem, number, full in rows]


def installed(case, tree, path, release, version, toolkit):
    target = f"targets/{case.cuda_target}"
    _programs(tree, toolkit, path, release, version)
    for name, text in headers(release).items():
        if f"include/{name}" not in (toolkit.get("lacks") or []) and "include" not in (toolkit.get("lacks") or []):
            tree.file(f"{path}/{target}/include/{name}", text)
    for stem, soname, full in libraries(release):
        base = f"{path}/{target}/lib"
        tree.file(f"{base}/{stem}.so.{full}", elf.shared_object(soname))
        tree.link(f"{base}/{soname}", f"{stem}.so.{full}")
        if not any(lack in (f"lib64/{stem}.so", f"lib/{stem}.so") for lack in toolkit.get("lacks") or []):
            tree.link(f"{base}/{stem}.so", soname)
    for name in ("libcudart_static.a", "libcudadevrt.a"):
        tree.file(f"{path}/{target}/lib/{name}", "!<arch>\n")
    for name in ("libcuda", "libnvidia-ml"):
        if not any(lack.startswith("lib64/stubs") for lack in toolkit.get("lacks") or []):
            tree.file(f"{path}/{target}/lib/stubs/{name}.so", elf.shared_object(f"{name}.so.1"))
    for link, inside in (("include", "include"), ("lib64", "lib")):
        if link not in (toolkit.get("lacks") or []):
            tree.link(f"{path}/{link}", f"{target}/{inside}")
    nvcc, cudart = version or facts(release)[0], facts(release)[3]
    _put(
        tree,
        toolkit,
        path,
        "version.json",
        json.dumps(
            {
                "cuda": {
                    "name": "CUDA SDK",
                    "version": str(toolkit["version"]) if str(toolkit["version"]).count(".") > 1 else f"{release}.1",
                },
                "cuda_cudart": {"name": "CUDA Runtime (cudart)", "version": cudart},
                "cuda_nvcc": {"name": "CUDA NVCC", "version": nvcc},
                "libcublas": {"name": "CUDA cuBLAS", "version": facts(release)[4]},
            },
            indent=3,
        )
        + "\n",
    )


def _wheels(tree, path, release, version, toolkit):
    _programs(tree, toolkit, path, release, version)
    for name, text in headers(release).items():
        _put(tree, toolkit, path, f"include/{name}", text)
    for _, soname, _ in libraries(release):
        _put(tree, toolkit, path, f"lib/{soname}", elf.shared_object(soname))


def _distribution(case, tree, release, version, toolkit):
    """Debian's and Ubuntu's nvidia-cuda-toolkit: a wrapper in /usr/bin, the programs in a directory of their own."""
    own = "/usr/lib/nvidia-cuda-toolkit"
    _programs(tree, toolkit, own, release, version)
    tree.program("/usr/bin/nvcc", f"#!/bin/sh\nexec {own}/bin/nvcc \"$@\"\n")
    tree.link("/usr/bin/ptxas", f"..{own[4:]}/bin/ptxas")
    for name, text in headers(release).items():
        tree.file(f"/usr/include/{name}", text)
    for stem, soname, full in libraries(release):
        tree.file(f"{case.library_directory}/{stem}.so.{full}", elf.shared_object(soname))
        tree.link(f"{case.library_directory}/{soname}", f"{stem}.so.{full}")
        tree.link(f"{case.library_directory}/{stem}.so", soname)
    tree.file(f"{case.library_directory}/stubs/libcuda.so", elf.shared_object("libcuda.so.1"))
    tree.link("/usr/lib/cuda/bin", "../nvidia-cuda-toolkit/bin")
    tree.link("/usr/lib/cuda/include", "../../include")
    tree.link("/usr/lib/cuda/lib64", f"../{case.triplet}")


def _host_compiler(case, tree):
    system = case.get("os", {})
    name, version = str(system.get("id", "")), str(system.get("version", ""))
    short = ".".join(version.split(".")[:2]) if name == "ubuntu" else version.split(".")[0]
    given = str(case.get("host_compiler", "")).split()
    full = given[1] if len(given) > 1 else DEFAULT_GCC.get((name, short), "12.2.0")
    full += ".0" if full.count(".") == 1 else ""
    major = full.split(".")[0]
    text = GUEST_FILES["gcc"]
    for key, value in (
        ("VERSION", full),
        ("MAJOR", major),
        ("TRIPLET", case.triplet),
        ("DISTRIBUTION", f"{name.capitalize() or 'Debian'} {full}"),
    ):
        text = text.replace(f"@{key}@", value)
    for tool in ("gcc", "g++"):
        tree.program(f"/usr/bin/{case.triplet}-{tool}-{major}", text)
        tree.link(f"/usr/bin/{tool}-{major}", f"{case.triplet}-{tool}-{major}")
        tree.link(f"/usr/bin/{tool}", f"{tool}-{major}")
    tree.link("/usr/bin/cc", "gcc")
    tree.link("/usr/bin/c++", "g++")
