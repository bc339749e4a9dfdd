"""Sets of positions under a policy known only step by step: all fillings of the gaps, or drawn ones."""

from typing import Protocol

import numpy as np

from counterrank.policies.base import Bools, Floats, Ints


class Stepper(Protocol):
    """What the two methods need of a policy."""

    replacement: bool

    def next_probs(self, rows: Ints, prefixes: Ints) -> Floats:
        """Return probabilities of the next item (b, A) after prefixes (b, k)."""


def enumerated(policy: Stepper, row: int, wanted: Ints, mask: Bools) -> float:
    """Return log P exactly: every filling of the gaps that keeps the asked items for their places."""
    prefixes, value = np.empty((1, 0), np.int64), np.zeros(1)
    for k, asked in enumerate(mask):
        if len(prefixes) == 0:
            return -np.inf
        with np.errstate(divide="ignore"):
            logs = np.log(policy.next_probs(np.full(len(prefixes), row), prefixes))
        if asked:
            value = value + logs[:, wanted[k]]
            keep = value > -np.inf
            added = np.full((int(keep.sum()), 1), wanted[k])
            prefixes, value = np.concatenate([prefixes[keep], added], axis=1), value[keep]
        else:
            if not policy.replacement:
                logs[:, _later(wanted, mask, k)] = -np.inf
            b, a = np.nonzero(logs > -np.inf)
            prefixes, value = np.concatenate([prefixes[b], a[:, None]], axis=1), value[b] + logs[b, a]
    if len(value) == 0:
        return -np.inf
    top = value.max()
    return float(top + np.log(np.exp(value - top).sum()))


def forced(policy: Stepper, row: int, wanted: Ints, mask: Bools, uniforms: Floats) -> Floats:
    """Return (M,) log-weights of draws in which asked items are put at their places; their mean is P.

    In a gap the asked items still to come are held back and the weight takes the mass of the others; with
    replacement nothing needs holding back.
    """
    from counterrank.policies.kernels.policy_draws import categorical

    M = len(uniforms)
    prefixes, value = np.empty((M, 0), np.int64), np.zeros(M)
    out = np.full(M, -np.inf)
    alive = np.arange(M)
    for k, asked in enumerate(mask):
        if len(alive) == 0:
            return out
        probs = policy.next_probs(np.full(len(alive), row), prefixes)
        if asked:
            mass = probs[:, wanted[k]]
            chosen = np.full((len(alive), 1), wanted[k])
        else:
            if not policy.replacement:
                probs[:, _later(wanted, mask, k)] = 0.0
            cumulative = np.cumsum(probs, axis=1)
            mass = np.minimum(cumulative[:, -1], 1.0)
            chosen = categorical(cumulative, uniforms[alive, k : k + 1])
        keep = mass > 0
        value = value[keep] + np.log(mass[keep])
        prefixes = np.concatenate([prefixes, chosen], axis=1)[keep]
        alive = alive[keep]
    out[alive] = value
    return out


def _later(wanted: Ints, mask: Bools, k: int) -> Ints:
    """Return the items asked for after position k."""
    return wanted[k + 1 :][mask[k + 1 :]]
