"""counterrank: what a new ranking policy would earn, from the logs of the old one."""

from counterrank._version import __version__
from counterrank.common.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
__all__ = [*__dir__(), "__version__"]
