"""From estimates to a verdict: what they are compared with, the checks, and what is said.

The verdict and the advice are functions of findings, those about an estimate and those of the audit. What
is wrong with the log comes first, then what more data would give.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError
from counterrank.common.findings import (
    FAILED,
    PASSED,
    WARNED,
    About,
    Finding,
    Findings,
    Outcome,
    worst,
)
from counterrank.common.messages import say
from counterrank.common.texts import in_percent
from counterrank.estimators import Estimate
from counterrank.estimators.weights.diagnostics import (
    effective_rows,
    effective_rows_by_position,
    largest_weight_share,
    mean_weight_test,
    tail_index,
)
from counterrank.estimators.weights.moments import Moments
from counterrank.estimators.weights.thresholds import (
    POSITION_ESS,
    SIGNIFICANT,
    THRESHOLDS,
)
from counterrank.evaluation.comparisons import Rival
from counterrank.evaluation.result import LEVELS, MORE_ROWS, Level, Verdict, weakest
from counterrank.statistics import holm, two_sided


@dataclass(frozen=True, slots=True)
class TargetEvidence:
    """The evidence for one target; no check reads whether the lift is up or down."""

    estimate: Estimate
    logged: float
    units: int
    outcomes: float
    #: Moments of the weights behind the estimate.
    moments: Moments | None = None
    #: Moments of the lightest weights of this target: what is wrong with propensities shows best in
    #: them.
    lightest: Moments | None = None
    #: Rows belong to units, or the user says that no two belong together.
    clustered: bool = True
    #: Contexts that the rows share although each has a unit of its own; None where they do not.
    shared_contexts: int | None = None
    independent: bool = False
    #: They are those of another estimate, which this one mixes with more: what they show can warn,
    #: not fail.
    borrowed: bool = False
    rivals: Sequence[Rival] = ()
    #: Lifts by all usable weights, whatever they assume.
    lifts: Sequence[float] = ()
    #: Why there is no assumption to check, when there is none.
    assumption_free: bool = False
    #: Share of the target's probability on items the logger hardly shows, by position; empty when
    #: unknown.
    unsupported: Sequence[float] = ()
    practical: float | None = None
    estimated_propensity: bool = False
    #: The factor by which estimated propensities must be wrong to turn the lift's sign.
    sign_changes_at: float | None = None
    #: The user says that the target was not trained on these rows, or until when it was trained,
    #: which makes all rows that count later ones.
    fresh: bool = False
    trained_until: str | None = None
    #: The target was learned from these very rows: its file says so.
    learned_here: bool = False
    #: The target was learned from other rows, of which some may be among these: its file says so.
    learned_elsewhere: bool = False


#: A difference to an estimate that assumes less with this p-value is a doubt. One in ten right estimates
#: meets one: the price of seeing biases that are no larger than the interval.
DOUBTFUL = 0.1

#: Where more than this share of a target was hardly ever shown, nothing is said of it.
MOSTLY_UNSEEN = 0.5

EXPLORE = "a logging policy that explores more"


#: What a check says; None where it does not apply.
Found = Finding | None


def _finding(status: Outcome, text: str, *remedies: str, rows: int | None = None) -> Finding:
    """Return what a check says; `reasons` adds its code and the target. What passed needs no remedy."""
    if status is PASSED:
        return Finding("", status, text)
    return Finding("", status, text, remedies, rows=rows)


def reasons(evidence: TargetEvidence) -> list[Finding]:
    """Return a finding for every check of an estimate that could be made."""
    target, findings = evidence.estimate.target, []
    for code, check in CHECKS.items():
        finding = check(evidence)
        if finding is not None:
            subject = ABOUT.get(code, "targets")
            findings.append(replace(finding, code=code, target=target, about=subject))
    return findings


#: What checks of an estimate speak of; all others speak of the target.
ABOUT: dict[str, About] = {
    "units": "users",
    "outcomes": "rewards",
    "mean-weight": "propensities",
    "propensities": "propensities",
}


def estimable(e: TargetEvidence) -> Found:
    """There is an estimate."""
    reason = e.estimate.not_estimable
    advice = "see what the audit says, and log more widely"
    return _finding(FAILED, f"not estimable: {reason}", advice) if reason else None


def model_alone(e: TargetEvidence) -> Found:
    """An estimate by a model of users alone, which no weight can contradict, is directional at best."""
    if e.estimate.traits is not None and e.estimate.traits.user_model:
        reason = f"'{e.estimate.basis}' rests on a model of users that this log cannot check"
        return _finding(
            WARNED,
            reason,
            "random swaps or slots for a few percent of requests, with logged probabilities",
        )
    if e.estimate.unreached <= 0.5:
        return None
    share = in_percent(e.estimate.unreached, 0)
    reason = f"{share} of what the target shows together has too little weight in the log"
    return _finding(WARNED, f"{reason}: most of the change is what models expect", EXPLORE)


def units(e: TargetEvidence) -> Found:
    """There are enough rows, and they are known to be independent."""
    line, owner = (
        THRESHOLDS["units"],
        f"name the user or session, {say('--columns', 'unit=COLUMN')}",
    )
    doubt = ""
    if not e.clustered:
        doubt = f"{e.estimate.n:,} rows are treated as independent, but the log has no users or sessions"
    elif e.shared_contexts is not None:
        doubt = (
            f"nearly every row has a unit of its own, but they share {e.shared_contexts:,} contexts: "
            "rows of one visitor seem to count as rows of many"
        )
        owner += ", not the row"
    if doubt and not e.independent:
        status = worst((WARNED, line.status(e.units)))
        option = say("--independent-rows", python="independent_rows=True")
        return _finding(status, doubt, owner, f"say {option} if no visitor has two rows")
    factor = line.reliable / max(e.units, 1)
    reason = f"{e.units:,} independent rows or users"
    return _short(line.status(e.units), reason, e.estimate.n, factor)


def resting_on(e: TargetEvidence) -> Moments | None:
    """Return the moments of the weights that the estimate rests on; None where it rests on models.

    Where weights are the smaller part of an estimate its standard error holds what they add, and its
    allowance what they could not show: how heavy they are says nothing more.
    """
    return e.moments if e.estimate.weighted > 0.5 else None


def ess(e: TargetEvidence) -> Found:
    """There are enough effective rows, in all and at each position."""
    line, judged, moments = THRESHOLDS["ess"], e.estimate, resting_on(e)
    # An estimate may look steadier than the weights it rests on: the fewer count.
    rows = judged.ess if moments is None else min(judged.ess, effective_rows(moments))
    status = _softened(line.status(rows), e) if rows < judged.ess else line.status(rows)
    reason = f"the weights leave {rows:,.0f} effective of {judged.n:,} rows"
    if status == PASSED and moments is not None:
        by_position = effective_rows_by_position(moments)
        weak = np.flatnonzero(by_position < POSITION_ESS) + 1
        if len(weak):
            reason += f", but fewer than {POSITION_ESS:.0f} at position {', '.join(map(str, weak))}"
            factor = POSITION_ESS / max(float(by_position.min()), 1.0)
            return _short(WARNED, reason, judged.n, factor, f"{EXPLORE} there")
    if moments is not None and tail_index(moments) > THRESHOLDS["tail"].reliable:
        advice = f"{EXPLORE}: with such a tail, effective rows grow much more slowly than rows"
        return _finding(status, reason, advice)
    return _short(status, reason, judged.n, line.reliable / max(rows, 1.0), EXPLORE)


def outcomes(e: TargetEvidence) -> Found:
    """There are enough rows with an outcome."""
    line = THRESHOLDS["outcomes"]
    reason = f"{e.outcomes:,.0f} rows, in effect, make the estimate"
    factor = line.reliable / max(e.outcomes, 1.0)
    return _short(line.status(e.outcomes), reason, e.estimate.n, factor)


def tail(e: TargetEvidence) -> Found:
    """The tail of the weights is light enough for a mean to exist."""
    moments = resting_on(e)
    if moments is None:
        return None
    value = tail_index(moments)
    return _finding(
        _softened(THRESHOLDS["tail"].status(value), e),
        f"the largest weights fall off with a tail index of {value:.2f}",
        "an estimator with lighter weights (lower interaction order, self-normalised)",
    )


def concentration(e: TargetEvidence) -> Found:
    """No single row carries much of the weight."""
    moments = resting_on(e)
    if moments is None:
        return None
    value = largest_weight_share(moments)
    return _finding(
        _softened(THRESHOLDS["concentration"].status(value), e),
        f"one ranking carries at most {in_percent(value)} of the weight",
        MORE_ROWS,
        EXPLORE,
    )


def mean_weight(e: TargetEvidence) -> Found:
    """The mean weight is compatible with 1, of the estimate's weights and of the lightest ones."""
    tests = [
        mean_weight_test(moments) for moments in (e.moments, e.lightest) if moments is not None
    ]
    if not tests:
        return None
    # The worse of two, with Bonferroni's factor below.
    test = min(tests, key=lambda candidate: candidate.p_value)
    furthest = int(np.nanargmax(np.abs(test.z)))
    off = float(np.abs(test.mean - 1).max())
    if test.p_value * len(tests) > SIGNIFICANT:
        where = f"{test.mean[furthest]:.3g} at position {furthest + 1}"
        return _finding(PASSED, f"weights average 1 within chance (furthest: {where})")
    status = worst((WARNED, THRESHOLDS["mean-weight"].status(off)))
    reason = (
        f"weights average {test.mean[furthest]:.3g} instead of 1 at position {furthest + 1} (p = "
        f"{test.p_value:.1g}): wrong propensities or target probabilities, items never shown, or a "
        f"tail not yet seen{scale_of(test.mean)}"
    )
    return _finding(
        status, reason, "run 'counterrank check' on this log: it names the likely cause"
    )


