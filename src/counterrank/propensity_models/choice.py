"""A choice model of the logger: Plackett-Luce with utilities linear in scores and features.

The probability of the next item among the remaining candidates is proportional to exp(theta' z), where
z are the features of the item (conditional logit, McFadden 1974, without replacement: Plackett-Luce).
Unlike the models by position, which learn a score for each item, it needs only a few coefficients for
catalogues of any size and for candidates that change between requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PropensityError
from counterrank.common.messages import ESTIMATED, Message
from counterrank.data.encoding import GapScales
from counterrank.data.log import RankingLog
from counterrank.kernels.hashing import BUCKETS
from counterrank.kernels.jit import jit
from counterrank.policies import Candidates, Scored, parse_policy
from counterrank.propensity_models.model import (
    CERTAIN,
    FOLDS,
    PENALTY,
    best_power,
    deterministic_error,
    most_likely,
    scales_of,
    with_propensity,
)

#: The name of the logger's scores among the features.
SCORES = "scores"
#: Number of features of candidates that are encoded at once.
_CELLS = 4_000_000
#: The ridge penalty of the logger's scores, a thousandth of the others because they explain its choices.
_SCORE_PENALTY = 1e-3 * PENALTY


def known_features(log: RankingLog) -> tuple[str, ...]:
    """Return the names of the features of candidates; the first is `SCORES` if the logger has scores."""
    log = with_candidates(log)
    if log.candidates is None:
        return ()
    return (*([] if _scores(log) is None else [SCORES]), *log.item_feature_names)


def with_candidates(log: RankingLog) -> RankingLog:
    """Return the log with the candidates of its logger if it has no others."""
    policy = log.propensity
    if log.candidates is not None or not isinstance(policy, Scored) or policy.n_rows != log.n:
        return log
    return log.changed(candidates=policy.candidates)


def _scores(log: RankingLog) -> Floats | None:
    """Return the logger's scores (N,) of the log's candidates, if it has any."""
    policy, sets = log.propensity, log.candidates
    if not isinstance(policy, Scored) or sets is None or policy.scores.shape != sets.items.shape:
        return None
    same_candidates = policy.candidates is sets or (
        np.array_equal(policy.candidates.offsets, sets.offsets)
        and np.array_equal(policy.candidates.items, sets.items)
    )
    return policy.scores if same_candidates else None


@dataclass(frozen=True, slots=True, eq=False)
class Tastes(GapScales):
    """The encoding of candidates as rows of a feature matrix, standardised."""

    names: tuple[str, ...]

    @classmethod
    def learn(cls, log: RankingLog) -> Self:
        """Return the encoding of a log, scaled by the spread of features within rows."""
        names = known_features(log)
        count, total, square = np.zeros((3, len(names)))
        gaps = np.zeros(len(names), bool)
        for piece, starts in _blocks(log, len(names)):
            raw = _raw_features(piece, names)
            finite = np.isfinite(raw)
            filled = np.where(finite, raw, 0.0)
            candidates = np.add.reduceat(finite, starts, axis=0, dtype=np.float64)
            middle = np.add.reduceat(filled, starts, axis=0) / np.maximum(candidates, 1.0)
            # The mean of a row is subtracted, because a constant cancels in the choice probabilities.
            centred = np.where(finite, filled - np.repeat(middle, _sets(piece).counts, axis=0), 0.0)
            count += candidates.sum(axis=0)
            total += filled.sum(axis=0)
            square += (centred**2).sum(axis=0)
            gaps |= np.isnan(raw).any(axis=0)
        denominator = np.maximum(count, 1.0)
        spread, labels = np.sqrt(square / denominator), log.categories_of_items
        return cls(*scales_of(total / denominator, spread, gaps, names, labels), names)

    @property
    def width(self) -> int:
        """Number of coefficients d."""
        coded = sum(size - 1 for _, size in self.categories)
        return len(self.names) + coded + len(self.missing)

    @property
    def penalty(self) -> Floats:
        """The ridge on each coefficient (d,)."""
        ridge = np.full(self.width, PENALTY)
        if self.names[0] == SCORES:
            ridge[0] = _SCORE_PENALTY
        return ridge

    def matrix(self, log: RankingLog) -> Floats:
        """Return features (N, d) of all candidates: numbers (scores first), categories, missing flags."""
        return self.encode(_raw_features(log, self.names))


@dataclass(frozen=True, slots=True, eq=False)
class CandidateModel:
    """Coefficients (F, d), where row f is fitted without fold f; `power` multiplies all utilities."""

    tastes: Tastes
    theta: Floats
    power: float = 1.0
    notes: tuple[str, ...] = ()

    def utilities(self, log: RankingLog) -> Floats:
        """Return the utility of each candidate (N,), -inf if not eligible.

        The coefficients are those that were fitted without the candidate's row.
        """
        parts = []
        for piece, _ in _blocks(log, self.tastes.width):
            by_fold = self.tastes.matrix(piece) @ (self.power * self.theta.T)  # (N, F)
            fold = np.repeat(piece.bucket % len(self.theta), _sets(piece).counts)
            held_out = by_fold[np.arange(len(by_fold)), fold]
            parts.append(np.where(_eligible(piece), held_out, -np.inf))
        return np.concatenate(parts)

    def apply(self, log: RankingLog) -> RankingLog:
        """Return the log with the Plackett-Luce policy of these utilities as its logger, and a note."""
        log = with_candidates(log)
        refuse_unknown(log)
        policy = Scored(
            _sets(log), self.utilities(log), parse_policy("plackett-luce"), name="utilities"
        )
        return with_propensity(log, policy, None, self.notes)

    @property
    def slope(self) -> float | None:
        """The coefficient of the logger's score in its original unit, or None without scores."""
        if self.tastes.names[0] != SCORES:
            return None
        return float(self.power * self.theta[:, 0].mean() / self.tastes.scale[0])


