"""The rule of `auto`: sums over rows, the means and covariances that follow, the decision, the `Estimate`.

`decide` is a pure function of means and covariances.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from counterrank.arrays import Bools, Floats, Summed
from counterrank.errors import EstimatorError
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.auto.nuisances import correction
from counterrank.estimators.base import Estimate, PositionValue, Workspace
from counterrank.estimators.weights.ratios import of_others
from counterrank.messages import Message
from counterrank.records import Json
from counterrank.statistics import Contrast, Known, Quantity, Sums, jackknife, spread
from counterrank.texts import in_percent

#: The member that rests on the models alone, and the same with the aimed step (`nuisances.aim`).
MODELS, AIMED = "models", "aimed"


@dataclass(frozen=True, slots=True, eq=False)
class AutoState(Summed):
    """Additive statistics of J members, M models, A terms of the aimed step and H controls.

    - first (K, 1+J), second (K, 1+J, 1+J): sums and products, at each position, of the reward and the
      members' contributions
    - sums: those of T row totals: the logged reward, J members, the own-position member by each of M
      models, A terms of the aimed step (`aim`), H controls of mean zero
    - mixed (K, 1+J, H): products of contributions at each position with controls
    - square (J,): sums of squared weights over positions
    - covered (2, 2): sums and numbers of cut weights, of single items and of three neighbours
    - tails (2, J), tail_rows: expected squares of weights, and the target's mass that weights do not
      reach, as they follow from the policies, summed over some rows
    - ratio (K,): sums of rho_k^2, where positions are independent
    - folds (F, J), fold_rows: members' totals by the fit without each fold, on some rows
    - mean_weight (2,): sum and sum of squares of the rows' mean weight
    - volume (K,): the part of the expected change at each position that is a change in clicks, where
      rewards are amounts
    """

    first: Floats
    second: Floats
    sums: Sums
    mixed: Floats
    square: Floats
    covered: Floats
    tails: Floats
    tail_rows: int
    ratio: Floats
    folds: Floats
    fold_rows: int
    mean_weight: Floats
    volume: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Means and covariances of the logged reward (entry 0), the members (1..J) and the models (the rest).

    - value (1+J+M,), covariance: by total
    - at (K, 1+J), at_covariance (K, 1+J, 1+J): at each position
    - inflation (J,): factor on a member's variance for heavy weights that the log does not show
    - seen (J,): whether a member has any positive weight
    - unsupported (J,): share of the target's mass that a member's weights cannot reach
    - alone: share of the target that rests on the reward models alone: 1 - mean cut weight of own
      positions, or the share without support where these weights are not known
    - jointly: the same share of the target's threes of neighbouring items, where positions are
      independent: models know effects of two items, and what they lack begins with three
    - terms (J, C): each member as a combination of the row totals of a `Part`, controls last
    - volume (K,): the change in clicks at each position; the rest of the change is one in amounts
    - ess: effective rows of the smallest weights
    """

    members: tuple[str, ...]
    n: int
    units: int
    alpha: Floats
    value: Floats
    covariance: Floats
    at: Floats
    at_covariance: Floats
    inflation: Floats
    seen: Bools
    unsupported: Floats
    alone: float
    jointly: float
    terms: Floats
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
        whole = self.at[:, 1] - self.at[:, 0]
        return float(np.abs(self.alpha) @ (np.abs(self.volume) + np.abs(whole - self.volume)))