def support(e: TargetEvidence) -> Found:
    """The logger shows what the target would show."""
    if not len(e.unsupported):
        return None
    shares = np.asarray(e.unsupported)
    worst = int(shares.argmax())
    line = THRESHOLDS["support"]
    weak = np.flatnonzero(shares > line.reliable) + 1
    reason = (
        f"the target puts {in_percent(shares[worst])} of position {worst + 1} on items the logger "
        "hardly ever shows"
    )
    finding = _finding(
        line.status(float(shares[worst])),
        reason,
        f"explore those items at position {', '.join(map(str, weak))}",
    )
    return replace(finding, fatal=bool(shares.mean() > MOSTLY_UNSEEN))


def agreement(e: TargetEvidence) -> Found:
    """Estimators with weaker assumptions agree with the recommended one within their errors."""
    if e.assumption_free:
        return _finding(PASSED, "the estimator assumes nothing about how items affect each other")
    usable = [rival for rival in e.rivals if rival.usable]
    # What the interval already allows for bias is no contradiction, and stands in where nobody
    # could contradict.
    allowed = e.estimate.allowance
    if not usable:
        return _unchecked(e.rivals, allowed)
    p = holm(
        [two_sided(max(abs(rival.difference) - allowed, 0.0), rival.stderr) for rival in usable]
    )
    # Without its allowance, as the difference is: what is compared are sampling errors.
    half = (e.estimate.high - e.estimate.low) / 2 - allowed
    names = ", ".join(rival.name for rival in usable)
    apart = [rival for rival, value in zip(usable, p, strict=True) if value <= SIGNIFICANT]
    if not apart:
        doubts = [rival for rival, value in zip(usable, p, strict=True) if value <= DOUBTFUL]
        distant = [rival for rival in doubts if abs(rival.difference) - allowed > half / 2]
        if distant or _turned(e):
            return _doubted(e, distant, names)
        return _finding(
            PASSED, f"compatible with {names}, which assume{'s' if len(usable) == 1 else ''} less"
        )
    worst = max(apart, key=lambda rival: abs(rival.difference))
    distance = (abs(worst.difference) - allowed) / half if half > 0 else math.inf
    beyond = f", beyond the bias of {allowed:.3g} that the interval allows for," if allowed else ","
    reason = (
        f"{worst.name} assumes less and differs by {worst.difference:+.4g} ± "
        f"{worst.stderr:.2g}{beyond} "
        f"by {distance:.1f} times the half-width of the interval: items seem to affect each other"
    )
    # Which of two is right no difference says: where users compare items, the one that assumes less may be off.
    return _finding(THRESHOLDS["agreement"].status(distance), reason, EXPLORE, "an A/B test")


