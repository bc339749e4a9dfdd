"""What the logger's exploration allows.

Nothing at all, what it leaves out, and what more rows or more exploration would give.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from counterrank.common.arrays import Bools, Floats
from counterrank.common.errors import CounterrankError, PropensityError
from counterrank.common.messages import say, what_is_possible
from counterrank.data.log import LOGGING, Propensity, RankingLog
from counterrank.estimators import Estimator, get_estimator
from counterrank.estimators.weights.diagnostics import ItemShare, Support
from counterrank.estimators.weights.ratios import conditionals
from counterrank.evaluation.request import ALL, Options
from counterrank.evaluation.result import Detectable, RowsNeeded, SamplePlan
from counterrank.policies import Policy
from counterrank.statistics import bias_aware_half


def refuse_deterministic(
    first: RankingLog,
    sample: Callable[[], RankingLog],
    options: Options,
    custom: Mapping[str, Estimator],
) -> None:
    """Raise when every logged propensity is 1, in the first rows and in a sample, while a target's are not.

    Estimators that need no weights may run all the same.
    """
    named = [custom.get(name) or get_estimator(name) for name in options.estimators if name != ALL]
    if not _certain(first) or (
        named and not any(estimator.traits.uses_weights for estimator in named)
    ):
        return
    probe = sample()
    if not _certain(probe):
        return
    policies = [probe.target(name) for name in options.targets]
    certain = [
        isinstance(p, Propensity) and bool((np.abs(p.values - 1.0) < 1e-12).all()) for p in policies
    ]
    if all(certain):
        return
    if isinstance(first.propensity, Policy):
        raise PropensityError(
            "the logging policy is deterministic: it has one list for each request. Weights then "
            "compare nothing, and no estimate is given. What is possible: (1) a model of users: "
            f"{say('--estimators', 'pbm,click-model')}; (2) swap neighbouring items at random for a few percent "
            "of requests and log it; (3) an A/B test"
        )
    raise PropensityError(
        "every logged propensity is 1: the logging policy is deterministic, or the column holds no "
        f"propensities. Weights then compare nothing, and no estimate is given. {what_is_possible()}"
    )


def _certain(log: RankingLog) -> bool:
    if isinstance(log.propensity, Policy):
        return log.propensity.deterministic
    return bool((log.propensity.values == 1.0).all())


#: An item is hardly shown when it is shown less often than this ...
RARE = 1e-3
#: ... and this many times less often than the target would: in a catalogue of thousands every item
#: is rare.
FEWER = 10.0
#: Rankings drawn from a target whose positions depend on each other, for each of so many rows.
DRAWS, DRAWN_ROWS = 8, 2000
#: Numbers of whole distributions looked at: more would take long, and with a million items more
#: memory than there is.
CELLS = 20_000_000


#: What a target shows and the logger does not: rows, used positions (K,), target mass on items never and
#: rarely shown (K,), rare mass by item (A,).
_Mass = tuple[int, Floats, Floats, Floats, Floats]


def thinned(log: RankingLog) -> RankingLog:
    """Return as many rows, evenly spread, as keep whole distributions of all of them within `CELLS` numbers."""
    limit = max(CELLS // (log.K * log.n_actions), 1)
    if log.n <= limit or log.take(slice(0, 1)).distribution(LOGGING) is None:
        return log
    return log.take(np.linspace(0, log.n - 1, limit).astype(np.int64))


def _exact_mass(batch: RankingLog, target: str) -> _Mass | None:
    """Return the mass by whole distributions, or None where one is missing."""
    old, new = batch.distribution(LOGGING), batch.distribution(target)
    if old is None or new is None:
        return None
    # (n, 1 or K, A): policies that are alike at all positions are looked at once.
    old, new = (table[:, None] if table.ndim == 2 else table for table in (old, new))
    used = (np.arange(batch.K) < batch.lengths[:, None]).astype(np.float64)  # (n, K)
    rare = np.where(_hardly(old, new), new, 0.0)
    never = np.where(old <= 0, rare, 0.0)
    times = used if rare.shape[1] > 1 else used.sum(axis=1, keepdims=True)
    masses = ((table.sum(axis=2) * used).sum(axis=0) for table in (never, rare))
    return batch.n, used.sum(axis=0), *masses, np.einsum("nk,nka->a", times, rare)


def support(log: RankingLog, target: str) -> Support | None:
    """Return the target's probability of items the logger never (p = 0) or rarely (p < 1/1000) shows, by position.

    Exact where whole distributions are known, by draws of the target where both are policies, else
    None. Also up to five such items by mass.

    >>> log = RankingLog(action=[[0]], reward=[[1]], propensity=[[1.0]], targets={"new": [[0.25]]},
    ...                  dists={"propensity": [[1.0, 0.0]], "new": [[0.25, 0.75]]})
    >>> found = support(log, "new")
    >>> found.unlogged_share, found.actions
    ((0.75,), (ItemShare(action='1', share=0.75),))
    """
    mass = _exact_mass(thinned(log), target) or _drawn_mass(log, target)
    if mass is None:
        return None
    rows, used, never, rare, by_action = mass
    count, shares = np.maximum(used, 1.0), by_action / max(float(used.sum()), 1.0)
    top = [int(a) for a in np.argsort(-shares, kind="stable")[:5] if shares[a] > 0]
    names = log.action_names or range(len(shares))
    return Support(
        unlogged_share=tuple((never / count).tolist()),
        rare_share=tuple((rare / count).tolist()),
        rare_below=RARE,
        actions=tuple(ItemShare(str(names[a]), float(shares[a])) for a in top),
        rows=rows,
    )


def _drawn_mass(log: RankingLog, target: str) -> _Mass | None:
    """Return the mass from rankings drawn from the target, for policies whose positions depend on each other.

    At each position: drawn rankings that the logger cannot show as far as that, and items it shows
    rarely given those above. None unless both policies are whole and know their probabilities.
    """
    # Evenly spread rather than the first: logs change over time.
    rows = log.take(np.linspace(0, log.n - 1, min(log.n, DRAWN_ROWS)).astype(np.int64))
    target_policy, logging = rows.target(target), rows.propensity
    if not (isinstance(target_policy, Policy) and isinstance(logging, Policy)):
        return None
    n, size = rows.n, log.n_actions
    used = np.arange(log.K) < rows.lengths[:, None]
    never, rare, by_action = np.zeros(log.K), np.zeros(log.K), np.zeros(size)
    try:
        drawn = np.broadcast_to(
            target_policy.sample(log.K, np.random.default_rng(0), size=DRAWS), (n, DRAWS, log.K)
        )
        for draw in range(DRAWS):
            action = np.where(used, drawn[:, draw], -1)
            old, new = (
                conditionals(policy.prefix_log_prob(action)) for policy in (logging, target_policy)
            )
            # Once one item cannot be shown, nothing below it can.
            gone = used & (np.cumprod(old > 0, axis=1) == 0)
            seldom = used & (gone | _hardly(old, new))
            never, rare = never + gone.sum(axis=0), rare + seldom.sum(axis=0)
            # Only the first such item is blamed: those below are unlikely because of it.
            first = seldom & (np.cumsum(seldom, axis=1) == 1)
            by_action += np.bincount(action[first], minlength=size)[:size]
    except CounterrankError:
        return None
    shown = used.sum(axis=0).astype(np.float64)
    return n, shown, never / DRAWS, rare / DRAWS, by_action / DRAWS


def _hardly(old: Floats, new: Floats) -> Bools:
    """Return what the logger hardly shows: rarely at all, and far more rarely than the target."""
    return (old < RARE) & (old * FEWER < new)


#: Rows of the curve, as multiples of the log.
MULTIPLES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0)
#: How many times as many rows, or as few, the length of an interval is foretold for.
TRIED = 20.0
#: Relative lifts for which the needed rows are listed.
RELATIVE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


def plan_for(
    n: int,
    stderr: float,
    *,
    logged: float,
    logged_stderr: float,
    level: float,
    practical: float | None = None,
    allowance: float = 0.0,
) -> SamplePlan:
    """Return detectable lifts, the rows needed, and the A/B traffic of equal precision.

    `stderr` is that of the lift from n rows, `allowance` the bias that its interval allows for. Both fall
    with the root of the rows: `auto` allows for what its own errors leave open, and these fall so. In a
    shop of 750 to 12,000 pages the length of its interval times that root stayed within a tenth
    (`tests/evaluation/test_planning.py`). Numbers of rows beyond `TRIED` times those of the log, or below
    them as often, are not given. An A/B test with N rankings in two halves, both with the logger's spread s,
    has variance 4 s^2 / N; an interval of the same length takes N = 4 n logged_stderr^2 / (h / z)^2
    (s^2 = n logged_stderr^2, h / z = stderr without allowance).

    >>> plan = plan_for(1000, 0.1, logged=2.0, logged_stderr=0.05, level=0.95)
    >>> plan.ab_rows, round(plan.detectable_relative, 4), plan.rows_for[-1]
    (1000, 0.1401, RowsNeeded(relative=0.2, rows=491))
    """
    from scipy import special

    lift = detectable(stderr, allowance=allowance, level=level)
    precision = bias_aware_half(stderr, allowance, level) / float(special.ndtri(0.5 + level / 2))
    # Shares of a value that is not positive have no meaning; lifts have none there either.
    scale = max(logged, 0.0)
    # One row or unit has no error to plan with.
    counts = scale > 0 and not math.isnan(lift)
    shares = sorted({*RELATIVE, *([practical] if practical else [])})
    ab_rows = sensible(4 * n * (logged_stderr / precision) ** 2, n) if precision > 0 else None
    return SamplePlan(
        detectable_lift=lift,
        detectable_relative=lift / scale if scale > 0 else math.nan,
        curve=tuple(Detectable(max(round(n * m), 1), lift / math.sqrt(m)) for m in MULTIPLES),
        ab_rows=ab_rows,
        rows_for=tuple(
            RowsNeeded(r, math.ceil(rows) if n / TRIED <= rows <= n * TRIED else None)
            for r in (shares if counts else ())
            for rows in (n * (lift / (r * scale)) ** 2,)
        ),
        allowance_relative=allowance / scale if scale > 0 else math.nan,
    )


POWER = 0.8
#: More times as many rows than this are no plan.
ABSURD = 1000.0


def detectable(stderr: float, *, allowance: float = 0.0, level: float = 0.95) -> float:
    """Return the smallest true lift that the interval tells from zero with probability `POWER`.

    h + z_power stderr, h the half-length of the interval, (z_{1-alpha/2} + z_power) stderr where no
    bias is allowed for (Cohen 1988); the other tail's chance is ignored.

    >>> round(detectable(1.0), 3), round(detectable(1.0, allowance=10.0), 3)
    (2.802, 12.486)
    """
    from scipy import special

    return bias_aware_half(stderr, allowance, level) + float(special.ndtri(POWER)) * stderr


def rows_for(
    half: float, n: int, stderr: float, *, allowance: float = 0.0, level: float = 0.95
) -> int | None:
    """Return the rows from which a lift is detectable.

    None where the allowance alone is larger, or nobody would log so many.

    `stderr` is that of n rows; it falls with the square root of them, the allowance does not.

    >>> rows_for(0.2802, 1000, 0.1), rows_for(0.1, 1000, 0.1, allowance=0.1)
    (1000, None)
    """
    from scipy.optimize import brentq

    if not allowance:
        return sensible(n * (detectable(stderr, level=level) / half) ** 2, n)

    def above(logarithm: float) -> float:
        fewer = stderr / math.exp(logarithm / 2)
        return detectable(fewer, allowance=allowance, level=level) - half

    # With rows the lift falls to the allowance: a wanted one below it is never reached.
    ends = [side * 46.0 for side in (-1, 1)]
    if above(ends[0]) <= 0 or above(ends[1]) >= 0:
        return None
    return sensible(n * math.exp(brentq(above, *ends, xtol=1e-9)), n)


def sensible(rows: float, n: int) -> int | None:
    """Return a number of rows, None where nobody would log so many.

    >>> sensible(2500.2, 1000), sensible(8.1e9, 4000)
    (2501, None)
    """
    return math.ceil(rows) if rows <= ABSURD * n else None
