"""Finding: one line of the audit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterrank.log import RankingLog
from counterrank.propensity import Propensity

PASSED, WARNED, FAILED, SKIPPED = "passed", "warned", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, where, the likely cause and the remedy."""

    check: str
    status: str
    found: str
    examples: Sequence[dict[str, Any]] = ()
    cause: str = ""
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "check": self.check,
            "status": self.status,
            "found": self.found,
            "examples": [dict(example) for example in self.examples],
            "cause": self.cause,
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class Subject:
    """What is audited: facts about the log that every check may need."""

    first: RankingLog
    targets: tuple[str, ...] = ()
    segments: Sequence[Any] = field(default=())
    time: str | None = None
    n: int | None = None

    @property
    def kind(self) -> str:
        """What the logged propensities are: a kind of `Propensity`, "factored" or "policy" for a whole policy."""
        logging = self.first.propensity
        if isinstance(logging, Propensity):
            return logging.kind
        return "factored" if logging.factored else "policy"

    @property
    def without_propensities(self) -> bool:
        """The log was read without any: its numbers are a stand-in."""
        return any(note.startswith("propensity-missing") for note in self.first.notes)

    def used(self, batch: RankingLog) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Return which cells (n, K) hold an item."""
        return np.arange(batch.K) < batch.lengths[:, None]
