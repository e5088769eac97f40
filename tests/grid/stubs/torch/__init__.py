"""A torch that only answers what CUDA it was built for and which GPUs there are. Everything else is an `Anything`.

`cuda.capabilities`, `cuda.archs` and `version.cuda` are set by whoever asks. `torch.utils.cpp_extension` is the real file of a
release where one is laid beside this one (record.py does), else nothing.
"""

import importlib.util
import os
import sys
import types


FILES = os.environ.get("STUB_TORCH_FILES") or "/nowhere"


class Anything:
    """Whatever is done with it works and means nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args, **kwargs):
        # A decorator gives back what it decorates.
        return args[0] if len(args) == 1 and not kwargs and callable(args[0]) else Anything()

    def __getitem__(self, key):
        return Anything()

    def __iter__(self):
        return iter(())

    def __or__(self, other):
        return Anything()

    __ror__ = __or__

    def __mro_entries__(self, bases):
        return ()

    def __int__(self):
        return 1


class Permissive(types.ModuleType):
    __path__ = []
    __version__ = "2.9.1"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Finder:
    """Makes modules of the given packages out of nothing."""

    def __init__(self, *packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in self.packages:
            return None
        real = os.path.join(FILES, *name.split(".")) + ".py"
        if os.path.exists(real):
            return importlib.util.spec_from_file_location(name, real)
        return importlib.util.spec_from_loader(name, self)

    def create_module(self, spec):
        return Permissive(spec.name)

    def exec_module(self, module):
        pass


class Cuda(Permissive):
    capabilities = [(9, 0)]
    archs = ["sm_80", "sm_90"]

    def device_count(self):
        return len(self.capabilities)

    def is_available(self):
        return bool(self.capabilities)

    def get_device_capability(self, device=0):
        return self.capabilities[device or 0]

    def get_arch_list(self):
        return self.archs


class Version(Permissive):
    cuda = None
    hip = None


class Tensor:
    pass


class device:
    pass


class dtype:
    pass


class Module:
    pass


def library_decorator(*args, **kwargs):
    return lambda function: function


sys.meta_path.append(Finder("torch"))
cuda = sys.modules["torch.cuda"] = Cuda("torch.cuda")
version = sys.modules["torch.version"] = Version("torch.version")
__version__ = os.environ.get("STUB_TORCH_VERSION", "2.9.1")
if os.environ.get("STUB_TORCH_CUDA_HOME"):
    import torch.utils.cpp_extension

    torch.utils.cpp_extension.CUDA_HOME = os.environ["STUB_TORCH_CUDA_HOME"]


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything()
