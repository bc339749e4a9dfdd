"""Exact expectations over click histories of a ranking: forwards for clicks, backwards for what is to come.

The state before slot k is the place of the last click: none, or 0..k-1. With k + 1 states both passes
cost O(K^2), although there are 2^K click sequences. Column l + 1 of a table of chances stands for the
last click at l, column 0 for no click.
"""

from typing import NamedTuple

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import jit
from counterrank.models.clicks.settings import SETTINGS


class Examination(NamedTuple):
    """Parameters of examination by fit: exp(-t_kl) (F, K, K + 1), exp(-h) (F, I + 1), power of reading (F,).

    `missed` is the least share of readers who skip an item they see.
    """

    odds: Floats
    after: Floats
    power: Floats
    missed: float = SETTINGS.missed


@jit
def forward(chance: Floats, length: int, state: Floats, out: Floats) -> None:
    """Write P(click at k) of one ranking into out (K,), from chance (K, K + 1) given the last click."""
    state[0] = 1.0
    for k in range(length):
        clicked = 0.0
        for s in range(k + 1):
            # Being in state s and clicking at k leads to state k + 1; not clicking stays in s.
            click_now = state[s] * chance[k, s]
            clicked += click_now
            state[s] -= click_now
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
def _chances(
    attraction: Floats,
    odds: Floats,
    after: Floats,
    item: Ints,
    length: int,
    strength: Floats,
    power: float,
    least: float,
    held: Floats,
    chance: Floats,
) -> None:
    """Write s(v_k) s(t_kl + h + power read) into chance (K, K + 1).

    `odds` (K, K + 1) are exp(-t_kl), `after` (I + 1,) is exp(-h), `strength` (K,) is what `skipped` reads,
    whose odds are computed here, and `held` is room for K numbers.
    """
    gone, since, left, passed = 1.0, 1.0, 0.0, 1.0
    for k in range(length):
        # Models without competition have a power of zero: skipped items tell them nothing.
        if k > 0 and power != 0.0:
            missed = max(1.0 - strength[k - 1], least)
            left, passed = 1.0 + left / missed, passed / missed
            gone, since = (left / k) ** power, passed**power
        if k > 0:
            held[k - 1] = after[item[k - 1]] / since
        chance[k, 0] = attraction[k] / (1.0 + odds[k, 0] * gone)
        for last in range(k):
            hidden = odds[k, last + 1] * held[last] * since
            chance[k, last + 1] = attraction[k] / (1.0 + hidden)


@jit
def click_history(
    attraction: Floats,
    strength: Floats,
    examination: Examination,
    shown: tuple[Ints, Ints, Ints],
    gain: Floats,
    last: Ints,
    q: Floats,
    out: Floats,
) -> None:
    """Write P(click at k) (m, K) into q, and V_k at the observed last click `last` (m, K) into out (m, K + 1).

    `shown` are items by number (m, K), lengths (m,) and the fit that each ranking is asked of (m,).
    `strength` (m, K) is that of the items by themselves. `gain` (m, K) is what a click at k is worth;
    without rows of it nothing is written into out.
    """
    item, lengths, fold = shown
    m, K = item.shape
    chance, ahead = np.zeros((K, K + 1)), np.zeros((K + 1, K + 1))
    state, held = np.zeros(K + 1), np.zeros(K)
    for i in range(m):
        f = fold[i]
        _chances(
            attraction[i],
            examination.odds[f],
            examination.after[f],
            item[i],
            lengths[i],
            strength[i],
            examination.power[f],
            examination.missed,
            held,
            chance,
        )
        forward(chance, lengths[i], state, q[i])
        if len(gain):
            backward(chance, gain[i], lengths[i], ahead)
            for k in range(lengths[i]):
                out[i, k] = ahead[k, last[i, k]]
