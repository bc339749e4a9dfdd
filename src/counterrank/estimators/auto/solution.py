"""From the sums of `auto`'s columns to its solution: members as quantities, one decision, and what follows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from counterrank.common.arrays import Bools, Floats, Summed
from counterrank.common.errors import EstimatorError
from counterrank.estimators.auto.nuisances import correction
from counterrank.estimators.auto.rule import (
    AIMED,
    MODELS,
    Decision,
    Summary,
    basis_of,
    decide,
    details_of,
    expected_squares,
    flags_of,
    whole_rankings,
    without_evidence,
)
from counterrank.estimators.columns import logged
from counterrank.estimators.solution import Solution, traits_of_weights
from counterrank.statistics import ColumnSums, Key, PositionSums, Quantity, fold_deviations, spread

if TYPE_CHECKING:
    from counterrank.estimators.auto.auto import AutoFit

#: Covariances of controls with smaller eigenvalues than this share of the largest are noise.
_COLLINEAR = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class AutoSums(Summed):
    """Sums over rows of which no products are needed, for J members, F folds and K positions.

    - square (J,): sums of squared weights over positions
    - reached (2, 2): sums and numbers of cut weights, of single items and of three neighbours
    - tails (2, J), tail_rows: expected squares of weights, and the target's mass that weights do not
      reach, as they follow from the policies, summed over some rows
    - folds (F, J), fold_rows: members' totals by the fit without each fold, on some rows
    - ratio (K,): sums of rho_k^2, where positions are independent
    - mean_weight (2,): sum and sum of squares of the rows' mean weight
    - volume (K,): the part of the expected change at each position that is a change in clicks, where
      rewards are amounts
    """

    square: Floats
    reached: Floats
    tails: Floats
    tail_rows: int
    folds: Floats
    fold_rows: int
    ratio: Floats
    mean_weight: Floats
    volume: Floats

    @property
    def ess(self) -> float:
        """Effective rows of the smallest weights."""
        total, square = self.mean_weight
        return float(total**2 / square) if square > 0 else 0.0

    def expected(self, members: tuple[str, ...], n: int) -> tuple[Floats, Floats]:
        """Return E_0[w^2] of each member (J,) as it follows from the policies, and the mass out of its reach."""
        squares, unsupported = self.tails / max(self.tail_rows, 1)
        if not self.tail_rows:
            excess = np.maximum(self.ratio / n - 1.0, 0.0)[None]
            squares = expected_squares(members, excess, np.ones(excess.shape, dtype=bool))[:, 0]
        # The factor on a variance is cut at 1e100, so that products stay finite.
        return np.minimum(squares, 1e300), unsupported


@dataclass(frozen=True, slots=True, eq=False)
class Members:
    """The logged reward, J members, M models and terms of the aimed step, over the sums of C columns.

    `value` (T,), `gradients` (T, C) over the means of the columns and `refits` (T, F); at each position the
    means `position_means` (K, 1 + J) and their `maps` (K, 1 + J, p + h) onto the columns there.
    """

    names: tuple[str, ...]
    value: Floats
    gradients: Floats
    refits: Floats
    position_means: Floats
    maps: Floats
    inflation: Floats
    occurred: Bools
    unsupported: Floats

    def covariance(self, columns: Floats) -> Floats:
        """Return the covariance (T, T) from that of the column means (C, C)."""
        return np.asarray(self.gradients @ columns @ self.gradients.T + self.refits @ self.refits.T)

    def with_aim(self, coefficients: Floats) -> Members:
        """Return the same with the aimed member after the models, made of the terms of the step, which go."""
        T, J = len(self.value), len(self.names)
        totals = T - len(coefficients)
        # Totals: logged reward, models, aimed = models + correction, the other members, each model.
        aimed = np.concatenate([np.eye(totals)[1], coefficients])
        through = np.insert(np.eye(totals, T), 2, aimed, axis=0)
        # At each position the aimed member equals that of the models: its correction is of the page.
        places, members = np.insert(np.arange(1 + J), 2, 1), np.insert(np.arange(J), 1, 0)
        return replace(
            self,
            names=(MODELS, AIMED, *self.names[1:]),
            value=through @ self.value,
            gradients=through @ self.gradients,
            refits=through @ self.refits,
            position_means=self.position_means[:, places],
            maps=self.maps[:, places],
            inflation=self.inflation[members],
            # Equal log ratios tell nothing: the step is not there.
            occurred=np.insert(self.occurred, 1, coefficients.any()),
            unsupported=self.unsupported[members],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """What was decided on all rows: the combinations of members, and the coefficients of the aimed step."""

    decision: Decision
    aim: Floats


# Squares that are too large for a number are reported as such.
@np.errstate(over="ignore", invalid="ignore")
def solved(
    fit: AutoFit, sums: ColumnSums, auto_sums: AutoSums, overall: Solution | None
) -> Solution:
    """Return the solution of `auto` over some rows; a group of rows follows the `overall`."""
    table = MemberTable.solved(
        fit, sums, auto_sums, None if overall is None else overall.decision.aim
    )
    follows = None if overall is None else overall.decision.decision
    models = fit.nuisances
    counted = models.counted if fit.modelled else None
    decision = decide(
        table.summary, fit.allowance, models.unknown, counted, follows, doubted=models.doubted
    )
    solution = solution_of(table, decision)
    details = {"regression": models.details} if fit.modelled else {}
    return replace(
        solution,
        # Calibration to all rows is no choice that other targets make differently.
        controls=frozenset() if fit.modelled else frozenset(table.block.row_keys),
        flags=(*fit.flags, *solution.flags),
        details={**solution.details, **details},
        decision=Decided(decision, table.aim),
    )


@dataclass(frozen=True, slots=True, eq=False)
class MemberTable:
    """The members over sums: as quantities, and as the rule sees them.

    `identity` (C, T) are the members' columns among all row totals, `block` the sums by position, `aim` the
    coefficients of the aimed step.
    """

    members: Members
    summary: Summary
    sums: ColumnSums
    block: PositionSums
    identity: Floats
    aim: Floats

    @classmethod
    def solved(
        cls, fit: AutoFit, sums: ColumnSums, auto_sums: AutoSums, aim: Floats | None = None
    ) -> MemberTable:
        """Return the members over the sums of some rows; the aimed step is fitted to them where it is not given."""
        block = sums.block_of[fit.places[0]]
        controls = tuple(
            key for key in block.row_keys if key in fit.control_keys(len(block.row_keys))
        )
        numbers = sums.numbers([*fit.totals, *controls])
        identity = np.zeros((len(numbers), len(sums.keys)))
        identity[np.arange(len(numbers)), numbers] = 1.0
        members, columns = _members(fit, sums, auto_sums, block, controls, identity)
        if aim is None:
            terms = members.value[len(members.value) - fit.aims :]
            aim = correction(terms) if fit.aims else np.zeros(0)
        if fit.aims:
            members = members.with_aim(aim)
        summary = _summary(fit, sums, auto_sums, members, columns)
        return cls(members, summary, sums, block, identity, aim)


def solution_of(table: MemberTable, decision: Decision) -> Solution:
    """Return the solution that a decision makes."""
    summary, sums, block = table.summary, table.sums, table.block
    positions: tuple[Quantity, ...] = ()
    earned: tuple[Quantity, ...] = ()
    if block.gram is not None:
        positions, earned = _positions(table, decision)
    basis = basis_of(summary, decision)
    order = basis.removeprefix("order-")
    return Solution(
        _quantity(table, decision),
        sums.mean(block.keys[0]),
        positions,
        earned,
        summary.ess,
        basis,
        traits_of_weights(int(order) if order.isdigit() else basis),
        without_evidence(summary),
        flags_of(summary, decision),
        details_of(summary, decision),
        weighted=_weighted_share(summary, decision),
        # Weights of whole rankings have no models to rest on.
        unreached=0.0
        if any(decision.centre[j] == 1.0 for j in whole_rankings(summary))
        else max(summary.alone, summary.jointly),
    )


def _members(
    fit: AutoFit,
    sums: ColumnSums,
    auto_sums: AutoSums,
    block: PositionSums,
    controls: tuple[Key, ...],
    identity: Floats,
) -> tuple[Members, Floats]:
    """Return the members with controls regressed out and errors inflated, and the covariance of the columns (C, C)."""
    rows, n, J = sums.rows, sums.rows.n, len(fit.members)
    numbers, H = identity.argmax(axis=1), len(controls)
    T = len(numbers) - H
    mean = rows.total[numbers] / n
    second = rows.products[np.ix_(numbers, numbers)] / n
    by_row = spread(second, np.outer(mean, mean), n) / n
    if not (np.isfinite(by_row).all() and (block.gram is None or np.isfinite(block.gram).all())):
        raise EstimatorError(
            "'auto' overflows: squares of its contributions are no numbers any more. Look for "
            "logging propensities near zero or rewards of enormous size"
        )
    columns = rows.covariance(identity) if rows.units > 1 else by_row
    # beta = Cov(h)^-1 Cov(h, y) is fitted on the same rows (a bias of order H / n). Controls may be
    # collinear (weights of the same ratios). The logged reward is not an estimate and stays as it is.
    inverse = np.linalg.pinv(by_row[T:, T:], rcond=_COLLINEAR, hermitian=True)
    gradients = np.eye(T, T + H)
    gradients[1:, T:] = -by_row[1:T, T:] @ inverse
    squares, unsupported = auto_sums.expected(fit.members, n)
    occurred = auto_sums.square > 0
    # E_0[w^2] follows from the policies. Where the mean square in the log is smaller, the rankings that
    # dominate the variance have not occurred. The covariance of two members has the geometric mean of
    # their factors, which keeps it positive: it is the covariance of gradients times the roots.
    shown = np.where(occurred, np.maximum(auto_sums.square / n, 1e-100 * squares), np.inf)
    inflation = np.maximum(1.0, squares / shown)
    root = np.sqrt(np.concatenate([[1.0], inflation, np.ones(T - 1 - J)]))
    refits = np.zeros((T, len(auto_sums.folds)))
    if auto_sums.fold_rows and len(auto_sums.folds) > 1:
        refits[1 : 1 + J] = fold_deviations(auto_sums.folds / auto_sums.fold_rows).T
    scale = root[: 1 + J] * _design_effects(gradients, columns, by_row, rows.units, n)[: 1 + J]
    means, maps = _places(fit, block, controls, mean[T:], inverse / max(n - 1, 1), n)
    return Members(
        fit.members,
        gradients @ mean,
        gradients * root[:, None],
        refits,
        means,
        maps * scale[:, None],
        inflation,
        occurred,
        unsupported,
    ), columns


def _design_effects(
    gradients: Floats, columns: Floats, by_row: Floats, units: int, n: int
) -> Floats:
    """Return the roots of the design effects (T,) of totals, which errors at positions take, summed by row."""
    if units == n:
        return np.ones(len(gradients))
    variances = (
        np.einsum("tc,cd,td->t", gradients, covariance, gradients)
        for covariance in (columns, by_row)
    )
    clustered, independent = (np.maximum(variance, 0.0) for variance in variances)
    # A design effect is at most n; a larger one is a rounding error of a variance of zero.
    ratio = clustered / np.maximum(independent, 1e-300)
    return np.asarray(np.sqrt(np.minimum(ratio, 2.0 * n)))


def _places(
    fit: AutoFit,
    block: PositionSums,
    controls: tuple[Key, ...],
    centre: Floats,
    inverse: Floats,
    n: int,
) -> tuple[Floats, Floats]:
    """Return means (K, 1 + J) at each position, controls regressed out, and their maps (K, 1 + J, p + h)."""
    places = [block.keys.index(key) for key in (logged(fit.workspace.metric), *fit.places)]
    means = block.total[:, places] / n
    maps = np.zeros((*means.shape, len(block.keys) + len(block.row_keys)))
    maps[:, np.arange(len(places)), places] = 1.0
    if controls and block.cross is not None:
        numbers = [block.row_keys.index(key) for key in controls]
        mixed = block.cross[:, places][:, :, numbers] / n - means[:, :, None] * centre
        beta = mixed @ inverse
        beta[:, 0] = 0.0
        means = means - beta @ centre
        maps[:, :, len(block.keys) + np.array(numbers)] = -beta
    return means, maps


def _summary(
    fit: AutoFit, sums: ColumnSums, auto_sums: AutoSums, members: Members, columns: Floats
) -> Summary:
    """Return what the rule decides on."""
    # Whole weights have a mean of one: what cut weights lack of it is not covered.
    weight, count = auto_sums.reached.T
    lacking = np.maximum(1.0 - weight / np.maximum(count, 1e-300), 0.0)
    alone, jointly = lacking * (fit.modelled & (count > 0))
    if fit.modelled and not count[0]:
        alone = members.unsupported.max(initial=0.0)
    return Summary(
        members.names,
        sums.rows.n,
        sums.rows.units,
        fit.workspace.first.position_weights,
        members.value,
        members.covariance(columns),
        members.position_means,
        members.inflation,
        members.occurred,
        members.unsupported,
        float(alone),
        float(jointly),
        auto_sums.volume / sums.rows.n,
        auto_sums.ess,
    )


def _quantity(table: MemberTable, decision: Decision) -> Quantity:
    """Return the value at the decision's weights, with the error of its centre, and midway between them."""
    members = table.members
    of_members = slice(1, 1 + len(members.names))
    value, centre = (
        float(w @ members.value[of_members]) for w in (decision.weights, decision.centre)
    )
    return Quantity(
        table.sums.rows,
        value,
        decision.centre @ members.gradients[of_members] @ table.identity,
        refits=decision.centre @ members.refits[of_members],
        model_variance=decision.unknown,
        allowance=decision.allowance,
        shift=(centre - value) / 2,
    )