def summarise(
    state: AutoState,
    members: tuple[str, ...],
    alpha: Floats,
    *,
    modelled: bool,
    aims: int = 0,
    like: Summary | None = None,
) -> Summary:
    """Return means and covariances, clustered by unit, of positions with weights alpha (K,).

    Among the totals are `aims` terms of the aimed step, which is that of `like` where given: the summary
    of all rows where this is one of a group of them.

    Controls are regressed out. Variances are inflated for heavy weights that the log does not show, and
    contain the error of the fitted models (delete-a-fold jackknife).
    """
    if not (np.isfinite(state.sums.products).all() and np.isfinite(state.second).all()):
        raise EstimatorError(
            "'auto' overflows: squares of its contributions are no numbers any more. Look for "
            "logging propensities near zero or rewards of enormous size"
        )
    n, units, J = state.sums.n, state.sums.units, len(members)
    at, value = state.first / n, state.sums.total / n
    on_controls = np.zeros((len(value), 0))
    by_row = spread(state.sums.products / n, np.outer(value, value), n) / n
    at_covariance = spread(state.second / n, at[:, :, None] * at[:, None, :], n) / n
    covariance = state.sums.covariance(np.eye(len(value))) if units > 1 else by_row
    if state.mixed.shape[2]:
        at, at_covariance, through = _controlled(state, at, at_covariance, by_row * max(n - 1, 1))
        value, on_controls = through @ value, through[:, len(through) :]
        by_row, covariance = through @ by_row @ through.T, through @ covariance @ through.T
    if units != n:
        # Sums by unit exist for totals only: variances by position are multiplied by their design effect.
        effect = np.maximum(np.diag(covariance), 0.0) / np.maximum(np.diag(by_row), 1e-300)
        # A design effect is at most n; a larger one is a rounding error of a variance of zero.
        factor = np.sqrt(np.minimum(effect, 2.0 * n))[: 1 + J]
        at_covariance = at_covariance * np.outer(factor, factor)
    seen = state.square > 0
    known, unsupported = state.tails / max(state.tail_rows, 1)
    if not state.tail_rows:
        excess = np.maximum(state.ratio / n - 1.0, 0.0)[None]
        known = squares_of(members, excess, np.ones(excess.shape, dtype=bool))
    # E_0[w^2] follows from the policies. Where the mean square in the log is smaller, the rankings that
    # dominate the variance have not occurred. The factor is cut at 1e100, so that products stay finite.
    known = np.minimum(known, 1e300)
    logged = np.where(seen, np.maximum(state.square / n, 1e-100 * known), np.inf)
    inflation = np.maximum(1.0, known / logged)
    # The covariance of two members has the geometric mean of their factors, which keeps it positive.
    root = np.sqrt(np.concatenate([[1.0], inflation, np.ones(len(value) - 1 - J)]))
    covariance = covariance * np.outer(root, root)
    at_covariance = at_covariance * np.outer(root[: 1 + J], root[: 1 + J])
    if state.fold_rows and len(state.folds) > 1:
        by_fold = state.folds / state.fold_rows
        covariance[1 : 1 + J, 1 : 1 + J] += jackknife(by_fold)
    # Whole weights have a mean of one: what cut weights lack of it is not covered.
    weight, count = state.covered.T
    alone, jointly = np.maximum(1.0 - weight / np.maximum(count, 1e-300), 0.0) * (
        modelled & (count > 0)
    )
    if modelled and not count[0]:
        alone = unsupported.max(initial=0.0)
    total, square = state.mean_weight
    found = Summary(
        members, n, units, alpha, value, covariance, at, at_covariance, inflation, seen, unsupported,
        float(alone), float(jointly), np.eye(J), state.volume / n,
        float(total**2 / square) if square > 0 else 0.0,
    )  # fmt: skip
    found = _with_aim(found, aims, like) if aims else found
    rows = np.concatenate([on_controls[1 : 1 + J], on_controls[len(on_controls) - aims :]])
    return replace(found, terms=np.hstack([found.terms, found.terms @ rows]))


def _with_aim(summary: Summary, aims: int, like: Summary | None) -> Summary:
    """Return the summary with the aimed member after the models, made from the terms of the step."""
    J, T = len(summary.members), len(summary.value)
    terms = T - aims
    coefficients = (
        correction(summary.value[terms:]) if like is None else like.terms[1, J : J + aims]
    )
    # Totals: logged reward, models, aimed = models + correction, the other members, each model.
    aimed = np.concatenate([np.eye(terms)[1], coefficients])
    through = np.insert(np.eye(terms, T), 2, aimed, axis=0)
    # At each position the aimed member equals that of the models: its correction is of the page.
    places = np.insert(np.arange(1 + J), 2, 1)
    again = places[1:] - 1
    own = np.concatenate([np.eye(J)[0], coefficients])
    return replace(
        summary,
        members=(MODELS, AIMED, *summary.members[1:]),
        value=through @ summary.value,
        covariance=through @ summary.covariance @ through.T,
        at=summary.at[:, places],
        at_covariance=summary.at_covariance[:, places][:, :, places],
        inflation=summary.inflation[again],
        # Equal log ratios tell nothing: the step is not there.
        seen=np.insert(summary.seen, 1, coefficients.any()),
        unsupported=summary.unsupported[again],
        terms=np.insert(np.eye(J, J + aims), 1, own, axis=0),
    )


