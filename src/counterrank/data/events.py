"""What became of the tables that were joined to a log: events, and scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from counterrank.common.findings import Finding


@dataclass(frozen=True, slots=True)
class JoinedEvents:
    """How many events there were, found what was shown, found no ranking, and stood there twice."""

    rows: int
    joined: int
    orphans: int
    duplicates: int
    #: What the audit says of the join.
    findings: tuple[Finding, ...] = ()
    #: The key of one event, where events were sent again and nobody named one.
    unique: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, int]:
        """Return the counts."""
        names = ("rows", "joined", "orphans", "duplicates")
        return {name: int(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class JoinedScores:
    """What became of the rows of a table of scores.

    `orphans` name no request of the log or an item that was no candidate, `duplicates` repeat the keys of
    another row, `added` became candidates that the log does not list. `missing` are candidates
    without a score, by target.
    """

    path: str
    rows: int
    joined: int
    orphans: int
    duplicates: int
    added: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    #: What the audit says of the join.
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the counts."""
        names = ("path", "rows", "joined", "orphans", "duplicates", "added")
        return {**{name: getattr(self, name) for name in names}, "missing": dict(self.missing)}
