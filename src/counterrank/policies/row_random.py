"""Random numbers that hang on the row, so that draws do not depend on how a log is cut into batches."""

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import numpy as np

from counterrank.arrays import Ints


class RowRandom(np.random.Generator):
    """A generator whose uniform numbers are a function of `seed` and the row's number in the whole log.

    `random` of (n, ...) or (n * m, ...) numbers gives each row its own; all policies of this package
    draw that way. Other methods, or other shapes, go on with one stream that hangs on the first row:
    a policy that uses them draws rightly, but differently for other batches.

    >>> whole = RowRandom(np.arange(4), [7]).random((4, 2))
    >>> np.array_equal(RowRandom(np.arange(2, 4), [7]).random((2, 2)), whole[2:])
    True
    """

    def __init__(self, rows: Ints, seed: Sequence[int]) -> None:
        from counterrank.kernels.hashing import mixed

        self.rows: Ints = np.ascontiguousarray(rows, dtype=np.int64)
        self.seed = [int(part) for part in seed]
        state = np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0]
        # Counters, not streams: a row's j-th number is a hash of its key and j, so no row needs to
        # know how many numbers the others took.
        self._keys: Any = mixed(mixed(self.rows.astype(np.uint64)) ^ state)
        self._used = 0
        super().__init__(np.random.PCG64([*self.seed, *self.rows[:1].tolist()]))

    def random(self, size: Any = None, *args: Any, **options: Any) -> Any:
        """Return uniform numbers in [0, 1)."""
        shape = (size,) if isinstance(size, int) else size
        # Numbers that do not divide among the rows belong to none of them.
        if shape is None or args or options or not len(self.rows) or prod(shape) % len(self.rows):
            return super().random(size, *args, **options)
        from counterrank.policies.kernels.rows import fill_uniforms

        out = np.empty((len(self.rows), prod(shape) // len(self.rows)))
        fill_uniforms(self._keys, self._used, out)
        self._used += out.shape[1]
        return out.reshape(shape)

    def part(self, rows: slice, number: int) -> Self:
        """Return the numbers of some rows, for the `number`-th call on them all."""
        return type(self)(self.rows[rows], [*self.seed, number])

    def next_call(self) -> int:
        """Return a number that no other call has."""
        self._used += 1
        return self._used
