import logging
import os

import torch

logger = logging.getLogger(__name__)


class CompilationContext:
    COMMON_NVCC_FLAGS = ["-DFLASHINFER_ENABLE_FP8_E8M0", "-DFLASHINFER_ENABLE_FP4_E2M1"]

    def __init__(self):
        self.TARGET_CUDA_ARCHS = set()
        if "FLASHINFER_CUDA_ARCH_LIST" in os.environ:
            for arch in os.environ["FLASHINFER_CUDA_ARCH_LIST"].split(" "):
                major, minor = arch.split(".")
                major = int(major)
                self.TARGET_CUDA_ARCHS.add((major, minor) if not minor[-1].isdigit() else self._normalize_cuda_arch(major, int(minor)))
        else:
            try:
                for device in range(torch.cuda.device_count()):
                    major, minor = torch.cuda.get_device_capability(device)
                    self.TARGET_CUDA_ARCHS.add(self._normalize_cuda_arch(major, minor))
            except Exception as e:
                logger.warning(f"Failed to get device capability: {e}.")

    @staticmethod
    def _normalize_cuda_arch(major: int, minor: int) -> tuple[int, str]:
@NORMALIZE@
        return (major, str(minor))

    def get_nvcc_flags_list(self, supported_major_versions=None):
        if supported_major_versions:
            supported = [arch for arch in self.TARGET_CUDA_ARCHS if arch[0] in supported_major_versions]
        else:
            supported = list(self.TARGET_CUDA_ARCHS)
        if len(supported) == 0:
            raise RuntimeError(f"No supported CUDA architectures found for major versions {supported_major_versions}.")
        return [f"-gencode=arch=compute_{major}{minor},code=sm_{major}{minor}" for major, minor in sorted(supported)] + self.COMMON_NVCC_FLAGS
