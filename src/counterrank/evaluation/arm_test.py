"""An A/B test read with its log: every row tells about every ranker that could have shown its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.checks import days_of
from counterrank.common.blas import single_blas_thread
from counterrank.common.errors import ConfigError
from counterrank.common.options import LEVEL, SEED, SHARE
from counterrank.common.texts import comma_separated
from counterrank.evaluation.abtest_result import ABTest
from counterrank.evaluation.arm_checks import (
    findings_of_test,
    planned_shares,
    sample_ratio,
)
from counterrank.evaluation.arm_lifts import ArmLifts, decide
from counterrank.evaluation.arm_table import ArmTable, ServedRows
from counterrank.evaluation.arms import labels_of, with_arms
from counterrank.evaluation.request import SEQUENTIAL_ROWS, check_practical
from counterrank.metrics import Guardrail, Metrics, PageFunction
from counterrank.statistics import Looks, check_level

if TYPE_CHECKING:
    from counterrank.io import LogLike


@single_blas_thread
def abtest(  # noqa: PLR0913
    log: LogLike,
    arm: str,
    *,
    baseline: str | None = None,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None = None,
    primary: str | None = None,
    guardrails: Sequence[str | Guardrail] | str = (),
    segments: Sequence[str] | str = (),
    practical: float = SHARE,
    time: str | None = None,
    level: float = LEVEL,
    sequential: int | bool | None = None,
    seed: int = SEED,
    **reading: Any,
) -> ABTest:
    """Return what each arm of an A/B test earns more than the baseline, from the rows of all arms.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
        Each arm has a column (or a target) of its own name: its probabilities of the shown items in
        all rows, or a policy by its scores. `propensity` is not needed.
    arm
        The column that says which arm served a row. "variant:a=60,b=40" also says the planned shares of the
        arms (default: equal ones, or other usual ones).
    baseline
        The arm that others are compared with (default: the first by name).
    rewards
        Several metrics by name, as in `evaluate`.
    primary
        The metric that decides: the first by default.
    guardrails
        What must not happen, as in `evaluate`: "revenue >= -0.01".
    segments
        A column or several whose groups are compared too.
    practical
        The smallest relative lift of the primary metric that matters: the test goes on until it would see
        that, and not longer.
    time
        The column with the time of each ranking, from which days are counted.
    level
        Confidence of the intervals.
    sequential
        True, or a number of rows: the intervals hold at every look at a growing test, and are
        shortest at about that many rows (10,000).
    seed
        Every random stream follows it.
    **reading
        What the reader is told about a log that is not in memory yet: `columns`, `context`, `unit`,
        `policies`, ... as in `counterrank.io.ReadOptions`; `format`; `engine`; `where`, a mapping
        that keeps some rows, {"device": "mobile"}.

    Returns
    -------
    ABTest
        Whether the arms can be compared, and for each metric and each arm but the baseline the plain
        difference in means, the pooled lift, which of them is the headline, and how much traffic it saved;
        guardrails and the decision.

    Raises
    ------
    CounterrankError
        There are not two arms, one has no policy, served what it never shows, or has too few rows.

    Examples
    --------
    >>> import numpy as np
    >>> import counterrank as cr
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(2, size=4000)
    >>> chance = np.array([[0.4, 0.6], [0.5, 0.5]])  # of items 0 and 1, by arm
    >>> action = (rng.random(4000) < chance[arm, 1]).astype(int)[:, None]
    >>> reward = (rng.random((4000, 1)) < 0.3 + 0.2 * action).astype(float)
    >>> log = cr.RankingLog(
    ...     action=action, reward=reward, propensity=np.take_along_axis(chance[arm], action, 1),
    ...     targets={"a": chance[0][action], "b": chance[1][action]},
    ...     columns={"arm": np.array(["a", "b"])[arm]},
    ... )
    >>> test = cr.abtest(log, "arm")
    >>> test.lift("b").headline, test.lift("b").saved > 0.9, test.decision.action
    ('pooled', True, 'stop')
    """
    check_level(level)
    check_practical(practical)
    metrics = Metrics.requested(log, reading, rewards, primary, guardrails, time)
    segments = (segments,) if isinstance(segments, str) else tuple(segments)
    column, _, shares = arm.partition(":")
    carried = dict.fromkeys([*segments, *metrics.columns, *([time] if time else [])])
    test_log, names = with_arms(log, column, {"require_propensity": False, **reading}, carried)
    planned = planned_shares(shares, names)
    base = names[0] if baseline is None else baseline
    if base not in names:
        raise ConfigError(
            f"there is no arm '{base}' to compare with; arms are {comma_separated(names)}"
        )
    rows = ServedRows.from_log(test_log, labels_of(test_log, column), names)
    looks = Looks(SEQUENTIAL_ROWS if sequential is True else sequential or None)
    a_day = None if time is None else test_log.n / len(np.unique(days_of(test_log, time)))
    ratio, mismatch = sample_ratio(rows, planned)
    notes = (*mismatch, *findings_of_test(rows))
    source = names.index(base)
    pairs = [(source, to) for to in range(len(names)) if to != source]
    table = ArmTable.from_rows(rows, metrics, pairs, seed)
    lifts = ArmLifts(rows, table, metrics, pairs, segments, level, looks, notes)
    return ABTest(
        tuple(lifts.metric(metric) for metric in metrics.all_metrics),
        base,
        level,
        looks.rows,
        notes,
        tuple(result for rails in lifts.guardrails.values() for _, result in rails),
        decide(lifts, practical=practical, rows_a_day=a_day),
        ratio,
        a_day,
    )
