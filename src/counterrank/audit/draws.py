"""Whether shown items are draws by the logger's scores: in every group of rows, and whatever else is known of them.

Under a softmax of the scores, a number of the item that is shown, less its mean over the candidates'
probabilities, has mean zero and a known variance. No weight enters, so that heavy weights hide nothing.
"""

import math

import numpy as np

from counterrank.arrays import Bools, Floats
from counterrank.audit.conditions import option, without
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally, listed, stretch_names
from counterrank.audit.groups import BLOCK, row_groups
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, PASSED, Finding
from counterrank.policies import Scored
from counterrank.statistics import two_sided
from counterrank.weights.thresholds import LIMITING

#: Rows of a group, and the least distance of its slope from the others': 0.2 is a temperature that is a
#: fifth off.
FEWEST, LEAST = 50, 0.2
#: Groups that are named.
NAMED = 3


def _count_draws(batch: RankingLog, subject: Subject) -> Tally:
    """Sum rows, distances of the shown items' scores and their variances by group, and of other numbers in all."""
    logger = batch.propensity
    if not isinstance(logger, Scored) or logger.spec.kind not in ("plackett-luce", "softmax"):
        return Tally()
    sets = logger.candidates
    if sets.n != batch.n or subject.estimated_propensities or subject.without_propensities:
        return Tally()
    scores = sets.dense(logger.scores / float(logger.spec.options["temperature"]), -np.inf)
    place = sets.locate(batch.action)
    # Rankings that are short or show items from elsewhere are told of by other checks.
    fine: Bools = np.asarray((place >= 0).all(axis=1) & np.isfinite(scores).any(axis=1))
    place = np.where(fine[:, None], place, 0)
    numbers = [np.where(np.isfinite(scores), scores, 0.0)]
    names = []
    for name in subject.targets:
        target = batch.targets.get(name)
        if isinstance(target, Scored) and target.candidates.n == batch.n:
            # Ranks: their sums are normal, whatever the scores are.
            table = sets.dense(target.scores, np.inf)
            numbers.append(table.argsort(axis=1).argsort(axis=1).astype(float))
            names.append(name)
    odds = np.exp(scores - np.where(fine, scores.max(axis=1), 0.0)[:, None])
    sums = np.zeros((len(numbers), 2, batch.n))
    each = np.arange(batch.n)
    for shown in place.T:
        chance = odds / np.maximum(odds.sum(axis=1, keepdims=True), 1e-300)
        for values, (away, variance) in zip(numbers, sums, strict=True):
            mean = np.einsum("nc,nc->n", chance, values)
            away += values[each, shown] - mean
            variance += np.einsum("nc,nc,nc->n", chance, values, values) - mean**2
        if logger.spec.kind == "plackett-luce":
            odds[each, shown] = 0.0
    sums = np.maximum(sums, [[[-np.inf], [0.0]]]) * fine
    parts: dict[tuple[str, ...], Floats] = {}
    rows = np.stack([fine, *sums[0]])
    for kind, (labels, codes) in row_groups(batch, subject).items():
        table = np.stack([np.bincount(codes, one, len(labels)) for one in rows])
        parts |= {(kind, label): one for label, one in zip(labels, table.T, strict=True) if one[0]}
    others = {name: one.sum(axis=1) for name, one in zip(names, sums[1:], strict=True)}
    return Tally(sums=others, parts=parts)


def _judge_draws(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail where a minority of rows follows its scores otherwise than the others do."""
    kinds: dict[str, dict[str, Floats]] = {}
    for (kind, label), sums in tally.parts.items():
        kinds.setdefault(kind, {})[label] = sums
    if not kinds:
        return []
    tests = sum(len(groups) for groups in kinds.values())
    # Of Plackett-Luce, `scores` looks at every position.
    logger = subject.first.propensity
    whole = isinstance(logger, Scored) and logger.spec.kind == "softmax"
    found = _of_all(np.sum([*kinds[BLOCK].values()], axis=0)) if whole else []
    found += [
        one for kind, groups in kinds.items() for one in _otherwise(kind, groups, tests, subject)
    ]
    for name, (away, variance) in tally.sums.items():
        if two_sided(away, math.sqrt(variance)) * len(tally.sums) <= LIMITING:
            found.append(_of_target(name, float(away) > 0))
    return found or [Finding(DRAWS.name, PASSED, "scores are followed alike in every group")]


#: Shown items follow the logger's scores in every group alike, and nothing else.
DRAWS = Check("scores-by-group", _count_draws, _judge_draws, most=SAMPLED_ROWS)


def _of_target(name: str, more: bool) -> Finding:
    return Finding(
        "scores-by-target",
        FAILED,
        f"'{name}' scores items that were shown {'higher' if more else 'lower'} than expected from the "
        "logger's probabilities",
        ("score the target with what was known before the page was shown, and log every page",),
        cause="the target's scores know what was shown or clicked, pages were dropped for their rewards, or the "
        "logger ranked by more than its scores",
        target=name,
    )  # fmt: skip


def _of_all(sums: Floats) -> list[Finding]:
    """Fail where first items follow the scores of the whole log less, or more, than they should."""
    rows, away, variance = (float(one) for one in sums)
    slope = away / max(variance, 1e-300)
    if rows < FEWEST or abs(slope) < LEAST / 2 or two_sided(away, math.sqrt(variance)) > LIMITING:
        return []
    how = "more" if slope > 0 else "less"
    return [
        Finding(
            "scores",
            FAILED,
            f"first items follow the logger's scores {how} than their probabilities say (slope {1 + slope:.2f})",
            ("log every candidate with the scores that were ranked by, or give the temperature that was drawn with",),
            cause="another temperature or policy, scores of another model, or candidates that are missing",
        )
    ]  # fmt: skip


def _otherwise(kind: str, groups: dict[str, Floats], tests: int, subject: Subject) -> list[Finding]:
    names, table = list(groups), np.stack(list(groups.values()))
    if kind == BLOCK:
        names, table = stretch_names(groups)
    bad = []
    for at, own in enumerate(table):
        rest = table.sum(axis=0) - own
        if min(own[0], rest[0]) < FEWEST or min(own[2], rest[2]) <= 0 or own[0] > rest[0]:
            continue
        off = float(own[1] / own[2] - rest[1] / rest[2])
        p = two_sided(off, math.sqrt(1 / own[2] + 1 / rest[2]))
        if p * tests <= LIMITING and abs(off) > LEAST:
            bad.append((p, -abs(off), names[at]))
    # Where most groups differ from the rest, none is the exception.
    if not bad or len(bad) > max(NAMED, len(table) // 4):
        return []
    labels = [label for _, _, label in sorted(bad)]
    where = without(kind, labels, subject)
    return [
        Finding(
            f"scores-by-{kind}",
            FAILED,
            f"where {kind} is {listed(labels, NAMED)}, pages do not follow the logger's scores as elsewhere",
            (f"leave these rows out{option(where)}, or log the scores that were really ranked by",),
            cause="another policy or model ran there than the one whose scores were logged",
            where=where,
        )
    ]  # fmt: skip