def _turned(e: TargetEvidence) -> bool:
    """Return whether the lift differs from zero while all usable weights, two or more, have the other sign."""
    lift = e.estimate.lift
    certain = lift.low > 0 or lift.high < 0
    return certain and len(e.lifts) > 1 and all(value * lift.value < 0 for value in e.lifts)


def _doubted(e: TargetEvidence, distant: Sequence[Rival], names: str) -> Finding:
    reason = f"all weights point the other way than {e.estimate.estimator} ({names} among them)"
    if distant:
        worst = max(distant, key=lambda rival: abs(rival.difference))
        reason = (
            f"{worst.name} assumes less and may well differ: by {worst.difference:+.4g} ± "
            f"{worst.stderr:.2g} on the same rows"
        )
    advice = f"{EXPLORE}, until the estimators agree or clearly differ"
    return _finding(WARNED, reason, MORE_ROWS, advice)


def _unchecked(rivals: Sequence[Rival], allowed: float) -> Finding:
    names = ", ".join(rival.name for rival in rivals) or "none was run"
    reason = f"no estimator with fewer assumptions is precise enough to check this one ({names})"
    if allowed > 0:
        return _finding(
            PASSED, f"{reason}; its interval allows for a bias of {allowed:.3g} instead"
        )
    remedy = f"run more estimators: {say('--estimators', 'all')}"
    return _finding(WARNED, reason, MORE_ROWS, EXPLORE, remedy)


