"""Rankings drawn by unknown tastes: Plackett-Luce with utilities linear in scores and features.

The models by position learn a score for each item, so that each must have been shown often. Here an
item is what is known of it: the chance of the next item among those left is proportional to
exp(theta' z). Catalogues of any size, and candidates that change from request to request, share a
few coefficients (conditional logit, McFadden 1974, chosen without replacement: Plackett-Luce).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.encoding import GapScales
from counterrank.data.log import RankingLog
from counterrank.errors import PropensityError
from counterrank.kernels.hashing import BUCKETS
from counterrank.kernels.jit import jit
from counterrank.messages import ESTIMATED, Message
from counterrank.policies import Candidates, Scored, parse_policy
from counterrank.propensity_models.model import (
    CERTAIN,
    FOLDS,
    PENALTY,
    best_power,
    deterministic,
    most_likely,
    scales_of,
    with_propensity,
)

#: What the logger's scores are called among the features.
SCORES = "scores"
#: Features of candidates held at once, beside those that are fitted.
_CELLS = 4_000_000
#: Scores say what the logger wanted: their coefficient is held back a thousandth as much.
_SCORE_PENALTY = 1e-3 * PENALTY


def known_of(log: RankingLog) -> tuple[str, ...]:
    """Return the names of what is known of every candidate: scores of the logger, features."""
    log = listed(log)
    if log.candidates is None:
        return ()
    return (*([] if _scores(log) is None else [SCORES]), *log.item_feature_names)


def listed(log: RankingLog) -> RankingLog:
    """Return the log with the candidates of its logger, where it has none of its own."""
    policy = log.propensity
    if log.candidates is not None or not isinstance(policy, Scored) or policy.n_rows != log.n:
        return log
    return log.changed(candidates=policy.candidates)


def _scores(log: RankingLog) -> Floats | None:
    """Return the logger's scores (N,) of the log's candidates, if it has any."""
    policy, sets = log.propensity, log.candidates
    if not isinstance(policy, Scored) or sets is None or policy.scores.shape != sets.items.shape:
        return None
    same = policy.candidates is sets or (
        np.array_equal(policy.candidates.offsets, sets.offsets)
        and np.array_equal(policy.candidates.items, sets.items)
    )
    return policy.scores if same else None


@dataclass(frozen=True, slots=True, eq=False)
class Tastes(GapScales):
    """How candidates become rows of numbers on one scale."""

    names: tuple[str, ...]

    @classmethod
    def learn(cls, log: RankingLog) -> Self:
        """Return the scales of a log: spread within rows, since what a row has in common cancels."""
        names = known_of(log)
        count, total, square = np.zeros((3, len(names)))
        gaps = np.zeros(len(names), bool)
        for part, starts in _pieces(log, len(names)):
            raw = _raw(part, names)
            known = np.isfinite(raw)
            filled = np.where(known, raw, 0.0)
            here = np.add.reduceat(known, starts, axis=0, dtype=np.float64)
            middle = np.add.reduceat(filled, starts, axis=0) / np.maximum(here, 1.0)
            # Less the row's mean: what all candidates of a request share cancels in their chances.
            apart = np.where(known, filled - np.repeat(middle, _sets(part).counts, axis=0), 0.0)
            count += here.sum(axis=0)
            total += filled.sum(axis=0)
            square += (apart**2).sum(axis=0)
            gaps |= np.isnan(raw).any(axis=0)
        each = np.maximum(count, 1.0)
        spread, labels = np.sqrt(square / each), log.categories_of_items
        return cls(*scales_of(total / each, spread, gaps, names, labels), names)

    @property
    def width(self) -> int:
        """Number of coefficients d."""
        coded = sum(size - 1 for _, size in self.categories)
        return len(self.names) + coded + len(self.missing)

    @property
    def penalty(self) -> Floats:
        """The ridge on each coefficient (d,)."""
        found = np.full(self.width, PENALTY)
        if self.names[0] == SCORES:
            found[0] = _SCORE_PENALTY
        return found

    def of(self, log: RankingLog) -> Floats:
        """Return (N, d) of all candidates: numbers, scores first; then categories, then gaps."""
        return self.encode(_raw(log, self.names))


@dataclass(frozen=True, slots=True, eq=False)
class CandidateModel:
    """Coefficients (F, d), those of fold f learnt without it; `power` multiplies all utilities."""

    tastes: Tastes
    theta: Floats
    power: float = 1.0
    notes: tuple[str, ...] = ()

    def utilities(self, log: RankingLog) -> Floats:
        """Return the utility of each candidate (N,), -inf where it is not eligible.

        By coefficients that have not seen its row.
        """
        parts = []
        for part, _ in _pieces(log, self.tastes.width):
            each = self.tastes.of(part) @ (self.power * self.theta.T)  # (N, F)
            fold = np.repeat(part.bucket % len(self.theta), _sets(part).counts)
            found = each[np.arange(len(each)), fold]
            parts.append(np.where(_eligible(part), found, -np.inf))
        return np.concatenate(parts)

    def apply(self, log: RankingLog) -> RankingLog:
        """Return the log whose logger is Plackett-Luce by these utilities, and the flag that says so."""
        log = listed(log)
        refuse_unknown(log)
        policy = Scored(
            _sets(log), self.utilities(log), parse_policy("plackett-luce"), name="utilities"
        )
        return with_propensity(log, policy, None, self.notes)

    @property
    def slope(self) -> float | None:
        """What one unit of the logger's score adds to the utility; None without scores."""
        if self.tastes.names[0] != SCORES:
            return None
        return float(self.power * self.theta[:, 0].mean() / self.tastes.scale[0])


