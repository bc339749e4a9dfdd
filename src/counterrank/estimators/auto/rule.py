"""The rule of `auto`: from means and covariances of its members to a decision.

`decide` is a pure function of means and covariances.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from counterrank.common.arrays import Bools, Floats
from counterrank.common.messages import Message
from counterrank.common.records import Json
from counterrank.common.texts import in_percent
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.weights.ratios import of_others
from counterrank.statistics import bias_aware_half

#: The member that rests on the models alone, and the same with the aimed step (`nuisances.aim`).
MODELS, AIMED = "models", "aimed"
#: The bias that the interval has room for because it stands between the estimate and its centre.
DIFFER = "estimate and centre differ"
#: Distance of estimate and centre, in half-widths, that is a rounding.
ROUNDING = 1e-9
#: Intervals whose lengths differ by a smaller share are about as long.
ALIKE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Means and covariances of the logged reward (entry 0), the members (1..J) and the models (the rest).

    - value (1+J+M,), covariance: by total
    - position_means (K, 1+J): at each position
    - inflation (J,): factor on a member's variance for heavy weights that the log does not show
    - occurred (J,): whether a member has any positive weight
    - unsupported (J,): share of the target's mass that a member's weights cannot reach
    - alone: share of the target that rests on the reward models alone: 1 - mean cut weight of own
      positions, or the share without support where these weights are not known
    - jointly: the same share of the target's threes of neighbouring items, where positions are
      independent: models know effects of two items, and what they lack begins with three
    - volume (K,): the change in clicks at each position; the rest of the change is one in amounts
    - ess: effective rows of the smallest weights
    """

    members: tuple[str, ...]
    n: int
    units: int
    alpha: Floats
    value: Floats
    covariance: Floats
    position_means: Floats
    inflation: Floats
    occurred: Bools
    unsupported: Floats
    alone: float
    jointly: float
    volume: Floats
    ess: float

    @property
    def models(self) -> Floats:
        """The own-position member by each model (M,)."""
        return self.value[1 + len(self.members) :]

    @property
    def change(self) -> float:
        """The absolute change that the first member expects, summed before gains and losses cancel.

        Gains and losses of different positions do not cancel, nor do those of clicks and amounts.
        """
        expected = self.position_means[:, 1] - self.position_means[:, 0]
        return float(np.abs(self.alpha) @ (np.abs(self.volume) + np.abs(expected - self.volume)))


def expected_squares(members: tuple[str, ...], excess: Floats, shown: Bools) -> Floats:
    """Return the members' sums of E[w_k^2 | x] over shown positions (J, n), zero where it is not known.

    With v_k = E[rho_k^2 | x] - 1 (n, K), the `excess` of independent positions, it is
    (1 + v_k) sum_{j<m} e_j(v without k) for order m, because the terms of the expansion are
    uncorrelated, and prod_l (1 + v_l) for whole rankings. A log rarely shows the tails of products of
    many ratios, but it does show those of single ratios.
    """
    v = np.where(shown, excess, 0.0)
    single, pairs = of_others(v)
    with np.errstate(over="ignore"):
        squares = {
            "order-2": (1.0 + v) * (1.0 + single),
            "order-3": (1.0 + v) * (1.0 + single + pairs),
            "ips": (1.0 + v).prod(axis=1, keepdims=True),
        }
        sums = {name: np.where(shown, square, 0.0).sum(axis=1) for name, square in squares.items()}
    return np.array([sums.get(name, np.zeros(len(v))) for name in members])