def _positions(
    table: MemberTable, decision: Decision
) -> tuple[tuple[Quantity, ...], tuple[Quantity, ...]]:
    """Return the value of each position, and what the logger earned there.

    Row totals use surprises along click histories, and the aimed step corrects the page: neither has a
    value at a single position. Shares of the positions are in proportion to their weights, and so is
    the error of the aimed step. Intervals stand midway between estimate and centre, as that of the total.
    """
    members, sums, block = table.members, table.sums, table.block
    alpha, base = table.summary.alpha, block.keys[0]
    share = alpha / max(float(alpha @ alpha), 1e-300)
    combinations = np.stack([decision.weights, decision.centre], axis=1)
    local = members.position_means[:, 1:] @ combinations
    total = members.value[1 : 1 + len(members.names)] @ combinations
    values, centres = (local + np.outer(share, total - alpha @ local)).T.tolist()
    step = np.zeros(len(sums.keys))
    if AIMED in members.names:
        j = members.names.index(AIMED)
        step = decision.centre[j] * (members.gradients[1 + j] - members.gradients[1])
        step = step @ table.identity
    positions, earned = [], []
    for k, (value, centre) in enumerate(zip(values, centres, strict=True)):
        mean, shift = sums.position(base, k, block), (centre - value) / 2
        gradient = np.concatenate([decision.centre @ members.maps[k, 1:], share[k] * step])
        positions.append(Quantity(mean.sample, value, gradient, allowance=abs(shift), shift=shift))
        logger = np.concatenate([members.maps[k, 0], np.zeros(len(step))])
        earned.append(Quantity(mean.sample, float(members.position_means[k, 0]), logger))
    return tuple(positions), tuple(earned)


def _weighted_share(summary: Summary, decision: Decision) -> float:
    """Return the share of the interval's centre that weights move."""
    return math.fsum(
        abs(float(w))
        for name, w in zip(summary.members, decision.centre, strict=True)
        if name not in (MODELS, AIMED)
    )
