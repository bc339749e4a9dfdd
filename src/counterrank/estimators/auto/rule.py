"""How `auto` decides, a pure function of means and covariances; and the `Estimate` that follows:
value, interval, positions, lift, and a plain account of both.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.auto.members import MODELS
from counterrank.estimators.auto.settings import SETTINGS
from counterrank.estimators.auto.state import AutoState, Summary
from counterrank.estimators.base import Estimate, Interval, Lift, PositionValue, Workspace
from counterrank.estimators.names import order_path
from counterrank.inference import bias_aware_half
from counterrank.texts import in_percent

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
        # Of rewards as small as 1e-200 the square is zero: such a bias moves nothing.
        share = usual**2 / (usual**2 + s2 + (counts * own) ** 2) if usual**2 > 0 else 0.0
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
        "items change each other": SETTINGS["interactions"].value * summary.interactions,
        "rests on the models alone": SETTINGS["alone"].value
        * summary.alone
        * abs(float(summary.value[1])),
    }


def stderr(summary: Summary, weights: Floats) -> float:
    """Return the standard error of a combination of members."""
    J = len(summary.members)
    return math.sqrt(max(float(weights @ summary.covariance[1 : 1 + J, 1 : 1 + J] @ weights), 0.0))


def estimate_from(
    state: AutoState, summary: Summary, decision: Decision, workspace: Workspace, flags: tuple[str, ...],
    details: dict[str, Any],
) -> Estimate:  # fmt: skip
    """Return the estimate with its bias-aware interval."""
    value, se = _value(summary, decision), stderr(summary, decision.weights)

    def interval_at(level: float) -> Interval:
        half = bias_aware_half(se, decision.allowance, level, max(summary.units - 1, 1))
        return value - half, value + half

    found = Estimate(
        target=workspace.target,
        estimator="auto",
        value=value,
        stderr=se,
        by_position=_positions(summary, decision, value),
        ess=float(state.mean_weight[0] ** 2 / state.mean_weight[1])
        if state.mean_weight[1] > 0
        else 0.0,
        n=state.n,
        level=workspace.level,
        lift=_lift(summary, decision, value, workspace.level),
        flags=(*flags, *_flags(summary, decision)),
        details={**_details(summary, decision), **details},
        interval_at=interval_at,
        allowance=decision.allowance,
        basis=decision.basis,
    )
    reason = _unknown(summary)
    return found.without_evidence(reason) if reason else found


def _unknown(summary: Summary) -> str:
    """Return why the log holds no evidence on the target, or nothing."""
    if not len(summary.models) and not summary.seen[0]:
        return "no logged ranking has a positive weight under the target"
    if summary.alone > SETTINGS["reach"].value:
        return (
            f"{in_percent(summary.alone, 0)} of what the target shows was never or hardly ever shown at its "
            "position; a reward model alone would speak for it. Log more exploration, or choose a "
            "target closer to the logger"
        )
    return ""


def _value(summary: Summary, decision: Decision) -> float:
    return float(decision.weights @ summary.value[1 : 1 + len(summary.members)])


def _positions(summary: Summary, decision: Decision, value: float) -> tuple[PositionValue, ...]:
    """Return V_k; what histories of clicks add to the total is spread over positions by their
    weights.
    """
    alpha, w = summary.alpha, np.concatenate([[0.0], decision.weights])
    values = summary.at @ w
    values = values + (value - float(alpha @ values)) * alpha / max(float(alpha @ alpha), 1e-300)
    errors = np.sqrt(np.maximum(np.einsum("c,kcd,d->k", w, summary.at_covariance, w), 0.0))
    return tuple(PositionValue(float(v), float(e)) for v, e in zip(values, errors, strict=True))


def _lift(summary: Summary, decision: Decision, value: float, level: float) -> Lift:
    """Return the paired difference to the logger, and its ratio, with the same allowance for bias."""
    base, df = float(summary.value[0]), max(summary.units - 1, 1)
    T = 1 + len(summary.members)
    covariance = summary.covariance[:T, :T]

    def ends(centre: float, gradient: Floats, allowance: float) -> tuple[float, float, float]:
        se = float(np.sqrt(max(float(gradient @ covariance @ gradient), 0.0)))
        half = bias_aware_half(se, allowance, level, df)
        return se, centre - half, centre + half

    paired = np.concatenate([[-1.0], decision.weights])
    se, low, high = ends(value - base, paired, decision.allowance)
    relative = (np.nan, np.nan, np.nan)
    if base > 0:
        # d(V / b) = dV / b - V db / b^2, as for every estimator.
        ratio = np.concatenate([[-value / base**2], decision.weights / base])
        relative = (value / base - 1, *ends(value / base - 1, ratio, decision.allowance / base)[1:])
    own = _positions(summary, decision, value)
    spread = np.sqrt(
        np.maximum(np.einsum("c,kcd,d->k", paired, summary.at_covariance, paired), 0.0)
    )
    by_position = tuple(
        PositionValue(one.value - float(r), float(e))
        for one, r, e in zip(own, summary.at[:, 0], spread, strict=True)
    )
    return Lift(value - base, se, low, high, by_position, *relative)


def _flags(summary: Summary, decision: Decision) -> tuple[str, ...]:
    found = []
    missing = float(summary.unsupported.max(initial=0.0))
    if missing > 0:
        found.append(
            f"no-support: {in_percent(missing)} of the target's rankings hold what the logger never shows "
            "there; the models alone speak for them"
        )
    if summary.alone > SETTINGS["told"].value:
        found.append(
            f"model-alone: {in_percent(summary.alone, 0)} of what the target shows has too little weight in "
            "the log and rests on the reward models alone"
        )
    if decision.allowance > 0:
        first = sum(decision.parts.values())
        # Parts add up to what was allowed for before weights confirmed or contradicted the models.
        before = "" if decision.allowance == first else f"{first:.3g} before weights were asked: "
        parts = (f"{name} {part:.2g}" for name, part in decision.parts.items() if part > 0)
        found.append(
            f"bias-allowance: the interval allows for a bias of {decision.allowance:.3g} ({before}"
            + ", ".join(parts)
            + "; docs/auto.md)"
        )
    return tuple(found)


def _details(summary: Summary, decision: Decision) -> dict[str, Any]:
    J = len(summary.members)
    errors = np.sqrt(np.maximum(np.diag(summary.covariance), 0.0))
    table: list[dict[str, Any]] = [
        {"member": name, "value": float(summary.value[1 + j]), "stderr": float(errors[1 + j]),
         "share": float(decision.weights[j]), "tail_inflation": float(summary.inflation[j]),
         "unsupported": float(summary.unsupported[j])}
        for j, name in enumerate(summary.members)
    ]  # fmt: skip
    return {
        "members": table,
        "combination": {m["member"]: m["share"] for m in table if abs(m["share"]) > 1e-9},
        "models": [float(v) for v in summary.value[1 + J :]],
        "interval_base": decision.basis,
        "bias_allowance": decision.allowance,
        "allowance_from": decision.parts,
        "model_alone_share": summary.alone,
        "order_path": _order_path(summary, table),
        "why": _why(decision),
        "steps": [
            {"towards": s.member, "difference": s.difference, "difference_stderr": s.stderr, "share": s.share,
             "allowance": s.after}
            for s in decision.steps
        ],
    }  # fmt: skip


def _order_path(summary: Summary, table: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return value and standard error by interaction order; dependent positions have no orders but
    the first.
    """
    if "rips" in summary.members:
        return []
    by_name = {row["member"]: row for row in table}
    weighed = [name for name in summary.members if name != MODELS]
    path = order_path(weighed, len(summary.alpha))
    return [
        {"order": m, "value": by_name[name]["value"], "stderr": by_name[name]["stderr"]}
        for m, name in path
    ]


def _why(decision: Decision) -> str:
    moved = [
        f"{step.member} ({in_percent(step.share, 0)})"
        for step in decision.steps
        if step.share >= 0.005
    ]
    way = "moved towards " + ", then ".join(moved) if moved else "no richer weights moved it"
    return (
        f"{way}; the interval rests on '{decision.basis}' and allows for a bias of "
        f"{decision.allowance:.3g}"
    )
