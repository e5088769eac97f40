from .version import __version__ as __version__
from .jit import env as _env, core as _core
