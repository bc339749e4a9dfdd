"""The position curve of a log, as a file for those who train rankers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.common.options import SEED
from counterrank.data.validation import no_weight
from counterrank.estimators import fit_examination

if TYPE_CHECKING:
    from counterrank.data.log import RankingLog
    from counterrank.io import LogLike

SCHEMA = "counterrank/curve/1"


@dataclass(frozen=True, slots=True)
class PositionCurve:
    """How often each position is looked at, relative to the first.

    Attributes
    ----------
    curve
        One number per position, the first is 1.
    log_error
        The standard error of each one's logarithm.
    rows
        Rankings that the curve was estimated on.
    """

    curve: tuple[float, ...]
    log_error: tuple[float, ...]
    rows: int

    @property
    def inverse(self) -> tuple[float, ...]:
        """What a click at each position counts in training: one over the curve."""
        return tuple(1.0 / value for value in self.curve)

    def to_json(self) -> str:
        """Return the curve as JSON."""
        content = {
            "schema": SCHEMA,
            "curve": list(self.curve),
            "inverse": list(self.inverse),
            "log_error": list(self.log_error),
            "rows": self.rows,
        }
        return json.dumps(content, indent=1) + "\n"


def position_curve(log: LogLike, *, seed: int = SEED, **reading: Any) -> PositionCurve:
    """Return how often each position is looked at, estimated from clicks.

    Clicks are taken for examination times relevance; relevance is modelled by items and features.
    Examination at k is the clicks earned there over the attraction shown there.

    Parameters
    ----------
    log
        Anything that `evaluate` takes; no target policy is needed.
    seed
        Seed of the sample that is fitted on.
    **reading
        Options of the reader.

    Returns
    -------
    PositionCurve
        The curve with its error.

    Raises
    ------
    EstimatorError
        What stands at a position hardly ever stood elsewhere: examination cannot be told from
        relevance.

    Examples
    --------
    >>> import numpy as np
    >>> import counterrank as cr
    >>> rng = np.random.default_rng(0)
    >>> action = np.array([rng.permutation(3) for _ in range(2000)])
    >>> reward = rng.random((2000, 3)) < np.array([0.8, 0.4, 0.16])
    >>> log = cr.RankingLog(action=action, reward=reward.astype(float), propensity=np.full((2000, 3), 1 / 3))
    >>> [round(value, 1) for value in cr.position_curve(log).curve]
    [1.0, 0.5, 0.2]

    References
    ----------
    Joachims, Swaminathan and Schnabel, "Unbiased learning-to-rank with biased feedback", WSDM 2017.
    """
    from counterrank.io import opened

    options = {"require_propensity": False, **reading}
    with opened(log, (), needs_targets=False, **options) as (source, _):
        no_weight(source.first, "curve")
        fitted = fit_examination(source, None, seed=seed)
        rows = source.n if source.n is not None else source.reduce(_count)
    curve = np.asarray(fitted.curve)
    return PositionCurve(tuple(curve.tolist()), tuple(fitted.error.tolist()), int(rows))


def _count(batch: RankingLog) -> int:
    return batch.n