@dataclass(frozen=True, slots=True)
class MemberStep:
    """A step from the estimate so far towards a member that relies more on the data.

    `difference` is that of the member to the estimate so far, with its `difference_stderr`. The estimate
    moves by `share` of the difference.
    """

    towards: str
    difference: float
    difference_stderr: float
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
    def centred(
        cls, summary: Summary, centre: Floats, parts: dict[str, float], unknown: float = 0.0
    ) -> "Decision":
        """Return the decision whose estimate is the centre; whole rankings know what lists do not."""
        exact_members = [exact(summary, name) for name in summary.members]
        left = unknown * (1.0 - float(centre[exact_members].sum())) ** 2
        return cls(centre, centre, {name: bias for name, bias in parts.items() if bias > 0}, left)

    @property
    def allowance(self) -> float:
        """The bias that the interval has room for: the squares of its sources add."""
        return math.sqrt(sum(bias**2 for bias in self.parts.values()))


def decide(
    summary: Summary,
    allowance: float | None = None,
    unknown: float = 0.0,
    counted: Floats | None = None,
    follows: Decision | None = None,
    doubted: bool = False,
) -> Decision:
    """Return the estimate, the centre of its interval and the bias that the interval allows for.

    The estimate is shrunk, the interval is not. The estimate starts at the first member and moves as far
    as the log speaks for it (`estimated`). The centre starts at the first member that corrects
    the models in the direction of the target, whether that correction is chance or not, and moves only
    where the log contradicts it (`combined`): no shorter interval contains the truth whatever the bias in
    that direction is. It allows for the bias that no correction sees (`allowed`). Weights of whole
    rankings need no allowance: where their interval is shorter, it is the interval.

    Estimate and centre are two estimates of one number. The interval stands midway between them and
    allows for a bias of half their distance, so that it has room on both sides of either.

    `unknown` is the variance of the change that the means of repeated lists leave unknown. `counted`
    (M,), from 0 to 1, is how much each model counts in their disagreement, by default in full. A group of
    rows `follows` the decision of all rows, so that the estimates of groups average to that of all where
    none contradicts it.
    """
    J = len(summary.members)
    first = next((j for j in range(1, J) if summary.occurred[j]), 0)
    modelled = MODELS in summary.members
    weights, steps = estimated(summary, unknown)
    centre, _ = combined(summary, np.eye(J)[first], first + 1, unknown)
    if follows is not None:
        centre, steps = follows.centre, [*follows.steps]
        weights = followed(summary, follows)
    if allowance is None and not modelled:
        # Without models nothing corrects a direction: the interval stays at the estimate.
        centre = weights
        candidates = [Decision.centred(summary, centre, left_open(summary, steps), unknown)]
    elif allowance is None:
        models = summary.models if counted is None else faded(summary.models, counted)
        bias = allowed(summary, first, models, doubted=doubted)
        candidates = [Decision.centred(summary, centre, bias, unknown)]
        candidates += [
            Decision.centred(summary, np.eye(J)[j], allowed(summary, j, models))
            for j in whole_rankings(summary)
        ]
    else:
        candidates = [Decision.centred(summary, centre, {"given": float(allowance)}, unknown)]
    chosen = candidates[0]
    for candidate in candidates[1:]:
        chosen = shorter(summary, chosen, candidate, unknown)
    apart = abs(float((weights - chosen.centre) @ summary.value[1 : 1 + J]))
    parts = chosen.parts
    # Less is rounding: the estimate is the centre.
    if apart > ROUNDING * half_of_lift(summary, chosen):
        parts = parts | {DIFFER: apart / 2}
    return replace(chosen, weights=weights, parts=parts, steps=tuple(steps))


def shorter(summary: Summary, first: Decision, second: Decision, unknown: float) -> Decision:
    """Return the decision with the shorter interval, or one between them where both are about as long.

    Otherwise a small change of the log would move the interval from one centre to the other at once.
    """
    ratio = half_of_lift(summary, first) / max(half_of_lift(summary, second), 1e-300)
    share = min(0.5 + (ratio - 1.0) / (2.0 * ALIKE), 1.0)
    if not share > 0.0:
        return first
    if share == 1.0:
        return second
    parts = {name: (1.0 - share) * bias for name, bias in first.parts.items()}
    for name, bias in second.parts.items():
        parts[name] = parts.get(name, 0.0) + share * bias
    centre = (1.0 - share) * first.centre + share * second.centre
    return Decision.centred(summary, centre, parts, unknown)


