"""The members of `auto`: the models' average, corrected by weights that trust the data more and
more.

The first is "models": what was earned, and the change that the models expect of the target, which
is the models' mean corrected by weights of one. The others are named after the estimator whose
weights they have: "iips", "order-2", "order-3", "rips", "ips". Own-position weights are cut at a
limit where there are models: what is cut off rests on them.

Long logs are read in two phases: what is cheap on all rows, what is costly on a random part of them.
Each member of a row is its rough version a_i (the mean reward of a position for a model) plus what
the models change, e_i. With rows drawn independently with probability p, I_i saying which,

    mean of a_i + (I_i / p) e_i

has the mean of a_i + e_i whatever a is (the difference estimator: Cochran 1977, ch. 12; Saerndal,
Swensson & Wretman 1992, ch. 9), and its spread over all rows holds both phases: Var(a + e) / n +
(1/p - 1) E[e^2] / n. The controls (I_i / p - 1) (1, y_i), of mean zero, take out what the number of
drawn rows and their rewards y happened to be, which leaves (1/p - 1) Var(e | y) / n.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.data.log import LOGGING
from counterrank.estimators.base import View
from counterrank.estimators.names import parse
from counterrank.models import whole_distribution
from counterrank.policies import Policy
from counterrank.weights.ratios import Ratios

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


#: Interaction orders between own item and whole ranking: higher ones are noise at the sizes of logs
#: we know.
ORDERS = (2, 3)
#: The member that rests on the models alone, and the one with the aimed step (`aim`) on top.
MODELS, AIMED = "models", "aimed"
#: Longer rankings have no orders and no prefixes: products of so many ratios are zero or overflow.
LONGEST = 1024


def members_of(ratios: Ratios, *, modelled: bool) -> tuple[str, ...]:
    """Return the members that these ratios support, from trusting the models to trusting the
    weights.
    """
    K = ratios.rho.shape[1]
    found = ["iips"] if "position" in ratios.supports else []
    if ratios.batch.page_reward:
        pass  # Between no item and all of them there is nothing: the reward is that of the page.
    elif ratios.kind == "factored" and K <= LONGEST:
        # Orders need independent positions; without them prefixes are the step between own item and
        # whole ranking.
        found += [f"order-{m}" for m in ORDERS if m < K]
    elif "prefix" in ratios.supports and K > 1 and not (modelled and found):
        # Beside models prefixes add their own bias: people do not only read downwards.
        found.append("rips")
    if "joint" in ratios.supports and (K > 1 or "iips" not in found):
        found.append("ips")
    return tuple([MODELS, *found] if modelled and found else found)


def weights_of(view: View, members: tuple[str, ...], limit: float) -> dict[str, Floats]:
    """Return each member's weights (n, K), those of own positions cut at `limit`."""
    ratios, out = view.ratios, {}
    whole = np.ones((view.batch.K, view.batch.K), dtype=bool)
    for name in members:
        if name == MODELS:
            out[name] = np.ones(view.batch.action.shape)
        elif name == "iips":
            out[name] = np.minimum(ratios.position(), limit)
        elif name == "rips":
            out[name] = ratios.prefix()
        elif name == "ips":
            out[name] = ratios.full()
        else:
            out[name] = ratios.ordered(whole, parse(name).order or 1)
    return out


