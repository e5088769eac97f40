"""What of torch the other packages on a test host use."""
from . import cuda, version

__version__ = version.__version__
