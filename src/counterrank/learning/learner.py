"""From a log to a better policy with a certificate: learn on some units, certify on the others.

The learning rows decide the model, the cap of the control variate, the stakes of the bound and m. The
certificate is computed on the other rows only. It is about exactly the policy that is exported. If the
model is wrong the policy gains less, and the certificate still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.blas import single_blas_thread
from counterrank.data.columns import shared_contexts
from counterrank.data.encoding import encoded_features
from counterrank.data.fingerprint import fingerprint_of
from counterrank.data.log import RankingLog
from counterrank.data.validation import no_weight
from counterrank.errors import ConfigError, LogError
from counterrank.learning import settings
from counterrank.learning.certificates import certified
from counterrank.learning.checks import (
    range_of,
    refuse_failed_audit,
    refuse_few,
    refuse_without_choice,
    refuse_wrong_sampler,
    sampler_for,
)
from counterrank.learning.guardrails import watched
from counterrank.learning.paths import Side, draw
from counterrank.learning.policy import LearnedPolicy
from counterrank.learning.result import Certificate, Learned, segments_of
from counterrank.learning.scorer import Scorer
from counterrank.learning.trees import fit_trees
from counterrank.metrics import SINGLE, Guardrail, Metrics, PageFunction, measured
from counterrank.models import ALL, ListModel, Variant, fit_list_models, rankings_of, squared_loss
from counterrank.options import LEVEL, SEED
from counterrank.statistics import check_level

if TYPE_CHECKING:
    from counterrank.io import LogLike, OpenOptions


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
    from counterrank.report.learning import sentence

    check_level(level)
    for name, given, allowed in (("grade", grade, GRADES), ("model", model, MODELS)):
        if given not in allowed:
            raise ConfigError(f"{name} is one of {', '.join(allowed)}, not {given!r}")
    segments = (segments,) if isinstance(segments, str) else tuple(segments)
    whole, metrics = _measured(log, segments, rewards, primary, guardrails, reading)
    no_weight(whole, "learn")
    sampler_for(whole, grade)
    refuse_without_choice(whole)
    if not despite_audit:
        refuse_failed_audit(whole)
    # Draws of the logger have streams of their own, 1 to 3.
    rng = np.random.default_rng([seed, 0])
    side = _split(whole, rng)
    ranges = range_of(whole, reward_range, grade)
    learners, rest = whole.where(side), whole.where(~side)
    if grade == "assumed":
        refuse_few(rest)
    fitted, fold = _fitted(learners, model, seed)
    learning = _side(learners, fitted, fold, ranges, (seed, 1), metrics, grade)
    # On the learning rows only: a refusal based on the others would be a choice.
    refuse_wrong_sampler(learning, sampler_for(learners, grade), (seed, 2))
    certifying = _side(rest, fitted, ALL, ranges, (seed, 3), metrics, grade)
    # The lowest possible lift depends on the cap of the control variate, so the learning rows set it.
    cap = float(np.quantile(learning.drawn.own, settings.CAP))
    known = whole.unit is not None and shared_contexts(whole) is None
    found = certified(
        learning, certifying, cap, rng,
        grade=grade, level=level, declared=known or independent_rows,
    )  # fmt: skip
    policy = _policy(whole, fitted, found)
    gains = certifying.lifts(found.m, cap)
    found = replace(
        found,
        sentence=sentence(found),
        segments=segments_of(rest, gains, certifying.unit, segments, level),
        model=dict(fitted.details),
    )
    return Learned(policy, found)


def _split(log: RankingLog, rng: np.random.Generator) -> Bools:
    """Return which rows are for learning: whole units, by their buckets."""
    buckets = np.unique(log.bucket)
    chosen = rng.permutation(buckets)[: max(1, round(settings.LEARN_SHARE * len(buckets)))]
    side: Bools = np.isin(log.bucket, chosen)
    for name, rows in (("learn", side), ("certify", ~side)):
        units = len(np.unique(log.unit[rows])) if log.unit is not None else int(rows.sum())
        if units < settings.FEWEST:
            raise LogError(f"{units} units are left to {name} on; with fewer than "
                           f"{settings.FEWEST:.0f} nothing can be said")  # fmt: skip
    return side


def _fitted(part: RankingLog, model: str, seed: int) -> tuple[ListModel, Ints]:
    """Return the model of this kind with the least held-out loss, and the fold of each row."""
    folds = settings.FOLDS
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


def _side(
    part: RankingLog,
    model: ListModel,
    fold: int | Ints,
    ranges: tuple[float, float],
    seeds: tuple[int, ...],
    metrics: Metrics,
    grade: str,
) -> Side:
    alpha = part.position_weights
    low, high = ranges
    # A position of negative weight turns its range around; a ranking may be shorter than K.
    ends = np.stack([alpha * low, alpha * high, np.zeros_like(alpha)])
    least, most = float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())
    value = list_value(part, model, fold, least)
    drawn = draw(part, sampler_for(part, grade), value, settings.DRAWS, seeds)
    unit = np.arange(part.n)
    if part.unit is not None:
        _, unit = np.unique(part.unit, return_inverse=True)
    rails = watched(part, metrics, grade)
    return Side(part, unit, part.reward @ alpha - least, most - least, least, drawn, rails)


def list_value(
    part: RankingLog, model: ListModel, fold: int | Ints, least: float
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


def _measured(
    log: LogLike,
    segments: Sequence[str],
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None,
    primary: str | None,
    guardrails: Sequence[str | Guardrail] | str,
    reading: Mapping[str, Any],
) -> tuple[RankingLog, Metrics]:
    """Return the log with the primary for its reward, and the metrics."""
    from counterrank.io import in_memory

    if (events := reading.get("events")) is not None:
        rewards = events.beside(rewards)
    known = log.rewards if isinstance(log, RankingLog) else ()
    metrics = Metrics.asked_for(known, rewards, primary, guardrails)
    if not metrics.named:
        return in_memory(log, segments, reading), metrics
    beside = {} if isinstance(log, RankingLog) else {"rewards": metrics.operands}
    carried = tuple(dict.fromkeys([*segments, *metrics.columns]))
    whole = in_memory(log, carried, {**reading, **beside})
    if not whole.rewards:
        # Guardrails still need the original reward.
        whole = whole.changed(rewards={SINGLE: whole.reward})
    return measured(whole, metrics.measures[0]), metrics


def _policy(whole: RankingLog, model: ListModel, found: Certificate) -> LearnedPolicy:
    """Return the exported policy."""
    names = whole.action_names
    return LearnedPolicy(
        kind="best-of",
        scorer=Scorer(model),
        items=tuple(range(whole.n_actions)) if names is None else tuple(names),
        position_weights=np.asarray(whole.position_weights),
        m=found.m,
        context_names=whole.context_names,
        context_categories=dict(whole.categories),
        feature_names=whole.item_feature_names,
        feature_categories=whole.categories_of_items,
        certificate={
            "certified": found.certified,
            "grade": found.grade,
            "level": found.lift.level,
            "lift": found.value,
            "low": found.low,
        },
        learned_from=fingerprint_of(whole).of_rows,
    )
