"""Advice: a function of findings. What is wrong with the log comes first, then what more data would give."""

from collections.abc import Iterable, Sequence

from counterrank.evaluation.tables import MORE_ROWS
from counterrank.findings import FAILED, Finding

#: Checks of an estimate. All other codes are the audit's, which name causes; these name symptoms.
SYMPTOMS = (
    "model-alone", "units", "ess", "outcomes", "tail", "concentration", "mean-weight", "support",
    "agreement", "precision", "propensities", "fresh-target", "auto", "baseline-evidence",
)  # fmt: skip
#: Remedies of these are no use while something else is wrong: a temperature fits badly where
#: candidates are missing, and more rows of a broken log are broken too.
AFTER_CAUSES = ("ess", "outcomes", "tail", "concentration", "precision", "agreement", "support")

#: Findings about the whole log that one wrong group or day brings about; their remedies (another
#: temperature, say) would hide it.
OF_THE_WHOLE = (
    "scores",
    "mean-weight",
    "mean-weight-by-block",
    "scores-by-block",
    "inverse-propensity",
    "calibration",
)


def causes_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that did not pass: what is wrong with the log first, then by severity."""
    blamed = [one for one in findings if one.blamed]
    return sorted(blamed, key=_rank)


def _rank(one: Finding) -> tuple[bool, bool, bool, bool, bool]:
    # What cannot be estimated at all comes first. A group or a day that can be left out explains what
    # is off on the whole; what has no remedy of its own follows from something else.
    return (
        is_symptom(one),
        one.code != "estimable",
        not one.where,
        not one.remedies,
        one.status is not FAILED,
    )


def is_symptom(one: Finding) -> bool:
    """Return whether a finding says that an estimate is weak, not what is wrong with the log."""
    return one.code in SYMPTOMS and not one.cause


def remedies(findings: Iterable[Finding]) -> list[tuple[str, ...]]:
    """Return what would help: alternatives, the most important first, none of them twice.

    Of several numbers of rows only the largest is given, which does for all. Where the audit names a
    cause, no advice about rows is given.

    >>> from counterrank.findings import WARNED
    >>> short = Finding("ess", WARNED, "few rows", ("about 900 rows",), rows=900)
    >>> remedies([short, Finding("units", WARNED, "no unit", ("name the user",))])
    [('about 900 rows',), ('name the user',)]
    >>> remedies([short, Finding("duplicates", FAILED, "copies", ("drop repeated rows",))])
    [('drop repeated rows',)]
    """
    blamed = [one for one in causes_first(findings) if one.remedies]
    if not all(map(is_symptom, blamed)):
        blamed = [one for one in blamed if one.code not in AFTER_CAUSES]
    if any(one.where for one in blamed):
        blamed = [one for one in blamed if one.where or one.code not in OF_THE_WHOLE]
    most = max(blamed, key=lambda one: one.rows or 0, default=None)
    said = {MORE_ROWS} if most is not None and most.rows else set[str]()
    found: list[tuple[str, ...]] = []
    for one in blamed:
        fresh = tuple(text for text in one.remedies if text not in said)
        if fresh and (one.rows is None or one is most):
            found.append(fresh)
        said |= {*one.remedies}
    return found


def what_would_help(findings: Sequence[Finding]) -> list[str]:
    """Return the remedies as texts, alternatives joined by "or"."""
    return [", or ".join(ways) for ways in remedies(findings)]
