"""What `auto` sums over rows: means and products of its members, in arrays that add."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.auto.masked import inside

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AutoState:
    """Additive statistics of C columns (members and what the logger earned) and H mean-zero controls.

    first (K, C): sums at each position; second (K, C, C): products at each position; total (C, C): products of row
    totals sum_k alpha_k y_k; mixed (K, C, H): products with controls; control (H, H) and control_sum (H,);
    square, exact (J+1+P,): empirical and exact sums of squared weights by order, then of masks x orders;
    ratio (K,): sums of rho_k^2; weights (2,): sum and sum of squares of the mean pair weight; buckets (1024, C+1) row
    totals and counts by unit, or empty; unsupported: rows where the logger never shows something the target does.
    """

    n: int
    alpha: Floats
    first: Floats
    second: Floats
    total: Floats
    mixed: Floats
    control: Floats
    control_sum: Floats
    square: Floats
    exact: Floats
    ratio: Floats
    weights: Floats
    buckets: Floats
    unsupported: int = 0

    def __add__(self, other: "AutoState") -> "AutoState":
        added = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "alpha"}
        return AutoState(alpha=self.alpha, **added)


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Means by position (K, C), of totals (C,), and covariances of those means: (C, C) and (K, C, C)."""

    names: tuple[str, ...]
    n: int
    alpha: Floats
    by_position: Floats
    value: Floats
    covariance: Floats
    position_covariance: Floats
    inflation: Floats
    units: int

    def index(self, name: str) -> int:
        """Return the column of a member."""
        return self.names.index(name)


def summarise(state: AutoState, names: tuple[str, ...], orders: Ints) -> Summary:
    """Return means and covariances, with the controls regressed out where there are any.

    Beta = Cov(h)^-1 Cov(h, y) is fitted on the same rows (a bias of order H/n). Covariances of order-m members are
    inflated where the sample has not met the tail that second moments of the weights know of: exact ones where whole
    distributions are known, else those that follow from the positions' mean rho^2. No orders, no inflation.
    """
    n, alpha = state.n, state.alpha
    mean = state.first / n
    value = alpha @ mean
    scale = 1.0 / max(n - 1, 1)
    total = (state.total / n - np.outer(value, value)) * scale
    second = (state.second / n - mean[:, :, None] * mean[:, None, :]) * scale
    units = n
    if state.buckets.shape[0]:
        total, second, units = _clustered(state, value, total, second)
    if state.control.shape[0]:
        mean, value, total, second = _controlled(state, mean, value, total, second)
    inflation = np.ones(len(names))
    if "dr-order-1" in names:
        wanted = state.exact if state.exact.any() else _second_moments(state, orders)
        met = state.square > 0
        ratio = np.where(met, np.maximum(1.0, wanted / np.where(met, state.square, 1.0)), 1.0)
        weighted = (*(f"dr-order-{m}" for m in orders), "dr-ips", *inside(len(alpha)).names)
        members = [names.index(name) for name in weighted]
        inflation[members] = ratio
    root = np.sqrt(inflation)
    outer = np.outer(root, root)
    total, second = total * outer, second * outer
    if "dr-order-1" in names:
        _unmet(state, [c for c, seen in zip(members, met, strict=True) if not seen], wanted[~met], total, second)
    return Summary(names, n, alpha, mean, value, total, second, inflation, units)


def _unmet(state: AutoState, members: list[int], wanted: Floats, total: Floats, second: Floats) -> None:
    """Give members whose weights are zero in every row the variance that rewards times such weights would have.

    Their sums say nothing, and no factor makes a variance of none: it is what the weights' second moments imply.
    """
    rewards = state.second[:, 0, 0] / state.n  # mean r^2 by position; the logger's column comes first
    for member, square in zip(members, wanted, strict=True):
        at_position = square / len(rewards) * rewards / state.n**2
        second[:, member, member] += at_position
        total[member, member] += float((np.abs(state.alpha) @ np.sqrt(at_position)) ** 2)


def _second_moments(state: AutoState, orders: Ints) -> Floats:
    """Return n sum_k (1 + v_k) sum_{j<m} e_j(v without k) with v_k = mean rho_k^2 - 1, the full product after the
    orders, then the same inside masks.
    """
    from counterrank.estimators.kernels.mask_orders import masked_squares

    excess = np.maximum(state.ratio / state.n - 1.0, 0.0)
    out = np.zeros(len(orders) + 1)
    for k in range(len(excess)):
        poly = np.ones(1)
        for v in np.delete(excess, k):
            poly = np.convolve(poly, [1.0, v])
        sums = (1.0 + excess[k]) * np.cumsum(poly)
        out += [*(sums[m - 1] for m in orders), sums[-1]]
    masked = inside(len(excess))
    within = np.zeros(len(masked.names))
    masked_squares(excess[None], np.array([len(excess)]), masked.pairs, masked.added, masked.base, within)
    return state.n * np.concatenate([out, within])


def _clustered(state: AutoState, value: Floats, total: Floats, second: Floats) -> tuple[Floats, Floats, int]:
    """Return covariances over units; by position, those over rows times the same factor as the totals'."""
    sums, counts = state.buckets[:, :-1], state.buckets[:, -1]
    used = counts > 0
    units = int(used.sum())
    scores = sums[used] - counts[used, None] * value
    clustered = units / max(units - 1, 1) * (scores.T @ scores) / state.n**2
    ratio = np.sqrt(np.diag(clustered) / np.maximum(np.diag(total), 1e-300))
    return clustered, second * np.outer(ratio, ratio), units


def _controlled(
    state: AutoState, mean: Floats, value: Floats, total: Floats, second: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    n = state.n
    centre = state.control_sum / n
    of_h = state.control / n - np.outer(centre, centre)
    mixed = state.mixed / n - mean[:, :, None] * centre  # (K, C, H)
    inverse = np.linalg.pinv(of_h, rcond=1e-9, hermitian=True)
    beta = mixed @ inverse
    moved = mean - beta @ centre
    # The logger's own reward is what was earned, not an estimate: it is left alone.
    moved[:, 0] = mean[:, 0]
    beta[:, 0] = 0.0
    whole = np.einsum("k,kch->ch", state.alpha, beta)
    explained = whole @ of_h @ whole.T / n
    at_position = beta @ of_h @ beta.swapaxes(1, 2) / n
    cross = np.einsum("k,kch->ch", state.alpha, mixed) @ whole.T / n
    cross_position = mixed @ beta.swapaxes(1, 2) / n
    total = total - cross - cross.T + explained
    second = second - cross_position - cross_position.swapaxes(1, 2) + at_position
    return moved, state.alpha @ moved, total, second