class Choices:
    """The choices of a log, ready to be fitted again and again with other weights on its units."""

    def __init__(self, log: RankingLog) -> None:
        refuse_unknown(log)
        self.log = listed(log)
        self.tastes = Tastes.learn(self.log)
        # What a fold's own coefficients are fitted on: rows of other folds that can tell something, those
        # with a candidate at the top; and their candidates as numbers.
        self.parts: list[tuple[RankingLog, Floats]] = []
        for fold in range(FOLDS):
            part = self.log.take(
                np.flatnonzero((log.bucket % FOLDS != fold) & (self.log.shown[:, 0] >= 0))
            )
            if not part.n:
                raise PropensityError(
                    "one half of the log has no ranking whose first item is among its candidates; "
                    "more rows are needed, or the candidates belong to other requests"
                )
            pieces = [self.tastes.of(piece) for piece, _ in _pieces(part, self.tastes.width)]
            self.parts.append((part, np.concatenate(pieces)))

    @cached_property
    def model(self) -> CandidateModel:
        """The calibrated model, or a refusal of a deterministic logger."""
        plain = CandidateModel(self.tastes, self._fitted(np.ones(BUCKETS), None))
        power, typical = self._calibrated(plain)
        if typical >= CERTAIN:
            raise deterministic("what is known of the candidates predicts", typical)
        model = replace(plain, power=power)
        return replace(model, notes=(_note(model),))

    def refit(self, bucket_weight: Floats) -> CandidateModel:
        """Return the model fitted again with other weights (1024,) on the buckets of units."""
        return replace(self.model, theta=self._fitted(bucket_weight, self.model.theta))

    def _fitted(self, bucket_weight: Floats, start: Floats | None) -> Floats:
        return np.stack(
            [
                fit_choice(
                    x, _sets(part).offsets, part.shown, bucket_weight[part.bucket],
                    eligible=_eligible(part), penalty=self.tastes.penalty,
                    start=None if start is None else start[fold],
                )
                for fold, (part, x) in enumerate(self.parts)
            ]
        )  # fmt: skip

    def _calibrated(self, model: CandidateModel) -> tuple[float, float]:
        """Return the power that makes held-out choices most likely.

        And their mean probability (geometric) with it.
        """
        log = self.log
        utility, places = model.utilities(log), log.shown
        choices = int(np.logical_and.accumulate(places >= 0, axis=1).sum())
        weight, slope = np.ones(log.n), np.empty_like(utility)
        offsets = _sets(log).offsets

        def loss(power: float) -> float:
            return choice_loss(offsets, power * utility, places, weight, slope) / max(choices, 1)

        power, least = best_power(loss)
        return power, float(np.exp(-least))


