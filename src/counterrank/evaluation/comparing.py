"""Estimates beside each other: those that assume less, and those of other targets on the same rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from counterrank.estimators import Estimate, order_path, parse
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.tables import Comparison, OrderPoint
from counterrank.evaluation.totals import Pairing
from counterrank.statistics import ONCE, Looks, Quantity, holm, two_sided
from counterrank.weights.diagnostics import mean_weight_test, tail_index
from counterrank.weights.thresholds import SIGNIFICANT, THRESHOLDS


@dataclass(frozen=True, slots=True)
class Rival:
    """An estimate of the same value that assumes less, and how far the recommended one is from it."""

    name: str
    difference: float
    stderr: float
    #: Its own weights are good enough for the difference to mean something.
    usable: bool


def weighed_like(chosen: Estimate, found: Sequence[Estimate]) -> int | None:
    """Return the index of the plain estimate with the weights behind the chosen one, or None when it was not run."""
    length, basis = len(chosen.by_position), parse(chosen.basis)
    for index, one in enumerate(found):
        name = parse(one.estimator)
        order = name.interactions(length)
        if one.target == chosen.target and one.moments is not None:
            same = name.assumption == basis.assumption
            if same or (order is not None and order == basis.interactions(length)):
                return index
    return None


def rivals(
    chosen: Estimate, found: Sequence[Estimate], jobs: Sequence[Job], pairs: Pairing
) -> list[Rival]:
    """Return the plain estimates of the same target that assume less than the chosen one.

    One whose own assumption is contradicted, by a usable estimate that assumes still less, is no
    judge of others: where people do not read from the top, RIPS is wrong, and its difference to
    anything says nothing.
    """
    length = len(chosen.by_position)
    every = [one for one in zip(jobs, found, strict=True) if one[0].target == chosen.target]
    own = next(one for one in every if one[0].name == chosen.estimator)
    # Self-normalised whole rankings assume as little as IPS, and are often far more precise.
    plain = [
        one
        for one in every
        if one is not own and (parse(one[0].name).plain or one[0].name == "snips")
    ]

    def assuming_less(name: str) -> list[tuple[Job, Estimate]]:
        return [one for one in plain if parse(one[0].name).assumes_less(parse(name), length)]

    def contradicted(one: tuple[Job, Estimate]) -> bool:
        stricter = (other for other in assuming_less(one[0].name) if usable(other[1]))
        apart = (_difference(*one, *other, pairs) for other in stricter)
        return any(two_sided(away.value, away.stderr) < SIGNIFICANT for away in apart)

    made = []
    for one in assuming_less(chosen.basis):
        away = _difference(*own, *one, pairs)
        judges = usable(one[1]) and not contradicted(one)
        # An interval is contradicted by what is far from its centre.
        made.append(Rival(one[0].name, away.value + away.shift, away.stderr, judges))
    return made


def _difference(job: Job, one: Estimate, other: Job, two: Estimate, pairs: Pairing) -> Quantity:
    return pairs.by_rows(job, one) - pairs.by_rows(other, two)


def usable(estimate: Estimate) -> bool:
    """Return whether an estimate's weights are good enough to test others against it.

    Beyond the reliable tail index the variance is not to be believed, and a difference in standard
    errors says nothing.
    """
    good = estimate.ess >= THRESHOLDS["ess"].directional
    if estimate.moments is None:
        return good
    # Rivals judge others, so they have to be beyond doubt themselves.
    calm = tail_index(estimate.moments) <= THRESHOLDS["tail"].reliable
    return good and calm and mean_weight_test(estimate.moments).p_value > SIGNIFICANT


def path_of(target: str, found: Sequence[Estimate]) -> tuple[OrderPoint, ...]:
    """Return the estimates from interaction order 1 (IIPS) to K (IPS) that were made, in that order."""
    own = {one.estimator: one for one in found if one.target == target}
    length = max((len(one.by_position) for one in own.values()), default=0)
    return tuple(
        OrderPoint(
            one.value, one.stderr, one.low, one.high, order=order, ess=one.ess, estimator=name
        )
        for order, name in order_path(own, length)
        for one in (own[name],)
    )


def compare(
    jobs: Sequence[Job],
    estimates: Sequence[Estimate],
    pairs: Pairing,
    recommended: Mapping[str, str],
    level: float,
    looks: Looks = ONCE,
) -> tuple[Comparison, ...]:
    """Return a row for each pair of targets: difference of their recommended estimates on the same rows.

    Intervals are Bonferroni-adjusted over the pairs, p-values by Holm (1979). What the estimates
    allow for bias is added to the interval and taken off the difference before it is tested: the
    biases may point in opposite ways.
    """
    main = [
        (job, est)
        for job, est in zip(jobs, estimates, strict=True)
        if recommended[job.target] == job.name
    ]
    both = list(combinations(main, 2))
    found = [_difference(*left, *right, pairs) for left, right in both]
    p_values = holm([one.p_value(level, looks) for one in found])
    numbers = [one.number(level, looks, len(both)) for one in found]
    return tuple(
        Comparison(
            number.value, number.stderr, number.low, number.high, better=left.target, than=right.target,
            bias_allowance=one.allowance, p_value=float(p),
        )
        for ((left, _), (right, _)), one, number, p in zip(both, found, numbers, p_values, strict=True)
    )  # fmt: skip
