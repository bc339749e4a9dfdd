"""From a log to a better policy with a certificate: learn on some units, certify on the others.

The learning rows decide the model, the cap of the control variate, the stakes of the bound and m. The
certificate is computed on the other rows only. It is about exactly the policy that is exported. If the
model is wrong the policy gains less, and the certificate still holds.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from counterrank.data.encoding import encoded_features
from counterrank.data.fingerprint import fingerprint_of
from counterrank.data.log import RankingLog
from counterrank.data.visitors import shared_contexts
from counterrank.errors import ConfigError, LogError
from counterrank.inference import betting_lower_bound, check_level
from counterrank.learning.boosting import fit_trees
from counterrank.learning.copies import copies_of
from counterrank.learning.guardrails import (
    Certifying,
    GuardrailBound,
    WatchedRewards,
    bounds,
    likely,
    watched,
)
from counterrank.learning.paths import (
    STRENGTHS,
    DrawnValues,
    Rewards,
    Side,
    Tilted,
    check_joint,
    draw,
    tilted,
)
from counterrank.learning.policy import LearnedPolicy, sampler_of, scores_of
from counterrank.learning.result import (
    Certificate,
    Heaviest,
    Learned,
    Step,
    exposure,
    segments_of,
)
from counterrank.learning.scorer import Scorer
from counterrank.learning.settings import SETTINGS
from counterrank.messages import ESTIMATED, has, say
from counterrank.metrics import SINGLE, Guardrail, Metrics, PageFunction, measured
from counterrank.models import ALL, ListModel, Variant, fit_list_models, rankings_of, squared_loss
from counterrank.policies import Policy, cut, drawn_weight
from counterrank.texts import in_percent

if TYPE_CHECKING:
    from counterrank.io import LogLike, OpenOptions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

GRADES = ("free", "assumed")
MODELS = ("linear", "boosting")
PATHS = ("best-of", "plackett-luce")
#: Click models without and with competition between the items of a page.
_VARIANTS = (Variant(), Variant(competition=True))


def learn(  # noqa: PLR0913 - the options of a run
    log: LogLike,
    *,
    model: str = "linear",
    path: str = "best-of",
    grade: str = "free",
    level: float = 0.95,
    seed: int = 0,
    segments: Sequence[str] | str = (),
    reward_range: tuple[float, float] | None = None,
    independent_rows: bool = False,
    despite_audit: bool = False,
    resume: str | os.PathLike[str] | None = None,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None = None,
    primary: str | None = None,
    guardrails: Sequence[str | Guardrail] | str = (),
    **reading: Unpack[OpenOptions],
) -> Learned:
    """Return a policy that is better than the logger with stated confidence, or what is missing.

    The policy draws m rankings from the logger and serves the one that a reward model likes best.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
    model
        "linear" is a click model, linear in features and context; "boosting" puts LightGBM on top
        (extra `boosting`).
    path
        "best-of" as above. "plackett-luce" adds the learned score to today's scores instead (or stands
        alone, where the log has probabilities of the shown rankings and no scores): one draw a page,
        no sampler of today's policy, and a bound further away.
    grade
        "free" assumes nothing about behaviour and holds at every n; it needs rewards of a known range.
        "assumed" is a t bound, which holds for many rows.
    level
        Confidence of the certificate.
    seed
        Every random stream follows it.
    segments
        A column or several whose groups are looked at.
    reward_range
        The lowest and highest reward of one position, where rewards are not 0/1.
    independent_rows
        Declares that no two rows are of the same visitor, where the log has no units. Without
        either nothing is certified.
    despite_audit
        Goes on where the audit of the log has failed.
    resume
        A folder in which draws are kept: a run that was interrupted finds them there and goes on.
    rewards
        Several metrics by name, as in `evaluate`.
    primary
        The metric that is maximised: the first by default.
    guardrails
        What must not happen to a metric, "revenue >= -0.01": certified on the same rows, each with a
        share of what the level allows to go wrong.
    **reading
        What the reader is told about a log that is not in memory yet: `columns`, `context`, `unit`,
        `logger`, `policies`, ... as in `counterrank.io.ReadOptions`; `format`; `engine`, "local",
        "dask" or "spark"; `where`, a mapping that keeps some rows, {"device": "mobile"}.

    Returns
    -------
    Learned
        The policy, its certificate and the path of policies that were tried.

    Raises
    ------
    CounterrankError
        The log cannot be learned from; the message says why and what to do.

    Examples
    --------
    >>> import counterrank as cr
    >>> learned = cr.learn("log.parquet", logger="plackett-luce")  # doctest: +SKIP
    >>> learned.save("policy.json")  # doctest: +SKIP
    """
    check_level(level)
    if grade not in GRADES:
        raise ConfigError(f"grade is one of {', '.join(GRADES)}, not {grade!r}")
    for name, given, allowed in (("model", model, MODELS), ("path", path, PATHS)):
        if given not in allowed:
            raise ConfigError(f"{name} is one of {', '.join(allowed)}, not {given!r}")
    segments = (segments,) if isinstance(segments, str) else tuple(segments)
    whole, metrics = _measured(log, segments, rewards, primary, guardrails, reading)
    _refuse_estimated(whole, grade)
    logger = _sampler(whole, path)
    _check_choice(whole)
    if not despite_audit:
        _audited(whole)
    # Draws of the logger have streams of their own (1 to 3): a resumed run skips some of them, and
    # the split must not move.
    rng, keep = np.random.default_rng([seed, 0]), None if resume is None else _folder(resume)
    side = _split(whole, rng)
    ranges = _range(whole, reward_range, grade)
    learners, rest = whole.where(side), whole.where(~side)
    if grade == "assumed":
        _refuse_few(rest)
    fitted, fold = _fitted(learners, model, seed)
    policy = _policy(whole, fitted, path)
    if path == "plackett-luce":
        sides: tuple[Any, Any] = (
            _tilted(learners, policy, fold, ranges),
            _tilted(rest, policy, ALL, ranges),
        )
        steps: Sequence[Any] = STRENGTHS
        cap = math.inf
    else:
        assert logger is not None
        first, other = _cut(logger, side), _cut(logger, ~side)
        learning = _side(learners, first, fitted, fold, ranges, Draws((seed, 1), keep))
        # On the learning rows only: a refusal based on the others would be a choice.
        _refuse_wrong_sampler(learning, first, Draws((seed, 2), keep))
        sides = (learning, _side(rest, other, fitted, ALL, ranges, Draws((seed, 3), keep)))
        steps = _ladder()
        # The lowest possible lift depends on the cap of the control variate, so the learning rows set it.
        cap = float(np.quantile(learning.drawn.own, SETTINGS.cap))
    known = whole.unit is not None and shared_contexts(whole) is None
    rails = (watched(learners, metrics, grade), watched(rest, metrics, grade))
    asked = Asked(grade, level, known or independent_rows, rails)
    certificate = _certified(*sides, steps, cap, asked, rng)
    return _assembled(sides[1], policy, fitted, cap, certificate, segments, rng)


def _folder(path: str | os.PathLike[str]) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ConfigError(f"the folder to resume from, {folder}: {problem.strerror}") from None
    return folder


@dataclass(frozen=True, slots=True)
class Draws:
    """Where fresh rankings come from: a stream, and the folder in which they are kept."""

    seeds: tuple[int, ...]
    keep: Path | None


def _cut(logger: Policy, rows: Bools) -> Policy:
    return logger if logger.n_rows == 1 else logger.take(np.flatnonzero(rows))


def _sampler(log: RankingLog, path: str) -> Policy | None:
    found = sampler_of(log)
    if path == "plackett-luce":
        check_joint(log)
    elif found is None:
        raise LogError(
            "best of m draws fresh rankings from today's policy, and this log does not say how: "
            "log the scores of all candidates and give --logger plackett-luce (or another kind), "
            "or whole distributions in 'propensity_dist'. With probabilities of the shown rankings "
            "alone, --path plackett-luce can be certified, from many more rows"
        )
    if getattr(found, "deterministic", False):
        raise LogError(
            "today's policy shows one ranking only: every draw of it is the same, so there is "
            "nothing to choose from "
            "and nothing to certify. Log with some randomness first (docs/logging.md)"
        )
    return found


def _refuse_estimated(log: RankingLog, grade: str) -> None:
    if grade == "free" and has(log.notes, ESTIMATED):
        raise LogError(
            "the propensities of this log were estimated, not logged, and grade 'free' rests on "
            "them: log them, or take grade 'assumed', which then assumes that the estimate is right"
        )


def _check_choice(log: RankingLog) -> None:
    shown = log.action >= 0
    values = log.reward[shown]
    if log.page_reward:
        raise LogError(
            "the log has one reward a ranking, and which of its items earned it is not known: learning "
            "needs rewards by position, such as clicks"
        )
    if not len(values) or np.ptp(values) == 0:
        raise LogError("every reward is the same: there is nothing to learn from")
    if log.candidates is not None and int(log.candidates.counts.max()) <= 1:
        raise LogError("every row has one candidate: there is nothing to choose from")
    if log.n_actions <= 1:
        raise LogError("the log shows one item only: there is nothing to choose from")
    items = len(np.unique(log.action[shown]))
    if not log.item_feature_names and 2 * items > shown.sum():
        raise LogError(
            f"items have no features, and {items:,} of them share {shown.sum():,} places, so "
            "hardly any is shown twice: nothing can be learned about them. Give features of "
            "items (--items, or z_ columns), or ids that come back"
        )


def _audited(log: RankingLog) -> None:
    from counterrank.audit import audit_log

    # Without the log's targets: they do not matter here, and their heavy weights raise false alarms.
    failed = audit_log(replace(log, targets={})).failed
    copied = copies_of(log)
    if copied is not None:
        but = "" if copied.column is None else f" in all but {copied.column}"
        raise LogError(
            f"{in_percent(copied.share, 0)} of the rows equal another one{but}, far more than the "
            "logger's probabilities allow: each counts as evidence again. Drop rows that were "
            "delivered twice or multiplied by a join, or say "
            f"{say('--despite-audit', python='despite_audit=True')} to go on all the same"
        )
    if failed:
        told = "; ".join(f"{row['check']}: {row['found']}" for row in failed)
        raise LogError(
            f"the audit of this log failed ({told}); a certificate on a wrong log is worth "
            f"nothing. Mend it, or say {say('--despite-audit', python='despite_audit=True')} to go on "
            "all the same"
        )


def _split(log: RankingLog, rng: np.random.Generator) -> Bools:
    """Return which rows are for learning: whole units, by their buckets."""
    buckets = np.unique(log.bucket)
    chosen = rng.permutation(buckets)[: max(1, round(SETTINGS.learn_share * len(buckets)))]
    side: Bools = np.isin(log.bucket, chosen)
    for name, rows in (("learn", side), ("certify", ~side)):
        units = len(np.unique(log.unit[rows])) if log.unit is not None else int(rows.sum())
        if units < SETTINGS.fewest:
            raise LogError(f"{units} units are left to {name} on; with fewer than "
                           f"{SETTINGS.fewest:.0f} nothing can be said")  # fmt: skip
    return side


def _refuse_few(rest: RankingLog) -> None:
    units = rest.n if rest.unit is None else len(np.unique(rest.unit))
    if units < SETTINGS.many:
        raise LogError(
            f"{units} units are left to certify on; grade 'assumed' is a t bound, which needs at "
            f"least {SETTINGS.many:.0f}. Grade 'free' holds for any number"
        )


def _range(log: RankingLog, given: tuple[float, float] | None, grade: str) -> tuple[float, float]:
    """Return the least and the largest reward of a position."""
    values = log.reward[log.action >= 0]
    if given is not None:
        low, high = float(given[0]), float(given[1])
        if not low < high or values.min() < low or values.max() > high:
            raise ConfigError(
                f"rewards lie between {values.min():g} and {values.max():g}, outside the range "
                f"{low:g} to {high:g}"
            )
        return low, high
    if np.isin(values, (0.0, 1.0)).all():
        return 0.0, 1.0
    if grade == "free":
        raise ConfigError(
            "grade 'free' needs to know how large a reward can be, not how large it was: give "
            f"{say('--reward-range', 'LOW,HIGH', 'reward_range')}, or take grade 'assumed'"
        )
    return float(values.min()), float(values.max())


def _fitted(part: RankingLog, model: str, seed: int) -> tuple[ListModel, Ints]:
    """Return the model of this kind with the least held-out loss, and the fold of each row."""
    folds = SETTINGS.folds
    # By rank, not bucket mod folds: few units might leave a fold empty.
    _, fold = np.unique(part.bucket, return_inverse=True)
    fold = (fold % folds).astype(np.int64)
    rankings = rankings_of(part)
    if model == "boosting":
        return fit_trees(rankings, part.reward, fold, folds=folds, seed=seed), fold
    models = fit_list_models(
        rankings, part.reward, fold, folds=folds, variants=_VARIANTS, seed=seed
    )
    losses = [float(squared_loss(found, rankings, part.reward, fold).mean()) for found in models]
    return models[int(np.argmin(losses))], fold


def _rewards(part: RankingLog, ranges: tuple[float, float]) -> Rewards:
    alpha = part.position_weights
    low, high = ranges
    # A position of negative weight turns its range around; a ranking may be shorter than K.
    ends = np.stack([alpha * low, alpha * high, np.zeros_like(alpha)])
    least, most = float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())
    return Rewards(part.reward @ alpha - least, most - least, least)


def _side(
    part: RankingLog,
    logger: Policy,
    model: ListModel,
    fold: int | Ints,
    ranges: tuple[float, float],
    source: Draws,
) -> Side:
    rewards = _rewards(part, ranges)
    value = list_value(part, model, fold, rewards.shift)
    count = SETTINGS.draws
    return Side(part, rewards, draw(part, logger, value, count, source.seeds, source.keep))


def _tilted(
    part: RankingLog, policy: LearnedPolicy, fold: int | Ints, ranges: tuple[float, float]
) -> Tilted:
    rewards = _rewards(part, ranges)
    value = list_value(part, policy.scorer.model, fold, rewards.shift)
    own = value(np.arange(part.n), part.action[:, None, :])[:, 0]
    return tilted(part, rewards, own, policy, fold)


def list_value(
    part: RankingLog, model: ListModel, fold: int | Ints, least: float = 0.0
) -> Callable[[Ints, Ints], Floats]:
    """Return a function from rows (b,) and rankings (b, D, K) to their expected total reward (b, D).

    The reward is counted from `least` on and is never below 0.
    """
    alpha = part.position_weights
    known = _table_lookup(part)

    def value(rows: Ints, rankings: Ints) -> Floats:
        own = rankings_of(part.take(slice(int(rows[0]), int(rows[-1]) + 1)))
        # All items are encoded once, because drawn rankings contain the same few items.
        own = own if known is None else replace(own, lookup=known)
        D = rankings.shape[1]
        numbers = fold if isinstance(fold, int) else np.repeat(fold[rows], D)
        found = model.expected(own.others(rankings), numbers) @ alpha[: rankings.shape[2]]
        # `Side.lowest` relies on a control variate that is never negative.
        out: Floats = np.maximum(found.reshape(len(rows), D) - least, 0.0)
        return out

    return value


def _table_lookup(part: RankingLog) -> Callable[[Ints], Floats] | None:
    """Return a lookup of item features that encodes each item once; None where candidates have their own."""
    features = part.item_features
    if features is None or tuple(features.names) != tuple(part.item_feature_names):
        return None
    unknown = np.full((1, features.values.shape[1]), np.nan)
    raw = np.concatenate([features.values, unknown])
    table = encoded_features(raw, part.item_feature_names, part.categories_of_items)
    last = len(table) - 1
    return lambda items: table[np.where((items >= 0) & (items < last), items, last)]


def _refuse_wrong_sampler(side: Side, logger: Policy, source: Draws) -> None:
    """Raise where the logged rankings do not look like draws of the logger, since all weights would be wrong.

    Under the logger the rank of the logged ranking among fresh draws is uniform, by any number. It is
    checked by the list value, on which the weights depend, and by the ranking's probability, which a
    wrong temperature changes most.
    """
    found = [side.drawn]
    if "prefix" in logger.capabilities and (side.log.lengths == side.log.K).all():
        count = SETTINGS.likely_draws
        value = _likelihood(logger)
        found.append(draw(side.log, logger, value, count, source.seeds, source.keep))
    for drawn in found:
        if _misplaced(drawn, _units(side.log)):
            raise LogError(
                "the logged rankings are not what today's policy, as described, would draw: the "
                f"logged one ranks {in_percent((drawn.below / drawn.draws).mean())} of the way up among "
                "fresh draws, and should rank in the middle. Is the temperature right, are all "
                "candidates listed, did rules change the page afterwards?"
            )


def _likelihood(logger: Policy) -> Callable[[Ints, Ints], Floats]:
    def value(rows: Ints, rankings: Ints) -> Floats:
        b, D, K = rankings.shape
        own = logger.take(np.repeat(rows if logger.n_rows > 1 else np.zeros_like(rows), D))
        return own.prefix_log_prob(rankings.reshape(b * D, K))[:, -1].reshape(b, D)

    return value


def _misplaced(drawn: DrawnValues, units: tuple[Ints, Floats] | None) -> bool:
    """Return whether ranks B among L draws are not uniform on 0..L, by their mean and by mean weights of best of m.

    The variance is the larger of that of uniform ranks and that between units, because a logger may
    have drawn once for several rows of a unit.
    """
    ranks = np.arange(drawn.draws + 1)
    tests: list[Callable[[Ints], Floats]] = [lambda below: below / drawn.draws]
    tests += [partial(drawn_weight, draws=drawn.draws, m=m) for m in (2, 4, 8)]
    for of in tests:
        law, values = of(ranks), of(drawn.below)
        away = _summed(values - law.mean(), units)
        error = math.sqrt(max(len(values) * float(law.var()), float(away @ away)))
        if abs(float(away.sum())) > SETTINGS.wrong_sampler * error:
            return True
    return False


def _ladder() -> list[int]:
    return [2**j for j in range(SETTINGS.largest_m.bit_length())]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a certificate was asked for."""

    grade: str
    level: float
    #: Whether the log says which rows belong to one visitor, by units or by a declaration.
    declared: bool
    #: Guardrails on the learning rows and on the others.
    rails: tuple[Sequence[WatchedRewards], Sequence[WatchedRewards]] = ((), ())


