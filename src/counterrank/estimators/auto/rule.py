"""The rule of `auto`: a pure function of means and covariances, and the `Estimate` that it makes."""

import math
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.auto.members import AIMED, MODELS
from counterrank.estimators.auto.state import AutoState, Summary
from counterrank.estimators.base import Estimate, Lift, PositionValue, Workspace
from counterrank.estimators.names import order_path
from counterrank.messages import Message
from counterrank.records import Json
from counterrank.statistics import Contrast, Known, Quantity
from counterrank.texts import in_percent


@dataclass(frozen=True, slots=True)
class MemberStep:
    """A step from the estimate so far towards a member that relies more on the data.

    `difference` is that of the member to the estimate so far, with its `stderr`. The estimate moves by
    `share` of the difference; `bound` is the bias that remains possible.
    """

    member: str
    difference: float
    stderr: float
    share: float
    bound: float


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The combination of members (J,) that is the estimate, and the bias its interval allows for.

    `parts` are the sources of the allowance; `unknown` is a variance in addition to that of the members;
    `basis` is the member with the largest weight.
    """

    weights: Floats
    allowance: float
    parts: dict[str, float]
    steps: tuple[MemberStep, ...]
    basis: str
    unknown: float = 0.0


def decide(
    summary: Summary,
    allowance: float | None = None,
    unknown: float = 0.0,
    counted: NDArray[np.bool_] | None = None,
) -> Decision:
    """Return the combination of members that the evidence supports.

    The estimate starts at the first member. Each further member relies more on the data and less on the
    models. Its difference d to the estimate so far, with standard error s, is evidence on the bias of
    that estimate. A difference within two standard errors counts as chance, and the estimate stays.
    Beyond, the estimate moves by f d with f = 1 - (2 s / d)^2, which is nearly all of d where the
    evidence is strong. The bias that remains possible is (1 - f) max(|d|, s): the part of the difference
    that was not taken, or the standard error where that is larger, because the log could not have shown
    a smaller bias.

    Where lists repeat, the log also gives the variance u of the change that the means of lists do not
    know (`unknown`). Whole rankings measure this change with variance s^2, so f is at least u / (u + s^2)
    for them. `counted` (M,) are the models whose disagreement counts, by default all.
    """
    J = len(summary.members)
    weights = np.zeros(J)
    weights[0] = 1.0
    steps = []
    modelled = MODELS in summary.members
    for j in range(1, J):
        # Own-position weights depend on the own item only; models depend on the rest of the page too.
        blind = modelled and summary.members[j] == "iips" and not exact(summary, "iips")
        if blind or not summary.seen[j]:
            continue
        # The difference to the combination so far, not to the last member: the combination may already
        # contain a part of this member.
        move = np.eye(J)[j] - weights
        d = float(move @ summary.value[1 : 1 + J])
        s = math.sqrt(max(float(move @ summary.covariance[1 : 1 + J, 1 : 1 + J] @ move), 0.0))
        share = taken(d, s)
        if exact(summary, summary.members[j]):
            share = max(share, weighed(unknown, s))
        # Items that the logger never shows have no weight, and cut weights are too small. For that
        # share of the target the change is not measured.
        missing = summary.alone if summary.members[j] == "iips" else float(summary.unsupported[j])
        bound = (1 - share) * max(abs(d), s) + missing * summary.change
        steps.append(MemberStep(summary.members[j], d, s, share, bound))
        weights = weights + share * move
    models = summary.models if counted is None else summary.models[counted]
    parts = allowed(summary, steps, models) if allowance is None else {"given": float(allowance)}
    whole = math.sqrt(sum(part**2 for part in parts.values()))
    rests = 1.0 - sum(weights[j] for j in range(J) if exact(summary, summary.members[j]))
    basis = _basis(summary.members, weights)
    return Decision(weights, whole, parts, tuple(steps), basis, unknown * rests**2)


def taken(difference: float, stderr: float) -> float:
    """Return the share of a difference by which the estimate moves: none within two standard errors.

    >>> taken(1.0, 0.5), taken(1.0, 0.25), taken(0.0, 0.0)
    (0.0, 0.75, 0.0)
    """
    limit = DEFAULTS.chance * stderr
    return 1.0 - (limit / difference) ** 2 if abs(difference) > limit else 0.0


def weighed(variance: float, stderr: float) -> float:
    """Return the shrinkage of a measurement with this prior variance and standard error.

    >>> weighed(3.0, 1.0), weighed(0.0, 0.0)
    (0.75, 0.0)
    """
    return variance / (variance + stderr**2) if variance > 0.0 else 0.0


def exact(summary: Summary, member: str) -> bool:
    """Return whether a member's weights are those of whole rankings, which make no assumption."""
    return member == "ips" or (member == "iips" and len(summary.alpha) == 1)