class Choices:
    """The choices in a log, prepared for repeated fits with different weights of units."""

    def __init__(self, log: RankingLog) -> None:
        refuse_unknown(log)
        self.log = with_candidates(log)
        self.tastes = Tastes.learn(self.log)
        # The training data of each fold: rows of other folds whose first item is a candidate, and the
        # feature matrix of their candidates.
        self.parts: list[tuple[RankingLog, Floats]] = []
        for fold in range(FOLDS):
            training = self.log.take(
                np.flatnonzero((log.bucket % FOLDS != fold) & (self.log.shown[:, 0] >= 0))
            )
            if not training.n:
                raise PropensityError(
                    "one half of the log has no ranking whose first item is among its candidates; "
                    "more rows are needed, or the candidates belong to other requests"
                )
            blocks = _blocks(training, self.tastes.width)
            x = np.concatenate([self.tastes.matrix(block) for block, _ in blocks])
            self.parts.append((training, x))

    @cached_property
    def model(self) -> CandidateModel:
        """The calibrated model; raises PropensityError for a deterministic logger."""
        log, plain = self.log, CandidateModel(self.tastes, self._fit(np.ones(BUCKETS), None))
        utility, offsets = plain.utilities(log), _sets(log).offsets
        choices = max(int(np.logical_and.accumulate(log.shown >= 0, axis=1).sum()), 1)
        weight, slope = np.ones(log.n), np.empty_like(utility)

        def loss(power: float) -> float:
            """Return the held-out loss of a choice."""
            return choice_loss(offsets, power * utility, log.shown, weight, slope) / choices

        power, least = best_power(loss)
        # The geometric mean of the probabilities.
        if (typical := float(np.exp(-least))) >= CERTAIN:
            raise deterministic_error("what is known of the candidates predicts", typical)
        model = replace(plain, power=power)
        return replace(model, notes=(_note(model),))

    def refit(self, bucket_weight: Floats) -> CandidateModel:
        """Return the model refitted with weights (1024,) of the buckets of units."""
        return replace(self.model, theta=self._fit(bucket_weight, self.model.theta))

    def _fit(self, bucket_weight: Floats, start: Floats | None) -> Floats:
        return np.stack(
            [
                fit_choice(
                    x,
                    _sets(training).offsets,
                    training.shown,
                    bucket_weight[training.bucket],
                    eligible=_eligible(training),
                    penalty=self.tastes.penalty,
                    start=None if start is None else start[fold],
                )
                for fold, (training, x) in enumerate(self.parts)
            ]
        )


def fit_choice(
    x: Floats,
    offsets: Ints,
    places: Ints,
    weight: Floats,
    *,
    eligible: Bools,
    penalty: Floats,
    start: Floats | None = None,
) -> Floats:
    """Return the coefficients (d,) of largest penalised likelihood, by L-BFGS.

    The loss is -sum_i w_i sum_k log P(a_ik | remaining candidates) + sum_j penalty_j theta_j^2 / 2,
    which is convex.
    """
    slope = np.empty(len(x))

    def loss(theta: Floats) -> tuple[float, Floats]:
        utility = np.where(eligible, x @ theta, -np.inf)
        return choice_loss(offsets, utility, places, weight, slope), slope @ x

    # Tight tolerances, so that engines which read rows in another order give the same result.
    exact = {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9}
    return most_likely(loss, penalty, weight, start, exact)


