"""The verdict and the advice: functions of findings, those about an estimate and those of the audit.

What is wrong with the log comes first, then what more data would give.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from counterrank.errors import ConfigError
from counterrank.evaluation.tables import LEVELS, MORE_ROWS, Level, Verdict, weakest
from counterrank.findings import FAILED, WARNED, Finding

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


#: Warnings of the audit with these codes are about weights, scores or rewards: with them no estimate is
#: reliable. Other warnings (missing context, changes from day to day) say something about the log.
LIMITING = (
    "scores", "candidates", "calibration", "consistency", "propensity-vs-distribution",
    "propensity-kind", "repeated-items", "inverse-propensity", "rounding", "rewards", "duplicates",
    "user-column", "target-scores", "lift-by-halves",
)  # fmt: skip
#: The same for all codes that begin so.
LIMITING_KINDS = ("mean-weight", "rewards-", "scores-")


def of_audit(findings: Iterable[Finding], target: str) -> Iterator[Finding]:
    """Yield what the audit's findings mean for a target: what failed, and warnings that limit it.

    What failed makes the evidence directional, and insufficient where it is fatal.
    """
    for one in findings:
        concerned = one.target in (None, target)
        if concerned and (one.status is FAILED or (one.status is WARNED and limits(one))):
            yield replace(one, status=FAILED if one.fatal else WARNED, target=target)


def limits(one: Finding) -> bool:
    """Return whether a warning of the audit is about weights, scores or rewards."""
    return one.code in LIMITING or one.code.startswith(LIMITING_KINDS)


def verdict(findings: Mapping[str, Sequence[Finding]]) -> Verdict:
    """Return the evidence level of each target and of all, every reason for it, and a sentence.

    A failed check makes a target's evidence insufficient, a warning makes it directional; the level
    of all is the lowest. Nothing here depends on whether a lift is up or down.
    """
    levels = {target: level_of(rows) for target, rows in findings.items()}
    return Verdict(
        level=weakest(*levels.values()),
        summary=" ".join(
            _sentence(target, levels[target], rows) for target, rows in findings.items()
        ),
        targets=levels,
        reasons=tuple(row for rows in findings.values() for row in rows),
    )


def level_of(findings: Iterable[Finding]) -> Level:
    """Return the evidence level that follows from the checks."""
    statuses = {one.status for one in findings}
    return LEVELS[0 if FAILED in statuses else 1 if WARNED in statuses else 2]


def no_better(
    findings: Mapping[str, Sequence[Finding]], baseline: str | None
) -> dict[str, list[Finding]]:
    """Return the findings of each target, with one about a baseline that is known less well."""
    found = {target: list(rows) for target, rows in findings.items()}
    if baseline is None:
        return found
    base = level_of(found[baseline])
    for target, rows in found.items():
        if LEVELS.index(level_of(rows)) > LEVELS.index(base):
            text = f"the evidence is no better than that on the baseline '{baseline}', {base}"
            rows.append(
                Finding("baseline-evidence", FAILED if base == LEVELS[0] else WARNED, text,
                        causes_first(found[baseline])[0].remedies, target)
            )  # fmt: skip
    return found


def meets(level: str, required: str) -> bool:
    """Return whether an evidence level is at least the required one.

    >>> meets("directional", "reliable"), meets("reliable", "directional")
    (False, True)
    """
    for name in (level, required):
        if name not in LEVELS:
            raise ConfigError(
                f"'{name}' is no evidence level; use one of {', '.join(reversed(LEVELS))}"
            )
    return LEVELS.index(level) >= LEVELS.index(required)


def _sentence(target: str, level: str, findings: Sequence[Finding]) -> str:
    blamed = causes_first(findings)
    if not blamed:
        return f"The evidence on '{target}' is reliable: all {len(findings)} checks passed."
    more = f" (and {len(blamed) - 1} more)" if len(blamed) > 1 else ""
    helping = f" What would help: {blamed[0].help}." if blamed[0].remedies else ""
    return f"The evidence on '{target}' is {level}: {blamed[0].text}{more}.{helping}"
