"""What the other items of a page say of a slot: columns of models with competition."""

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.models.clicks.likelihood import page_weights
from counterrank.models.clicks.settings import SETTINGS


def rivalry(strength: Floats, lengths: Ints) -> Floats:
    """Return (m, K, 4): strengths summed above, of the item before, at most above, and summed below each slot.

    >>> rivalry(np.array([[0.5, 0.25, 0.125]]), np.array([3]))[0, 1].tolist()
    [0.5, 0.5, 0.5, 0.125]
    """
    shown = np.arange(strength.shape[1]) < lengths[:, None]
    present = np.where(shown, strength, 0.0)
    out = np.zeros((*strength.shape, 4))
    out[:, 1:, 0] = np.cumsum(present, axis=1)[:, :-1]
    out[:, 1:, 1] = present[:, :-1]
    out[:, 1:, 2] = np.maximum.accumulate(np.maximum(present, 0.0), axis=1)[:, :-1]
    # Summed from the end: a difference of sums would leave rounding noise, which trees would read.
    out[:, :-1, 3] = np.cumsum(present[:, :0:-1], axis=1)[:, ::-1]
    out[~shown] = 0.0
    return out


def rest_of_page(strength: Floats, lengths: Ints) -> Floats:
    """Return log(c + sum of the other slots' odds, discounted by place) (m, K).

    Where readers divide their attention over a page, each slot loses in proportion to the odds of the
    others.

    >>> rest_of_page(np.array([[0.5, 0.5, 0.0]]), np.array([2])).round(3).tolist()
    [[-0.097, 0.182, 0.0]]
    """
    shown = np.arange(strength.shape[1]) < lengths[:, None]
    chance = np.minimum(strength, 1.0 - SETTINGS.missed)
    odds = np.where(shown, chance / (1.0 - chance), 0.0) * page_weights(strength.shape[1])
    other_odds = odds.sum(axis=1, keepdims=True) - odds
    return np.where(shown, np.log(SETTINGS.rest_floor + other_odds), 0.0)


def alike_above(features: Floats, shown: Bools) -> Floats:
    """Return the sum of cosines between each slot's features and those above (m, K); features standardised.

    >>> z = np.array([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]])
    >>> alike_above(z, np.ones((1, 3), dtype=bool)).tolist()
    [[0.0, 1.0, 0.0]]
    """
    size = np.maximum(np.linalg.norm(features, axis=2), 1e-12)
    unit = np.where(shown, 1.0 / size, 0.0)[..., None] * features
    out = np.zeros(shown.shape)
    out[:, 1:] = np.einsum("mkp,mkp->mk", unit[:, 1:], np.cumsum(unit, axis=1)[:, :-1])
    return out


def skipped(strength: Floats, lengths: Ints) -> Floats:
    """Return the log odds that the reader has left the page, from the items skipped (m, K, 2).

    The first column is for rankings without a click above slot k. The second is for a last click just
    above the page; the difference of its values at two slots is what skipping the items between them
    adds.

    A reader who goes on with probability g has left with odds D_k = (1/g - 1) + D_k-1 / (g (1 -
    s_k-1)), s the strengths (Chapelle & Zhang 2009): who skips attractive items has probably left.
    From D_0 = 0 and as g -> 1 the odds are in proportion to L_k = 1 + L_k-1 / (1 - s_k-1), which is k
    for strengths of zero. After a click, which ends many visits, D_0 is large and only the products of
    1 / (1 - s) remain. 1 - s is at least `SETTINGS.missed`.
    """
    missed = np.maximum(1.0 - strength, SETTINGS.missed)
    out, left = np.zeros((*strength.shape, 2)), np.zeros(len(strength))
    for k in range(1, strength.shape[1]):
        left = 1.0 + left / missed[:, k - 1]
        out[:, k, 0] = np.log(left / k)
    out[:, 1:, 1] = -np.cumsum(np.log(missed), axis=1)[:, :-1]
    out[np.arange(strength.shape[1]) >= lengths[:, None]] = 0.0
    return out


def last_click(click: Floats) -> Ints:
    """Return one plus the place of the last click above each slot (m, K), 0 where there is none.

    >>> last_click(np.array([[0.0, 1.0, 0.0, 1.0]])).tolist()
    [[0, 0, 2, 2]]
    """
    place = np.where(click > 0.0, 1 + np.arange(click.shape[1]), 0)
    above = np.maximum.accumulate(place, axis=1)[:, :-1]
    return np.concatenate([np.zeros((len(click), 1), dtype=np.int64), above], axis=1)


def reading(skip: Floats, click: Floats) -> Floats:
    """Return minus the log odds of having left (m, K) at the observed last click, from `skipped`."""
    last = last_click(click)
    since = np.take_along_axis(skip[:, :, 1], last, axis=1) - skip[:, :, 1]
    return np.where(last, since, -skip[:, :, 0])
