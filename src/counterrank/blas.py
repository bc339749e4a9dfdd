"""Linear algebra on one thread while the library computes.

Fits solve many small systems. Several BLAS threads mostly wait for each other there, and waiting threads
use the processor: next to other work a fit then takes several times its processor time. Rows, folds and
models are shared among threads elsewhere.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _SingleThread:
    """Limits BLAS to one thread from the first entry to the last exit, whatever threads enter between."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._depth:
                from threadpoolctl import threadpool_limits

                self._limits = threadpool_limits(1, user_api="blas")
            self._depth += 1

    def __exit__(self, *problem: object) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                # What the caller has set is restored only when nobody is computing any more.
                self._limits.restore_original_limits()


SINGLE_THREAD = _SingleThread()


def single_blas_thread(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Return the function with BLAS limited to one thread during its calls."""

    @wraps(function)
    def limited(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        with SINGLE_THREAD:
            return function(*args, **options)

    return limited