@dataclass(frozen=True, slots=True)
class Choice:
    """The step that the learning rows chose: spread of its lifts, their mean and its error."""

    step: Any
    spread: float
    lift: float
    error: float
    path: tuple[Step, ...]

    @property
    def agreed(self) -> bool:
        """Whether the learning rows show a gain too."""
        return self.lift > SETTINGS.agree * self.error


def _chosen(
    learning: Side | Tilted,
    steps: Sequence[Any],
    cap: float,
    reach: float,
    size: int,
    allowed: Callable[[Any], bool],
) -> Choice:
    """Return the step with the highest expected bound on `size` certifying units."""
    n, units = learning.log.n, _units(learning.log)
    gains = {step: _summed(learning.lifts(step, cap), units) for step in steps}
    spread = {s: float(g.std(ddof=1)) if len(g) > 1 else 0.0 for s, g in gains.items()}
    promise: dict[Any, float] = {}
    for step, found in gains.items():
        # The mean of these rows is noisy, and the model expects too much: average both.
        expected = 0.5 * (learning.expected(step) + float(found.sum()) / n)
        # The spread is that of sums over units; lifts are by row. Divide by the rows of a unit.
        away = SETTINGS.caution * reach * spread[step] / (n / len(found))
        promise[step] = expected - away / math.sqrt(size)
    # The first step of either path is the logger itself. A step that seems to break a guardrail on
    # these rows would hardly be certified on the others.
    open_ = [step for step in steps[1:] if allowed(step)] or steps[1:]
    best = max(open_, key=lambda step: promise[step])
    return Choice(
        best,
        spread[best],
        float(gains[best].sum()) / n,
        spread[best] * math.sqrt(len(gains[best])) / n,
        tuple(_step(learning, step, cap, promise[step]) for step in steps),
    )