def _controlled(
    state: AutoState, at: Floats, at_covariance: Floats, covariance: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return means and covariances by position with controls h regressed out, and the same map for totals.

    beta = Cov(h)^-1 Cov(h, y) is fitted on the same rows (a bias of order H/n); `covariance` is
    that of the totals.
    """
    n, H = state.sums.n, state.mixed.shape[2]
    T = len(state.sums.total) - H
    centre, of_h = state.sums.total[T:] / n, covariance[T:, T:]
    mixed = state.mixed / n - at[:, :, None] * centre  # (K, 1+J, H)
    # Controls may be collinear (weights of the same ratios), and their smallest eigenvalues noise.
    inverse = np.linalg.pinv(of_h, rcond=1e-9, hermitian=True)
    beta = mixed @ inverse
    # The logged reward is not an estimate and stays as it is.
    beta[:, 0] = 0.0
    cross = mixed @ beta.swapaxes(1, 2) / n
    explained = beta @ of_h @ beta.swapaxes(1, 2) / n
    through = np.eye(T, T + H)
    through[1:, T:] = -covariance[1:T, T:] @ inverse
    return at - beta @ centre, at_covariance - cross - cross.swapaxes(1, 2) + explained, through


def squares_of(members: tuple[str, ...], excess: Floats, shown: Bools) -> Floats:
    """Return the members' sums of E[w_k^2 | x] over rows and shown positions (J,), zero where it is not known.

    With v_k = E[rho_k^2 | x] - 1 (n, K), the `excess` of independent positions, it is
    (1 + v_k) sum_{j<m} e_j(v without k) for order m, because the terms of the expansion are
    uncorrelated, and prod_l (1 + v_l) for whole rankings. A log rarely shows the tails of products of
    many ratios, but it does show those of single ratios.
    """
    v = np.where(shown, excess, 0.0)
    one, two = of_others(v)
    with np.errstate(over="ignore"):
        known = {
            "order-2": (1.0 + v) * (1.0 + one),
            "order-3": (1.0 + v) * (1.0 + one + two),
            "ips": (1.0 + v).prod(axis=1, keepdims=True),
        }
        sums = {name: float(np.where(shown, each, 0.0).sum()) for name, each in known.items()}
    return np.array([sums.get(name, 0.0) for name in members])


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
    counted: Bools | None = None,
    follows: Decision | None = None,
    doubted: bool = False,
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
        bias = allowed(summary, first, models, doubted=doubted)
        found = [Decision.at(summary, centre, bias, unknown)]
        found += [
            Decision.at(summary, np.eye(J)[j], allowed(summary, j, models)) for j in _whole(summary)
        ]
    else:
        found = [Decision.at(summary, centre, {"given": float(allowance)}, unknown)]
    widths = [contrast_of(summary, one).lift.number(0.95).width for one in found]
    half, chosen = min(widths) / 2, found[int(np.argmin(widths))]
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
        unseen = float(summary.unsupported[summary.members.index(step.towards)])
        left = (1 - step.share) * max(abs(step.difference), step.difference_stderr)
        bounds[step.towards] = left + unseen * summary.change
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
    summary: Summary,
    decision: Decision,
    workspace: Workspace,
    flags: tuple[str, ...],
    details: Json,
) -> Estimate:
    """Return the estimate with its bias-aware interval."""
    found = workspace.estimate(
        "auto",
        contrast_of(summary, decision),
        _positions(summary, decision, lift=False),
        _positions(summary, decision, lift=True),
        ess=summary.ess,
        n=summary.n,
        flags=(*flags, *_flags(summary, decision)),
        details={**_details(summary, decision), **details},
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
        "why": _why(decision, _basis(summary, decision)),
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
