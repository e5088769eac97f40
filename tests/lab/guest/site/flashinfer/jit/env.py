import os
import pathlib

from ..compilation_context import CompilationContext
from ..version import __version__

FLASHINFER_BASE_DIR = pathlib.Path(os.getenv("FLASHINFER_WORKSPACE_BASE", pathlib.Path.home().as_posix()))
FLASHINFER_CACHE_DIR = FLASHINFER_BASE_DIR / ".cache" / "flashinfer"


def _get_workspace_dir_name() -> pathlib.Path:
    compilation_context = CompilationContext()
    arch = "_".join(f"{major}{minor}" for major, minor in sorted(compilation_context.TARGET_CUDA_ARCHS))
    return FLASHINFER_CACHE_DIR / __version__ / arch


FLASHINFER_WORKSPACE_DIR = _get_workspace_dir_name()
FLASHINFER_JIT_DIR = FLASHINFER_WORKSPACE_DIR / "cached_ops"
FLASHINFER_GEN_SRC_DIR = FLASHINFER_WORKSPACE_DIR / "generated"
FLASHINFER_DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