def _certified(
    learning: Side | Tilted,
    certifying: Side | Tilted,
    steps: Sequence[Any],
    cap: float,
    asked: Asked,
    rng: np.random.Generator,
) -> Certificate:
    """Choose a step on the learning rows, then bound its lift once on the others."""
    rows, units = certifying.log.n, _units(certifying.log)
    counts = None if units is None else units[1]
    size = rows if counts is None else len(counts)
    reach = _reach(asked.level, asked.grade, size, counts)
    choice = _chosen(learning, steps, cap, reach, size, likely(asked.rails[0], learning.weight))
    gains = certifying.lifts(choice.step, cap)
    sums = _summed(gains, units)
    value = float(gains.mean())
    stderr = float(sums.std(ddof=1)) * math.sqrt(len(sums)) / rows
    if asked.grade == "free":
        # Bets are made row by row, in a random order, so that no time of day comes first.
        order = rng.permutation(len(sums))
        low = betting_lower_bound(
            sums[order],
            certifying.lowest(choice.step, cap),
            1.0 - asked.level,
            spread=choice.spread,
            around=choice.lift,
            counts=None if counts is None else counts[order],
        )
    else:
        low = value - reach * stderr
    seen = (value, stderr, rows) if choice.agreed else (choice.lift, choice.error, learning.log.n)
    total = learning.log.n + rows
    short = low <= 0 or not choice.agreed
    more = _more_rows(*seen, reach, total=total, away=value - low) if short else None
    # Both sides must show a gain, and visitors must be known. Lowering a bound keeps it valid.
    if not (choice.agreed and asked.declared):
        low = min(low, 0.0)
    earned = certifying.rewards.totals
    guarded = _guarded(learning, certifying, choice, asked, rng)
    return Certificate(
        grade=asked.grade,
        level=asked.level,
        **certifying.place(choice.step),
        value=value,
        stderr=stderr,
        # No policy can lose more than the logger earns.
        low=max(low, -float(earned.mean())),
        logger=float(earned.mean() + certifying.rewards.shift),
        rows={"learn": learning.log.n, "choose": learning.log.n, "certify": rows},
        more_rows=more,
        path=choice.path,
        learned=choice.lift,
        agreed=choice.agreed,
        declared=asked.declared,
        heaviest=_heaviest(certifying.log),
        guardrails=guarded,
    )


