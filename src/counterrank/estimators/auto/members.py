"""The members of `auto`: their weights, and what follows of these from the policies, row by row."""

from collections.abc import Iterable, Mapping
from functools import reduce

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.data.log import LOGGING, RankingLog
from counterrank.estimators.auto.rule import MODELS, expected_squares
from counterrank.estimators.base import View
from counterrank.estimators.weights.ratios import Ratios, excess_squares
from counterrank.models import whole_distribution
from counterrank.policies import Policy

#: Interaction orders between the own item and the whole ranking. Higher orders are too noisy at the
#: usual sizes of logs.
ORDERS = (2, 3)
#: Longer rankings have no orders: products of so many ratios are zero or overflow.
LONGEST = 1024


def members_of(ratios: Ratios, *, modelled: bool) -> tuple[str, ...]:
    """Return the members that these ratios support, from the models to the weights of whole rankings."""
    K = ratios.rho.shape[1]
    members = ["iips"] if "position" in ratios.supports else []
    if ratios.batch.page_reward:
        pass  # The reward is that of the page, so no member lies between no item and all items.
    elif ratios.kind == "factored" and K <= LONGEST:
        # Orders need independent positions. Other logs have prefixes between own item and whole ranking.
        members += [f"order-{m}" for m in ORDERS if m < K]
    elif "prefix" in ratios.supports and K > 1 and not (modelled and members):
        # Not beside models: prefixes have a bias of their own, as people do not only read downwards.
        members.append("rips")
    if "joint" in ratios.supports and (K > 1 or "iips" not in members):
        members.append("ips")
    return tuple([MODELS, *members] if modelled and members else members)


def weights_of(view: View, members: Iterable[str], limit: float) -> dict[str, Floats]:
    """Return each member's weights (n, K), those of own positions cut at `limit`."""
    ratios, weights = view.ratios, {}
    full_mask, orders = (
        np.ones((view.batch.K, view.batch.K), bool),
        {f"order-{m}": m for m in ORDERS},
    )
    for name in members:
        if name == MODELS:
            weights[name] = np.ones(view.batch.action.shape)
        elif name == "iips":
            weights[name] = np.minimum(ratios.position(), limit)
        elif name == "rips":
            weights[name] = ratios.prefix()
        elif name == "ips":
            weights[name] = ratios.full()
        else:
            weights[name] = ratios.ordered(full_mask, orders[name])
    return weights


def squares_of(view: View, weights: Mapping[str, Floats]) -> Floats:
    """Return the sum of squared weights of each row by member (J, n)."""
    return np.array([np.einsum("nk,nk->n", w * view.shown, w) for w in weights.values()])


def reach(view: View, weights: Floats | None, limit: float) -> Floats:
    """Return sums and numbers of cut weights of each row (2, 2, n): of single items, and of three neighbours.

    Whole weights have a mean of one; what is missing of it is the share of the target that the log
    does not reach. Neighbours stand for all threes of a page, and only independent positions have
    weights of them.
    """
    ratios, shown = view.ratios, view.shown
    table = np.zeros((2, 2, view.batch.n))
    # A product with ones sums short rows ten times as fast as `sum` does.
    unit_weights = np.ones(shown.shape[1])
    if weights is not None:
        table[0] = (weights * shown) @ unit_weights, shown @ unit_weights
    if ratios.kind == "factored":
        K = ratios.rho.shape[1]
        width = min(K, 3)
        near = [slice(j, K - width + 1 + j) for j in range(width)]
        # Padding stands at the end, so that threes of shown items end with a shown item.
        within = shown[:, near[-1]]
        product = reduce(np.multiply, [ratios.rho[:, columns] for columns in near])
        unit_weights = unit_weights[: within.shape[1]]
        table[1] = (np.minimum(product, limit) * within) @ unit_weights, within @ unit_weights
    return table


def tails_of(view: View, members: tuple[str, ...], draws: Ints | None) -> Floats:
    """Return two numbers of each row by member (2, J, n); of no row where the policies do not say.

    They are the expected squares of weights, and the target's mass without support. Since
    E_0[w^2] = E_pi[w], the effect of heavy weights on a variance follows from the policies, whether or not
    such weights occurred: exactly from whole distributions, else from draws of the target.
    """
    batch = view.batch
    if batch.n:
        logging, shown_by_target = (
            whole_distribution(batch, name) for name in (LOGGING, view.target)
        )
        # Ratios come last in this condition, because they may cost more than all the rest.
        if logging is not None and shown_by_target is not None and view.ratios.kind == "factored":
            return _exact(batch, members, logging, shown_by_target)
        if draws is not None and isinstance(batch.propensity, Policy):
            return _drawn(view, members, draws)
    return np.zeros((2, len(members), 0))


def _exact(batch: RankingLog, members: tuple[str, ...], logging: Floats, target: Floats) -> Floats:
    squares = expected_squares(members, excess_squares(logging, target), batch.action >= 0)
    # Target mass on items that the logger never shows there: no member's weights reach it.
    missing = np.where(logging > 0, 0.0, target).sum(axis=2).mean(axis=1)
    return np.stack([squares, np.broadcast_to(missing, squares.shape)])


def _drawn(view: View, members: tuple[str, ...], draws: Ints) -> Floats:
    """Return the same from rankings of the target (n, S, K), since E_0[w^2] = E_pi[w]."""
    batch, policy = view.batch, view.batch.target(view.target)
    assert isinstance(policy, Policy) and isinstance(batch.propensity, Policy)
    above, below = (side.prefix_log_probs(draws) for side in (policy, batch.propensity))
    shown, supported = draws >= 0, np.isfinite(below)
    ratio = np.exp(np.minimum(above - np.where(supported, below, 0.0), 700.0))
    prefix = np.where(shown & supported, ratio, 0.0)
    last = np.maximum(shown.sum(axis=2, keepdims=True) - 1, 0)
    last_ratio, last_covered = (
        np.take_along_axis(side, last, axis=2) for side in (prefix, supported)
    )
    # The weight of a whole ranking counts once for each position, as in the sums of other members.
    squares = {"rips": prefix.sum(axis=(1, 2)), "ips": (last_ratio * shown).sum(axis=(1, 2))}
    missing, none = (~last_covered).sum(axis=(1, 2)), np.zeros(batch.n)
    table = [(squares[m], missing) if m in squares else (none, none) for m in members]
    return np.asarray(np.array(table, dtype=float).swapaxes(0, 1) / draws.shape[1])


def add_second_phase(
    columns: Floats, totals: Floats, exact: tuple[Floats, Floats], rows: Ints, rate: float
) -> None:
    """Add the change that the models make on `rows`, divided by their rate, to cheap members of all rows.

    Columns (K, 1 + J, n) and totals (1 + J + M, n) are those with a mean as the model, `exact` those of the
    rows and of the members that models correct. Other members stay cheap: models would reduce their
    variance by a few percent, but reading a part of the rows only would multiply it.
    """
    J, corrected = columns.shape[1] - 1, exact[0].shape[1]
    columns[:, :corrected, rows] += (exact[0] - columns[:, :corrected, rows]) / rate
    places = np.ix_([*range(corrected), *range(1 + J, len(totals))], rows)
    totals[places] += (exact[1] - totals[places]) / rate


def calibration(earned: Floats, rows: Ints, rate: float) -> Floats:
    """Return the controls (I / p - 1) and (I / p - 1) y (2, n), y the logged reward of a row."""
    excess = np.full(len(earned), -1.0)
    excess[rows] += 1.0 / rate
    return np.stack([excess, excess * earned])
