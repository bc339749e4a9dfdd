"""One decorator for every kernel, so that caching, threading and types are decided in one place.

A first run on a machine compiles what it needs, which takes longer than most evaluations; the
machine code is kept on disk. To keep it short: no array expressions and no assignment of an array
or a number to a slice of another inside a kernel (the first two bring a second of code each, the
latter with the text of its error message; `fill` does the last), one layout and dtype an
argument, settled where arrays enter, and one place from which a large helper is called, because it
is inlined at each. A function for other kernels alone is a `helper`: the way in from Python, which
it does without, is often longer than the function.
"""

import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys
from numba.extending import register_jitable
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., object])

# Reassociation lets LLVM vectorise sums; NaN and infinity keep their meaning.
_VECTOR_MATH = {"reassoc", "contract", "nsz"}
# Kernels are called from Python and from each other, never through a C pointer.
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INSIDE = {**_OPTIONS, "no_cpython_wrapper": True}


#: Seconds of compiling after which a first run is explained: a single small kernel is quick.
_PATIENCE = 1.0
_NOTICE = (
    "counterrank: first run on this machine: compiling, up to a minute; kept for later runs "
    "(`counterrank warmup` does it ahead)"
)
_WHERE = "every run compiles anew; NUMBA_CACHE_DIR names a folder that can be written to"
_UNCACHED = f"counterrank: compiling, up to a minute: no folder to keep the code in; {_WHERE}"


class FirstRun(event.Listener):  # type: ignore[misc] # numba has no types
    """Says once on stderr, in a terminal, a pipe or a notebook alike, why a first run takes so long."""

    def __init__(self) -> None:
        self.told, self.seconds, self._depth, self._since = False, 0.0, 0, 0.0
        #: Whether code cannot be kept: no folder can be written to, or the disk is full.
        self.uncached = False
        #: Whether code of an earlier run was loaded: then this one is not the first.
        self.loaded = False

    def on_start(self, event: "event.Event") -> None:
        """Note when the outermost kernel begins; those it calls are compiled inside."""
        if self._depth == 0:
            self._since = time.perf_counter()
        self._depth += 1

    def on_end(self, event: "event.Event") -> None:
        """Add up, and speak when it has taken a while."""
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._since
        # Users' own numba functions are none of our business, and neither is a closed stderr.
        kernel = getattr((event.data or {}).get("dispatcher"), "py_func", None)
        ours = str(getattr(kernel, "__module__", "")).startswith("counterrank.")
        quiet = self.told or self.loaded or sys.stderr is None
        if not quiet and ours and self.seconds > _PATIENCE:
            self.told = True
            print(_UNCACHED if self.uncached else _NOTICE, file=sys.stderr, flush=True)


FIRST_RUN = FirstRun()
event.register("numba:compile", FIRST_RUN)


class _Cache(FunctionCache):  # type: ignore[misc] # numba has no types
    """Machine code on disk, or none: a full disk ends no evaluation, and neither does damaged code."""

    def load_overload(self, sig: object, target_context: object) -> object:
        """Return the code of one signature; none where it cannot be read, and then all is made anew."""
        try:
            # numba's own method first loads what compiles Python, a tenth of the start of a run; stored
            # code needs the memory manager alone, and whatever is compiled after all loads the rest.
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                code = self._load_overload(sig, target_context)
        except Exception:  # whatever was cut off, or written for the types of another version
            self.flush()
            return None
        FIRST_RUN.loaded |= code is not None
        return code

    def save_overload(self, sig: object, data: object) -> None:
        """Store the code of one signature where that is possible."""
        try:
            super().save_overload(sig, data)
        except OSError as problem:
            _say_uncached(problem.strerror or str(problem))


def _compiled(function: Function, fast_math: bool | set[str]) -> Function:
    """Return a kernel whose code is kept on disk, or compiled on each run where no folder can be written to."""
    # Without the option numba compiles a helper with the fast math of its first caller.
    kernel: Any = numba.njit(**_OPTIONS, fastmath=fast_math)(function)
    # Without a Python function numba was told not to compile (NUMBA_DISABLE_JIT).
    if hasattr(kernel, "py_func"):
        try:
            # numba's own `cache=True` does no more, and fails where the disk is full.
            kernel._cache = _Cache(function)
        except RuntimeError:
            FIRST_RUN.uncached = True
    compiled: Function = kernel
    return compiled


def _say_uncached(why: str) -> None:
    if not FIRST_RUN.uncached and sys.stderr is not None:
        print(f"counterrank: compiled code cannot be kept ({why}); {_WHERE}", file=sys.stderr)
    FIRST_RUN.uncached = True


def jit(function: Function) -> Function:
    """Compile without the GIL and keep the machine code on disk; x / 0 is infinite, as in NumPy."""
    return _compiled(function, False)


def vector_jit(function: Function) -> Function:
    """Like `jit`, with sums that may be reordered into vector lanes."""
    return _compiled(function, _VECTOR_MATH)


def fused_jit(function: Function) -> Function:
    """Like `jit`, where a * b + c may be rounded once instead of twice; nothing is reordered."""
    return _compiled(function, {"contract"})


def helper(function: Function) -> Function:
    """Compile as `jit` does where a kernel calls it; Python that calls it runs it as it is written.

    For functions without arrays of their own, called by one kind of function: what NumPy gives them
    and they themselves are compiled anew for every other kind.
    """
    compiled: Function = register_jitable(**_INSIDE, fastmath=False)(function)
    return compiled


def vector_helper(function: Function) -> Function:
    """Like `helper`, with sums that may be reordered into vector lanes."""
    compiled: Function = register_jitable(**_INSIDE, fastmath=_VECTOR_MATH)(function)
    return compiled


@jit
def fill(out: NDArray[np.float64], value: float) -> None:
    """Put `value` into every entry of out (n,)."""
    for i in range(out.shape[0]):
        out[i] = value
