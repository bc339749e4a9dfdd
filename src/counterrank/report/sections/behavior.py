"""Who behaves how: the groups of the behaviour tree."""

from counterrank.report.reading import Reading
from counterrank.report.sections import parts


def section(reading: Reading) -> parts.Section | None:
    """Return the groups as cards."""
    return None