def auto(e: TargetEvidence) -> Found:
    """Only the interval of `auto` holds an allowance for bias: without it nothing is reliable."""
    name = e.estimate.estimator
    if name == "auto":
        return None
    return _finding(
        WARNED,
        f"'auto' was not run: nothing in the interval of '{name}' allows for bias, and what "
        "'auto' would say of this log is not known",
        f"run 'auto' as well: {say('--estimators', f'{name},auto')}",
    )


def precision(e: TargetEvidence) -> Found:
    """The interval is narrow, relative to the logger's value or to the lift."""
    lift, line = e.estimate.lift, THRESHOLDS["precision"]
    half = (lift.high - lift.low) / 2
    scale = abs(e.logged) or abs(e.estimate.value)
    relative = half / scale if scale > 0 else (0.0 if half == 0 else math.inf)
    goal = e.practical or line.reliable
    # Five times, as the table's own lines are apart.
    loose = line.directional if e.practical is None else 5 * goal
    if not math.isfinite(half):
        return _finding(FAILED, "the interval cannot be computed", MORE_ROWS)
    status = PASSED if relative <= goal or half <= abs(lift.value) / 2 else WARNED
    if status == WARNED and relative > loose and half > abs(lift.value):
        status = FAILED
    reason = f"the lift is known to ± {in_percent(relative)} of what the logger earns"
    # Half-widths fall with the root of the rows, what they allow for bias included; the goal is met
    # relative to the logger or to the lift, whichever comes first.
    factor = min(
        (relative / goal) ** 2, (2 * half / abs(lift.value)) ** 2 if lift.value else math.inf
    )
    return _short(status, reason, e.estimate.n, factor, EXPLORE)


def propensities(e: TargetEvidence) -> Found:
    """The propensities were logged, not estimated."""
    if not e.estimated_propensity:
        return None
    turns = (
        ""
        if e.sign_changes_at is None
        else f"; wrong by a factor of {e.sign_changes_at:.2f} they turn the sign"
    )
    return _finding(
        WARNED,
        f"propensities were estimated, not logged{turns}",
        "log the probability of each shown item when it is shown",
    )


