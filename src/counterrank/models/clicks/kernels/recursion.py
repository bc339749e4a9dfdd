"""Exact expectations over click histories of a ranking: forwards for clicks, backwards for what is to come.

The state before slot k is the place of the last click: none, or 0..k-1. With k + 1 states both passes
cost O(K^2), although there are 2^K click sequences. Column l + 1 of a table of chances stands for the
last click at l, column 0 for no click.
"""

from typing import NamedTuple

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.kernels.jit import jit
from counterrank.models.clicks.kernels.likelihood import bend
from counterrank.models.clicks.kernels.sigmoid import sigmoid


class Shown(NamedTuple):
    """Rankings of items by number (m, K), their lengths (m,) and the fit that each is asked of (m,)."""

    item: Ints
    lengths: Ints
    fold: Ints


class Examination(NamedTuple):
    """Parameters of examination by fit: exp(-t_kl) (F, K, K + 1), exp(-h) (F, I + 1), power of reading (F,)."""

    odds: Floats
    after: Floats
    power: Floats


class Attraction(NamedTuple):
    """What the logit of attraction is made of.

    `table` (F, I + 1, 1 + d) are intercepts and slopes of items in `x` (n, d), whose row each ranking
    has (m,). `beta` (F, p) are coefficients of the `columns` (m, K, .), of which `crossed` from `at` on are
    multiplied by the `context` (n, C), and of `others` (m, K, r). Columns beyond the size of beta are not
    read.
    """

    table: Floats
    beta: Floats
    x: Floats
    row: Ints
    columns: Floats
    others: Floats
    context: Floats
    at: int
    crossed: int


@jit
def forward(chance: Floats, length: int, state: Floats, out: Floats) -> None:
    """Write P(click at k) of one ranking into out (K,), from chance (K, K + 1) given the last click."""
    state[0] = 1.0
    for k in range(length):
        clicked = 0.0
        for s in range(k + 1):
            # Being in state s and clicking at k leads to state k + 1; not clicking stays in s.
            here = state[s] * chance[k, s]
            clicked += here
            state[s] -= here
        state[k + 1] = clicked
        out[k] = clicked


@jit
def backward(chance: Floats, gain: Floats, length: int, ahead: Floats) -> None:
    """Write V_k(l), the expected gains from slot k on, into ahead (K + 1, K + 1).

    `gain` (K,) is that of a click.
    """
    for s in range(length + 1):
        ahead[length, s] = 0.0
    for k in range(length - 1, -1, -1):
        for s in range(k + 1):
            p = chance[k, s]
            ahead[k, s] = p * (gain[k] + ahead[k + 1, k + 1]) + (1.0 - p) * ahead[k + 1, s]


@jit
def _chances(attraction: Floats, odds: Floats, after: Floats, item: Ints, length: int, skip: Floats, power: float,
             held: Floats, chance: Floats) -> None:  # fmt: skip
    """Write s(v_k) s(t_kl + h + power read) into chance (K, K + 1).

    `odds` (K, K + 1) are exp(-t_kl), `after` (I + 1,) is exp(-h), `skip` (K, 2) comes from `skipped`, and
    `held` is room for K numbers.
    """
    for k in range(length):
        # Models without competition have a power of zero: skipped items tell them nothing.
        gone = np.exp(power * skip[k, 0]) if power != 0.0 else 1.0
        since = np.exp(power * skip[k, 1]) if power != 0.0 else 1.0
        if k > 0:
            held[k - 1] = after[item[k - 1]] / since
        chance[k, 0] = attraction[k] / (1.0 + odds[k, 0] * gone)
        for last in range(k):
            hidden = odds[k, last + 1] * held[last] * since
            chance[k, last + 1] = attraction[k] / (1.0 + hidden)


@jit
def click_expected(
    attraction: Floats, skip: Floats, seen: Examination, shown: Shown, out: Floats
) -> None:
    """Write P(click at k) (m, K) into out, zero in the padding."""
    item, lengths = shown.item, shown.lengths
    m, K = item.shape
    chance, state, held = np.zeros((K, K + 1)), np.zeros(K + 1), np.zeros(K)
    for i in range(m):
        f = shown.fold[i]
        _chances(attraction[i], seen.odds[f], seen.after[f], item[i], lengths[i], skip[i], seen.power[f],
                 held, chance)  # fmt: skip
        forward(chance, lengths[i], state, out[i])


@jit
def click_history(attraction: Floats, skip: Floats, seen: Examination, shown: Shown, gain: Floats,
                  click: Floats, q: Floats, out: Floats) -> None:  # fmt: skip
    """Write P(click at k) (m, K) into q, and V_k at the observed last click (m, K + 1) into out.

    `gain` (m, K) is what a click at k is worth.
    """
    item, lengths = shown.item, shown.lengths
    m, K = item.shape
    chance, ahead = np.zeros((K, K + 1)), np.zeros((K + 1, K + 1))
    state, held = np.zeros(K + 1), np.zeros(K)
    for i in range(m):
        f = shown.fold[i]
        _chances(attraction[i], seen.odds[f], seen.after[f], item[i], lengths[i], skip[i], seen.power[f],
                 held, chance)  # fmt: skip
        forward(chance, lengths[i], state, q[i])
        backward(chance, gain[i], lengths[i], ahead)
        _observed(ahead, click[i], lengths[i], out[i])


