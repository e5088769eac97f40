import logging
import os

from . import env as jit_env
from ..compilation_context import CompilationContext
from .cpp_ext import generate_ninja_build_for_op, run_ninja

os.makedirs(jit_env.FLASHINFER_WORKSPACE_DIR, exist_ok=True)
logger = logging.getLogger("flashinfer.jit")
logger.addHandler(logging.FileHandler(jit_env.FLASHINFER_WORKSPACE_DIR / "flashinfer_jit.log"))

current_compilation_context = CompilationContext()


def check_cuda_arch():
    eligible = False
    for major, minor in current_compilation_context.TARGET_CUDA_ARCHS:
        if major >= 8:
            eligible = True
        elif major == 7 and minor.isdigit():
            if int(minor) >= 5:
                eligible = True
    if not eligible:
        raise RuntimeError("FlashInfer requires GPUs with sm75 or higher")


class JitSpec:
    def __init__(self, name, sources):
        self.name = name
        self.sources = sources
        self.build_dir = jit_env.FLASHINFER_JIT_DIR / name

    def build_and_load(self):
        os.makedirs(self.build_dir, exist_ok=True)
        ninja_file = self.build_dir / "build.ninja"
        text = generate_ninja_build_for_op(self.name, self.sources, self.build_dir, jit_env.FLASHINFER_DATA)
        if not (@WRITE_ONCE@ and ninja_file.exists()):
            ninja_file.write_text(text)
        run_ninja(self.build_dir, ninja_file)
        return self.build_dir / f"{self.name}.so"


def gen_jit_spec(name, sources):
    check_cuda_arch()
    return JitSpec(name, sources)
