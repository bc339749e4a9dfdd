"""Learning of a policy: a model is learned on some units, and its policy is certified on the others.

The model, the cap of the control variate, the stakes of the bound and m depend on the learning rows
only. The certificate uses the other rows and concerns exactly the policy that is exported. It is valid
also if the model is wrong, in which case the policy gains less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.blas import single_blas_thread
from counterrank.common.errors import ConfigError, LogError
from counterrank.common.messages import ESTIMATED, has, say
from counterrank.common.options import LEVEL, SEED
from counterrank.common.texts import in_percent
from counterrank.data.columns import shared_contexts
from counterrank.data.encoding import encoded_features
from counterrank.data.fingerprint import fingerprint_of
from counterrank.data.log import RankingLog
from counterrank.data.validation import no_weight
from counterrank.learning import settings
from counterrank.learning.certificates import certify
from counterrank.learning.paths import DrawnValues, ListValue, Side, draw, watched_rewards
from counterrank.learning.policy import LearnedPolicy, sampler_of
from counterrank.learning.result import Certificate, Learned, segments_of
from counterrank.learning.scorer import Scorer
from counterrank.learning.trees import fit_trees
from counterrank.metrics import SINGLE, Guardrail, Metrics, PageFunction, measured
from counterrank.models import (
    ALL,
    Fold,
    ListModel,
    Variant,
    fit_list_models,
    rankings_of,
    squared_loss,
)
from counterrank.policies import Policy, drawn_weight
from counterrank.statistics import check_level

if TYPE_CHECKING:
    from counterrank.io import LogLike


GRADES = ("free", "assumed")
MODELS = ("linear", "boosting")
#: Click models without and with competition between the items of a page.
_VARIANTS = (Variant(), Variant(competition=True))


@single_blas_thread
def learn(  # noqa: PLR0913 - the options of a run
    log: LogLike,
    *,
    model: str = "linear",
    grade: str = "free",
    level: float = LEVEL,
    seed: int = SEED,
    segments: Sequence[str] | str = (),
    reward_range: tuple[float, float] | None = None,
    independent_rows: bool = False,
    despite_audit: bool = False,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None = None,
    primary: str | None = None,
    guardrails: Sequence[str | Guardrail] | str = (),
    **reading: Any,
) -> Learned:
    """Learn a policy and certify that it is better than the logger.

    The policy draws m rankings from the logger and serves the one with the highest value according to
    a reward model.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
    model
        "linear" is a click model, linear in features and context; "boosting" adds LightGBM trees
        (extra `boosting`).
    grade
        "free" is a bound without assumptions that holds for any number of rows; it needs rewards of a
        known range. "assumed" is a t bound, which is valid for many rows.
    level
        Confidence of the certificate.
    seed
        Seed of all random streams.
    segments
        The columns whose groups get lifts of their own.
    reward_range
        The lowest and the highest possible reward of a position, if rewards are not 0/1.
    independent_rows
        Declares that no two rows belong to the same visitor, for logs without units. Without units
        and without this declaration nothing is certified.
    despite_audit
        Continues if the audit of the log has failed.
    rewards
        Several metrics by name, as in `evaluate`.
    primary
        The metric that is maximised: the first by default.
    guardrails
        Limits of the lift of other metrics, such as "revenue >= -0.01". They are certified on the same
        rows, each with an equal share of the error probability.
    **reading
        Options of the reader for a log that is not in memory: `columns`, `context`, `unit`, `logger`,
        `policies`, ... as in `counterrank.io.ReadOptions`; `format`; `engine` ("local", "dask" or
        "spark"); `where`, a mapping that selects rows, {"device": "mobile"}.

    Returns
    -------
    Learned
        The policy, its certificate, and the path of the values of m that were compared.

    Raises
    ------
    CounterrankError
        The log does not allow learning; the message says why and what to do.

    Examples
    --------
    >>> import counterrank as cr
    >>> rng = np.random.default_rng(0)
    >>> policy = cr.PlackettLuce(rng.normal(size=(600, 6)))
    >>> action = policy.sample(3, rng)[:, 0]
    >>> clicks = (rng.random(action.shape) < action / 6).astype(float)
    >>> log = cr.RankingLog(action=action, reward=clicks, propensity=policy)
    >>> learned = cr.learn(log, independent_rows=True)
    >>> learned.policy.kind, learned.certificate.certified
    ('best-of', True)
    """
    from counterrank.report.learning import sentence

    check_level(level)
    for name, option, allowed in (("grade", grade, GRADES), ("model", model, MODELS)):
        if option not in allowed:
            raise ConfigError(f"{name} is one of {', '.join(allowed)}, not {option!r}")
    segments = (segments,) if isinstance(segments, str) else tuple(segments)
    full_log, metrics = _read_with_metrics(log, segments, rewards, primary, guardrails, reading)
    refuse_unfit(full_log, grade, despite_audit=despite_audit)
    # The draws of the logger use the streams 1 to 3.
    rng = np.random.default_rng([seed, 0])
    learners, certifying_rows = _split(full_log, rng, grade)
    ranges = range_of(full_log, reward_range, grade)
    fitted, fold = _fit_model(learners, model, seed)
    learning = _make_side(learners, fitted, fold, ranges, (seed, 1), metrics, grade)
    # On the learning rows only, because a refusal that depends on the others would select.
    refuse_wrong_sampler(learning, sampler_for(learners, grade), (seed, 2))
    certifying = _make_side(certifying_rows, fitted, ALL, ranges, (seed, 3), metrics, grade)
    # From the learning rows, because the lowest possible lift on the others depends on the cap.
    cap = float(np.quantile(learning.drawn.logged, settings.CAP))
    declared = independent_rows or (full_log.unit is not None and shared_contexts(full_log) is None)
    certificate = certify(
        learning, certifying, cap, rng, grade=grade, level=level, declared=declared
    )
    gains = certifying.lifts(certificate.m, cap)
    certificate = replace(
        certificate,
        metric=metrics.primary or SINGLE,
        segments=segments_of(certifying_rows, gains, certifying.unit, segments, level),
        model=dict(fitted.details),
    )
    described = replace(certificate, sentence=sentence(certificate))
    return Learned(_policy(full_log, fitted, certificate), described)


def _split(log: RankingLog, rng: np.random.Generator, grade: str) -> tuple[RankingLog, RankingLog]:
    """Return the rows to learn on and those to certify on; the rows of a unit stay together."""
    buckets = np.unique(log.bucket)
    chosen = rng.permutation(buckets)[: max(1, round(settings.LEARN_SHARE * len(buckets)))]
    side: Bools = np.isin(log.bucket, chosen)
    for name, rows in (("learn", side), ("certify", ~side)):
        units = len(np.unique(log.unit[rows])) if log.unit is not None else int(rows.sum())
        if units < settings.FEWEST:
            raise LogError(
                f"{units} units are left to {name} on; with fewer than "
                f"{settings.FEWEST:.0f} nothing can be said"
            )
    learners, certifying = log.where(side), log.where(~side)
    units = certifying.n if certifying.unit is None else len(np.unique(certifying.unit))
    if grade == "assumed" and units < settings.MANY:
        raise LogError(
            f"{units} units are left to certify on; grade 'assumed' is a t bound, which needs at "
            f"least {settings.MANY:.0f}. Grade 'free' holds for any number"
        )
    return learners, certifying


def _fit_model(log: RankingLog, model: str, seed: int) -> tuple[ListModel, Ints]:
    """Return the model of this kind with the smallest held-out loss, and the fold of each row."""
    folds = settings.FOLDS
    # By rank instead of bucket mod folds, which might leave a fold empty if units are few.
    _, fold = np.unique(log.bucket, return_inverse=True)
    fold = (fold % folds).astype(np.int64)
    rankings = rankings_of(log)
    if model == "boosting":
        return fit_trees(rankings, log.reward, fold, folds=folds, seed=seed), fold
    models = fit_list_models(rankings, log.reward, fold, folds=folds, variants=_VARIANTS, seed=seed)
    losses = [
        float(squared_loss(candidate, rankings, log.reward, fold).mean()) for candidate in models
    ]
    return models[int(np.argmin(losses))], fold


def _make_side(
    log: RankingLog,
    model: ListModel,
    fold: Fold,
    ranges: tuple[float, float],
    seeds: tuple[int, ...],
    metrics: Metrics,
    grade: str,
) -> Side:
    alpha = log.position_weights
    low, high = ranges
    # A negative position weight reverses the range, and rankings may be shorter than K.
    ends = np.stack([alpha * low, alpha * high, np.zeros_like(alpha)])
    least, largest = float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())
    value = list_value(log, model, fold, least)
    drawn = draw(log, sampler_for(log, grade), value, settings.DRAWS, seeds)
    unit = np.arange(log.n)
    if log.unit is not None:
        _, unit = np.unique(log.unit, return_inverse=True)
    rails = watched_rewards(log, metrics, grade)
    return Side(log, unit, log.reward @ alpha - least, largest - least, least, drawn, rails)


def list_value(log: RankingLog, model: ListModel, fold: Fold, least: float) -> ListValue:
    """Return a function of rows (b,) and rankings (b, D, K) that gives their expected total reward (b, D).

    `least` is subtracted from the reward, and the result is at least 0.
    """
    alpha = log.position_weights
    lookup = _table_lookup(log)

    def value(rows: Ints, rankings: Ints) -> Floats:
        pages = rankings_of(log.take(slice(int(rows[0]), int(rows[-1]) + 1)))
        # Items are encoded once, because drawn rankings repeat the same items.
        pages = pages if lookup is None else replace(pages, lookup=lookup)
        D = rankings.shape[1]
        numbers = fold if isinstance(fold, int) else np.repeat(fold[rows], D)
        expected = model.expected(pages.others(rankings), numbers) @ alpha[: rankings.shape[2]]
        # `Side.lowest` requires a control variate that is not negative.
        return np.maximum(expected.reshape(len(rows), D) - least, 0.0)

    return value


def _table_lookup(log: RankingLog) -> Callable[[Ints], Floats] | None:
    """Return a lookup of encoded item features, or None if candidates have features of their own."""
    features = log.item_features
    if features is None or tuple(features.names) != tuple(log.item_feature_names):
        return None
    unknown = np.full((1, features.values.shape[1]), np.nan)
    raw = np.concatenate([features.values, unknown])
    table = encoded_features(raw, log.item_feature_names, log.categories_of_items)
    last = len(table) - 1
    return lambda items: table[np.where((items >= 0) & (items < last), items, last)]


def _read_with_metrics(
    log: LogLike,
    segments: Sequence[str],
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None,
    primary: str | None,
    guardrails: Sequence[str | Guardrail] | str,
    reading: dict[str, Any],
) -> tuple[RankingLog, Metrics]:
    """Return the log with the primary metric as its reward, and the metrics."""
    from counterrank.io import in_memory

    metrics = Metrics.requested(log, reading, rewards, primary, guardrails)
    full_log = in_memory(log, tuple(dict.fromkeys([*segments, *metrics.columns])), reading)
    if metrics.named and not full_log.rewards:
        # Guardrails still need the original reward.
        full_log = full_log.changed(rewards={SINGLE: full_log.reward})
    return measured(full_log, metrics.measures[0]), metrics


def _policy(log: RankingLog, model: ListModel, certificate: Certificate) -> LearnedPolicy:
    """Return the exported policy."""
    names = log.action_names
    return LearnedPolicy(
        kind="best-of",
        scorer=Scorer(model),
        items=tuple(range(log.n_actions)) if names is None else tuple(names),
        position_weights=np.asarray(log.position_weights),
        m=certificate.m,
        context_names=log.context_names,
        context_categories=dict(log.categories),
        feature_names=log.item_feature_names,
        feature_categories=log.categories_of_items,
        certificate={
            "certified": certificate.certified,
            "grade": certificate.grade,
            "level": certificate.lift.level,
            "lift": certificate.value,
            "low": certificate.low,
        },
        learned_from=fingerprint_of(log).of_rows,
    )


def sampler_for(log: RankingLog, grade: str) -> Policy:
    """Return the logging policy as a sampler.

    Raises LogError if the log has none, or (for grade "free") if its propensities were estimated.
    """
    if grade == "free" and has(log.notes, ESTIMATED):
        raise LogError(
            "the propensities of this log were estimated, and grade 'free' requires logged ones: log "
            "them, or use grade 'assumed', which assumes that the estimates are right"
        )
    sampler = sampler_of(log)
    if sampler is None:
        raise LogError(
            "best of m draws rankings from today's policy, and this log does not define a policy to "
            "draw from: log the scores of all candidates and give --logger plackett-luce (or another "
            "kind), or log the item distributions in 'propensity_dist'"
        )
    if getattr(sampler, "deterministic", False):
        raise LogError(
            "today's policy is deterministic, so there are no other rankings to choose from. Log "
            "with some randomness first (docs/reference/log-format.md)"
        )
    return sampler


def refuse_unfit(log: RankingLog, grade: str, *, despite_audit: bool) -> None:
    """Raise LogError if a log does not allow learning, or its audit failed."""
    from counterrank.checks import audit_log

    no_weight(log, "learn")
    sampler_for(log, grade)
    shown = log.action >= 0
    values = log.reward[shown]
    if log.page_reward:
        raise LogError(
            "the log has one reward per ranking, but learning needs rewards by position, such as clicks"
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
            f"items have no features, and {items:,} of them were shown {shown.sum():,} times, so that "
            "hardly any was shown twice and nothing can be learned about them. Give features of "
            "items (--items, or z_ columns), or ids that recur"
        )
    # Without targets, which are not used here and whose heavy weights would fail the audit.
    if not despite_audit and (failed := audit_log(replace(log, targets={})).failed):
        told = "; ".join(f"{finding.code}: {finding.text}" for finding in failed)
        raise LogError(
            f"the audit of this log failed ({told}); a certificate from a wrong log is not "
            f"valid. Repair it, or give {say('--despite-audit', python='despite_audit=True')} to "
            "continue"
        )


def range_of(
    log: RankingLog, declared: tuple[float, float] | None, grade: str
) -> tuple[float, float]:
    """Return the smallest and the largest possible reward of a position."""
    values = log.reward[log.action >= 0]
    if declared is not None:
        low, high = float(declared[0]), float(declared[1])
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
            "grade 'free' needs the possible range of rewards, which the log does not tell: give "
            f"{say('--reward-range', 'LOW,HIGH', 'reward_range')}, or use grade 'assumed'"
        )
    return float(values.min()), float(values.max())


def refuse_wrong_sampler(side: Side, logger: Policy, seeds: tuple[int, ...]) -> None:
    """Raise LogError if the logged rankings do not look like draws of the logger.

    If they are draws of the logger, the rank of the logged ranking among new draws is uniform for any
    statistic. The test uses the list value, on which the weights depend, and the probability of the
    ranking, which is most sensitive to a wrong temperature.
    """
    statistics = [side.drawn]
    if "prefix" in logger.capabilities and (side.log.lengths == side.log.K).all():
        statistics.append(draw(side.log, logger, _likelihood(logger), settings.LIKELY_DRAWS, seeds))
    for drawn in statistics:
        if _ranks_not_uniform(drawn, side):
            raise LogError(
                "the logged rankings are not draws of today's policy as described: the mean rank of "
                f"the logged ranking among new draws is {in_percent((drawn.below / drawn.draws).mean())} "
                "of the way up instead of 50 %. Is the temperature right, are all candidates listed, "
                "did rules change the page afterwards?"
            )


def _likelihood(logger: Policy) -> ListValue:
    def value(rows: Ints, rankings: Ints) -> Floats:
        b, D, K = rankings.shape
        row_policies = logger.take(np.repeat(rows if logger.n_rows > 1 else np.zeros_like(rows), D))
        return row_policies.prefix_log_prob(rankings.reshape(b * D, K))[:, -1].reshape(b, D)

    return value


def _ranks_not_uniform(drawn: DrawnValues, side: Side) -> bool:
    """Return whether the ranks B among L draws differ from the uniform distribution on 0..L.

    The statistics are the mean rank and the mean weights of best of m. The variance is the larger of
    that of uniform ranks and that between units, because a logger may have drawn once for several
    rows of a unit.
    """
    ranks = np.arange(drawn.draws + 1)
    tests: list[Callable[[Ints], Floats]] = [lambda below: below / drawn.draws]
    tests += [partial(drawn_weight, draws=drawn.draws, m=m) for m in (2, 4, 8)]
    for statistic in tests:
        law, values = statistic(ranks), statistic(drawn.below)
        deviations = side.unit_sums(values - law.mean())
        error = math.sqrt(max(len(values) * float(law.var()), float(deviations @ deviations)))
        if abs(float(deviations.sum())) > settings.WRONG_SAMPLER * error:
            return True
    return False
