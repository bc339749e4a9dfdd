"""Checks of scores: the logger's against what it showed, on the whole and by group; the target's against its rows."""

import math
from collections.abc import Iterable
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
    first_items,
    sums_by,
)
from counterrank.checks.conditions import left_out
from counterrank.checks.weights import row_groups
from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import CounterrankError, LogError
from counterrank.common.findings import FAILED, PASSED, WARNED, Findings
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


def _judge_scores(tally: Tally, subject: Subject) -> Findings:
    """Fail on items from outside, on rankings that contradict a fixed order, and on draws that do not fit."""
    problems = [*_outside(tally), *_shown_only(tally, subject)]
    right = "all shown items were candidates"
    # Otherwise nobody said how the logger ranks by its scores.
    if not subject.without_propensities:
        problems += [*_order(tally, subject), *_fit(tally, subject)]
        right += ", and stand as their scores say"
    yield from problems or [SCORES.says(PASSED, right)]


def _outside(tally: Tally) -> Findings:
    rows, outside, ineligible = map(tally.count, ("rows", "outside", "ineligible"))
    if outside:
        yield SCORES.says(
            FAILED,
            f"{outside:,} of {rows:,} rankings show items that were none of their candidates",
            "the item came from elsewhere (a pinned item, an ad, a fallback), or "
            "candidates belong to another request",
            "log all candidates of a request; drop pinned positions",
            examples=tally.examples["outside"],
            fatal=outside > SINKING * rows,
        )
    if ineligible:
        yield SCORES.says(
            FAILED,
            f"{ineligible:,} shown items have a score of -inf, which is never shown",
            "scores were filtered after the ranking was made, or belong to another request",
            "log the scores that were really ranked by",
        )


def _shown_only(tally: Tally, subject: Subject) -> Findings:
    """Warn where no ranking left anything out: exports often hold what was shown alone."""
    rows, first = tally.count("rows"), subject.first
    what = "all candidates were shown"
    if first.K == 1 and first.n_actions > 1:
        what = "every ranking has one candidate, the item that was shown"
    if "choosing" in tally.sums and not tally.count("choosing") and rows >= FEW_ROWS:
        yield SCORES.says(
            WARNED,
            f"{what}, in each of {rows:,} rankings: those that were not shown seem to be missing",
            "the export holds shown items only; then every probability of the logger is too "
            "large, and the target's too",
            "export the others too, with their scores (in a table of one row per candidate: "
            "without a position); if pages always show all candidates, ignore this",
        )


def _order(tally: Tally, subject: Subject) -> Findings:
    wrong, rows = tally.count("contradicted"), tally.count("fitted")
    if subject.ranking == "top" and wrong:
        yield SCORES.says(
            FAILED,
            f"{wrong:,} of {rows:,} rankings put an item above one of a higher score, though "
            "the logger is said to show the highest first",
            "the scores are not those of the logger, or something re-ranked after them",
            "log the final scores, or say how the logger explores: "
            f"{say('--logger', 'plackett-luce')}, swap, ...",
            fatal=wrong > SINKING * rows,
        )


