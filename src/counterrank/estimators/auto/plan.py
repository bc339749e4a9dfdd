"""The pass of `auto`: every member's contributions from one look at each row."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.auto.masked import inside
from counterrank.estimators.auto.routes import Route
from counterrank.estimators.auto.state import AutoState
from counterrank.estimators.base import View
from counterrank.estimators.rewards import prediction
from counterrank.log import LOGGING
from counterrank.models import (
    Arrays,
    Chosen,
    Layout,
    LinearModel,
    Riesz,
    Tables,
    context_columns,
    logged_values,
    slimmed,
    tables_of,
    whole_distribution,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The columns that `kernels.orders.members` fills first; one for each order follows, then masks x orders.
FIXED = ("logger", "iips", "dm", "projected", "dr-pairs", "dr-ips")
#: Orders besides the full product: at the sizes of logs we know, higher ones are noise.
ORDERS = (1, 2, 3)
#: Controls (rho_l - 1) x_j up to this many.
_CONTROLS = 128
#: Rows of one block.
_BLOCK = 8192


def orders_for(K: int) -> Ints:
    """Return the orders below K.

    >>> orders_for(4).tolist()
    [1, 2, 3]
    """
    return np.array([m for m in ORDERS if m < K], dtype=np.int64)


def column_names(K: int) -> tuple[str, ...]:
    """Return the names of the columns."""
    return (*FIXED, *(f"dr-order-{m}" for m in orders_for(K)), *inside(K).names)


@dataclass(frozen=True, slots=True, eq=False)
class Nuisances:
    """What was fitted: a reward model and projected weights (coefficients with their layout), or nothing."""

    model: Chosen | None
    #: (2, F, K, A, D): the projected weights, and what their interactions add to rho.
    projected: Floats | None = None
    layout: Layout | None = None
    designs: tuple[str, ...] = ()
    #: Model and projected weights together, where one look at a row serves both.
    tables: Tables | None = None


def nuisances_of(model: Chosen, riesz: Riesz, layout: Layout) -> Nuisances:
    """Return model and weights (in the layout's columns) without the columns they do not use."""
    weights, projected = slimmed(layout, np.stack([riesz.whole, riesz.pairs]))
    if not isinstance(model, LinearModel):
        return Nuisances(model, projected, weights, riesz.chosen, _together(layout, riesz, ()))
    slim, coef = slimmed(layout, model.coef)
    tables = _together(layout, riesz, (model.coef,))
    return Nuisances(replace(model, layout=slim, coef=coef), projected, weights, riesz.chosen, tables)


def _together(layout: Layout, riesz: Riesz, before: tuple[Floats, ...]) -> Tables | None:
    """Return tables of coefficients and weights, or nothing where weights have more than indicators and context."""
    first, last, width = layout.starts[1], layout.starts[3], layout.d + 1
    plain = not riesz.whole[..., first:last].any() and not riesz.pairs[..., :width].any()
    if not plain or not np.array_equal(riesz.whole[..., width:], riesz.pairs[..., width:]):
        return None
    return tables_of(*slimmed(layout, np.stack([*before, riesz.whole])))


def partial_state(view: View, nuisances: Nuisances, route: Route, *, by_unit: bool) -> tuple[AutoState, Floats]:
    """Return the additive state of a batch and its row totals (n, C), in blocks whose columns stay in the cache."""
    batch = view.batch
    if batch.n <= _BLOCK or not route.factored:
        return _block_state(view, nuisances, route, by_unit=by_unit)
    parts = [_block_state(View(part, view.target), nuisances, route, by_unit=by_unit) for part in batch.chunks(_BLOCK)]
    state = parts[0][0]
    for part in parts[1:]:
        state = state + part[0]
    return state, np.concatenate([totals for _, totals in parts])


def _block_state(view: View, nuisances: Nuisances, route: Route, *, by_unit: bool) -> tuple[AutoState, Floats]:
    batch = view.batch
    if route.factored and nuisances.model is not None and batch.K > 1:
        return _fused_state(view, nuisances, by_unit=by_unit)
    if route.factored:
        columns, square, exact, weight, unsupported = _by_order(view, nuisances)
        control = _controls(view) if nuisances.model is None else np.empty((0, batch.n))
    else:
        columns, weight = _by_mask(view, nuisances, route)
        square, exact, unsupported, control = np.zeros(1), np.zeros(1), 0, np.empty((0, batch.n))
    totals = np.tensordot(batch.position_weights, columns, axes=1)
    state = AutoState(
        n=batch.n,
        alpha=batch.position_weights,
        first=columns.sum(axis=2),
        second=columns @ columns.swapaxes(1, 2),
        total=totals @ totals.T,
        mixed=columns @ control.T,
        control=control @ control.T,
        control_sum=control.sum(axis=1),
        square=square,
        exact=exact,
        ratio=(view.ratios.rho**2).sum(axis=0),
        weights=np.array([weight.sum(), weight @ weight]),
        buckets=_buckets(totals, batch.bucket) if by_unit else np.empty((0, len(totals) + 1)),
        unsupported=unsupported,
    )
    return state, totals.T


def _fused_state(view: View, nuisances: Nuisances, *, by_unit: bool) -> tuple[AutoState, Floats]:
    """Return the same where there is a model, hence no controls: columns of a few rows at a time become moments."""
    from counterrank.estimators.kernels.auto_moments import add_moments

    batch, orders = view.batch, orders_for(view.batch.K)
    rho = view.ratios.rho.T  # (K, n)
    q, mean, projected = _fitted(view, nuisances)
    masked, C = inside(batch.K), len(column_names(batch.K))
    size = (C + 4) // 4 * 4
    second, total, square = np.zeros((batch.K, size, size)), np.zeros((size, size)), np.zeros(C - len(FIXED) + 1)
    weights, totals = np.zeros(2), np.empty((batch.n, C))
    add_moments(
        np.ascontiguousarray(rho), batch.reward, q, mean, projected, orders, masked.pairs, masked.added, masked.base,
        batch.lengths, batch.position_weights, second, total, square, weights, totals,
    )  # fmt: skip
    exact, unsupported = _exact(view, orders)
    state = AutoState(
        n=batch.n,
        alpha=batch.position_weights,
        first=second[:, C, :C].copy(),
        second=_whole_of(second[:, :C, :C]),
        total=_whole_of(total[:C, :C]),
        mixed=np.zeros((batch.K, C, 0)),
        control=np.zeros((0, 0)),
        control_sum=np.zeros(0),
        square=square,
        exact=exact,
        ratio=(rho**2).sum(axis=1),
        weights=weights,
        buckets=_buckets(totals.T, batch.bucket) if by_unit else np.empty((0, C + 1)),
        unsupported=unsupported,
    )
    return state, totals


def _whole_of(lower: Floats) -> Floats:
    """Return symmetric matrices (..., C, C) from their lower triangles."""
    kept = np.tril(lower)
    return kept + np.tril(lower, -1).swapaxes(-1, -2)


def _by_order(view: View, nuisances: Nuisances) -> tuple[Floats, Floats, Floats, Floats, int]:
    """Return the members' contributions (K, C, n), squared weights, their exact means, and mean weights (n,)."""
    from counterrank.estimators.kernels.mask_orders import masked_members
    from counterrank.estimators.kernels.orders import members

    batch, orders, masked = view.batch, orders_for(view.batch.K), inside(view.batch.K)
    rho = np.ascontiguousarray(view.ratios.rho)
    q, mean, projected = _fitted(view, nuisances)
    J = len(orders)
    columns = np.zeros((batch.K, len(column_names(batch.K)), batch.n))
    square = np.zeros(J + 1 + len(masked.names))
    members(rho, batch.reward, q, mean, projected, orders, batch.lengths, columns, square[: J + 1])
    masked_members(
        rho, batch.reward - q, mean, masked.pairs, masked.added, masked.base, batch.lengths,
        columns[:, len(FIXED) + J :], square[J + 1 :],
    )  # fmt: skip
    exact, unsupported = _exact(view, orders)
    return columns, square, exact, (rho + projected[1]).mean(axis=1), unsupported


def _by_mask(view: View, nuisances: Nuisances, route: Route) -> tuple[Floats, Floats]:
    """Return contributions (K, C, n) for the masks that dependent positions support, and mean weights (n,)."""
    weigh = {"iips": view.ratios.position, "rips": view.ratios.prefix, "ips": view.ratios.full}
    weights = {name: weigh[name]() for name in route.columns[1:] if name in weigh}
    columns = [view.reward, *(w * view.reward for w in weights.values())]
    if nuisances.model is not None:
        found = prediction(view, nuisances.model)
        columns += [found.mean + w * (view.reward - found.q) for w in weights.values()]
    stacked = np.stack([column.T for column in columns], axis=1)  # (K, C, n)
    return np.ascontiguousarray(stacked), next(iter(weights.values())).mean(axis=1)


def _fitted(view: View, nuisances: Nuisances) -> tuple[Floats, Floats, Floats]:
    """Return q, E_pi q (n, K) and the projected weights (2, n, K)."""
    batch, model = view.batch, nuisances.model
    if model is None or nuisances.projected is None or nuisances.layout is None:
        return np.zeros(batch.action.shape), np.zeros(batch.action.shape), np.zeros((2, *batch.action.shape))
    given = nuisances.layout.arrays(batch)
    values, projected = _logged(nuisances, given)
    if isinstance(model, LinearModel):
        return model.link(values, given), model.mean(batch, view.target, given), projected
    found = prediction(view, model)
    return found.q, found.mean, projected


def _logged(nuisances: Nuisances, given: Arrays) -> tuple[Floats, Floats]:
    """Return the linear model's values (n, K), where there is one, and the projected weights (2, n, K)."""
    model, layout, weights = nuisances.model, nuisances.layout, nuisances.projected
    assert layout is not None and weights is not None
    if nuisances.tables is not None and nuisances.tables.serve(given):
        sets, pairs = nuisances.tables.at_logged(given)
        return sets[0], np.stack([sets[-1], pairs])
    if not isinstance(model, LinearModel):
        return np.empty(0), logged_values(layout, given, weights)
    if layout.width == model.layout.width:  # one look at the features serves both
        both = logged_values(layout, given, np.concatenate([model.coef[None], weights]))
        return both[0], both[1:]
    return logged_values(model.layout, given, model.coef[None])[0], logged_values(layout, given, weights)


def _exact(view: View, orders: Ints) -> tuple[Floats, int]:
    """Return the exact sums of squared weights, as `square` has them, and the number of rows without support."""
    from counterrank.estimators.kernels.mask_orders import masked_squares
    from counterrank.estimators.kernels.orders import excess_squares, order_squares

    lengths, masked, J = view.batch.lengths, inside(view.batch.K), len(orders)
    out = np.zeros(J + 1 + len(masked.names))
    logging = whole_distribution(view.batch, LOGGING)
    wanted = whole_distribution(view.batch, view.target)
    if logging is None or wanted is None:
        return out, 0
    alike = logging.shape[1] == 1 and wanted.shape[1] == 1
    excess = np.zeros((view.batch.n, 1 if alike else view.batch.K))
    unsupported = int(excess_squares(logging, wanted, lengths, excess))
    order_squares(excess, lengths, orders, out[: J + 1])
    masked_squares(excess, lengths, masked.pairs, masked.added, masked.base, out[J + 1 :])
    return out, unsupported


def _controls(view: View) -> Floats:
    """Return (rho_l - 1) x_j and (rho_l - 1): mean zero whatever the context columns are (H, n)."""
    rho = view.ratios.rho
    if view.ratios.kind != "factored":
        return np.empty((0, view.batch.n))
    excess = (rho - 1.0).T  # (K, n)
    if len(excess) > _CONTROLS:  # long rankings: what the positions have in common
        excess = excess.sum(axis=0, keepdims=True)
    x = np.nan_to_num(context_columns(view.batch)).T  # (d, n)
    if excess.shape[0] * (x.shape[0] + 1) > _CONTROLS:
        x = x[: max(_CONTROLS // excess.shape[0] - 1, 0)]
    both = [excess, *(excess * row for row in x)]
    return np.ascontiguousarray(np.concatenate(both, axis=0))


def _buckets(totals: Floats, bucket: Ints) -> Floats:
    from counterrank.kernels.hashing import BUCKETS

    out = np.zeros((BUCKETS, totals.shape[0] + 1))
    np.add.at(out[:, :-1], bucket, totals.T)
    out[:, -1] = np.bincount(bucket, minlength=BUCKETS)
    return out
