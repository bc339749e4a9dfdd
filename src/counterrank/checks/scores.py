"""Checks of scores: the logger's against what it showed, on the whole and by group; the target's against its rows."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from counterrank.checks.base import (
    BLOCK,
    SAMPLED_ROWS,
    Check,
    Parts,
    Subject,
    Tally,
    by_label,
    examples_at,
    families,
    finding,
    first_items,
    kind_of,
    sums_by,
)
from counterrank.checks.conditions import left_out
from counterrank.checks.weights import row_groups
from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import CounterrankError, LogError
from counterrank.common.findings import FAILED, PASSED, WARNED, Finding
from counterrank.common.messages import say
from counterrank.common.texts import in_percent
from counterrank.data.log import RankingLog
from counterrank.data.source import FilteredSource, MemorySource, Source
from counterrank.estimators.weights.thresholds import LIMITING
from counterrank.policies import Scored, candidate_fit, parse_policy
from counterrank.statistics import two_sided

#: Rows whose choices are compared with the scores: a wrong temperature shows in far fewer.
FITTED_ROWS = 100_000
#: Shown items from outside the candidates beyond this share leave nothing to believe.
SINKING = 0.1
#: Score ranks are tested where the count's variance permits a normal law.
TESTED = 5.0
#: Choices that fall on other score ranks than they should: up to this share a significant distance
#: is a warning.
TOLERATED = 0.02


#: In fewer rows pages may show all there is by chance.
FEW_ROWS = 20
#: Rows and multiples of the stated temperature at which the one that fits is looked for.
TEMPERATURE_ROWS = 4096
TEMPERATURES = 2.0 ** np.linspace(-4, 4, 17)
#: What the log-likelihood falls by at the ends of a 95 % interval.
HALF_CHI_SQUARED = 1.9207
#: Significance at which positions need temperatures of their own: candidates that are missing show at 1e-20.
ONE_TEMPERATURE = 1e-5
#: Rows from which positions are compared.
FITTED_LEAST = 200
#: A temperature within this of the stated one would change nothing.
NEAR = 0.03
#: Rows of a group, and the least distance of its slope from the others': 0.2 is a temperature that is a
#: fifth off.
FEWEST, LEAST = 50, 0.2
#: Groups that are named.
NAMED = 3


def by_row(batch: RankingLog, policy: object) -> Scored | None:
    """Return a policy by scores of each row of a batch; None for others, and for one row that serves all."""
    return policy if isinstance(policy, Scored) and policy.n_rows == batch.n else None


def _count_scores(batch: RankingLog, subject: Subject) -> Tally:
    """Count shown items that were no candidates, and choices by score rank where the logger ranked by scores."""
    policy = batch.propensity
    sets = policy.candidates if isinstance(policy, Scored) else batch.candidates
    if sets is None:  # the target alone has scores
        return Tally()
    # A policy of one row serves them all.
    places = sets.locate(batch.action) if sets.n == batch.n else np.zeros_like(batch.action)
    outside = places == -2
    sums = {"outside": outside.any(axis=1).sum(keepdims=True), "rows": np.array([batch.n])}
    if sets.n == batch.n:
        sums["choosing"] = (sets.counts > batch.lengths).sum(keepdims=True)
    logger = by_row(batch, policy)
    if logger is not None:
        sampled = slice(0, subject.looked_at(batch.n, FITTED_ROWS))
        sums["choices"], counts = candidate_fit(logger.take(sampled), batch.action[sampled])
        sums |= {"ineligible": counts[:1], "contradicted": counts[1:]}
        sums["fitted"] = np.array([sampled.stop])
        if logger.spec.kind == "plackett-luce":
            sample = slice(0, subject.looked_at(batch.n, TEMPERATURE_ROWS))
            sums["likelihood"] = _likelihoods(logger.take(sample), batch.action[sample])
    return Tally(sums=sums, examples={"outside": examples_at(outside, batch.action, batch.start)})


def shown_scores(batch: RankingLog) -> Floats:
    """Return the logger's score of each shown item (n, K); NaN where it has none, of no item without scores."""
    logger = by_row(batch, batch.propensity)
    if logger is None:
        return np.full((batch.n, 0), np.nan)
    places = logger.candidates.locate(batch.action)
    cells = np.where(places < 0, 0, logger.candidates.offsets[:-1, None] + places)
    return np.where(places < 0, np.nan, logger.scores[cells])