def _guarded(
    learning: Side | Tilted,
    certifying: Side | Tilted,
    choice: Choice,
    asked: Asked,
    rng: np.random.Generator,
) -> tuple[GuardrailBound, ...]:
    """Return the bounds of all guardrails at the chosen step, from the certifying rows alone."""
    units, weight = _units(certifying.log), certifying.weight(choice.step)
    before = {
        (rail.guardrail.text, rail.group): _summed(
            rail.margins(learning.weight(choice.step)), _units(learning.log)
        )
        for rail in asked.rails[0]
    }

    def spread(rail: WatchedRewards) -> tuple[float, float]:
        sums = before.get((rail.guardrail.text, rail.group))
        if sums is None or len(sums) < 2:
            return 1.0, 0.0
        return float(sums.std(ddof=1)) or 1.0, float(sums.mean())

    # Weights of best of m are at most m; those of the other path have no bound.
    largest = float(choice.step) if isinstance(certifying, Side) else math.inf
    rows = Certifying(
        weight, largest, lambda values: _summed(values, units), None if units is None else units[1],
        spread,
    )  # fmt: skip
    free, delta = asked.grade == "free", 1.0 - asked.level
    return bounds(asked.rails[1], rows, free=free, delta=delta, rng=rng)


def _measured(
    log: LogLike,
    segments: Sequence[str],
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None,
    primary: str | None,
    guardrails: Sequence[str | Guardrail] | str,
    reading: Mapping[str, Any],
) -> tuple[RankingLog, Metrics | None]:
    """Return the log with the primary for its reward, and the metrics where several were asked for."""
    from counterrank.io import in_memory

    known = list(log.rewards) if isinstance(log, RankingLog) else []
    given: dict[str, str | tuple[PageFunction, str]] = {name: name for name in known}
    if rewards is not None:
        given |= dict(rewards) if isinstance(rewards, Mapping) else {name: name for name in rewards}
    if not given and primary is None and not guardrails:
        return in_memory(log, segments, reading), None
    metrics = Metrics.of(given or {SINGLE: SINGLE}, primary, guardrails)
    beside = {} if isinstance(log, RankingLog) else {"rewards": metrics.operands}
    carried = tuple(dict.fromkeys([*segments, *metrics.columns]))
    whole = in_memory(log, carried, {**reading, **beside})
    if not whole.rewards:
        # Guardrails still need the original reward.
        whole = whole.take(slice(0, whole.n))
        object.__setattr__(whole, "rewards", {SINGLE: whole.reward})
    return measured(whole, metrics.measures[0]), metrics


