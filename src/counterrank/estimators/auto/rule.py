"""The rule of `auto`: a pure function of means and covariances, and the `Estimate` that it makes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    `share` of the difference.
    """

    member: str
    difference: float
    stderr: float
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The estimate and the centre of its interval: combinations of members (J,).

    The interval has the error of the centre, `unknown` is a variance beside that of the members.
    `parts` are the sources of the bias that it has room for. `steps` are those of the estimate.
    """

    weights: Floats
    centre: Floats
    parts: dict[str, float]
    unknown: float = 0.0
    steps: tuple[MemberStep, ...] = ()

    @classmethod
    def at(
        cls, summary: Summary, centre: Floats, parts: dict[str, float], unknown: float = 0.0
    ) -> "Decision":
        """Return the decision whose estimate is the centre; whole rankings know what lists do not."""
        known = [exact(summary, name) for name in summary.members]
        left = unknown * (1.0 - float(centre[known].sum())) ** 2
        return cls(centre, centre, {name: part for name, part in parts.items() if part > 0}, left)

    @property
    def allowance(self) -> float:
        """The bias that the interval has room for: the squares of its sources add."""
        return math.sqrt(sum(part**2 for part in self.parts.values()))


def decide(
    summary: Summary,
    allowance: float | None = None,
    unknown: float = 0.0,
    counted: NDArray[np.bool_] | None = None,
    follows: Decision | None = None,
) -> Decision:
    """Return the estimate, the centre of its interval and the bias that the interval allows for.

    The estimate is shrunk, the interval is not. The estimate starts at the first member and moves only
    where the log contradicts it (`moved`), because most differences are chance. The interval starts at
    the first member that corrects the models in the direction of the target, whether that correction is
    chance or not, and goes on by the same steps: no shorter interval contains the truth whatever the
    bias in that direction is. It allows for the bias that no correction sees (`allowed`). Weights of
    whole rankings need no allowance: where their interval is shorter, it is the interval.

    `unknown` is the variance of the change that the means of repeated lists leave unknown. `counted`
    (M,) are the models whose disagreement counts, by default all. A group of rows `follows` the
    decision of all rows, so that the estimates of groups average to that of all.
    """
    J = len(summary.members)
    first = next((j for j in range(1, J) if summary.seen[j]), 0)
    weights, steps = moved(summary, 0, unknown)
    centre, _ = moved(summary, first, unknown)
    if follows is not None:
        weights, centre, steps = follows.weights, follows.centre, [*follows.steps]
    if allowance is None and MODELS not in summary.members:
        # Without models nothing corrects a direction: the interval stays at the estimate.
        centre = weights
        found = [Decision.at(summary, centre, left_open(summary, steps), unknown)]
    elif allowance is None:
        models = summary.models if counted is None else summary.models[counted]
        found = [Decision.at(summary, centre, allowed(summary, first, models), unknown)]
        found += [
            Decision.at(summary, np.eye(J)[j], allowed(summary, j, models)) for j in _whole(summary)
        ]
    else:
        found = [Decision.at(summary, centre, {"given": float(allowance)}, unknown)]
    halves = [contrast_of(summary, one).lift.half(0.95) for one in found]
    half, chosen = min(halves), found[int(np.argmin(halves))]
    # An estimate beyond the end of its interval goes back to the end.
    away = weights - chosen.centre
    gap = abs(float(away @ summary.value[1 : 1 + J]))
    inside = min(1.0, half / gap) if gap > 0.0 else 1.0
    return replace(chosen, weights=chosen.centre + inside * away, steps=tuple(steps))


def left_open(summary: Summary, steps: Sequence[MemberStep]) -> dict[str, float]:
    """Return the bias that members with fewer assumptions leave possible, where there are no models.

    The part of a difference that was not taken, or its standard error where that is larger: the log
    could not have shown a smaller bias. Whole rankings make no assumption, so what they leave possible
    bounds the total.
    """
    if exact(summary, summary.members[0]):
        return {}
    bounds = {}
    for step in steps:
        unseen = float(summary.unsupported[summary.members.index(step.member)])
        left = (1 - step.share) * max(abs(step.difference), step.stderr)
        bounds[step.member] = left + unseen * summary.change
    first = next(iter(bounds.values()), summary.change)
    whole = [bound for member, bound in bounds.items() if exact(summary, member)]
    return {"what the log leaves open": min([first, *whole])}


def _whole(summary: Summary) -> list[int]:
    """Return the members whose weights are those of whole rankings, where they occurred."""
    return [j for j, m in enumerate(summary.members) if summary.seen[j] and exact(summary, m)]


def moved(summary: Summary, start: int, unknown: float) -> tuple[Floats, list[MemberStep]]:
    """Return the combination of members that evidence supports, from a member on, and its steps.

    Each further member relies more on the data and less on the models. Its difference d to the
    combination so far, with standard error s, is evidence on the bias of that combination. A
    difference within two standard errors counts as chance. Beyond, the combination moves by f d with
    f = 1 - (2 s / d)^2, which is nearly all of d where the evidence is strong.

    Where lists repeat, the log gives the variance u of the change that their means do not know.
    Whole rankings measure this change with variance s^2, so f is at least u / (u + s^2) for them.
    """
    J = len(summary.members)
    weights, steps = np.eye(J)[start], []
    for j in range(start + 1, J):
        # Own-position weights depend on the own item only; models depend on the rest of the page too.
        blind = MODELS in summary.members and summary.members[j] == "iips"
        whole = exact(summary, summary.members[j])
        if (blind and not whole) or not summary.seen[j]:
            continue
        # The difference to the combination so far, not to the last member: the combination may already
        # contain a part of this member.
        move = np.eye(J)[j] - weights
        d = float(move @ summary.value[1 : 1 + J])
        s = math.sqrt(max(float(move @ summary.covariance[1 : 1 + J, 1 : 1 + J] @ move), 0.0))
        share = max(taken(d, s), shrinkage(unknown, s) if whole else 0.0)
        steps.append(MemberStep(summary.members[j], d, s, share))
        weights = weights + share * move
    return weights, steps


def taken(difference: float, stderr: float) -> float:
    """Return the share of a difference by which the estimate moves: none within two standard errors.

    >>> taken(1.0, 0.5), taken(1.0, 0.25), taken(0.0, 0.0)
    (0.0, 0.75, 0.0)
    """
    limit = DEFAULTS.chance * stderr
    return 1.0 - (limit / difference) ** 2 if abs(difference) > limit else 0.0


def shrinkage(variance: float, stderr: float) -> float:
    """Return the shrinkage of a measurement with this prior variance and standard error.

    >>> shrinkage(3.0, 1.0), shrinkage(0.0, 0.0)
    (0.75, 0.0)
    """
    return variance / (variance + stderr**2) if variance > 0.0 else 0.0


def exact(summary: Summary, member: str) -> bool:
    """Return whether a member's weights are those of whole rankings, which make no assumption."""
    return member == "ips" or (member == "iips" and len(summary.alpha) == 1)