def _fit(tally: Tally, subject: Subject) -> Findings:
    """Observed minus expected counts of each score rank add up to a martingale: z, Bonferroni over the ranks.

    Where they fit, positions may fit other temperatures.
    """
    logger, estimated = subject.first.propensity, subject.estimated_propensities
    if not (isinstance(logger, Scored) and subject.ranking == "plackett-luce"):
        return
    observed, expected, variance = tally.sums["choices"]
    tested = variance > TESTED
    z = np.where(tested, observed - expected, 0.0) / np.sqrt(np.where(tested, variance, 1.0))
    rank = int(np.abs(z).argmax())
    # Halved: a choice that moved is missing at one rank and too many at another.
    moved = float(np.abs(observed - expected).sum()) / 2 / max(float(expected.sum()), 1e-300)
    if two_sided(z[rank], 1.0) * max(int(tested.sum()), 1) > LIMITING:
        unclear = tally.count("fitted") < FITTED_LEAST or tally.count("ineligible") or estimated
        if not (unclear or one_temperature(tally.sums["likelihood"])):
            yield SCORES.says(
                FAILED,
                "the logger looks sharper at some positions than at others, as no Plackett-Luce policy does",
                "candidates that were not shown are missing, or the policy is of another kind",
                "log every candidate of a request, with the scores that were really ranked by",
            )
        return
    nth = f"the {_nth(rank + 1)} highest" if rank else "the highest"
    if estimated:
        which, who, so = f"remaining item with {nth} estimated utility", "the estimate", ""
        advice = (
            "the logger is no Plackett-Luce policy, or ranks by more than the log's scores and "
            "features, or not in proportion to them",
            "add what the logger ranks by as features of candidates (z_ columns)",
        )
    else:
        which = f"remaining item with {nth} score" if rank else "best-scored remaining item"
        who, greedy = "Plackett-Luce", "sharper" if observed[0] > expected[0] else "flatter"
        so = f": the logger is {greedy} than its scores, or another policy"
        cause = "another temperature, scores before boosts or filters, or a policy of another kind"
        advice = cause, _advised(logger, tally.sums["likelihood"])
    yield SCORES.says(
        FAILED if moved > TOLERATED else WARNED,
        f"the {which} was shown {observed[rank]:,.0f} times, where "
        f"{who} expects {expected[rank]:,.0f} (z = {z[rank]:.1f}){so}; {in_percent(moved)} of choices are affected",
        *advice,
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

    curve = CubicSpline(np.log(TEMPERATURES), likelihood)
    tops = curve.derivative().roots(extrapolate=False)
    tops = tops[(tops > curve.x[0]) & (tops < curve.x[-1])]
    if not len(tops) or int(likelihood.argmax()) in (0, len(curve.x) - 1):
        return math.inf, float(likelihood.max())
    return max(((float(top), float(curve(top))) for top in tops), key=lambda best: best[1])


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
    low, high = (
        roots[roots < best].max(initial=-math.inf),
        roots[roots > best].min(initial=math.inf),
    )
    stated = float(logger.spec.options["temperature"])
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
    for kind, (labels, codes) in row_groups(subject, batch).items():
        table = sums_by(codes, len(labels), rows)
        parts |= by_label((kind,), labels, table.T)
    distances = {name: summed.sum(axis=1) for name, summed in zip(names, sums[1:], strict=True)}
    return Tally(sums=distances, parts=parts)


def _judge_draws(tally: Tally, subject: Subject) -> Findings:
    """Fail where a minority of rows follows its scores otherwise than the others do."""
    kinds = families(tally.parts)
    tests = sum(len(labels) for labels, _ in kinds.values())
    # Of Plackett-Luce, `scores` looks at every position.
    if subject.ranking == "softmax":
        yield from _of_all(*kinds[BLOCK,][1].sum(axis=0))
    for (kind,), (labels, table) in kinds.items():
        yield from _differing_groups(kind, labels, table, tests, subject)
    for name, (distance, variance) in tally.sums.items():
        if two_sided(distance, math.sqrt(variance)) * len(tally.sums) <= LIMITING:
            than = "higher" if distance > 0 else "lower"
            yield DRAWS.says(
                FAILED,
                f"'{name}' scores items that were shown {than} than expected from the logger's probabilities",
                "the target's scores know what was shown or clicked, pages were dropped for their rewards, or the "
                "logger ranked by more than its scores",
                "score the target with what was known before the page was shown, and log every page",
                target=name,
                about="targets",
                code="scores-by-target",
            )


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
    passed="scores are followed alike in every group",
)


def _of_all(rows: float, distance: float, variance: float) -> Findings:
    """Fail where first items follow the scores of the whole log less, or more, than they should."""
    slope, clear = (
        distance / max(variance, 1e-300),
        two_sided(distance, math.sqrt(variance)) <= LIMITING,
    )
    if rows >= FEWEST and abs(slope) >= LEAST / 2 and clear:
        yield DRAWS.says(
            FAILED,
            f"first items follow the logger's scores {'more' if slope > 0 else 'less'} than their probabilities say "
            f"(slope {1 + slope:.2f})",
            "another temperature or policy, scores of another model, or candidates that are missing",
            "log every candidate with the scores that were ranked by, or give the temperature that was drawn with",
            code=SCORES.code,
        )


