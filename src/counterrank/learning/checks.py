"""Refusals: logs that nothing can be learned from, and loggers that no certificate can rest on."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.errors import ConfigError, LogError
from counterrank.learning import settings
from counterrank.learning.paths import DrawnValues, Side, draw
from counterrank.learning.policy import sampler_of
from counterrank.messages import ESTIMATED, has, say
from counterrank.policies import Policy, drawn_weight
from counterrank.texts import in_percent


def sampler_for(log: RankingLog, grade: str) -> Policy:
    """Return today's policy as a sampler; refuse a log without one, and for grade "free" an estimated one."""
    if grade == "free" and has(log.notes, ESTIMATED):
        raise LogError(
            "the propensities of this log were estimated, not logged, and grade 'free' rests on "
            "them: log them, or take grade 'assumed', which then assumes that the estimate is right"
        )
    found = sampler_of(log)
    if found is None:
        raise LogError(
            "best of m draws fresh rankings from today's policy, and this log does not say how: "
            "log the scores of all candidates and give --logger plackett-luce (or another kind), "
            "or whole distributions in 'propensity_dist'"
        )
    if getattr(found, "deterministic", False):
        raise LogError(
            "today's policy shows one ranking only: every draw of it is the same, so there is "
            "nothing to choose from "
            "and nothing to certify. Log with some randomness first (docs/reference/log-format.md)"
        )
    return found


def refuse_without_choice(log: RankingLog) -> None:
    """Raise where a log has nothing to choose between or to learn from."""
    shown = log.action >= 0
    values = log.reward[shown]
    if log.page_reward:
        raise LogError(
            "the log has one reward per ranking, and which of its items earned it is not known: learning "
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


def refuse_failed_audit(log: RankingLog) -> None:
    """Raise where the audit of the log failed: many rows that are copies are among its reasons."""
    from counterrank.checks import audit_log

    # Without the log's targets: they do not matter here, and their heavy weights raise false alarms.
    failed = audit_log(replace(log, targets={})).failed
    if failed:
        told = "; ".join(f"{row['check']}: {row['found']}" for row in failed)
        raise LogError(
            f"the audit of this log failed ({told}); a certificate from a wrong log is not "
            f"valid. Repair it, or say {say('--despite-audit', python='despite_audit=True')} to go on "
            "all the same"
        )


def refuse_few(rest: RankingLog) -> None:
    """Raise where a t bound has too few certifying units."""
    units = rest.n if rest.unit is None else len(np.unique(rest.unit))
    if units < settings.MANY:
        raise LogError(
            f"{units} units are left to certify on; grade 'assumed' is a t bound, which needs at "
            f"least {settings.MANY:.0f}. Grade 'free' holds for any number"
        )


def range_of(log: RankingLog, given: tuple[float, float] | None, grade: str) -> tuple[float, float]:
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


def refuse_wrong_sampler(side: Side, logger: Policy, seeds: tuple[int, ...]) -> None:
    """Raise where the logged rankings do not look like draws of the logger, since all weights would be wrong.

    Under the logger the rank of the logged ranking among fresh draws is uniform, by any number. It is
    checked by the list value, on which the weights depend, and by the ranking's probability, which a
    wrong temperature changes most.
    """
    found = [side.drawn]
    if "prefix" in logger.capabilities and (side.log.lengths == side.log.K).all():
        found.append(draw(side.log, logger, _likelihood(logger), settings.LIKELY_DRAWS, seeds))
    for drawn in found:
        if _misplaced(drawn, side):
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


def _misplaced(drawn: DrawnValues, side: Side) -> bool:
    """Return whether ranks B among L draws are not uniform on 0..L, by their mean and by mean weights of best of m.

    The variance is the larger of that of uniform ranks and that between units, because a logger may
    have drawn once for several rows of a unit.
    """
    ranks = np.arange(drawn.draws + 1)
    tests: list[Callable[[Ints], Floats]] = [lambda below: below / drawn.draws]
    tests += [partial(drawn_weight, draws=drawn.draws, m=m) for m in (2, 4, 8)]
    for of in tests:
        law, values = of(ranks), of(drawn.below)
        away = side.summed(values - law.mean())
        error = math.sqrt(max(len(values) * float(law.var()), float(away @ away)))
        if abs(float(away.sum())) > settings.WRONG_SAMPLER * error:
            return True
    return False