def allowed(summary: Summary, first: int, models: Floats) -> dict[str, float]:
    """Return the sources of a bias that no correction sees; their squares add.

    `first` is the member that corrects the start. Where there is none, all of the expected change may
    be wrong.
    """
    if exact(summary, summary.members[first]):
        # Of what the logger never shows nothing was measured.
        return {"never shown": float(summary.unsupported[first]) * summary.change}
    parts = {"nothing corrects the start": 0.0 if first else summary.change}
    if len(models):
        parts["models disagree"] = float(np.ptp(models)) / 2
        # Where the logger shows nothing, the change that the models expect may be entirely wrong.
        parts["rests on the models alone"] = max(summary.alone, summary.jointly) * summary.change
    return parts


def _basis(summary: Summary, decision: Decision) -> str:
    """Return the member with the largest share in the interval's centre, among those with weights."""
    known = [
        (abs(float(w)), -j)
        for j, w in enumerate(decision.centre)
        if summary.members[j] not in (MODELS, AIMED)
    ]
    return summary.members[-max(known)[1]]


def contrast_of(summary: Summary, decision: Decision) -> Contrast:
    """Return the estimate against the logged reward, with the interval that the decision makes."""
    T = 1 + len(summary.members)
    sample = Known(summary.n, summary.units, summary.covariance[:T, :T])
    value, centre = (float(w @ summary.value[1:T]) for w in (decision.weights, decision.centre))
    new = Quantity(
        sample,
        value,
        np.concatenate([[0.0], decision.centre]),
        allowance=decision.allowance,
        extra=decision.unknown,
        shift=centre - value,
    )
    return Contrast.between(new, Quantity(sample, float(summary.value[0]), np.eye(T)[0]))


def estimate_from(
    state: AutoState, summary: Summary, decision: Decision, workspace: Workspace, flags: tuple[str, ...],
    details: Json,
) -> Estimate:  # fmt: skip
    """Return the estimate with its bias-aware interval."""
    contrast, level, looks = contrast_of(summary, decision), workspace.level, workspace.looks
    found = Estimate(
        target=workspace.target,
        estimator="auto",
        value=contrast.value.value,
        stderr=contrast.value.stderr,
        by_position=_positions(summary, decision, lift=False),
        ess=float(state.mean_weight[0] ** 2 / state.mean_weight[1])
        if state.mean_weight[1] > 0
        else 0.0,
        n=state.n,
        level=level,
        lift=Lift.of(contrast, level, looks, _positions(summary, decision, lift=True)),
        flags=(*flags, *_flags(summary, decision)),
        details={**_details(summary, decision), **details},
        contrast=contrast,
        looks=looks,
        allowance=decision.allowance,
        basis=_basis(summary, decision),
        weighted=sum(
            abs(float(w))
            for name, w in zip(summary.members, decision.centre, strict=True)
            if name not in (MODELS, AIMED)
        ),
        # Weights of whole rankings have no models to rest on.
        unreached=0.0
        if any(decision.centre[j] == 1.0 for j in _whole(summary))
        else max(summary.alone, summary.jointly),
    )
    reason = _unknown(summary)
    return found.without_evidence(reason) if reason else found