def _heaviest(part: RankingLog) -> Heaviest | None:
    """Return the unit with the most rows and its share, where that is large."""
    if part.unit is None:
        return None
    labels, counts = np.unique(part.unit, return_counts=True)
    most = int(np.argmax(counts))
    share = float(counts[most] / part.n)
    return Heaviest(str(labels[most]), share) if share > SETTINGS.heavy else None


def _reach(level: float, grade: str, size: int, counts: Floats | None) -> float:
    """Return how many standard errors the bound lies below the estimate; for grade "free" approximately."""
    from scipy import special

    if grade != "free":
        return float(special.stdtrit(max(size - 1, 1), level))
    # Units of different sizes allow one stake only (`betting_lower_bound`): about Hoeffding's bound.
    if counts is not None and np.ptp(counts) > 0:
        return math.sqrt(2.0 * math.log(1.0 / (1.0 - level)))
    return float(special.ndtri(level)) + 0.15


def _step(side: Side | Tilted, step: Any, cap: float, promise: float) -> Step:
    w = side.weight(step)
    ess = float(w.sum() ** 2 / (w**2).sum()) if (w > 0).any() else 0.0
    value = float(side.lifts(step, cap).mean())
    return Step(**side.place(step), value=value, low=promise, ess=ess)


def _units(part: RankingLog) -> tuple[Ints, Floats] | None:
    """Return the unit of each row and the number of rows of each unit; None where there are no units."""
    if part.unit is None:
        return None
    _, group, counts = np.unique(part.unit, return_inverse=True, return_counts=True)
    return group.astype(np.int64), counts.astype(np.float64)