def fresh_target(e: TargetEvidence) -> Found:
    """The target was not trained on the rows that judge it."""
    name = e.estimate.target
    split = (
        "evaluate later rows only: "
        f"{say('--target-trained-until', 'DATE')} {say('--time', 'COLUMN')}"
    )
    if e.learned_here:
        return _finding(WARNED, f"'{name}' was learned from this log", f"a later log, or {split}")
    if e.trained_until is not None:
        return _finding(
            PASSED, f"'{name}' was trained until {e.trained_until}; only later rows count"
        )
    if e.fresh:
        return _finding(PASSED, f"'{name}' was not trained on this log, as declared")
    declared = say("--target-is-fresh", python="target_is_fresh=True")
    if e.learned_elsewhere:
        return _finding(
            WARNED,
            f"'{name}' was learned from other rows than these: its file says so, and not whether some are in both",
            f"if none are: {declared}. If some are, {split}",
        )
    return _finding(
        WARNED,
        f"'{name}' may have been trained on this log; its noise would then look like a lift",
        f"if '{name}' was not trained on this log: {declared}. If it was, {split}",
    )


#: By the code of their findings.
CHECKS: dict[str, Callable[[TargetEvidence], Found]] = {
    "estimable": estimable,
    "model-alone": model_alone,
    "units": units,
    "ess": ess,
    "outcomes": outcomes,
    "tail": tail,
    "concentration": concentration,
    "mean-weight": mean_weight,
    "support": support,
    "agreement": agreement,
    "precision": precision,
    "propensities": propensities,
    "fresh-target": fresh_target,
    "auto": auto,
}


#: A mean weight further from 1 is of products, not of a unit.
MOST_UNITS = 2000.0


def scale_of(mean: Floats) -> str:
    """Return what mean weights far above 1 at the first position suggest about units, or nothing.

    The first position has one factor in every kind of weights. A mean below 1 says nothing about units: rare
    heavy weights may not have come yet.

    >>> scale_of(np.array([98.0, 9604.0])), scale_of(np.array([0.01]))
    ('; propensities look about 100 times too small, as if in another unit', '')
    """
    factor = float(mean[0])
    if not 3 <= factor <= MOST_UNITS:
        return ""
    return f"; propensities look about {float(f'{factor:.1g}'):,.0f} times too small, as if in another unit"


def _softened(status: Outcome, e: TargetEvidence) -> Outcome:
    return WARNED if status == FAILED and e.borrowed else status


def _short(status: Outcome, text: str, n: int, factor: float, *instead: str) -> Finding:
    """Return what a check says that more rows would satisfy: how many, and what would do instead."""
    if not math.isfinite(factor):
        return _finding(status, text, MORE_ROWS, *instead)
    if factor > ABSURD:
        *alternatives, last = instead or (EXPLORE, "an A/B test")
        return _finding(
            status, text, *alternatives, f"{last}: no number of rows like these would do"
        )
    enough = round_up(n * factor)
    remedy = f"about {enough:,} rows like these ({_times(factor)} times as many)"
    return _finding(status, text, remedy, *instead, rows=enough)


#: More times as many rows than this are no advice.
ABSURD = 1000.0


def _times(factor: float) -> str:
    """Return a factor as people say it.

    >>> _times(1.3218), _times(2.0), _times(497.2)
    ('1.3', '2', '500')
    """
    return f"{factor:.2g}" if factor < 10 else f"{round_up(factor):,}"