def corrected(members: tuple[str, ...]) -> str:
    """Return the member with the smallest weights.

    >>> corrected(("models", "iips", "ips"))
    'iips'
    """
    return next(name for name in members if name != MODELS)


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Sums over rows, by member (J,): squares of weights as the policies have them, and target mass
    without support.

    E_0[w^2] = E_pi[w]: what heavy weights do to a variance is known from the policies, whether or
    not they occurred.
    """

    square: Floats
    unsupported: Floats
    rows: int

    def __add__(self, other: "Tails") -> "Tails":
        return Tails(
            self.square + other.square, self.unsupported + other.unsupported, self.rows + other.rows
        )


def tails_of(view: View, members: tuple[str, ...], draws: Ints | None) -> Tails:
    """Return what the policies know of the weights' squares: exact where distributions are, by
    draws of policies.
    """
    none = Tails(np.zeros(len(members)), np.zeros(len(members)), 0)
    if view.batch.n == 0:
        return none
    logging, wanted = (
        whole_distribution(view.batch, LOGGING),
        whole_distribution(view.batch, view.target),
    )
    # Ratios are asked for last: they may cost more than all the rest.
    if logging is not None and wanted is not None and view.ratios.kind == "factored":
        return _exact(view, members, logging, wanted)
    if draws is None or not isinstance(view.batch.propensity, Policy):
        return none
    return _drawn(view, members, draws)


def independent_squares(members: tuple[str, ...], ratio: Floats) -> Floats:
    """Return the members' mean squares of weights (J,) that follow from mean rho_k^2 (K,) of
    independent positions.

    Products of many ratios rarely show their tails, single ratios do. Of no ratios: zeros, that is
    nothing known.
    """
    from counterrank.estimators.kernels.orders import order_squares

    K = len(ratio)
    if not K:
        return np.zeros(len(members))
    orders = np.array([m for m in (1, *ORDERS) if m < K], dtype=np.int64)
    square = np.zeros(len(orders) + 1)
    order_squares(np.maximum(ratio - 1.0, 0.0)[None], np.array([K]), orders, square)
    return _by_member(members, orders, square)


def _by_member(members: tuple[str, ...], orders: Ints, square: Floats) -> Floats:
    found = {f"order-{m}": value for m, value in zip(orders, square[:-1], strict=True)} | {
        "ips": square[-1]
    }
    return np.array([found.get(name, 0.0) for name in members])


def _exact(view: View, members: tuple[str, ...], logging: Floats, wanted: Floats) -> Tails:
    from counterrank.estimators.kernels.orders import exact_squares

    batch, K = view.batch, view.batch.K
    orders = np.array([m for m in (1, *ORDERS) if m < K], dtype=np.int64)
    square = np.zeros(len(orders) + 1)
    exact_squares(logging, wanted, batch.lengths, orders, square)
    # Target mass on items the logger never shows there: no weight of any member reaches it.
    missing = float(np.where(logging > 0, 0.0, wanted).sum(axis=2).mean(axis=1).sum())
    return Tails(_by_member(members, orders, square), np.full(len(members), missing), batch.n)


def _drawn(view: View, members: tuple[str, ...], draws: Ints) -> Tails:
    """Return the same from rankings of the target (n, S, K): a weight's mean there is its mean
    square here.
    """
    batch, policy = view.batch, view.batch.target(view.target)
    assert isinstance(policy, Policy) and isinstance(batch.propensity, Policy)
    n, S, K = draws.shape
    # Draw by draw: rows of a policy with many items are not copied for each.
    flat = draws.transpose(1, 0, 2).reshape(S * n, K)
    above, below = (
        own.prefix_log_probs(draws).swapaxes(0, 1).reshape(S * n, K)
        for own in (policy, batch.propensity)
    )
    shown = flat >= 0
    last = np.maximum(shown.sum(axis=1) - 1, 0)
    supported = np.isfinite(below)
    with np.errstate(over="ignore"):
        prefix = np.where(
            shown & supported,
            np.exp(np.minimum(above - np.where(supported, below, 0.0), 700.0)),
            0.0,
        )
    # The weight of the whole ranking counts once for each of its positions, as in the other
    # members' sums.
    whole = prefix[np.arange(n * S), last] * shown.sum(axis=1)
    missing = ~supported[np.arange(n * S), last]
    square, unsupported = np.zeros(len(members)), np.zeros(len(members))
    for j, name in enumerate(members):
        if name in ("rips", "ips"):
            square[j] = (prefix.sum() if name == "rips" else whole.sum()) / S
            unsupported[j] = missing.sum() / S
    return Tails(square, unsupported, n)


#: The random stream that draws the rows; it follows the seed.
SAMPLING_STREAM = 103


@dataclass(frozen=True, slots=True, eq=False)
class Rough:
    """Members of all rows with a mean for a model: columns (K, 1 + J, n) and totals (1 + J + M, n).

    `richer` are the weights of the members that stay as they are: models would take a few percent
    off their variance, a part of the rows would multiply it.
    """

    columns: Floats
    totals: Floats
    richer: dict[str, Floats]

    def corrected(
        self, columns: Floats, totals: Floats, rows: Ints, rate: float
    ) -> tuple[Floats, Floats]:
        """Return both with what the models say differently about `rows`, in proportion."""
        J = self.columns.shape[1] - 1
        kept = columns.shape[1]
        self.columns[:, :kept, rows] += (columns - self.columns[:, :kept, rows]) / rate
        at = np.ix_([*range(kept), *range(1 + J, len(self.totals))], rows)
        self.totals[at] += (totals - self.totals[at]) / rate
        return self.columns, self.totals


def calibration(earned: Floats, rows: Ints, rate: float) -> Floats:
    """Return the controls (I / p - 1) and (I / p - 1) times what a row earned (2, n)."""
    excess = np.full(len(earned), -1.0)
    excess[rows] += 1.0 / rate
    return np.stack([excess, excess * earned])