def faded(values: Floats, counted: Floats) -> Floats:
    """Return what models say, drawn to their average as far as they do not count, so that none leaves at once.

    >>> faded(np.array([1.0, 3.0, 10.0]), np.array([1.0, 1.0, 0.0])).tolist()
    [1.0, 3.0, 2.0]
    """
    average = np.average(values, weights=counted)
    return np.asarray(average + counted * (values - average))


def followed(summary: Summary, decision: Decision) -> Floats:
    """Return the combination of members for a group of rows, which starts at that of all rows.

    Models do not know the group. Where its own rows contradict the combination, it moves towards the
    centre of the interval by the rule for members.
    """
    J, move = len(summary.members), decision.centre - decision.weights
    d = float(move @ summary.value[1 : 1 + J])
    variance = float(move @ summary.covariance[1 : 1 + J, 1 : 1 + J] @ move)
    return decision.weights + accepted_share(d, math.sqrt(max(variance, 0.0))) * move


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
        unseen = float(summary.unsupported[summary.members.index(step.towards)])
        left = (1 - step.share) * max(abs(step.difference), step.difference_stderr)
        bounds[step.towards] = left + unseen * summary.change
    first = next(iter(bounds.values()), summary.change)
    without_assumption = [bound for member, bound in bounds.items() if exact(summary, member)]
    return {"what the log leaves open": min([first, *without_assumption])}


def whole_rankings(summary: Summary) -> list[int]:
    """Return the members whose weights are those of whole rankings, where they occurred."""
    return [j for j, m in enumerate(summary.members) if summary.occurred[j] and exact(summary, m)]


def combined(
    summary: Summary, weights: Floats, first: int, unknown: float, *, estimate: bool = False
) -> tuple[Floats, list[MemberStep]]:
    """Return the combination of members that evidence supports, from a combination on, and its steps.

    Each member from `first` on relies more on the data and less on the models. Its difference d to the
    combination so far, with standard error s, is evidence on the bias of that combination. A
    difference within two standard errors counts as chance. Beyond, the combination moves by f d with
    f = 1 - (2 s / d)^2, which is nearly all of d where the evidence is strong.

    Whole rankings make no assumption, so that a difference to them is a bias of the combination or chance:
    an `estimate` by models moves to them by the share with the least regret (`adaptive`). Where lists repeat,
    the log gives the variance u of the change that their means do not know. Whole rankings measure
    this change with variance s^2, so f is at least u / (u + s^2) for them.
    """
    steps, regret = [], estimate and MODELS in summary.members
    for j in range(first, len(summary.members)):
        if summary.occurred[j] and j != own_position(summary):
            step, move = step_to(summary, weights, j)
            if exact(summary, step.towards):
                share = adaptive(summary, weights, move) if regret else step.share
                share_known = shrinkage(unknown, step.difference_stderr)
                step = replace(step, share=max(share, share_known))
            steps.append(step)
            weights = weights + step.share * move
    return weights, steps


def estimated(summary: Summary, unknown: float) -> tuple[Floats, list[MemberStep]]:
    """Return the combination of members that is the estimate, and its steps.

    Own-position weights come first. They see the bias that all models share where a target prefers what did
    well, and move the estimate by the share with the least regret (`adaptive`), as whole rankings do in the
    end. The others have an assumption of their own, and move it only where the log contradicts it.
    """
    weights, steps, own_weights = np.eye(len(summary.members))[0], [], own_position(summary)
    if own_weights is not None and summary.occurred[own_weights]:
        step, move = step_to(summary, weights, own_weights)
        steps.append(replace(step, share=adaptive(summary, weights, move)))
        weights = weights + steps[-1].share * move
    weights, further = combined(summary, weights, 1, unknown, estimate=True)
    return weights, [*steps, *further]


