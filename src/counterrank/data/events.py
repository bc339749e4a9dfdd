"""What became of the events that were joined to a log."""

from dataclasses import dataclass

from counterrank.findings import Finding


@dataclass(frozen=True, slots=True)
class JoinedEvents:
    """How many events there were, found what was shown, found no ranking, and stood there twice."""

    rows: int
    joined: int
    orphans: int
    duplicates: int
    #: What the audit says of the join.
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, int]:
        """Return the counts."""
        names = ("rows", "joined", "orphans", "duplicates")
        return {name: int(getattr(self, name)) for name in names}
