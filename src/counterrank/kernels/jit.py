"""One decorator for every kernel, so that caching, threading and types are decided in one place."""

from collections.abc import Callable
from typing import TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., object])

# Reassociation lets LLVM vectorise sums; NaN and infinity keep their meaning.
_VECTOR_MATH = {"reassoc", "contract", "nsz"}


def jit(function: Function) -> Function:
    """Compile without the GIL and keep the machine code on disk; x / 0 is infinite, as in NumPy."""
    compiled: Function = numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True, error_model="numpy")(function)
    return compiled


def vector_jit(function: Function) -> Function:
    """Like `jit`, with sums that may be reordered into vector lanes."""
    compiled: Function = numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True, error_model="numpy", fastmath=_VECTOR_MATH)(function)
    return compiled
