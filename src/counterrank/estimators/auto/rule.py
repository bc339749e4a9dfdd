"""How `auto` decides: a pure function of means and covariances."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.auto.members import MODELS
from counterrank.estimators.auto.settings import SETTINGS
from counterrank.estimators.auto.state import Summary

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """A richer member was asked: its difference to the estimate so far, that one's standard error,
    and how far it led.

    `share` of the difference was taken; the allowance for bias went from `before` to `after`.
    """

    member: str
    difference: float
    stderr: float
    share: float
    before: float
    after: float


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The combination of members (J,) that is the estimate, the bias its interval allows for, and
    how both came about.

    `parts` say what the first allowance is made of; `basis` is the member with the largest weight.
    """

    weights: Floats
    allowance: float
    parts: dict[str, float]
    steps: tuple[Step, ...]
    basis: str


def decide(summary: Summary, allowance: float | None = None) -> Decision:
    """Return where the evidence leads.

    The estimate starts at the first member, whose bias may be as large as the allowance B. A richer
    member's difference d, with standard error s, is evidence on that bias: the estimate moves by f
    = T^2 / (T^2 + s^2 + t^2) of d, where T is the bias one usually has (a part of B, or what d
    shows beyond chance) and t the one that the member itself usually has, the same part of the most
    it may have, b. What is left to allow for is (1 - f) B + f b: less where richer weights know,
    the same where they do not, more where they contradict.
    """
    J = len(summary.members)
    parts = first_allowance(summary) if allowance is None else {"given": float(allowance)}
    B = first = sum(parts.values())
    # Without a model nothing says how wrong a member usually is: its own bias counts in full.
    usually = SETTINGS["usual" if len(summary.models) else "bare-usual"].value
    counts = usually if len(summary.models) else 1.0
    weights = np.zeros(J)
    weights[0] = 1.0
    steps = []
    for j in range(1, J):
        if not summary.seen[j]:
            continue
        # The difference to the combination so far, not to the last member: its variance knows how
        # much of the richer member is in there already.
        move = np.eye(J)[j] - weights
        d = float(move @ summary.value[1 : 1 + J])
        s2 = float(move @ summary.covariance[1 : 1 + J, 1 : 1 + J] @ move)
        # What richer weights leave to assume is a share of what the first member assumed; mass that
        # they cannot reach is assumed in full.
        own = first * (_remaining(summary.members[j]) + float(summary.unsupported[j]))
        # E d^2 = bias^2 + s^2: the excess over `evidence` variances is an estimate of the bias
        # itself.
        shown = math.sqrt(max(d * d - SETTINGS["evidence"].value * s2, 0.0))
        # The share below has the least mean squared error when bias and error are independent, with T
        # in place of the bias that nobody knows.
        usual = max(usually * B, shown)
        share = usual**2 / (usual**2 + s2 + (counts * own) ** 2) if usual > 0 else 0.0
        # A bound, so it is carried along linearly: |(1 - f) bias + f own bias| <= (1 - f) B + f b.
        after = (1 - share) * max(B, shown) + share * own
        steps.append(Step(summary.members[j], d, math.sqrt(max(s2, 0.0)), share, B, after))
        weights, B = weights + share * move, after
    return Decision(weights, B, parts, tuple(steps), _basis(summary.members, weights))


def _basis(members: tuple[str, ...], weights: Floats) -> str:
    """Return the member whose weights the estimate rests on most: those of one are no weights."""
    known = [(abs(float(w)), -j) for j, w in enumerate(weights) if members[j] != MODELS]
    return members[-max(known)[1]]


def _remaining(member: str) -> float:
    """Return the share of the first allowance that a member's own bias may have."""
    return SETTINGS[f"left-{member}"].value if f"left-{member}" in SETTINGS else 0.0


def first_allowance(summary: Summary) -> dict[str, float]:
    """Return what the bias of the first member may come from, each part a sentence a person can
    disagree with.
    """
    models, alpha = summary.models, np.abs(summary.alpha)
    # By position: gains at one and losses at another are both changes that a model can be wrong
    # about.
    effect = float(alpha @ np.abs(summary.at[:, 1] - summary.at[:, 0]))
    if not len(models):
        # Weights alone see no interaction beyond their own: what richer ones show, noise and all,
        # may be true.
        richer = (
            float(alpha @ np.abs(summary.at[:, 2] - summary.at[:, 1]))
            if summary.at.shape[1] > 2
            else 0.0
        )
        whole = SETTINGS["bare"].value * effect + richer
        first = summary.members[0]
        left = SETTINGS["bare-iips"].value if first == "iips" else _remaining(first)
        return {"no reward model": left * whole}
    return {
        "models disagree": SETTINGS["spread"].value * float(np.ptp(models)) / 2,
        "target differs from logger": SETTINGS["effect"].value * effect,
        "rests on the models alone": SETTINGS["alone"].value
        * summary.alone
        * abs(float(summary.value[1])),
    }


def stderr(summary: Summary, weights: Floats) -> float:
    """Return the standard error of a combination of members."""
    J = len(summary.members)
    return math.sqrt(max(float(weights @ summary.covariance[1 : 1 + J, 1 : 1 + J] @ weights), 0.0))