def _judge_scores(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail on items from outside, on rankings that contradict a fixed order, and on draws that do not fit."""
    if not tally.sums:  # most logs have no candidates, and need not be told so
        return []
    findings = [*_outside(tally), *_shown_only(tally, subject)]
    if subject.without_propensities:  # nobody said how the logger ranks by its scores
        return findings or SCORES.passed("all shown items were candidates")
    findings += [*_order(tally, subject), *_fit(tally, subject)]
    return findings or SCORES.passed(
        "all shown items were candidates, and stand as their scores say"
    )


def _positions(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail where positions fit other temperatures although score ranks fit on the whole."""
    unclear = tally.count("fitted") < FITTED_LEAST or tally.count("ineligible")
    if unclear or subject.estimated_propensities or one_temperature(tally.sums["likelihood"]):
        return []
    return SCORES.finds(
        FAILED,
        "the logger looks sharper at some positions than at others, as no Plackett-Luce policy does",
        "candidates that were not shown are missing, or the policy is of another kind",
        "log every candidate of a request, with the scores that were really ranked by",
    )


def _outside(tally: Tally) -> list[Finding]:
    rows, outside, ineligible = (tally.count(key) for key in ("rows", "outside", "ineligible"))
    findings = []
    if outside:
        findings += SCORES.finds(
            FAILED,
            f"{outside:,} of {rows:,} rankings show items that were none of their candidates",
            "the item came from elsewhere (a pinned item, an ad, a fallback), or "
            "candidates belong to another request",
            "log all candidates of a request; drop pinned positions",
            examples=tally.examples["outside"],
            fatal=outside > SINKING * rows,
        )
    if ineligible:
        findings += SCORES.finds(
            FAILED,
            f"{ineligible:,} shown items have a score of -inf, which is never shown",
            "scores were filtered after the ranking was made, or belong to another request",
            "log the scores that were really ranked by",
        )
    return findings


def _shown_only(tally: Tally, subject: Subject) -> list[Finding]:
    """Warn where no ranking left anything out: exports often hold what was shown alone."""
    rows = tally.count("rows")
    if "choosing" not in tally.sums or tally.count("choosing") or rows < FEW_ROWS:
        return []
    if subject.first.K == 1 and subject.first.n_actions > 1:
        what = "every ranking has one candidate, the item that was shown"
    else:
        what = "all candidates were shown"
    return SCORES.finds(
        WARNED,
        f"{what}, in each of {rows:,} rankings: those that were not shown seem to be missing",
        "the export holds shown items only; then every probability of the logger is too "
        "large, and the target's too",
        "export the others too, with their scores (in a table of one row per candidate: "
        "without a position); if pages always show all candidates, ignore this",
    )


def _order(tally: Tally, subject: Subject) -> list[Finding]:
    wrong, rows = tally.count("contradicted"), tally.count("fitted")
    if subject.ranking != "top" or not wrong:
        return []
    return SCORES.finds(
        FAILED,
        f"{wrong:,} of {rows:,} rankings put an item above one of a higher score, though "
        "the logger is said to show the highest first",
        "the scores are not those of the logger, or something re-ranked after them",
        "log the final scores, or say how the logger explores: "
        f"{say('--logger', 'plackett-luce')}, swap, ...",
        fatal=wrong > SINKING * rows,
    )


def _fit(tally: Tally, subject: Subject) -> list[Finding]:
    """Observed minus expected counts of each score rank add up to a martingale: z, Bonferroni over the ranks."""
    logger = subject.first.propensity
    if not (isinstance(logger, Scored) and logger.spec.kind == "plackett-luce"):
        return []
    observed, expected, variance = tally.sums["choices"]
    tested = variance > TESTED
    z = np.divide(observed - expected, np.sqrt(variance), out=np.zeros_like(variance), where=tested)
    rank = int(np.abs(z).argmax())
    if two_sided(z[rank], 1.0) * max(int(tested.sum()), 1) > LIMITING:
        return _positions(tally, subject)
    # Halved: a choice that moved is missing at one rank and too many at another.
    moved = float(np.abs(observed - expected).sum()) / 2 / float(expected.sum())
    what, who, so = "score", "Plackett-Luce", ""
    if subject.estimated_propensities:
        what, who = "estimated utility", "the estimate"
        cause = (
            "the logger is no Plackett-Luce policy, or ranks by more than the log's scores and "
            "features, or not in proportion to them"
        )
        remedy = "add what the logger ranks by as features of candidates (z_ columns)"
    else:
        greedy = "sharper" if observed[0] > expected[0] else "flatter"
        so = f": the logger is {greedy} than its scores, or another policy"
        cause = "another temperature, scores before boosts or filters, or a policy of another kind"
        remedy = _advised(logger, tally.sums["likelihood"])
    which = f"remaining item with the {_nth(rank + 1)} highest {what}"
    if rank == 0:
        which = (
            f"remaining item with the highest {what}"
            if subject.estimated_propensities
            else "best-scored remaining item"
        )
    return SCORES.finds(
        FAILED if moved > TOLERATED else WARNED,
        f"the {which} was shown {observed[rank]:,.0f} times, where "
        f"{who} expects {expected[rank]:,.0f} (z = {z[rank]:.1f}){so}; {in_percent(moved)} of choices are affected",
        cause,
        remedy,
    )


#: Shown items are eligible candidates, and are shown as the logger's scores say.
SCORES = Check(
    "scores",
    "scores",
    "scores",
    _count_scores,
    _judge_scores,
    explains=("scores-by-*", "mean-weight*", "inverse-propensity", "lift-by-halves"),
)


def _likelihoods(policy: Scored, action: Ints) -> Floats:
    """Return the log-likelihood of the choices at each of `TEMPERATURES` times the temperature, by position."""
    stated = float(policy.spec.options["temperature"])
    likelihood = np.stack(
        [
            parse_policy(f"plackett-luce:temperature={stated * times!r}")
            .bind(candidates=policy.candidates, scores=policy.scores)
            .prefix_log_prob(action)
            for times in TEMPERATURES.tolist()
        ]
    )
    # A ranking that is impossible is so at every temperature.
    likelihood = np.where(np.isfinite(likelihood), likelihood, 0.0)
    total: Floats = np.diff(likelihood, axis=2, prepend=0.0).sum(axis=1)
    return total


def best_temperature(likelihood: Floats) -> tuple[float, float]:
    """Return the logarithm of the best multiple of the temperature, and its log-likelihood.

    The top of the cubic spline through the grid, in logarithms; infinite where it is at an end.

    >>> grid = np.log(TEMPERATURES)
    >>> [round(float(one), 6) for one in best_temperature(-((grid - np.log(1.3)) ** 2))]
    [0.262364, -0.0]
    """
    from scipy.interpolate import CubicSpline

    grid = np.log(TEMPERATURES)
    curve = CubicSpline(grid, likelihood)
    tops = curve.derivative().roots(extrapolate=False)
    inside = tops[(tops > grid[0]) & (tops < grid[-1])]
    if not len(inside) or int(likelihood.argmax()) in (0, len(grid) - 1):
        return math.inf, float(likelihood.max())
    best = inside[int(np.argmax(curve(inside)))]
    return float(best), float(curve(best))


def fitted_temperature(log: RankingLog) -> tuple[float, float, float] | None:
    """Return the temperature at which a Plackett-Luce logger fits its rankings, and its 95 % interval.

    None where the logger is of another kind, or no temperature fits. The interval is that of the likelihood
    ratio.
    """
    from scipy.interpolate import CubicSpline

    logger = by_row(log, log.propensity)
    if logger is None or logger.spec.kind != "plackett-luce":
        return None
    likelihood = _likelihoods(logger, log.action).sum(axis=1)
    best, top = best_temperature(likelihood)
    if not math.isfinite(best):
        return None
    drop = CubicSpline(np.log(TEMPERATURES), likelihood - top + HALF_CHI_SQUARED)
    roots = drop.roots(extrapolate=False)
    stated = float(logger.spec.options["temperature"])
    low, high = (
        max(roots[roots < best], default=-math.inf),
        min(roots[roots > best], default=math.inf),
    )
    return stated * math.exp(best), stated * math.exp(low), stated * math.exp(high)


def one_temperature(likelihood: Floats) -> bool:
    """Return whether one temperature fits all positions: the likelihood ratio with one for each.

    Where candidates are missing, later positions look like another temperature than the first.
    """
    from scipy import special

    # Positions without a choice, or with equal scores, are alike at every temperature.
    varies = np.ptp(likelihood, axis=0) > 1.0
    if varies.sum() < 2:
        return True
    by_position = sum(best_temperature(of_position)[1] for of_position in likelihood.T[varies])
    gain = 2 * (by_position - best_temperature(likelihood[:, varies].sum(axis=1))[1])
    return bool(special.chdtrc(int(varies.sum()) - 1, max(gain, 0.0)) > ONE_TEMPERATURE)


def _advised(logger: Scored, likelihood: Floats) -> str:
    """Return the advice about the temperature, none where another one would not help."""
    best = best_temperature(likelihood.sum(axis=1))[0]
    if not one_temperature(likelihood):
        return (
            "log every candidate of a request, with the scores that were really ranked by: no one "
            "temperature fits all positions"
        )
    if not math.isfinite(best):
        option_text = say("--logger", "plackett-luce:temperature=T")
        return f"no temperature fits; give the one that was drawn with, {option_text}, or log the final scores"
    if abs(best) < NEAR:
        return "log the final scores: another temperature would not fit better"
    fits = float(logger.spec.options["temperature"]) * math.exp(best)
    option_text = say("--logger", f"plackett-luce:temperature={fits:.3g}")
    return f"a temperature of {fits:.3g} fits best: {option_text}, or log the final scores"


def _nth(rank: int) -> str:
    """Return an ordinal number.

    >>> [_nth(rank) for rank in (1, 2, 3, 4, 12, 21)]
    ['1st', '2nd', '3rd', '4th', '12th', '21st']
    """
    word = "th" if 10 < rank % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{word}"


def _count_draws(batch: RankingLog, subject: Subject) -> Tally:
    """Sum rows, distances of the shown items' scores and their variances by group, and of other numbers in all."""
    logger = by_row(batch, batch.propensity)
    if logger is None or logger.spec.kind not in ("plackett-luce", "softmax"):
        return Tally()
    if subject.estimated_propensities or subject.without_propensities:
        return Tally()
    sets = logger.candidates
    scores = sets.dense(logger.scores / float(logger.spec.options["temperature"]), -np.inf)
    place = sets.locate(batch.action)
    # Rankings that are short or show items from elsewhere are told of by other checks.
    fine: Bools = np.asarray((place >= 0).all(axis=1) & np.isfinite(scores).any(axis=1))
    place = np.where(fine[:, None], place, 0)
    numbers = [np.where(np.isfinite(scores), scores, 0.0)]
    names = []
    for name in subject.targets:
        target = by_row(batch, batch.targets.get(name))
        if target is not None:
            # Ranks: their sums are normal, whatever the scores are.
            table = sets.dense(target.scores, np.inf)
            numbers.append(table.argsort(axis=1).argsort(axis=1).astype(float))
            names.append(name)
    odds = np.exp(scores - np.where(fine, scores.max(axis=1), 0.0)[:, None])
    sums = np.zeros((len(numbers), 2, batch.n))
    numbers_of_rows = np.arange(batch.n)
    for shown in place.T:
        chance = odds / np.maximum(odds.sum(axis=1, keepdims=True), 1e-300)
        for values, (distance, variance) in zip(numbers, sums, strict=True):
            mean = np.einsum("nc,nc->n", chance, values)
            distance += values[numbers_of_rows, shown] - mean
            variance += np.einsum("nc,nc,nc->n", chance, values, values) - mean**2
        if logger.spec.kind == "plackett-luce":
            odds[numbers_of_rows, shown] = 0.0
    sums = np.maximum(sums, [[[-np.inf], [0.0]]]) * fine
    parts: Parts = {}
    rows = np.stack([fine, *sums[0]])
    for kind, (labels, codes) in row_groups(batch, subject).items():
        table = sums_by(codes, len(labels), rows)
        parts |= by_label((kind,), labels, table.T)
    distances = {name: summed.sum(axis=1) for name, summed in zip(names, sums[1:], strict=True)}
    return Tally(sums=distances, parts=parts)


def _judge_draws(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail where a minority of rows follows its scores otherwise than the others do."""
    kinds = families(tally.parts)
    if not kinds:
        return []
    tests = sum(len(labels) for labels, _ in kinds.values())
    # Of Plackett-Luce, `scores` looks at every position.
    findings = _of_all(kinds[BLOCK,][1].sum(axis=0)) if subject.ranking == "softmax" else []
    for (kind,), (labels, table) in kinds.items():
        findings += _differing_groups(kind, labels, table, tests, subject)
    for name, (distance, variance) in tally.sums.items():
        if two_sided(distance, math.sqrt(variance)) * len(tally.sums) <= LIMITING:
            findings.append(_of_target(name, float(distance) > 0))
    return findings or DRAWS.passed("scores are followed alike in every group")


#: Shown items follow the logger's scores in every group alike, and nothing else.
#:
#: Under a softmax of the scores, a number of the item that is shown, less its mean over the candidates'
#: probabilities, has mean zero and a known variance. No weight enters, so that heavy weights hide nothing.
DRAWS = Check(
    "scores-by-group",
    "scores",
    "scores",
    _count_draws,
    _judge_draws,
    explains=("scores", "scores-by-*", "mean-weight*", "inverse-propensity", "lift-by-halves"),
    max_rows=SAMPLED_ROWS,
)


def _of_target(name: str, higher: bool) -> Finding:
    return finding(
        "scores-by-target",
        FAILED,
        f"'{name}' scores items that were shown {'higher' if higher else 'lower'} than expected from the "
        "logger's probabilities",
        "the target's scores know what was shown or clicked, pages were dropped for their rewards, or the "
        "logger ranked by more than its scores",
        "score the target with what was known before the page was shown, and log every page",
        target=name,
        about="targets",
    )


def _of_all(sums: Floats) -> list[Finding]:
    """Fail where first items follow the scores of the whole log less, or more, than they should."""
    rows, distance, variance = (float(number) for number in sums)
    slope = distance / max(variance, 1e-300)
    if (
        rows < FEWEST
        or abs(slope) < LEAST / 2
        or two_sided(distance, math.sqrt(variance)) > LIMITING
    ):
        return []
    how = "more" if slope > 0 else "less"
    return SCORES.finds(
        FAILED,
        f"first items follow the logger's scores {how} than their probabilities say (slope {1 + slope:.2f})",
        "another temperature or policy, scores of another model, or candidates that are missing",
        "log every candidate with the scores that were ranked by, or give the temperature that was drawn with",
    )


def _differing_groups(
    kind: str, names: list[str], table: Floats, tests: int, subject: Subject
) -> list[Finding]:
    bad = []
    for group, sums in enumerate(table):
        remaining = table.sum(axis=0) - sums
        if (
            min(sums[0], remaining[0]) < FEWEST
            or min(sums[2], remaining[2]) <= 0
            or sums[0] > remaining[0]
        ):
            continue
        off = float(sums[1] / sums[2] - remaining[1] / remaining[2])
        p = two_sided(off, math.sqrt(1 / sums[2] + 1 / remaining[2]))
        if p * tests <= LIMITING and abs(off) > LEAST:
            bad.append((p, -abs(off), names[group]))
    # Where most groups differ from the rest, none is the exception.
    if not bad or len(bad) > max(NAMED, len(table) // 4):
        return []
    labels = [label for _, _, label in sorted(bad)]
    # Rows that do not follow their scores in the other groups either are a fault of the whole log.
    unaffected = table[[name not in labels for name in names]].sum(axis=0)
    off = float(unaffected[1] / max(unaffected[2], 1e-300))
    if abs(off) > LEAST / 2 and two_sided(unaffected[1], math.sqrt(unaffected[2])) <= LIMITING:
        return []
    where, remedy = left_out(
        kind, labels, subject, "these rows", "log the scores that were really ranked by"
    )
    return [
        finding(
            f"scores-by-{kind}",
            FAILED,
            f"where {kind} is {first_items(labels, NAMED)}, pages do not follow the logger's scores as elsewhere",
            "another policy or model ran there than the one whose scores were logged",
            remedy,
            where=where,
        )
    ]


#: Bins of Fisher's z of the correlations of a row, from -4 to 4.
BINS, REACH = 80, 4.0
#: Candidates of a row whose correlation says something.
CORRELATED = 5
#: Rows with scores of another request, as a share, and in standard errors.
SHARE, BEYOND = 0.08, 6.0
#: Standard errors from the mean correlation with another row that are no correlation at all, and rows
#: that would show one of 0.03.
NOTHING, RANDOM_ROWS = 3.0, 2000
#: The least share of a request's scores that is of the request and not of its items, and standard errors at
#: which the logger's goes with rewards.
PERSONAL, TELLING = 0.05, 4.5
#: Distance of the usual correlation from none, in widths of its distribution.
NARROW = 3.0
#: Scores that equal one value, as a share of all, and so many times as many as the next value has.
EQUAL, TIMES = 0.01, 10.0
#: Scores with two values are not cut at them: a smaller share is.
MOST = 0.9
#: Groups of rows whose scores spread differently: their least share, how far apart (log2), and what is
#: between them as a part of the smaller one.
OF_ROWS, APART, BETWEEN = 0.05, 1.5, 0.25
#: Rows of a batch that are looked at.
LOOKED = 4096
#: With a smaller share of rankings the answer is about another population than the log's.
LEAST_SCORED = 0.5
#: With a smaller share the evidence is directional at best.
NEARLY_ALL = 0.99


def _count_target_scores(batch: RankingLog, subject: Subject) -> Tally:
    """Count rows by the correlation of their scores, and scores that are equal."""
    parts: Parts = {}
    batch = batch if batch.n <= LOOKED else batch.take(slice(0, LOOKED))
    logger = by_row(batch, batch.propensity)
    for name in subject.targets:
        target = by_row(batch, batch.targets.get(name))
        if target is None:
            continue
        parts |= _equal_values(name, target)
        if logger is not None:
            parts["rows", name], parts["spreads", name] = _correlations(target, logger)
            parts["personal", name] = _of_the_request(batch, target, logger, subject.rates)
    return Tally(parts=parts)


def _judge_target_scores(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail on scores of other rows, warn of filled ones."""
    findings: list[Finding] = []
    names = {key[1] for key in tally.parts}
    for name in sorted(names):
        findings += [
            *_filled(name, tally),
            *(
                [*_uncorrelated(name, tally)]
                or _of_no_request(name, tally.parts.get(("personal", name)))
            ),
            *_of_two_scales(name, tally.parts.get(("spreads", name))),
        ]
    if not names:
        return []
    return findings or TARGET_SCORES.passed("scores of targets fit their rows")


#: A target's scores belong to the candidates they stand at, and are scores.
#:
#: What the logger's scores and an item's mean score say of a target's scores in a row is compared with
#: what those of the next row say. Rows with scores of another request are correlated like the latter.
TARGET_SCORES = Check(
    "target-scores",
    "targets",
    "scores",
    _count_target_scores,
    _judge_target_scores,
    explains=("scores-by-target", "mean-weight*", "lift-by-halves"),
    max_rows=SAMPLED_ROWS,
)


def _equal_values(name: str, target: Scored) -> Parts:
    """Return the three most common scores of many items, and how many scores there are."""
    finite = np.isfinite(target.scores)
    values, back, counts = np.unique(target.scores[finite], return_inverse=True, return_counts=True)
    parts: Parts = {("scores", name): np.array([float(finite.sum())])}
    items = target.candidates.items[finite]
    for place in np.argsort(-counts)[:3]:
        of_items = len(np.unique(items[back == place]))
        parts["equal", name, repr(float(values[place]))] = np.array(
            [counts[place], of_items], dtype=float
        )
    return parts


def _filled(name: str, tally: Tally) -> Iterator[Finding]:
    total = float(tally.parts["scores", name][0])
    equal = sorted(
        (
            (float(sums[0]), float(sums[1]), key[2])
            for key, sums in tally.parts.items()
            if key[:2] == ("equal", name)
        ),
        reverse=True,
    )
    if not equal:
        return
    (count, items, value), after = equal[0], equal[1:] or [(0.0, 0.0, "")]
    # Scores that are cut at both ends have two such values, and others between them.
    cut_at_both = count + after[0][0] < MOST * total and len(after) > 1 and after[0][1] >= 10
    next_count = after[1][0] if cut_at_both else after[0][0]
    # An item of fixed score has it in all its rows; a value of many items was filled in. Scores of few
    # steps (stars, grades) have more such values.
    if count > EQUAL * total and items >= 10 and count > TIMES * next_count:
        yield from TARGET_SCORES.finds(
            WARNED,
            f"{in_percent(count / total)} of the scores of '{name}' are exactly {float(value):g}",
            "missing scores were filled with one value, or scores were cut at it",
            "leave out rankings whose candidates are not all scored, or score them",
            target=name,
        )


def _correlations(target: Scored, logger: Scored) -> tuple[Floats, Floats]:
    """Return rows by Fisher's z of what goes with a row's scores: by its own, and by the next row's (2, BINS).

    And by log2 of how much wider the target's scores spread than the logger's (BINS,).
    """
    sets = target.candidates
    counts = sets.counts
    width = int(counts.max(initial=0))
    inside = np.arange(width) < counts[:, None]
    new, old = (
        sets.dense(np.where(np.isfinite(columns_of.scores), columns_of.scores, 0.0), 0.0)
        for columns_of in (target, logger)
    )
    items = sets.dense(sets.items, 0.0).astype(np.int64)
    half = (np.arange(len(counts)) % 2)[:, None]
    means = _item_means(items, new, inside, half)
    parts = [_standard(columns_of, inside) for columns_of in (old, means)]
    y = _standard(new, inside)
    # How much each of the two says of the scores, from all rows.
    gram = np.array([[(a * b).sum() for b in parts] for a in parts])
    slope = np.linalg.lstsq(gram, np.array([(a * y).sum() for a in parts]), rcond=None)[0]
    expected = _standard(slope[0] * parts[0] + slope[1] * parts[1], inside)
    table = np.zeros((2, BINS))
    for row, compared in enumerate((expected, np.roll(expected, 1, axis=0))):
        fits = (counts >= CORRELATED) & (counts == (counts if row == 0 else np.roll(counts, 1)))
        r = np.clip((y * compared).sum(axis=1)[fits], -0.9993, 0.9993)
        table[row] = np.histogram(np.arctanh(r), BINS, (-REACH, REACH))[0]
    lengths = [
        np.sqrt((_centred(columns_of, inside) ** 2).sum(axis=1)) for columns_of in (new, old)
    ]
    wider = lengths[0] / np.maximum(lengths[1], 1e-300)
    usable = (counts >= CORRELATED) & (np.minimum(*lengths) > 1e-4)
    ends = (-2 * REACH, 2 * REACH)
    spreads = np.histogram(np.clip(np.log2(wider[usable]), *ends), BINS, ends)[0]
    return table, spreads.astype(float)


def _item_means(items: Ints, new: Floats, inside: Bools, half: Ints) -> Floats:
    """Return the mean score of each item in the other half of the rows."""
    size = int(items.max(initial=0)) + 1
    centred = _centred(new, inside)
    out = np.zeros_like(new)
    for side in (0, 1):
        rows = (half == side) & inside
        total = np.bincount(items[rows], centred[rows], size)
        mean = total / (np.bincount(items[rows], minlength=size) + 1.0)
        out = np.where(half != side, mean[items], out)
    return out


def _centred(values: Floats, inside: Bools) -> Floats:
    """Return rows less their means, and zeros outside."""
    inner = np.where(inside, values, 0.0)
    mean = inner.sum(axis=1, keepdims=True) / np.maximum(inside.sum(axis=1, keepdims=True), 1)
    return np.where(inside, values - mean, 0.0)


def _standard(values: Floats, inside: Bools) -> Floats:
    """Return rows with mean zero and length one; zeros where a row does not vary."""
    centred = _centred(values, inside)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    scaled: Floats = centred / np.where(length > 1e-12, length, 1.0)
    return scaled


def _of_the_request(batch: RankingLog, target: Scored, logger: Scored, rates: Floats) -> Floats:
    """Return sums of what scores say of a request beside what they say of its items (3, 3).

    Of the target's with the logger's, of the target's with rewards, and of the logger's with rewards: rows,
    products and their squares. Nothing where one of them hardly varies with the request.
    """
    sets = target.candidates
    inside = np.arange(int(sets.counts.max(initial=0))) < sets.counts[:, None]
    items = sets.dense(sets.items, 0.0).astype(np.int64)
    half = (np.arange(len(sets.counts)) % 2)[:, None]
    standardised, varies = [], True
    for policy in (target, logger):
        scores = sets.dense(np.where(np.isfinite(policy.scores), policy.scores, 0.0), 0.0)
        residual = _centred(scores, inside) - _centred(
            _item_means(items, scores, inside, half), inside
        )
        varies &= bool((residual**2).sum() > PERSONAL * (_centred(scores, inside) ** 2).sum())
        standardised.append(_standard(residual, inside))
    place = sets.locate(batch.action)
    off = np.where(place >= 0, (batch.reward != 0) - rates, 0.0)
    cells = np.maximum(place, 0)
    crossed = [
        standardised[0] * standardised[1],
        *(off * np.take_along_axis(scores_of, cells, axis=1) for scores_of in standardised),
    ]
    products = np.stack([scores_of.sum(axis=1) for scores_of in crossed])
    sums: Floats = np.stack(
        [np.full(3, float(batch.n)), products.sum(axis=1), (products**2).sum(axis=1)]
    )
    return sums if varies else np.zeros((3, 3))


def _of_no_request(name: str, sums: Floats | None) -> list[Finding]:
    """Return where the target's scores vary with the request, but as nothing else of it does."""
    if sums is None or sums[0, 0] < RANDOM_ROWS:
        return []
    logger, rewards, of_logger = sums[1] / np.sqrt(np.maximum(sums[2], 1e-300))
    # Where the logger's scores say nothing of the visitor either, nobody can tell.
    if max(logger, rewards) > NOTHING or of_logger < TELLING:
        return []
    return TARGET_SCORES.finds(
        WARNED,
        f"beside what they say of the items, the scores of '{name}' go neither with the logger's scores of the same "
        "request nor with its rewards",
        "scores of the same items in other requests, or of another day; or a target that guesses",
        "join the target's scores by the id of the request and of the item",
        target=name,
    )


def _uncorrelated(name: str, tally: Tally) -> Iterator[Finding]:
    """Yield where more rows are uncorrelated than the spread above the usual correlation lets expect."""
    table = tally.parts.get(("rows", name))
    if table is None or table[0].sum() < 200:
        return
    same_row, next_row = table
    # Sums of Fisher's z of rows with the same law: no better than with another row.
    centres = np.arange(BINS)
    means = [float(counts @ centres) / counts.sum() for counts in table]
    variance = float(same_row @ (centres - means[0]) ** 2) / float(same_row.sum())
    spread = math.sqrt(variance * (1 / same_row.sum() + 1 / next_row.sum()))
    if same_row.sum() >= RANDOM_ROWS and means[0] - means[1] < NOTHING * spread:
        yield from _of_others(name, 1.0)
        return
    smooth = np.convolve(same_row, np.full(5, 0.2), mode="same")
    mode = int(smooth.argmax())
    middle = int(np.searchsorted(np.cumsum(next_row), next_row.sum() / 2))
    # Correlations must usually be far above those with another row.
    spread = int(np.searchsorted(np.cumsum(next_row), 0.975 * next_row.sum())) - middle
    if mode - middle < max(spread, 3):
        return
    below, mirrored = same_row[: middle + 1].sum(), same_row[min(2 * mode - middle, BINS) :].sum()
    share = 2 * float(below - mirrored) / float(same_row.sum())
    error = 2 * math.sqrt(float(below + mirrored) + 1.0) / float(same_row.sum())
    # Rows whose correlations differ much among themselves may have none as well.
    right = same_row[mode:]
    width = math.sqrt(float(right @ np.arange(len(right)) ** 2) / float(right.sum()))
    if mode - middle < NARROW * width:
        return
    if share > SHARE and share > BEYOND * error:
        yield from _of_others(name, min(share, 1.0))


def _of_two_scales(name: str, counts: Floats | None) -> Iterator[Finding]:
    """Yield where rows fall into two groups by how much the target's scores spread."""
    if counts is None or counts.sum() < 200:
        return
    smooth = np.convolve(counts, np.full(3, 1 / 3), mode="same")
    peak = np.minimum(np.maximum.accumulate(smooth), np.maximum.accumulate(smooth[::-1])[::-1])
    # The lowest place between two peaks; outside of them there is none.
    depth = np.divide(smooth, peak, out=np.ones(BINS), where=peak > 0)
    valley = max(int(depth.argmin()), 1)
    fewer = min(counts[:valley].sum(), counts[valley:].sum()) / counts.sum()
    bins = valley + int(smooth[valley:].argmax()) - int(smooth[:valley].argmax())
    apart = bins * 4 * REACH / BINS
    if fewer >= OF_ROWS and apart >= APART and depth[valley] < BETWEEN:
        yield from TARGET_SCORES.finds(
            WARNED,
            f"in {in_percent(fewer, 0)} of the rows the scores of '{name}' spread about {2**apart:.2g} times as much "
            "as in the others, or as little",
            "logits in some rows and probabilities in others, or scores of two models",
            "score all rows by one model in one unit; if two models are meant, evaluate their rows one by one",
            target=name,
        )


def _of_others(name: str, share: float) -> list[Finding]:
    return TARGET_SCORES.finds(
        FAILED,
        f"in about {in_percent(share, 0)} of the rows the scores of '{name}' fit the candidates of "
        "another row as well as their own",
        "scores of another request, or in another order of the candidates",
        "join the target's scores by the id of the request and of the item",
        target=name,
    )


@dataclass
class Coverage:
    """How many rankings a target scores in full; known after a pass."""

    target: str
    rows: int = 0
    scored_rows_count: int = 0

    def counted(self, rows: int, remaining: int) -> None:
        """Take the counts of a pass; too small a share is refused."""
        self.rows, self.scored_rows_count = rows, remaining
        if self.refused:
            raise self.refusal()

    @property
    def refused(self) -> bool:
        """Whether too few rankings are scored in full for an estimate."""
        return self.scored_rows_count < LEAST_SCORED * self.rows

    def refusal(self) -> CounterrankError:
        """Return the error for a target that scores too few rankings."""
        return LogError(
            f"'{self.target}' scores all candidates in {self.scored_rows_count:,} of {self.rows:,} rankings; at "
            f"least {in_percent(LEAST_SCORED, 0)} must be scored in full",
            remedy="score every candidate, also those that were not shown; -inf stands for a "
            "candidate that the target never shows",
        )

    def findings(self) -> Iterator[Finding]:
        """Yield what was left out, where anything was."""
        left = self.rows - self.scored_rows_count
        if not left:
            return
        status = PASSED if self.scored_rows_count >= NEARLY_ALL * self.rows else WARNED
        status = FAILED if self.refused else status
        yield from TARGET_SCORES.finds(
            status,
            f"'{self.target}' scores all candidates in {in_percent(self.scored_rows_count / self.rows)} of the "
            f"rankings; the other {left:,} of {self.rows:,} are left out",
            "the value is that of the rankings scored in full, which may differ from the others",
            "score every candidate, also those that were not shown",
            target=self.target,
            kind=kind_of(status),
            about="targets",
        )


def _scored(batch: RankingLog, target: str) -> Bools:
    """Return in which rows (n,) the target scores every candidate."""
    policy = by_row(batch, batch.targets[target])
    return np.ones(batch.n, dtype=bool) if policy is None else ~policy.unscored


def count_scored(source: Source, targets: Iterable[str], *, whole_log: bool) -> list[Coverage]:
    """Return how many rankings each target scores in full.

    Counting takes a pass over a log in files. Unless `whole_log` is set, it is saved where the first rows
    lack no score; nothing is returned then.
    """
    names = [name for name in targets if isinstance(source.first.targets.get(name), Scored)]

    def counts(batch: RankingLog) -> Ints:
        scored = [int(_scored(batch, name).sum()) for name in names]
        return np.array([batch.n, *scored])

    log = source.log if isinstance(source, MemorySource) else None
    totals = counts(source.first if log is None else log)
    if not whole_log and (totals[1:] == totals[0]).all():
        return []
    if log is None:
        totals = source.reduce(counts, label="counting scores")
    return [
        Coverage(name, int(totals[0]), int(scored))
        for name, scored in zip(names, totals[1:], strict=True)
    ]


def scored_rows(source: Source, targets: Iterable[str]) -> tuple[Source, list[Coverage]]:
    """Return the source of the rankings that the targets score in full, and the coverage of each target."""
    coverages = []
    for target in targets:
        if not isinstance(source.first.targets.get(target), Scored):
            continue
        coverage = Coverage(target)
        coverages.append(coverage)
        if isinstance(source, MemorySource):
            keep = _scored(source.log, target)
            coverage.counted(len(keep), int(keep.sum()))
            if not keep.all():
                source = MemorySource(source.log.where(keep), threads=source.threads)
        else:
            chosen = partial(_scored, target=target)
            source = FilteredSource(source, chosen, coverage.refusal, coverage.counted, source.n)
    return source, coverages