def _summed(values: Floats, units: tuple[Ints, Floats] | None) -> Floats:
    if units is None:
        return values
    return np.bincount(units[0], weights=values, minlength=len(units[1])).astype(np.float64)


def _more_rows(
    value: float, stderr: float, rows: int, reach: float, *, total: int, away: float
) -> int | None:
    """Return about how many rows of the whole log would certify this gain; None where there is no gain.

    `away` is the distance from the bound up to the estimate on `total` rows, which falls with the root
    of the rows. Where the bound is at zero or below, more rows than `total` are needed.
    """
    if value <= 0 or stderr <= 0:
        return None
    spread = stderr * math.sqrt(rows)
    # Twice the least number, with which the bound is above zero half of the time.
    certify = 2.0 * (reach * spread / value) ** 2
    needed = certify / (1.0 - SETTINGS.learn_share)
    return math.ceil(max(needed, total * max(away / value, 1.0) ** 2))


def _policy(whole: RankingLog, model: ListModel, path: str) -> LearnedPolicy:
    """Return the exported policy, without the step of the path."""
    kind = "plackett-luce" if scores_of(whole) is None else "added"
    return LearnedPolicy(
        kind="best-of" if path == "best-of" else kind,
        scorer=Scorer(model),
        items=_items(whole),
        position_weights=np.asarray(whole.position_weights),
        context_names=whole.context_names,
        context_categories=dict(whole.categories),
        feature_names=whole.item_feature_names,
        feature_categories=whole.categories_of_items,
        learned_from=fingerprint_of(whole).of_rows,
    )