@jit
def _observed(ahead: Floats, click: Floats, length: int, out: Floats) -> None:
    state = 0
    for k in range(length):
        out[k] = ahead[k, state]
        if click[k] > 0.0:
            state = k + 1


@jit
def attractions(given: Attraction, shown: Shown, out: Floats) -> None:
    """Write the logit of attraction (m, K) into out."""
    table, beta, x, columns, others = given.table, given.beta, given.x, given.columns, given.others
    context, at, crossed = given.context, given.at, given.crossed
    item, lengths = shown.item, shown.lengths
    d, more = x.shape[1], crossed * context.shape[1]
    width = beta.shape[1] - more - others.shape[2]
    slope = np.empty(crossed)
    for i in range(len(item)):
        f, r = shown.fold[i], given.row[i]
        bend(beta[f], context[r], at, slope)
        for k in range(lengths[i]):
            a = item[i, k]
            total = table[f, a, 0]
            for j in range(d):
                total += x[r, j] * table[f, a, 1 + j]
            for j in range(at):
                total += columns[i, k, j] * beta[f, j]
            for j in range(crossed):
                total += columns[i, k, at + j] * slope[j]
            for j in range(at + crossed, width):
                total += columns[i, k, j] * beta[f, j + more]
            for j in range(others.shape[2]):
                total += others[i, k, j] * beta[f, width + more + j]
            out[i, k] = total


@jit
def competition(strength: Floats, lengths: Ints, out: Floats) -> None:
    """Write (m, K, 4): strengths summed above, of the item before, at most above, summed below."""
    for i in range(len(strength)):
        below, above, most = 0.0, 0.0, 0.0
        # Summed from the end: a difference of sums would leave rounding noise, which trees would read.
        for k in range(lengths[i] - 1, -1, -1):
            out[i, k, 3] = below
            below += strength[i, k]
        for k in range(lengths[i]):
            own = strength[i, k]
            out[i, k, 0] = above
            out[i, k, 1] = strength[i, k - 1] if k else 0.0
            out[i, k, 2] = most
            above += own
            most = max(most, own)


@jit
def skipped(strength: Floats, least: float, lengths: Ints, out: Floats) -> None:
    """Write the log odds that the reader has left the page, from the items skipped (m, K, 2).

    The first column is for rankings without a click above slot k. The second is for a last click just
    above the page; the difference of its values at two slots is what skipping the items between them
    adds.

    A reader who goes on with probability g has left with odds D_k = (1/g - 1) + D_k-1 / (g (1 -
    s_k-1)), s the strengths (Chapelle & Zhang 2009): who skips attractive items has probably left.
    From D_0 = 0 and as g -> 1 the odds are in proportion to L_k = 1 + L_k-1 / (1 - s_k-1), which is k
    for strengths of zero. After a click, which ends many visits, D_0 is large and only the products of
    1 / (1 - s) remain. 1 - s is at least `least`.
    """
    for i in range(len(strength)):
        left, log = 0.0, 0.0
        for k in range(1, lengths[i]):
            missed = max(1.0 - strength[i, k - 1], least)
            left = 1.0 + left / missed
            log -= np.log(missed)
            out[i, k, 0] = np.log(left / k)
            out[i, k, 1] = log


@jit
def reading(skip: Floats, click: Floats, lengths: Ints, out: Floats) -> None:
    """Write minus the log odds of having left (m, K) at the observed last click, from `skipped`."""
    for i in range(len(skip)):
        last = -1
        for k in range(lengths[i]):
            out[i, k] = -skip[i, k, 0] if last < 0 else skip[i, last + 1, 1] - skip[i, k, 1]
            if click[i, k] > 0.0:
                last = k


@jit
def cosines_above(features: Floats, shown: Bools, out: Floats) -> None:
    """Write the sum of cosines between each slot's features (m, K, p) and those above, zero in the padding."""
    m, K, p = features.shape
    above = np.zeros(p)
    for i in range(m):
        for j in range(p):
            above[j] = 0.0
        for k in range(K):
            if not shown[i, k]:
                continue
            square, total = 0.0, 0.0
            for j in range(p):
                square += features[i, k, j] ** 2
                total += features[i, k, j] * above[j]
            size = max(np.sqrt(square), 1e-12)
            out[i, k] = total / size
            for j in range(p):
                above[j] += features[i, k, j] / size


@jit
def chances(values: Floats, lengths: Ints) -> None:
    """Replace log odds (m, K) by chances; zero in the padding."""
    m, K = values.shape
    sigmoid(values.reshape(m * K), m * K)
    for i in range(m):
        for k in range(lengths[i], K):
            values[i, k] = 0.0
