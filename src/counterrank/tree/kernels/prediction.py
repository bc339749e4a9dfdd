"""Which model each row gets from forests of flat trees."""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@jit
def assign(
    context: Floats,
    fold: Ints,
    roots: Ints,
    nodes: Ints,
    threshold: Floats,
    missing_left: Bools,
    sets: Bools,
    label: Ints,
    out: Ints,
) -> None:
    """Fill out (n, T) with the label of each row's leaf in tree t of its fold; roots (F, T), fold
    (n,).

    nodes (N, 4) = feature (-1 in a leaf), left, right, first row of `sets` + 1 (0 for a number); a
    number goes left when it is at most the threshold, a category when it is in its set; missing and
    unknown ones by `missing_left`.
    """
    for i in range(out.shape[0]):
        first = roots[fold[i] % roots.shape[0]]
        for t in range(out.shape[1]):
            at = first[t]
            while nodes[at, 0] >= 0:
                value = context[i, nodes[at, 0]]
                go_left = missing_left[at]
                if not np.isnan(value):
                    if nodes[at, 3] == 0:
                        go_left = value <= threshold[at]
                    else:
                        code = int(value)
                        if 0 <= code < sets.shape[1]:
                            go_left = sets[nodes[at, 3] - 1, code]
                at = nodes[at, 1] if go_left else nodes[at, 2]
            out[i, t] = label[at]
