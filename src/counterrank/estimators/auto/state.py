"""The sums that `auto` takes over rows, and the means and covariances that follow from them."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.errors import EstimatorError
from counterrank.estimators.auto.members import AIMED, squares_of
from counterrank.estimators.auto.nuisances import correction
from counterrank.statistics import Sums, jackknife, spread


@dataclass(frozen=True, slots=True, eq=False)
class AutoState:
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

    n: int
    alpha: Floats
    aims: int
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

    def __add__(self, other: "AutoState") -> "AutoState":
        added = {
            f.name: getattr(self, f.name) + getattr(other, f.name)
            for f in fields(self)
            if f.name not in ("alpha", "aims")
        }
        return AutoState(alpha=self.alpha, aims=self.aims, **added)


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
    - terms (J, C): each member as a combination of the row totals of a `Part`
    - volume (K,): the change in clicks at each position; the rest of the change is one in amounts
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
    seen: NDArray[np.bool_]
    unsupported: Floats
    alone: float
    jointly: float
    terms: Floats
    volume: Floats

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
    state: AutoState, members: tuple[str, ...], *, modelled: bool, like: Summary | None = None
) -> Summary:
    """Return means and covariances, clustered by unit; the aimed step is that of `like` where given.

    Controls are regressed out. Variances are inflated for heavy weights that the log does not show, and
    contain the error of the fitted models (delete-a-fold jackknife).
    """
    if not (np.isfinite(state.sums.products).all() and np.isfinite(state.second).all()):
        raise EstimatorError(
            "'auto' overflows: squares of its contributions are no numbers any more. Look for "
            "logging propensities near zero or rewards of enormous size"
        )
    n, alpha, J = state.n, state.alpha, len(members)
    at, value, units = state.first / n, state.sums.total / n, state.sums.units
    by_row = spread(state.sums.products / n, np.outer(value, value), n) / n
    at_covariance = spread(state.second / n, at[:, :, None] * at[:, None, :], n) / n
    covariance = state.sums.covariance(np.eye(len(value))) if units > 1 else by_row
    if state.mixed.shape[2]:
        at, at_covariance, through = _controlled(state, at, at_covariance, by_row * max(n - 1, 1))
        value = through @ value
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
    found = Summary(
        members, n, units, alpha, value, covariance, at, at_covariance, inflation, seen, unsupported,
        float(alone), float(jointly), np.eye(J), state.volume / n,
    )  # fmt: skip
    return with_aim(found, state.aims, like) if state.aims else found


def with_aim(summary: Summary, aims: int, like: Summary | None = None) -> Summary:
    """Return the summary with the aimed member after the models, made from the terms of the step.

    `like` is the summary of all rows where this is one of a group of them.
    """
    J, T = len(summary.members), len(summary.value)
    M = T - 1 - J - aims
    terms = T - aims
    coefficients = correction(summary.value[terms:]) if like is None else like.terms[1, J:]
    # Rows: logged reward, models, aimed = models + correction, the other members, each model.
    through = np.zeros((2 + J + M, T))
    through[:2, :2] = np.eye(2)
    through[2, 1], through[2, terms:] = 1.0, coefficients
    through[3:, 2:terms] = np.eye(J - 1 + M)
    # At each position the aimed member equals that of the models: its correction is of the page.
    places = np.array([0, 1, 1, *range(2, 1 + J)])
    again = places[1:] - 1
    own = np.zeros((1 + J, J + aims))
    own[0, 0] = 1.0
    own[1, 0], own[1, J:] = 1.0, coefficients
    own[2:, 1:J] = np.eye(J - 1)
    return replace(
        summary,
        members=(summary.members[0], AIMED, *summary.members[1:]),
        value=through @ summary.value,
        covariance=through @ summary.covariance @ through.T,
        at=summary.at[:, places],
        at_covariance=summary.at_covariance[:, places][:, :, places],
        inflation=summary.inflation[again],
        # Equal log ratios tell nothing: the step is not there.
        seen=np.concatenate([summary.seen[:1], [bool(coefficients.any())], summary.seen[1:]]),
        unsupported=summary.unsupported[again],
        terms=own,
    )


def _controlled(
    state: AutoState, at: Floats, at_covariance: Floats, covariance: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return means and covariances by position with controls h regressed out, and the same map for totals.

    beta = Cov(h)^-1 Cov(h, y) is fitted on the same rows (a bias of order H/n); `covariance` is
    that of the totals.
    """
    n, H = state.n, state.mixed.shape[2]
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