def fit_choice(
    x: Floats, offsets: Ints, places: Ints, weight: Floats, *, eligible: Bools, penalty: Floats,
    start: Floats | None = None,
) -> Floats:  # fmt: skip
    """Return the coefficients (d,) of largest penalised likelihood, by L-BFGS.

    Loss: -sum_i w_i sum_k log P(a_ik | what was left) + sum_j penalty_j theta_j^2 / 2; convex.
    """
    slope = np.empty(len(x))

    def loss(theta: Floats) -> tuple[float, Floats]:
        utility = np.where(eligible, x @ theta, -np.inf)
        return choice_loss(offsets, utility, places, weight, slope), slope @ x

    # To the last digits that matter: engines that hold rows in another order then agree.
    exact = {"maxiter": 500, "ftol": 1e-14, "gtol": 1e-9}
    return most_likely(loss, penalty, weight, start, exact)


def refuse_unknown(log: RankingLog) -> None:
    """Raise where it is not known what could have been shown, or nothing is known of it."""
    if known_of(log):
        return
    lacks = (
        "no candidates"
        if log.candidates is None
        else "candidates, but neither scores nor features of them"
    )
    raise PropensityError(
        "plackett-luce estimates propensities from what each request could have shown and what is "
        f"known of it; this log has {lacks}. Log 'candidates' with 'propensity_scores' or features "
        "(columns z_..., or a file of features by item)"
    )


def _pieces(log: RankingLog, width: int) -> Iterator[tuple[RankingLog, Ints]]:
    """Yield the log in parts of bounded size, with where the candidates of their rows begin."""
    for block in _sets(log).blocks(max(1, _CELLS // max(width, 1))):
        part = log.take(block)
        yield part, _sets(part).offsets[:-1]


def _sets(log: RankingLog) -> Candidates:
    assert log.candidates is not None
    return log.candidates


def _eligible(log: RankingLog) -> Bools:
    """Return which candidates (N,) could be shown: those whose score is not -inf."""
    scores = _scores(log)
    return np.ones(len(_sets(log).items), bool) if scores is None else scores > -np.inf


def _raw(log: RankingLog, names: tuple[str, ...]) -> Floats:
    """Return what is known of the candidates (N, len(names)); NaN missing."""
    sets = _sets(log)
    columns: list[Any] = [_scores(log)] if names[0] == SCORES else []
    for name, values in sets.features.items():
        coded = name in sets.categories
        columns.append(np.where(values < 0, np.nan, values) if coded else values)
    if log.item_features is not None:
        columns.append(log.item_features.lookup(sets.items.astype(np.int64)))
    raw: Floats = np.column_stack(columns).astype(np.float64)
    return raw


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
    """Return sum_i w_i sum_k [log D_ik - u_ik], and write its slope in each utility to `slope` (N,).

    u_ik is the utility of what row i shows at k, D_ik the summed exponentials of what was left
    before k. A row counts down to its first item that is no candidate, not eligible (-inf) or shown
    before: what was left after it is not known.
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
        # While the row is read, `out` marks what was shown.
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
        rest = 0.0
        if top > -np.inf:
            for c in range(row.size):
                if out[c] == 0.0:
                    out[c] = np.exp(row[c] - top)
                    rest += out[c]
        # The mass left before k is added up from the end: no difference of nearly equal numbers.
        left = top + np.log(rest) if rest > 0.0 else -np.inf
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