def own_position(summary: Summary) -> int | None:
    """Return the member that corrects models by own-position weights; it is blind to the rest of the page."""
    if MODELS not in summary.members or "iips" not in summary.members or exact(summary, "iips"):
        return None
    return summary.members.index("iips")


def step_to(summary: Summary, weights: Floats, j: int) -> tuple[MemberStep, Floats]:
    """Return the step from a combination to a member, taken where the log contradicts it, and its direction.

    The difference is to the combination so far, not to the last member: the combination may already
    contain a part of this member.
    """
    J = len(summary.members)
    move = np.eye(J)[j] - weights
    d = float(move @ summary.value[1 : 1 + J])
    s = math.sqrt(max(float(move @ summary.covariance[1 : 1 + J, 1 : 1 + J] @ move), 0.0))
    return MemberStep(summary.members[j], d, s, accepted_share(d, s)), move


def adaptive(summary: Summary, weights: Floats, move: Floats) -> float:
    """Return the share of a step with the least regret, whatever the bias of the combination so far is.

    The lift so far has variance V; the difference d of the step has variance s^2 and covariance c with it.
    Without a bias the share g = -c / s^2 has the least variance, W. The rest of d is evidence on the
    bias, and is shrunk by a soft threshold (Armstrong, Kline & Sun, "Adapting to misspecification"):
    g + (1 - g) max(0, 1 - lambda s / |d|).
    """
    T = 1 + len(weights)
    lift, step = np.concatenate([[-1.0], weights]), np.concatenate([[0.0], move])
    covariance = summary.covariance[:T, :T]
    d, s2 = float(step @ summary.value[:T]), float(step @ covariance @ step)
    V, c = float(lift @ covariance @ lift), float(lift @ covariance @ step)
    if not s2 > 0.0:
        return float(d != 0.0)
    g = min(max(-c / s2, 0.0), 1.0)
    least, corrected = V + 2 * g * c + g**2 * s2, V + 2 * c + s2
    limit = threshold(least / corrected if corrected > 0.0 else 1.0) * math.sqrt(s2)
    return g + (1.0 - g) * max(0.0, 1.0 - limit / abs(d)) if d else g


def threshold(ratio: float) -> float:
    """Return lambda, the soft threshold in standard errors, from W over the variance of the corrected lift.

    With that ratio w, lambda minimises the largest (w + (1 - w) r(b)) / (w + (1 - w) b^2 / (1 + b^2)) over
    the bias b in standard errors: r(b) is the risk of the threshold, the other that of the best linear
    rule that knows b. The regret of this line is within a tenth of the least.

    >>> round(threshold(0.1), 2), round(threshold(1.0), 2)
    (1.09, 0.56)
    """
    return 0.56 - 0.23 * math.log(min(max(ratio, 0.01), 1.0))