def _differing_groups(
    kind: str, names: list[str], table: Floats, tests: int, subject: Subject
) -> Findings:
    bad = []
    for name, inside, outside in zip(names, table, table.sum(axis=0) - table, strict=True):
        (rows, distance, variance), (rows_outside, distance_outside, variance_outside) = (
            inside,
            outside,
        )
        if FEWEST <= rows <= rows_outside and min(variance, variance_outside) > 0:
            off = float(distance / variance - distance_outside / variance_outside)
            p = two_sided(off, math.sqrt(1 / variance + 1 / variance_outside))
            if p * tests <= LIMITING and abs(off) > LEAST:
                bad.append((p, -abs(off), name))
    labels = [label for _, _, label in sorted(bad)]
    # Rows that do not follow their scores in the other groups either are a fault of the whole log.
    _, distance, variance = table[[name not in labels for name in names]].sum(axis=0)
    everywhere = (
        abs(distance) > LEAST / 2 * variance
        and two_sided(distance, math.sqrt(variance)) <= LIMITING
    )
    # Where most groups differ from the rest, none is the exception.
    if labels and len(labels) <= max(NAMED, len(table) // 4) and not everywhere:
        honest = "log the scores that were really ranked by"
        where, remedy = left_out(kind, labels, subject, "these rows", honest)
        yield DRAWS.says(
            FAILED,
            f"where {kind} is {first_items(labels, NAMED)}, pages do not follow the logger's scores as elsewhere",
            "another policy or model ran there than the one whose scores were logged",
            remedy,
            where=where,
            code=f"scores-by-{kind}",
        )


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
            for key, counts in _relations(batch, target, logger, subject.rates).items():
                parts[key, name] = counts
    return Tally(parts=parts)


def _judge_target_scores(tally: Tally, subject: Subject) -> Findings:
    """Fail on scores of other rows, warn of filled ones."""
    for name in sorted({name for _, name, *_ in tally.parts}):
        yield from _filled(name, tally)
        if ("rows", name) in tally.parts:
            rows, spreads, personal = (
                tally.parts[key, name] for key in ("rows", "spreads", "personal")
            )
            yield from [*_uncorrelated(name, *rows)] or _of_no_request(name, personal)
            yield from _of_two_scales(name, spreads)


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
    passed="scores of targets fit their rows",
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


def _filled(name: str, tally: Tally) -> Findings:
    total = float(tally.parts["scores", name][0])
    equal = [
        (*sums, float(key[2])) for key, sums in tally.parts.items() if key[:2] == ("equal", name)
    ]
    # Three values, of which there may be fewer.
    common = [*sorted(equal, reverse=True), *[(0.0, 0.0, 0.0)] * 3]
    (count, items, value), after, last = common[:3]
    # Scores that are cut at both ends have two such values, and others between them.
    cut_at_both = count + after[0] < MOST * total and len(equal) > 2 and after[1] >= 10
    next_count = last[0] if cut_at_both else after[0]
    # An item of fixed score has it in all its rows; a value of many items was filled in. Scores of few
    # steps (stars, grades) have more such values.
    if count > EQUAL * total and items >= 10 and count > TIMES * next_count:
        yield TARGET_SCORES.says(
            WARNED,
            f"{in_percent(count / total)} of the scores of '{name}' are exactly {value:g}",
            "missing scores were filled with one value, or scores were cut at it",
            "leave out rankings whose candidates are not all scored, or score them",
            target=name,
        )


def _relations(
    batch: RankingLog, target: Scored, logger: Scored, rates: Floats
) -> dict[str, Floats]:
    """Return what goes with the scores of a target.

    "rows": rows by Fisher's z of their correlation with what is expected of a row's scores, its own and the next
    row's (2, BINS). "spreads": rows by log2 of how much wider the target's scores spread than the logger's
    (BINS,). "personal": rows, and sums of products and of their squares (3, 3) of what scores say of a request
    beside what they say of its items: of the target's with the logger's, and of both with rewards. Nothing
    where one of them hardly varies with the request.
    """
    sets = target.candidates
    counts = sets.counts
    inside = np.arange(int(counts.max(initial=0))) < counts[:, None]
    items = sets.dense(sets.items, 0.0).astype(np.int64)
    new, old = (
        _centred(sets.dense(np.where(np.isfinite(scores), scores, 0.0), 0.0), inside)
        for scores in (target.scores, logger.scores)
    )
    means, means_old = (_item_means(items, centred, inside) for centred in (new, old))
    y, terms = _scaled(new), [_scaled(old), _scaled(means)]
    # How much each of the two says of the scores, from all rows.
    gram = np.array([[(a * b).sum() for b in terms] for a in terms])
    slope = np.linalg.lstsq(gram, np.array([(a * y).sum() for a in terms]), rcond=None)[0]
    expected = _scaled(slope[0] * terms[0] + slope[1] * terms[1])
    table, enough = [], counts >= CORRELATED
    for compared, sizes in ((expected, counts), (np.roll(expected, 1, axis=0), np.roll(counts, 1))):
        r = np.clip((y * compared).sum(axis=1)[enough & (counts == sizes)], -0.9993, 0.9993)
        table.append(np.histogram(np.arctanh(r), BINS, (-REACH, REACH))[0])
    lengths = np.sqrt([(centred**2).sum(axis=1) for centred in (new, old)])
    wider = np.log2(
        (lengths[0] / np.maximum(lengths[1], 1e-300))[enough & (lengths.min(axis=0) > 1e-4)]
    )
    ends = (-2 * REACH, 2 * REACH)
    spreads = np.histogram(np.clip(wider, *ends), BINS, ends)[0]
    residuals = new - means, old - means_old
    varies = all(
        (residual**2).sum() > PERSONAL * (centred**2).sum()
        for residual, centred in zip(residuals, (new, old), strict=True)
    )
    place = sets.locate(batch.action)
    off = np.where(place >= 0, (batch.reward != 0) - rates, 0.0)
    mine, theirs = map(_scaled, residuals)
    shown = [
        off * np.take_along_axis(scores, np.maximum(place, 0), axis=1) for scores in (mine, theirs)
    ]
    products = np.stack([crossed.sum(axis=1) for crossed in (mine * theirs, *shown)])
    personal = [np.full(3, float(batch.n)), products.sum(axis=1), (products**2).sum(axis=1)]
    return {
        "rows": np.array(table, dtype=float),
        "spreads": spreads.astype(float),
        "personal": np.stack(personal) * varies,
    }


def _item_means(items: Ints, centred: Floats, inside: Bools) -> Floats:
    """Return the mean score of each item in the other half of the rows, less its mean in the row."""
    size, means = int(items.max(initial=0)) + 1, np.zeros_like(centred)
    half = np.arange(len(items)) % 2
    for side in (0, 1):
        rows = (half == side)[:, None] & inside
        count = np.bincount(items[rows], minlength=size) + 1.0
        mean = np.bincount(items[rows], centred[rows], size) / count
        means[half != side] = mean[items[half != side]]
    return _centred(means, inside)


def _centred(values: Floats, inside: Bools) -> Floats:
    """Return rows less their means, and zeros outside."""
    inner = np.where(inside, values, 0.0)
    mean = inner.sum(axis=1, keepdims=True) / np.maximum(inside.sum(axis=1, keepdims=True), 1)
    return np.where(inside, values - mean, 0.0)


def _scaled(centred: Floats) -> Floats:
    """Return rows with length one; zeros where a row does not vary."""
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    return centred / np.where(length > 1e-12, length, 1.0)


def _of_no_request(name: str, sums: Floats) -> Findings:
    """Yield where the target's scores vary with the request, but as nothing else of it does."""
    logger, rewards, of_logger = sums[1] / np.sqrt(np.maximum(sums[2], 1e-300))
    # Where the logger's scores say nothing of the visitor either, nobody can tell.
    if sums[0, 0] >= RANDOM_ROWS and max(logger, rewards) <= NOTHING and of_logger >= TELLING:
        yield TARGET_SCORES.says(
            WARNED,
            f"beside what they say of the items, the scores of '{name}' go neither with the logger's scores of the "
            "same request nor with its rewards",
            "scores of the same items in other requests, or of another day; or a target that guesses",
            "join the target's scores by the id of the request and of the item",
            target=name,
        )


def _uncorrelated(name: str, same_row: Floats, next_row: Floats) -> Findings:
    """Yield where more rows are uncorrelated than the spread above the usual correlation lets expect."""
    n, centres = float(same_row.sum()), np.arange(BINS)
    if n < 200:
        return
    # Sums of Fisher's z of rows with the same law: no better than with another row.
    mean, mean_of_next = (float(counts @ centres) / counts.sum() for counts in (same_row, next_row))
    variance = float(same_row @ (centres - mean) ** 2) / n
    error = math.sqrt(variance * (1 / n + 1 / next_row.sum()))
    mode = int(np.convolve(same_row, np.full(5, 0.2), mode="same").argmax())
    middle, high = np.searchsorted(
        np.cumsum(next_row), [next_row.sum() / 2, 0.975 * next_row.sum()]
    )
    below, mirrored = same_row[: middle + 1].sum(), same_row[min(2 * mode - middle, BINS) :].sum()
    share, chance = (
        2 * float(below - mirrored) / n,
        2 * math.sqrt(float(below + mirrored) + 1.0) / n,
    )
    # Rows whose correlations differ much among themselves may have none as well.
    right = same_row[mode:]
    width = math.sqrt(float(right @ np.arange(len(right)) ** 2) / max(float(right.sum()), 1.0))
    # Correlations must usually be far above those with another row.
    if n >= RANDOM_ROWS and mean - mean_of_next < NOTHING * error:
        share = 1.0
    elif mode - middle < max(high - middle, 3, NARROW * width) or share <= max(
        SHARE, BEYOND * chance
    ):
        return
    yield TARGET_SCORES.says(
        FAILED,
        f"in about {in_percent(min(share, 1.0), 0)} of the rows the scores of '{name}' fit the candidates of "
        "another row as well as their own",
        "scores of another request, or in another order of the candidates",
        "join the target's scores by the id of the request and of the item",
        target=name,
    )


def _of_two_scales(name: str, counts: Floats) -> Findings:
    """Yield where rows fall into two groups by how much the target's scores spread."""
    smooth = np.convolve(counts, np.full(3, 1 / 3), mode="same")
    peak = np.minimum(np.maximum.accumulate(smooth), np.maximum.accumulate(smooth[::-1])[::-1])
    # The lowest place between two peaks; outside of them there is none.
    depth = np.where(peak > 0, smooth, 1.0) / np.where(peak > 0, peak, 1.0)
    valley = max(int(depth.argmin()), 1)
    fewer = min(counts[:valley].sum(), counts[valley:].sum()) / max(counts.sum(), 1.0)
    bins = valley + int(smooth[valley:].argmax()) - int(smooth[:valley].argmax())
    apart, clear = bins * 4 * REACH / BINS, counts.sum() >= 200 and depth[valley] < BETWEEN
    if clear and fewer >= OF_ROWS and apart >= APART:
        yield TARGET_SCORES.says(
            WARNED,
            f"in {in_percent(fewer, 0)} of the rows the scores of '{name}' spread about {2**apart:.2g} times as much "
            "as in the others, or as little",
            "logits in some rows and probabilities in others, or scores of two models",
            "score all rows by one model in one unit; if two models are meant, evaluate their rows one by one",
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

    def findings(self) -> Findings:
        """Yield what was left out, where anything was."""
        scored, rows = self.scored_rows_count, self.rows
        status = PASSED if scored >= NEARLY_ALL * rows else WARNED
        if scored < rows:
            yield TARGET_SCORES.says(
                FAILED if self.refused else status,
                f"'{self.target}' scores all candidates in {in_percent(scored / rows)} of the rankings; the other "
                f"{rows - scored:,} of {rows:,} are left out",
                "the value is that of the rankings scored in full, which may differ from the others",
                "score every candidate, also those that were not shown",
                target=self.target,
                explains=(),
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