def allowed(summary: Summary, steps: list[MemberStep], models: Floats) -> dict[str, float]:
    """Return the possible sources of bias; their squares add.

    The first step bounds the error of the models in the direction of the target. Weights of whole
    rankings make no assumption, so the bias that they leave possible is a bound of the total.
    """
    if exact(summary, summary.members[0]):
        return {}
    whole = [step.bound for step in steps if exact(summary, step.member)]
    aimed = steps[0].bound if steps else summary.change
    parts = {"what the log leaves open": aimed}
    if len(models):
        parts["models disagree"] = float(np.ptp(models)) / 2
        # Where the logger shows nothing, the change that the models expect may be entirely wrong.
        parts["rests on the models alone"] = summary.alone * summary.change
    total = math.sqrt(sum(part**2 for part in parts.values()))
    if whole and whole[0] < total:
        return {"what whole rankings leave open": whole[0]}
    return {name: part for name, part in parts.items() if part > 0}


def _basis(members: tuple[str, ...], weights: Floats) -> str:
    """Return the member with the largest share, among those that have weights."""
    known = [
        (abs(float(w)), -j) for j, w in enumerate(weights) if members[j] not in (MODELS, AIMED)
    ]
    return members[-max(known)[1]]


def contrast_of(summary: Summary, decision: Decision) -> Contrast:
    """Return the combination of members against the logged reward, with the allowance for bias."""
    T = 1 + len(summary.members)
    sample = Known(summary.n, summary.units, summary.covariance[:T, :T])
    new = Quantity(
        sample,
        float(decision.weights @ summary.value[1:T]),
        np.concatenate([[0.0], decision.weights]),
        allowance=decision.allowance,
        extra=decision.unknown,
    )
    return Contrast.between(new, Quantity(sample, float(summary.value[0]), np.eye(T)[0]))


def estimate_from(
    state: AutoState, summary: Summary, decision: Decision, workspace: Workspace, flags: tuple[str, ...],
    details: Json,
) -> Estimate:  # fmt: skip
    """Return the estimate with its bias-aware interval."""
    contrast, level, looks = contrast_of(summary, decision), workspace.level, workspace.looks
    value = contrast.value.value
    found = Estimate(
        target=workspace.target,
        estimator="auto",
        value=value,
        stderr=contrast.value.stderr,
        by_position=_positions(summary, decision, value),
        ess=float(state.mean_weight[0] ** 2 / state.mean_weight[1])
        if state.mean_weight[1] > 0
        else 0.0,
        n=state.n,
        level=level,
        lift=Lift.of(contrast, level, looks, _lift_by_position(summary, decision, value)),
        flags=(*flags, *_flags(summary, decision)),
        details={**_details(summary, decision), **details},
        contrast=contrast,
        looks=looks,
        allowance=decision.allowance,
        basis=decision.basis,
        weighted=sum(
            abs(float(w))
            for name, w in zip(summary.members, decision.weights, strict=True)
            if name not in (MODELS, AIMED)
        ),
    )
    reason = _unknown(summary)
    return found.without_evidence(reason) if reason else found


def _unknown(summary: Summary) -> str:
    """Return why the log holds no evidence on the target, or an empty text."""
    if not len(summary.models) and not summary.seen[0]:
        return "no logged ranking has a positive weight under the target"
    if summary.alone > DEFAULTS.reach:
        return (
            f"{in_percent(summary.alone, 0)} of what the target shows was never or hardly ever shown at its "
            "position; a reward model alone would speak for it. Log more exploration, or choose a "
            "target closer to the logger"
        )
    return ""


