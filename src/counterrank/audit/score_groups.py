"""The logger's scores in every group of rows: a day on which another policy ran, or scores of another model."""

import math

import numpy as np

from counterrank.arrays import Floats
from counterrank.audit.conditions import without
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally, listed, stretch_names
from counterrank.audit.groups import BLOCK, row_groups
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, PASSED, Finding
from counterrank.messages import say
from counterrank.policies import Scored
from counterrank.statistics import two_sided
from counterrank.weights.thresholds import LIMITING

#: Rows of a group, and the least distance of its slope from the others': 0.2 is a temperature that is a
#: fifth off.
FEWEST, LEAST = 50, 0.2
#: Groups that are named.
NAMED = 3


def _count_score_groups(batch: RankingLog, subject: Subject) -> Tally:
    """Sum rows, distances and variances by group."""
    logger = batch.propensity
    # The first item of both is drawn by the softmax of the scores.
    if not isinstance(logger, Scored) or logger.spec.kind not in ("plackett-luce", "softmax"):
        return Tally()
    sets = logger.candidates
    if sets.n != batch.n or subject.estimated_propensities or subject.without_propensities:
        return Tally()
    scores = sets.dense(logger.scores / float(logger.spec.options["temperature"]), -np.inf)
    place = sets.locate(batch.action[:, :1])[:, 0]
    fine = (place >= 0) & np.isfinite(scores).any(axis=1)
    place = np.where(fine, place, 0)
    chance = np.exp(scores - np.where(fine, scores.max(axis=1), 0.0)[:, None])
    chance /= np.maximum(chance.sum(axis=1, keepdims=True), 1e-300)
    known = np.where(np.isfinite(scores), scores, 0.0)
    mean = (chance * known).sum(axis=1)
    variance = np.maximum((chance * known**2).sum(axis=1) - mean**2, 0.0)
    away = known[np.arange(batch.n), place] - mean
    rows = np.stack([fine, np.where(fine, away, 0.0), np.where(fine, variance, 0.0)])
    parts: dict[tuple[str, ...], Floats] = {}
    for kind, labels, codes in row_groups(batch, subject):
        table = np.stack([np.bincount(codes, one, len(labels)) for one in rows])
        for label, sums in zip(labels, table.T, strict=True):
            if sums[0]:
                parts[kind, label] = sums
    return Tally(parts=parts)


def _judge_score_groups(tally: Tally, subject: Subject) -> list[Finding]:
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
    return found or [Finding(SCORE_GROUPS.name, PASSED, "scores are followed alike in every group")]


#: The first item of a page follows the logger's scores in every group alike.
#:
#: Under Plackett-Luce the score of the first item, less its mean over the candidates' probabilities, has
#: mean zero and a known variance v. Sums of both give a slope, 0 where scores are those that were drawn
#: by; no weight enters, so that heavy weights hide nothing.
SCORE_GROUPS = Check("scores-by-group", _count_score_groups, _judge_score_groups, most=SAMPLED_ROWS)


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
    quoted = f'"{where}"'
    condition = f": {say('--where', quoted, f'where={quoted}')}" if where else ""
    return [
        Finding(
            f"scores-by-{kind}",
            FAILED,
            f"where {kind} is {listed(labels, NAMED)}, pages do not follow the logger's scores as elsewhere",
            (f"leave these rows out{condition}, or log the scores that were really ranked by",),
            cause="another policy or model ran there than the one whose scores were logged",
            where=where,
        )
    ]  # fmt: skip
