"""Linear algebra on one thread while the library computes.

Fits solve many small systems. Several BLAS threads mostly wait for each other there, and waiting threads
use the processor: next to other work a fit then takes several times its processor time. Rows, folds and
models are shared among threads elsewhere.
"""

import sys
import threading
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

#: Held by the call that has set the limit, which counts for the whole process.
_LIMITED = threading.Lock()


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return the libraries of linear algebra, which imports load: of another number of modules they are others."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def single_blas_thread(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return the function with BLAS limited to one thread during its calls.

    Of calls that overlap the first one sets the limit and restores what was set before: if each did, the
    last to end would restore the limit of another.
    """

    @wraps(function)
    def limited(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        if not _LIMITED.acquire(blocking=False):
            return function(*args, **options)
        try:
            with _libraries(len(sys.modules)).limit(limits=1, user_api="blas"):
                return function(*args, **options)
        finally:
            _LIMITED.release()

    return limited