def accepted_share(difference: float, stderr: float) -> float:
    """Return the share of a difference by which the estimate moves: none within two standard errors.

    >>> accepted_share(1.0, 0.5), accepted_share(1.0, 0.25), accepted_share(0.0, 0.0)
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


def allowed(
    summary: Summary, first: int, models: Floats, *, doubted: bool = False
) -> dict[str, float]:
    """Return the sources of a bias that no correction sees; their squares add.

    `first` is the member that corrects the start. Where there is none, all of the expected change may
    be wrong. Where models are `doubted`, the interval already contains what the log does not show of
    their change, as a variance.
    """
    if exact(summary, summary.members[first]):
        # Of what the logger never shows nothing was measured.
        return {"never shown": float(summary.unsupported[first]) * summary.change}
    parts = {"nothing corrects the start": 0.0 if first else summary.change}
    if len(models):
        parts["models disagree"] = float(np.ptp(models)) / 2
        # Where the logger shows nothing, the change that the models expect may be entirely wrong.
        if not doubted:
            alone = max(summary.alone, summary.jointly)
            parts["rests on the models alone"] = alone * summary.change
    return parts


def basis_of(summary: Summary, decision: Decision) -> str:
    """Return the member whose weights judge the interval: that with the largest share in its centre.

    Models have the smallest weights, those of single items, which say how far the log reaches.
    """
    weights = [j for j, name in enumerate(summary.members) if name not in (MODELS, AIMED)]
    shares = np.abs(decision.centre)
    share = shares[weights]
    share[0] += shares.sum() - share.sum()
    return summary.members[weights[int(share.argmax())]]


def half_of_lift(summary: Summary, decision: Decision, level: float = 0.95) -> float:
    """Return half the length of the interval that a decision makes of the lift over the logger."""
    lift = np.concatenate([[-1.0], decision.centre])
    T = len(lift)
    variance = float(lift @ summary.covariance[:T, :T] @ lift) + decision.unknown
    df = max(summary.units - 1, 1)
    return bias_aware_half(math.sqrt(max(variance, 0.0)), decision.allowance, level, df)


def without_evidence(summary: Summary) -> str:
    """Return why the log holds no evidence on the target, or an empty text."""
    if not len(summary.models) and not summary.occurred[0]:
        return "no logged ranking has a positive weight under the target"
    if summary.alone > DEFAULTS.max_model_share:
        return (
            f"{in_percent(summary.alone, 0)} of what the target shows was never or hardly ever shown at its "
            "position; a reward model alone would speak for it. Log more exploration, or choose a "
            "target closer to the logger"
        )
    return ""


def flags_of(summary: Summary, decision: Decision) -> tuple[str, ...]:
    """Return warnings about what the log does not show, and what the interval allows for."""
    flags = []
    missing = float(summary.unsupported.max(initial=0.0))
    if missing > 0:
        flags.append(
            Message(
                "no-support",
                f"{in_percent(missing)} of the target's rankings hold what the logger never shows "
                "there; the models alone speak for them",
            )
        )
    if summary.alone > DEFAULTS.flag_model_share:
        flags.append(
            Message(
                "model-alone",
                f"{in_percent(summary.alone, 0)} of what the target shows has too little weight in "
                "the log and rests on the reward models alone",
            )
        )
    if any(bias > 0 for name, bias in decision.parts.items() if name != DIFFER):
        parts = ", ".join(f"{name} {bias:.2g}" for name, bias in decision.parts.items() if bias > 0)
        text = f"the interval allows for a bias of {decision.allowance:.3g} ({parts}; docs/explanation/auto.md)"
        flags.append(Message("bias-allowance", text))
    return tuple(flags)


def details_of(summary: Summary, decision: Decision) -> Json:
    """Return members, models and steps of a decision, for people."""
    J, names = len(summary.members), summary.members
    errors = np.sqrt(np.maximum(np.diag(summary.covariance), 0.0))
    columns = {
        "value": summary.value[1:],
        "stderr": errors[1:],
        "share": decision.weights,
        "tail_inflation": summary.inflation,
        "unsupported": summary.unsupported,
    }
    return {
        "members": [
            {"member": name, **{key: float(column[j]) for key, column in columns.items()}}
            for j, name in enumerate(names)
        ],
        "models": summary.value[1 + J :].tolist(),
        "centre": {name: float(w) for name, w in zip(names, decision.centre, strict=True) if w},
        "bias_allowance": decision.allowance,
        "allowance_from": decision.parts,
        "model_alone_share": summary.alone,
        "why": _why(decision, basis_of(summary, decision)),
        "steps": [asdict(step) for step in decision.steps],
    }


def _why(decision: Decision, basis: str) -> str:
    moved = [
        f"{step.towards} ({in_percent(step.share, 0)})"
        for step in decision.steps
        if step.share >= 0.005
    ]
    way = "moved towards " + ", then ".join(moved) if moved else "no correction was needed"
    return f"{way}; the interval uses the weights of '{basis}' and allows for a bias of {decision.allowance:.3g}"
