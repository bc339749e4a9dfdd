"""Checks of logs and loggers before learning; each raises with the reason and a remedy."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import ConfigError, LogError
from counterrank.common.messages import ESTIMATED, has, say
from counterrank.common.texts import in_percent
from counterrank.data.log import RankingLog
from counterrank.learning import settings
from counterrank.learning.paths import DrawnValues, Side, draw
from counterrank.learning.policy import sampler_of
from counterrank.policies import Policy, drawn_weight


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


def refuse_without_choice(log: RankingLog) -> None:
    """Raise LogError if the rewards or the shown items of a log do not allow learning."""
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


def refuse_failed_audit(log: RankingLog) -> None:
    """Raise LogError if the audit of the log failed."""
    from counterrank.checks import audit_log

    # Without targets, which are not used here and whose heavy weights would fail the audit.
    failed = audit_log(replace(log, targets={})).failed
    if failed:
        told = "; ".join(f"{finding.code}: {finding.text}" for finding in failed)
        raise LogError(
            f"the audit of this log failed ({told}); a certificate from a wrong log is not "
            f"valid. Repair it, or give {say('--despite-audit', python='despite_audit=True')} to "
            "continue"
        )


def refuse_few(certifying: RankingLog) -> None:
    """Raise LogError if there are too few certifying units for a t bound."""
    units = certifying.n if certifying.unit is None else len(np.unique(certifying.unit))
    if units < settings.MANY:
        raise LogError(
            f"{units} units are left to certify on; grade 'assumed' is a t bound, which needs at "
            f"least {settings.MANY:.0f}. Grade 'free' holds for any number"
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


def _likelihood(logger: Policy) -> Callable[[Ints, Ints], Floats]:
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
