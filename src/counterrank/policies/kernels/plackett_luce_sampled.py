"""Plackett-Luce subset probabilities from samples shared by all masks of a row.

By Luce's axiom, a draw with the asked-for items deleted is a Plackett-Luce draw of the free ones.
Given their order, P(L) is a product: lam_a / T where an asked item stands, (free mass) / T where a
free one does. The mean of the products over draws is unbiased, each in [0, 1].
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit
from counterrank.policies.kernels.plackett_luce import build_tree, find, masses, set_leaf

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FIRST = 32
_FREE, _NONE = -1, -2
_A, _B, _C = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@jit
def mix(word: np.uint64) -> np.uint64:
    """Return a scrambled 64-bit word (the finaliser of SplitMix64; Steele, Lea, Flood 2014)."""
    word = (word ^ (word >> _S30)) * _B
    word = (word ^ (word >> _S27)) * _C
    return word ^ (word >> _S31)


@jit
def row_key(row: Floats, actions: Ints, seed: int) -> np.uint64:
    """Return a key from what the row holds: equal rows draw alike, wherever and in whatever chunk
    they stand.
    """
    key = mix(np.uint64(seed) + _A)
    for word in row.view(np.uint64):
        key = mix((key ^ word) + _A)
    for a in actions:
        key = mix((key ^ np.uint64(a + 1)) + _A)
    return key


@jit
def subset_log_prob(
    scores: Floats,
    row_of: tuple[Ints, Ints],
    actions: Ints,
    masks: Bools,
    limits: tuple[float, int, int],
) -> tuple[Floats, Floats]:
    """Return (T,) log-probabilities and squared relative errors for tasks sorted by row.

    Draws double from 32 until every mask of the row reaches the relative error `rtol`, or `most`
    draws; limits = (rtol, most, seed); row_of = the row of the log and the row of scores of each
    task, (T,) both.
    """
    T = len(actions)
    log_prob, rel_var = np.empty(T), np.empty(T)
    log_row, score_row = row_of
    start = 0
    while start < T:
        stop = start + 1
        while stop < T and log_row[stop] == log_row[start]:
            stop += 1
        row = scores[score_row[start]]
        _row(
            row,
            actions[start],
            masks[start:stop],
            limits,
            (log_prob[start:stop], rel_var[start:stop]),
        )
        start = stop
    return log_prob, rel_var


@jit
def _row(row: Floats, actions: Ints, masks: Bools, limits: tuple, result: tuple) -> None:  # type: ignore[type-arg]
    rtol, most, seed = limits
    log_prob, rel_var = result
    J, K = masks.shape
    mass = masses(row)
    slot = np.full(mass.size, -1, np.int64)
    own, which = np.zeros(K), np.full(K, -1, np.int64)
    D = 0
    for k in range(K):
        a = actions[k]
        if a >= 0:
            if slot[a] < 0:
                slot[a], own[D] = D, mass[a]
                D += 1
            which[k] = slot[a]
    others = masses(row)
    for k in range(K):
        if actions[k] >= 0:
            others[actions[k]] = 0.0
    tree = build_tree(others)
    key = row_key(row, actions, seed)
    codes, sizes = np.empty((most, K), np.int64), np.empty((most, K))
    left = np.empty((most, K + 1))
    sums = np.zeros((J, 3))  # reference log, sum, sum of squares, both relative to the reference
    open_ = np.zeros(J, np.bool_)
    for j in range(J):
        sums[j, 0], open_[j] = -np.inf, True
    have, goal = 0, min(_FIRST, most)
    while have < goal:
        draw(tree, own[:D], others, key, (have, goal), (codes, sizes, left))
        for j in range(J):
            if open_[j]:
                accumulate(codes, sizes, left, (own[:D], which, masks[j]), (have, goal), sums[j])
                log_prob[j], rel_var[j] = summary(sums[j], goal)
                for k in range(K):
                    if masks[j, k]:
                        log_prob[j] += np.log(own[which[k]])
                open_[j] = rel_var[j] > rtol * rtol
        have = goal
        pending = False
        for j in range(J):
            pending = pending or open_[j]
        if pending:
            goal = min(2 * goal, most)


@jit
def draw(
    tree: Floats,
    own: Floats,
    others: Floats,
    key: np.uint64,
    span: tuple[int, int],
    out: tuple[Ints, Floats, Floats],
) -> None:
    """Draw rankings span[0]..span[1]: which logged item (or none), its mass, and the mass of others
    left.
    """
    codes, sizes, left = out
    K = codes.shape[1]
    picked = np.empty(K, np.int64)
    waiting = np.empty(own.size)
    for m in range(span[0], span[1]):
        for d in range(own.size):
            waiting[d] = own[d]
        stream = mix(key + np.uint64(m + 1) * _A)
        taken = 0
        left[m, 0] = tree[1]
        for k in range(K):
            bits = mix(stream + np.uint64(k + 1) * _A)
            logged = 0.0
            for d in range(own.size):
                logged += waiting[d]
            goal = float(bits >> _S11) * 2.0**-53 * (logged + tree[1])
            codes[m, k], sizes[m, k] = _NONE, 0.0
            if goal < logged or (tree[1] == 0.0 and logged > 0.0):
                d = pick(waiting, goal)
                codes[m, k], sizes[m, k] = d, waiting[d]
                waiting[d] = 0.0
            elif tree[1] > 0.0:
                item = find(tree, goal - logged)
                codes[m, k], sizes[m, k] = _FREE, others[item]
                picked[taken] = item
                taken += 1
                set_leaf(tree, item, 0.0)
            left[m, k + 1] = tree[1]
        for j in range(taken):
            set_leaf(tree, picked[j], others[picked[j]])


@jit
def pick(waiting: Floats, goal: float) -> int:
    """Return the index whose interval of cumulated mass holds `goal`; never one of mass zero."""
    last = 0
    for d in range(waiting.size):
        if waiting[d] > 0.0:
            last = d
            if goal < waiting[d]:
                return d
            goal -= waiting[d]
    return last


@jit
def accumulate(
    codes: Ints,
    sizes: Floats,
    left: Floats,
    event: tuple[Floats, Ints, Bools],
    span: tuple[int, int],
    sums: Floats,
) -> None:
    """Add the products of draws span[0]..span[1] for one mask to its running sums."""
    own, which, mask = event
    K = mask.size
    asked = np.zeros(own.size, np.bool_)
    waiting = np.zeros(K + 1)
    last, size = 0, 0
    for k in range(K):
        if mask[k]:
            asked[which[k]] = True
            last, size = k + 1, size + 1
    j = size
    for k in range(last - 1, -1, -1):
        if mask[k]:
            j -= 1
            waiting[j] = waiting[j + 1] + own[which[k]]
    # waiting was filled from the back: entry j holds the mass of the asked items j, j+1, ...
    scratch = np.empty(K + 1)
    for m in range(span[0], span[1]):
        value = product(codes[m], sizes[m], left[m], (own, asked, mask[:last], waiting), scratch)
        if value == -np.inf:
            continue
        if value > sums[0]:
            shift = np.exp(sums[0] - value) if sums[0] > -np.inf else 0.0
            sums[0], sums[1], sums[2] = value, sums[1] * shift, sums[2] * shift * shift
        ratio = np.exp(value - sums[0])
        sums[1] += ratio
        sums[2] += ratio * ratio


@jit
def product(codes: Ints, sizes: Floats, left: Floats, event: tuple, remaining: Floats) -> float:  # type: ignore[type-arg]
    """Return the log of one draw's product, without the masses of the asked items."""
    own, asked, pattern, waiting = event
    gaps = 0
    for k in range(pattern.size):
        gaps += not pattern[k]
    unused = np.empty(own.size, np.bool_)
    for d in range(own.size):
        unused[d] = not asked[d]
    r, j = 0, 0
    while j < gaps:
        if codes[r] == _NONE:
            return -np.inf
        if codes[r] < 0 or not asked[codes[r]]:
            remaining[j] = sizes[r]
            j += 1
            if codes[r] >= 0:
                unused[codes[r]] = False
        r += 1
    rest = left[r]
    for d in range(own.size):
        if unused[d]:
            rest += own[d]
    remaining[gaps] = rest
    for j in range(gaps - 1, -1, -1):
        remaining[j] += remaining[j + 1]
    log_value, value, j, placed = 0.0, 1.0, 0, 0
    for k in range(pattern.size):
        total = waiting[placed] + remaining[j]
        if pattern[k]:
            value /= total
            placed += 1
        else:
            value *= remaining[j] / total
            j += 1
        if value < 1e-150 or value > 1e150:
            log_value += np.log(value) if value > 0.0 else -np.inf
            value = 1.0
    return float(log_value + np.log(value))


@jit
def summary(sums: Floats, M: int) -> tuple[float, float]:
    """Return the log of the mean and its squared relative error.

    Draws that all agree may have missed one that does not: the error is never stated below 1 / M.
    """
    if sums[1] == 0.0:
        return -np.inf, 0.0
    mean, square = sums[1] / M, sums[2] / M
    spread = max(square / (mean * mean) - 1.0, 0.0) / max(M - 1, 1)
    return sums[0] + np.log(mean), max(spread, 1.0 / (M * M))