def refuse_unknown(log: RankingLog) -> None:
    """Raise PropensityError if the log has no candidates, or candidates without scores and features."""
    if known_features(log):
        return
    lacks = (
        "no candidates"
        if log.candidates is None
        else "candidates, but neither scores nor features of them"
    )
    raise PropensityError(
        "plackett-luce estimates propensities from the candidates of each request and their scores "
        f"or features; this log has {lacks}. Log 'candidates' with 'propensity_scores' or features "
        "(columns z_..., or a file of features by item)"
    )


def _blocks(log: RankingLog, width: int) -> Iterator[tuple[RankingLog, Ints]]:
    """Yield blocks of the log with a bounded number of features, and the offsets of their candidates."""
    for block in _sets(log).blocks(max(1, _CELLS // max(width, 1))):
        piece = log.take(block)
        yield piece, _sets(piece).offsets[:-1]


def _sets(log: RankingLog) -> Candidates:
    assert log.candidates is not None
    return log.candidates


def _eligible(log: RankingLog) -> Bools:
    """Return True for the candidates (N,) whose score is not -inf."""
    scores = _scores(log)
    return np.ones(len(_sets(log).items), bool) if scores is None else scores > -np.inf


def _raw_features(log: RankingLog, names: tuple[str, ...]) -> Floats:
    """Return the features of the candidates (N, len(names)), NaN if missing."""
    sets = _sets(log)
    columns: list[Any] = [_scores(log)] if names[0] == SCORES else []
    for name, values in sets.features.items():
        columns.append(np.where(values < 0, np.nan, values) if name in sets.categories else values)
    if log.item_features is not None:
        columns.append(log.item_features.lookup(sets.items.astype(np.int64)))
    return np.column_stack(columns).astype(np.float64)


def _note(model: CandidateModel) -> str:
    names = [name for name in model.tastes.names if name != SCORES]
    parts = []
    if (slope := model.slope) is not None:
        parts.append(
            f"the logger's scores, temperature {1 / slope:.3g}"
            if slope > 0
            else f"the logger's scores, of which low ones were shown first (slope {slope:.3g})"
        )
    if names:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        parts.append(f"features {shown}" if len(names) > 1 else f"feature {shown}")
    return Message(
        ESTIMATED,
        f"propensities were not logged but estimated (plackett-luce on {' and '.join(parts)}; "
        f"{FOLDS}-fold, calibrated); intervals include the model's own spread, but not reasons for "
        "showing an item that the log does not hold",
    )


@jit
def choice_loss(  # noqa: C901
    offsets: Ints, utility: Floats, places: Ints, weight: Floats, slope: Floats
) -> float:
    """Return sum_i w_i sum_k [log D_ik - u_ik], and write its gradient by utility to `slope` (N,).

    u_ik is the utility of the item that row i shows at k, and D_ik is the sum of exp(utility) of the
    candidates that remained before k. A row counts up to its first item that is no candidate, not
    eligible (-inf) or repeated, because the remaining candidates are unknown after it.
    """
    n, K = places.shape
    log_left = np.empty(K)
    total = 0.0
    for i in range(n):
        first, last = offsets[i], offsets[i + 1]
        row, out = utility[first:last], slope[first:last]
        out[:] = 0.0
        if weight[i] == 0.0:
            continue
        length = 0
        # In this loop `out` marks the shown candidates.
        while length < K:
            place = places[i, length]
            if place < 0 or row[place] == -np.inf or out[place] != 0.0:
                break
            out[place] = 1.0
            length += 1
        if length == 0:
            continue
        top = -np.inf
        for c in range(row.size):
            if out[c] == 0.0 and row[c] > top:
                top = row[c]
        unshown_mass = 0.0
        if top > -np.inf:
            for c in range(row.size):
                if out[c] == 0.0:
                    out[c] = np.exp(row[c] - top)
                    unshown_mass += out[c]
        # The remaining mass is summed from the end, which avoids differences of nearly equal numbers.
        left = top + np.log(unshown_mass) if unshown_mass > 0.0 else -np.inf
        loss = 0.0
        for k in range(length - 1, -1, -1):
            u = row[places[i, k]]
            left = np.logaddexp(left, u)
            log_left[k] = left
            loss += left - u
        unshown = 0.0
        for k in range(length):
            unshown += np.exp(top - log_left[k])
        for c in range(row.size):
            out[c] *= weight[i] * unshown
        for k in range(length):
            u, expected = row[places[i, k]], 0.0
            for j in range(k + 1):
                expected += np.exp(u - log_left[j])
            out[places[i, k]] = weight[i] * (expected - 1.0)
        total += weight[i] * loss
    return total