def _assembled(
    certifying: Side | Tilted,
    policy: LearnedPolicy,
    model: ListModel,
    cap: float,
    certificate: Certificate,
    segments: Sequence[str],
    rng: np.random.Generator,
) -> Learned:
    step: Any = certificate.m if certificate.strength is None else certificate.strength
    exported = replace(
        policy,
        m=certificate.m,
        temperature=1.0 / (certificate.strength or 1.0),
        certificate={
            "certified": certificate.certified,
            "grade": certificate.grade,
            "level": certificate.level,
            "lift": certificate.value,
            "low": certificate.low,
        },
    )
    part = certifying.log
    gains = certifying.lifts(step, cap)
    return Learned(
        policy=exported,
        certificate=replace(certificate, kind=policy.kind),
        segments=segments_of(part, gains, _units(part), segments, certificate.level),
        exposure=exposure(part, exported, rng),
        sort=_sorted(certifying, exported, model, rng),
        details=dict(model.details),
    )


def _sorted(
    side: Side | Tilted, policy: LearnedPolicy, model: ListModel, rng: np.random.Generator
) -> float | None:
    """Return the lift that the model expects of sorting by score; None where pages cannot be filled."""
    n = min(side.log.n, SETTINGS.exposed)
    part = side.log.take(slice(0, n))
    least = part.K if part.candidates is None else int(part.candidates.counts.min())
    if min(part.n_actions, least) < part.K:
        return None
    pages = cut(replace(policy, kind="top").bind(part).sample(part.K, rng), part.lengths)
    value = list_value(part, model, ALL, side.rewards.shift)(np.arange(n), pages)
    return float(value.mean() - side.today(n))


def _items(log: RankingLog) -> tuple[Any, ...]:
    return tuple(log.action_names) if log.action_names is not None else tuple(range(log.n_actions))