def round_up(value: float) -> int:
    """Return a count rounded up to two significant digits: needs are never known better.

    >>> round_up(12345), round_up(7)
    (13000, 7)
    """
    number = math.ceil(value - 1e-9)
    if number < 100:
        return number
    step = int(10 ** (len(str(number)) - 2))
    return -(-number // step) * step


#: Checks of an estimate. All other codes are the audit's, which name causes; these name symptoms, but for a
#: value that rewards do not allow: it says why.
SYMPTOMS = {*CHECKS, "baseline-evidence"} - {"estimable"}
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
    return sorted((finding for finding in findings if finding.stands), key=_rank)


def _rank(finding: Finding) -> tuple[bool, bool, bool, bool, bool]:
    # What cannot be estimated at all comes first. A group or a day that can be left out explains what
    # is off on the whole; what has no remedy of its own follows from something else.
    return (
        is_symptom(finding),
        finding.code != "estimable",
        not finding.where,
        not finding.remedies,
        finding.status is not FAILED,
    )


def is_symptom(finding: Finding) -> bool:
    """Return whether a finding says that an estimate is weak, not what is wrong with the log."""
    return finding.code in SYMPTOMS and not finding.cause


def remedies(findings: Iterable[Finding]) -> list[tuple[str, ...]]:
    """Return what would help: alternatives, the most important first, none of them twice.

    Of several numbers of rows only the largest is given, which does for all. Where the audit names a
    cause, no advice about rows is given.

    >>> from counterrank.common.findings import WARNED
    >>> short = Finding("ess", WARNED, "few rows", ("about 900 rows",), rows=900)
    >>> remedies([short, Finding("units", WARNED, "no unit", ("name the user",))])
    [('about 900 rows',), ('name the user',)]
    >>> remedies([short, Finding("duplicates", FAILED, "copies", ("drop repeated rows",))])
    [('drop repeated rows',)]
    """
    blamed = [finding for finding in causes_first(findings) if finding.remedies]
    if not all(map(is_symptom, blamed)):
        blamed = [finding for finding in blamed if finding.code not in AFTER_CAUSES]
    if any(finding.where for finding in blamed):
        blamed = [
            finding for finding in blamed if finding.where or finding.code not in OF_THE_WHOLE
        ]
    largest = max(blamed, key=lambda finding: finding.rows or 0, default=None)
    told = {MORE_ROWS} if largest is not None and largest.rows else set[str]()
    ways: list[tuple[str, ...]] = []
    for finding in blamed:
        fresh = tuple(text for text in finding.remedies if text not in told)
        if fresh and (finding.rows is None or finding is largest):
            ways.append(fresh)
        told |= {*finding.remedies}
    return ways


def what_would_help(findings: Sequence[Finding]) -> list[str]:
    """Return the remedies as texts, alternatives joined by "or"."""
    return [", or ".join(ways) for ways in remedies(findings)]


def of_audit(findings: Iterable[Finding], target: str) -> Findings:
    """Yield what the audit's findings mean for a target: what is refuted, and questions that nobody answered.

    Both make the evidence directional, and insufficient where they are fatal.
    """
    for finding in findings:
        counts = finding.status is FAILED or (finding.blamed and finding.kind == "question")
        if counts and finding.target in (None, target):
            yield replace(finding, status=FAILED if finding.fatal else WARNED, target=target)


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
    statuses = {finding.status for finding in findings}
    return LEVELS[0 if FAILED in statuses else 1 if WARNED in statuses else 2]


def no_better(
    findings: Mapping[str, Sequence[Finding]], baseline: str | None
) -> dict[str, list[Finding]]:
    """Return the findings of each target, with one about a baseline that is known less well."""
    by_target = {target: list(rows) for target, rows in findings.items()}
    if baseline is None:
        return by_target
    base = level_of(by_target[baseline])
    for target, rows in by_target.items():
        if LEVELS.index(level_of(rows)) > LEVELS.index(base):
            text = f"the evidence is no better than that on the baseline '{baseline}', {base}"
            rows.append(
                Finding(
                    "baseline-evidence",
                    FAILED if base == LEVELS[0] else WARNED,
                    text,
                    causes_first(by_target[baseline])[0].remedies,
                    target,
                )
            )
    return by_target


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
    further = f" (and {len(blamed) - 1} more)" if len(blamed) > 1 else ""
    helping = f" What would help: {', or '.join(blamed[0].remedies)}." if blamed[0].remedies else ""
    return f"The evidence on '{target}' is {level}: {blamed[0].text}{further}.{helping}"