def _unknown(summary: Summary) -> str:
    """Return why the log holds no evidence on the target, or an empty text."""
    if not len(summary.models) and not summary.seen[0]:
        return "no logged ranking has a positive weight under the target"
    if summary.alone > DEFAULTS.max_model_share:
        return (
            f"{in_percent(summary.alone, 0)} of what the target shows was never or hardly ever shown at its "
            "position; a reward model alone would speak for it. Log more exploration, or choose a "
            "target closer to the logger"
        )
    return ""


def _positions(summary: Summary, decision: Decision, *, lift: bool) -> tuple[PositionValue, ...]:
    """Return V_k, or its difference to the logger's; what is of the page is spread over positions.

    Row totals use surprises along click histories, and the aimed step corrects the page: neither has a
    value at a single position. Shares of the positions are in proportion to their weights, and so is
    the error of the aimed step.
    """
    alpha, away = summary.alpha, -1.0 if lift else 0.0
    share = alpha / max(float(alpha @ alpha), 1e-300)
    own = summary.at[:, 1:] @ decision.weights
    rest = float(decision.weights @ summary.value[1 : len(decision.weights) + 1]) - float(
        alpha @ own
    )
    values = own + rest * share + away * summary.at[:, 0]
    w = np.concatenate([[away], decision.centre])
    variance = np.einsum("c,kcd,d->k", w, summary.at_covariance, w) + share**2 * _aimed(summary, w)
    return PositionValue.each(values, variance)


def _aimed(summary: Summary, combination: Floats) -> float:
    """Return the variance that the aimed step adds to the page in a combination (1+J,)."""
    if AIMED not in summary.members:
        return 0.0
    step = np.zeros(1 + len(summary.members))
    step[[1, 2]] = combination[2] * np.array([-1.0, 1.0])
    return float(step @ summary.covariance[: len(step), : len(step)] @ step)


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
    if summary.alone > DEFAULTS.flag_model_share:
        found.append(
            Message(
                "model-alone",
                f"{in_percent(summary.alone, 0)} of what the target shows has too little weight in "
                "the log and rests on the reward models alone",
            )
        )
    if decision.allowance > 0:
        parts = ", ".join(f"{name} {part:.2g}" for name, part in decision.parts.items() if part > 0)
        text = f"the interval allows for a bias of {decision.allowance:.3g} ({parts}; docs/explanation/auto.md)"
        found.append(Message("bias-allowance", text))
    return tuple(found)


def _details(summary: Summary, decision: Decision) -> Json:
    J, basis = len(summary.members), _basis(summary, decision)
    errors = np.sqrt(np.maximum(np.diag(summary.covariance), 0.0))
    table: list[Json] = [
        {
            "member": name,
            "value": float(summary.value[1 + j]),
            "stderr": float(errors[1 + j]),
            "share": float(decision.weights[j]),
            "tail_inflation": float(summary.inflation[j]),
            "unsupported": float(summary.unsupported[j]),
        }
        for j, name in enumerate(summary.members)
    ]
    return {
        "members": table,
        "combination": {row["member"]: row["share"] for row in table if abs(row["share"]) > 1e-9},
        "models": [float(v) for v in summary.value[1 + J :]],
        "interval_base": basis,
        "centre": {n: float(w) for n, w in zip(summary.members, decision.centre, strict=True) if w},
        "bias_allowance": decision.allowance,
        "allowance_from": decision.parts,
        "model_alone_share": summary.alone,
        "order_path": _order_path(summary, table),
        "why": _why(decision, basis),
        "steps": [
            {"towards": s.member, "difference": s.difference, "difference_stderr": s.stderr, "share": s.share}
            for s in decision.steps
        ],
    }  # fmt: skip


def _order_path(summary: Summary, table: list[Json]) -> list[Json]:
    """Return value and standard error by interaction order; dependent positions have none."""
    K, by_name = len(summary.alpha), {row["member"]: row for row in table}
    if K > 2 and "order-2" not in by_name:
        return []
    path = order_path(by_name.keys() - {MODELS, AIMED}, K)
    return [
        {"order": m, **{key: by_name[name][key] for key in ("value", "stderr")}} for m, name in path
    ]


def _why(decision: Decision, basis: str) -> str:
    moved = [
        f"{step.member} ({in_percent(step.share, 0)})"
        for step in decision.steps
        if step.share >= 0.005
    ]
    way = "moved towards " + ", then ".join(moved) if moved else "no correction was needed"
    return f"{way}; the interval uses the weights of '{basis}' and allows for a bias of {decision.allowance:.3g}"
