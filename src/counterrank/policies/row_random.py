"""Random numbers that depend on the row, so that draws do not depend on the batches of a log."""

from collections.abc import Sequence
from math import prod
from typing import Any, Self

import numpy as np

from counterrank.common.arrays import Ints


class RowRandom(np.random.Generator):
    """A generator whose uniform numbers are a function of `seed` and the row's number in the log.

    `random` with shape (n, ...) or (n * m, ...) gives each row its own numbers, and all policies of
    this package draw in that way. Other methods and shapes use one stream seeded by the first row:
    their draws are valid, but depend on the batches.

    >>> whole = RowRandom(np.arange(4), [7]).random((4, 2))
    >>> np.array_equal(RowRandom(np.arange(2, 4), [7]).random((2, 2)), whole[2:])
    True
    """

    def __init__(self, rows: Ints, seed: Sequence[int]) -> None:
        from counterrank.kernels.hashing import mixed

        self.rows: Ints = np.ascontiguousarray(rows, dtype=np.int64)
        self.seed = [int(number) for number in seed]
        state = np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0]
        # A row's j-th number is a hash of its key and j, independent of the numbers drawn for others.
        self._keys: Any = mixed(mixed(self.rows.astype(np.uint64)) ^ state)
        self._used = 0
        super().__init__(np.random.PCG64([*self.seed, *self.rows[:1].tolist()]))

    def random(self, size: Any = None, *args: Any, **options: Any) -> Any:
        """Return uniform numbers in [0, 1)."""
        shape = (size,) if isinstance(size, int) else size
        # A number of draws that is no multiple of the rows cannot be assigned to rows.
        if shape is None or args or options or not len(self.rows) or prod(shape) % len(self.rows):
            return super().random(size, *args, **options)
        from counterrank.policies.kernels.rows import fill_uniforms

        out = np.empty((len(self.rows), prod(shape) // len(self.rows)))
        fill_uniforms(self._keys, self._used, out)
        self._used += out.shape[1]
        return out.reshape(shape)

    def for_rows(self, rows: slice | Ints, number: int) -> Self:
        """Return a generator for some of the rows, for the `number`-th call."""
        return type(self)(self.rows[rows], [*self.seed, number])

    def next_call(self) -> int:
        """Return a call number that was not returned before."""
        self._used += 1
        return self._used