def _positions(summary: Summary, decision: Decision, value: float) -> tuple[PositionValue, ...]:
    """Return V_k; the difference to the total is spread over positions by their weights.

    Row totals use surprises along click histories, which have no value at a single position.
    """
    alpha, w = summary.alpha, np.concatenate([[0.0], decision.weights])
    values = summary.at @ w
    values = values + (value - float(alpha @ values)) * alpha / max(float(alpha @ alpha), 1e-300)
    errors = np.sqrt(np.maximum(np.einsum("c,kcd,d->k", w, summary.at_covariance, w), 0.0))
    return tuple(PositionValue(float(v), float(e)) for v, e in zip(values, errors, strict=True))


def _lift_by_position(
    summary: Summary, decision: Decision, value: float
) -> tuple[PositionValue, ...]:
    """Return the paired differences to the logger by position."""
    own, paired = (
        _positions(summary, decision, value),
        np.concatenate([[-1.0], decision.weights]),
    )
    spread = np.sqrt(
        np.maximum(np.einsum("c,kcd,d->k", paired, summary.at_covariance, paired), 0.0)
    )
    return tuple(
        PositionValue(one.value - float(r), float(e))
        for one, r, e in zip(own, summary.at[:, 0], spread, strict=True)
    )


def _flags(summary: Summary, decision: Decision) -> tuple[str, ...]:
    found = []
    missing = float(summary.unsupported.max(initial=0.0))
    if missing > 0:
        found.append(
            Message(
                "no-support",
                f"{in_percent(missing)} of the target's rankings hold what the logger never shows "
                "there; the models alone speak for them",
            )
        )
    if summary.alone > DEFAULTS.told:
        found.append(
            Message(
                "model-alone",
                f"{in_percent(summary.alone, 0)} of what the target shows has too little weight in "
                "the log and rests on the reward models alone",
            )
        )
    if decision.allowance > 0:
        parts = ", ".join(f"{name} {part:.2g}" for name, part in decision.parts.items() if part > 0)
        text = f"the interval allows for a bias of {decision.allowance:.3g} ({parts}; docs/auto.md)"
        found.append(Message("bias-allowance", text))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member in the details of an estimate."""

    member: str
    value: float
    stderr: float
    share: float
    tail_inflation: float
    unsupported: float


def _details(summary: Summary, decision: Decision) -> Json:
    J = len(summary.members)
    errors = np.sqrt(np.maximum(np.diag(summary.covariance), 0.0))
    table = [
        MemberRow(
            name,
            float(summary.value[1 + j]),
            float(errors[1 + j]),
            float(decision.weights[j]),
            float(summary.inflation[j]),
            float(summary.unsupported[j]),
        )
        for j, name in enumerate(summary.members)
    ]
    return {
        "members": [asdict(row) for row in table],
        "combination": {row.member: row.share for row in table if abs(row.share) > 1e-9},
        "models": [float(v) for v in summary.value[1 + J :]],
        "interval_base": decision.basis,
        "bias_allowance": decision.allowance,
        "allowance_from": decision.parts,
        "model_alone_share": summary.alone,
        "order_path": _order_path(summary, table),
        "why": _why(decision),
        "steps": [
            {"towards": s.member, "difference": s.difference, "difference_stderr": s.stderr, "share": s.share,
             "allowance": s.bound}
            for s in decision.steps
        ],
    }  # fmt: skip


def _order_path(summary: Summary, table: list[MemberRow]) -> list[dict[str, float]]:
    """Return value and standard error by interaction order; dependent positions have none."""
    K = len(summary.alpha)
    if K > 2 and "order-2" not in summary.members:
        return []
    by_name = {row.member: row for row in table}
    weighed = [name for name in summary.members if name not in (MODELS, AIMED)]
    path = order_path(weighed, K)
    return [
        {"order": m, "value": by_name[name].value, "stderr": by_name[name].stderr}
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
