"""The result of an evaluation, as typed data: the log, each metric, pair, segment, weight and check, the decision."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from counterrank.checks import Audit
from counterrank.common.errors import UnknownNameError
from counterrank.common.findings import Finding
from counterrank.common.messages import Message
from counterrank.common.records import Json, Record, RecordResult, optional, plain, value_of
from counterrank.common.texts import suggestion
from counterrank.estimators import Estimate
from counterrank.estimators.behavior import ForestDescription
from counterrank.estimators.weights.diagnostics import Support, WeightReport
from counterrank.statistics import Number

Level = Literal["insufficient", "directional", "reliable"]
#: Evidence levels, the lowest first.
LEVELS: tuple[Level, ...] = ("insufficient", "directional", "reliable")
#: No more units than these are counted.
COUNTED_UNITS: Final = 100_000


def weakest(*levels: str) -> Level:
    """Return the lowest of evidence levels; what is no level counts as insufficient.

    >>> weakest("reliable", "directional"), weakest("reliable", "none")
    ('directional', 'insufficient')
    """
    order: list[str] = [*LEVELS]
    return LEVELS[min(order.index(level) if level in order else 0 for level in levels)]


@dataclass(frozen=True, slots=True)
class LogSummary(Record):
    """The log that was evaluated, and what its own policy earned."""

    n: int
    K: int
    fingerprint: str = ""
    #: The same whatever targets are evaluated on the rows.
    rows_fingerprint: str = ""
    #: What the logging policy earned per ranking.
    value: float = float("nan")
    stderr: float = float("nan")
    #: The number of units, `COUNTED_UNITS` for as many or more; of rows where the log has none.
    units: int = 0
    #: Intervals hold at every look and are shortest at this many rows; None: one look.
    sequential: int | None = None
    position_weights: tuple[float, ...] = ()
    #: What a "reward" and a "ranking" are called in reports.
    words: dict[str, str] = optional(default_factory=dict)
    #: Some rankings have fewer than K positions.
    shorter: bool = optional(default=False)
    #: Events that the rewards were made of: rows, joined, orphans, duplicates.
    events: dict[str, int] = optional(default_factory=dict)
    #: Tables of scores: path, rows, joined, orphans, duplicates, added, missing by target.
    scores: list[dict[str, Any]] = optional(default_factory=list)
    #: First and last time of the rows, as ISO text; nothing where no column has times.
    period: tuple[str, ...] = optional(default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Number):
    """The difference of two targets on the same rows: `better` less `than`.

    The interval is Bonferroni-adjusted over all pairs, with both allowances for bias.
    """

    better: str
    than: str
    bias_allowance: float = 0.0
    #: Holm-adjusted over all pairs.
    p_value: float = float("nan")


@dataclass(frozen=True, slots=True)
class SegmentLift(Number):
    """The lift in a segment, and its interval adjusted for looking at all segments of a target."""

    relative: float = float("nan")
    adjusted_low: float = float("nan")
    adjusted_high: float = float("nan")
    p_value: float = float("nan")
    q_value: float = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment(Number):
    """What a target would earn in one group of rows."""

    column: str
    label: str
    target: str
    estimator: str
    n: int
    ess: float
    lift: SegmentLift
    evidence: Level | None = None
    flags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Segment({self.column}={self.label}, {self.target}: {self.lift.value:+.4g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPoint(Number):
    """The estimate of one interaction order: 1 is IIPS, K is IPS."""

    order: int
    ess: float = float("nan")
    estimator: str = ""

    def flaw(self) -> tuple[str, str] | None:
        """Return the order where it is none."""
        return None if self.order > 0 else ("order", "1 or more")


@dataclass(frozen=True, slots=True)
class Diagnostics(Record):
    """The weights behind each estimate, the path from IIPS to IPS, and what the logger rarely shows.

    In JSON the weights stand under "TARGET/ESTIMATOR", beside `order_path` and `support`.
    """

    weights: dict[str, WeightReport] = field(default_factory=dict)
    order_path: dict[str, tuple[OrderPoint, ...]] = field(default_factory=dict)
    support: dict[str, Support] = field(default_factory=dict)

    def weight_report(self, target: str, estimator: str) -> WeightReport | None:
        """Return the report on the weights of one estimate, None where it rests on none."""
        return self.weights.get(f"{target}/{estimator}")

    def to_dict(self) -> Json:
        """Return the JSON form."""
        record = Record.to_dict(self)
        return {**record.pop("weights"), **record}

    def __getitem__(self, key: str) -> Any:
        return self.weights[key] if key in self.weights else Record.__getitem__(self, key)


#: The advice that any number of rows makes needless.
MORE_ROWS = "more rows"


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Record):
    """How far the evidence can be believed: a level, a sentence, and a reason for each check.

    >>> from counterrank.common.findings import WARNED
    >>> reason = Finding("units", WARNED, "80 rows", ("more rows",), "new")
    >>> verdict = Verdict("directional", "80 rows.", {"new": "directional"}, (reason,))
    >>> verdict, verdict["level"], verdict.reasons[0]["check"]
    (Verdict('directional', warn=['units']), 'directional', 'units')
    """

    #: The lowest level of all targets; "none" where no verdict was made.
    level: Level | Literal["none"] = "none"
    #: The level of each target and what decided it, in a sentence.
    summary: str = ""
    #: The level of each target.
    targets: dict[str, Level] = field(default_factory=dict)
    reasons: tuple[Finding, ...] = ()

    def level_of(self, target: str) -> str:
        """Return the level of a target; that of all where it has none of its own."""
        return self.targets.get(target, self.level)

    def __repr__(self) -> str:
        """Return the level and the checks that did not pass."""
        blamed = {
            status: dict.fromkeys(
                finding.code for finding in self.reasons if finding.status == status
            )
            for status in ("fail", "warn")
        }
        not_passed = [f"{status}={list(checks)}" for status, checks in blamed.items() if checks]
        return f"Verdict({', '.join([repr(self.level), *not_passed])})"

    def __str__(self) -> str:
        """Return the sentence, and a line for each check that did not pass."""
        lines = [
            f"  {finding.status.word} {finding.code}: {finding.text}"
            for finding in self.reasons
            if finding.blamed
        ]
        return "\n".join([self.summary or self.level, *lines])


@dataclass(frozen=True, slots=True)
class Detectable(Record):
    """The smallest lift that so many rows can tell from zero."""

    rows: int
    lift: float


@dataclass(frozen=True, slots=True)
class RowsNeeded(Record):
    """The rows from which a relative lift can be detected; None where nobody could log so many."""

    relative: float
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class SamplePlan(Record):
    """What this log can detect, and what more rows or more exploration would give."""

    detectable_lift: float = float("nan")
    detectable_relative: float = float("nan")
    curve: tuple[Detectable, ...] = ()
    #: Rankings of an A/B test of the same precision; None where nobody would run it.
    ab_rows: int | None = None
    rows_for: tuple[RowsNeeded, ...] = ()
    #: The bias that the interval allows for, as a share of what the logger earns.
    allowance_relative: float = float("nan")

    def __repr__(self) -> str:
        return f"SamplePlan(detectable_lift={self.detectable_lift:.4g}, ab_rows={self.ab_rows})"


@dataclass(frozen=True, slots=True)
class SensitivityRange(Record):
    """Where value and lift may lie if every weight is wrong by at most a factor `gamma`."""

    gamma: float
    low: float
    high: float
    lift_low: float
    lift_high: float


@dataclass(frozen=True, slots=True)
class Sensitivity(Record):
    """How the range of a value grows with the error of the propensities."""

    curve: tuple[SensitivityRange, ...] = ()
    #: The factor at which the sign of the lift may change; None: none up to the largest.
    sign_changes_at: float | None = None

    def __repr__(self) -> str:
        return f"Sensitivity(sign_changes_at={self.sign_changes_at})"


def unknown(what: str, name: str, choices: Iterable[str]) -> UnknownNameError:
    """Return the error of a name that a result does not have."""
    names = list(choices)
    return UnknownNameError(
        f"there is no {what} '{name}'{suggestion(name, names)}; {what}s are {', '.join(names)}"
    )


def rows_of(estimates: Sequence[Estimate]) -> Json:
    """Return the two lists in which estimates and their lifts stand in JSON."""
    return {
        "estimates": [plain(estimate.to_dict()) for estimate in estimates],
        "lift": [
            {"target": estimate.target, "estimator": estimate.estimator, **estimate.lift.to_dict()}
            for estimate in estimates
        ],
    }


def with_lifts(record: Mapping[str, Any], n: int) -> list[Json]:
    """Return the rows that `rows_of` wrote, each with its lift, under the names of an estimate's fields."""
    rows, lifts = (
        value_of(tuple[Json, ...], record.get(name), name) for name in ("estimates", "lift")
    )
    by_name = {(str(row.get("target")), str(row.get("estimator"))): row for row in lifts}
    joined = []
    for row in rows:
        flags = value_of(tuple[str, ...], row.get("flags") or [], "flags")
        codes = value_of(tuple[str, ...], row.get("flag_codes") or [""] * len(flags), "flag_codes")
        told = zip(codes, flags, strict=False)
        joined.append(
            {
                "by_position": [],
                "level": 0.95,
                **row,
                "n": n,
                "lift": by_name.get((str(row.get("target")), str(row.get("estimator"))), {}),
                "ends": [row.get("low"), row.get("high")],
                "flags": [Message.read(code, flag) if code else flag for code, flag in told],
            }
        )
    return joined


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MetricResult(Record):
    """What was found of one metric: estimates and lifts of each target, and how far to believe them."""

    name: str = ""
    primary: bool = False
    #: How it was written: a column, or an expression such as any(click).
    expression: str = ""
    #: "position", "page" or "ratio".
    kind: str = ""
    unit: str = ""
    lower_is_better: bool = False
    #: What the logging policy earned.
    value: float = float("nan")
    stderr: float = float("nan")
    estimates: tuple[Estimate, ...] = ()
    recommended: dict[str, str] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=Verdict)
    segments: tuple[Segment, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    skipped: tuple[Finding, ...] = ()

    def estimate(self, target: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate; by default the recommended one of the first target."""
        chosen = target or self.estimates[0].target
        if chosen not in self.recommended:
            raise unknown("target", chosen, self.recommended)
        name = estimator or self.recommended[chosen]
        of_target = {row.estimator: row for row in self.estimates if row.target == chosen}
        if name not in of_target:
            raise unknown("estimator", name, of_target)
        return of_target[name]

    def flaw(self) -> tuple[str, str] | None:
        """Return what is missing where a target has no recommended estimate."""
        pairs = {(estimate.target, estimate.estimator) for estimate in self.estimates}
        targets = {estimate.target for estimate in self.estimates} | {*self.recommended}
        if all((target, self.recommended.get(target)) in pairs for target in targets):
            return None
        return "recommended", "the name of an estimate of each target"

    def to_dict(self) -> Json:
        """Return the JSON form."""
        rows = rows_of(self.estimates)
        if self.primary:
            # What was fitted stands at the top of the file already.
            for row in rows["estimates"]:
                row.pop("details", None)
        return {**Record.to_dict(self), **rows}

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{target}: {self.estimate(target).lift.value:+.4g}" for target in self.recommended
        )
        return f"MetricResult({self.name}, {shown})"


@dataclass(frozen=True, slots=True)
class GuardrailResult(Record):
    """What the log says of one guardrail for one target, in all or in one group of rows."""

    expression: str
    target: str
    #: "safe", "broken" or "open".
    status: str
    #: Relative, or absolute where the guardrail has a unit; with an interval that holds for all
    #: guardrails of the target together.
    lift: float
    low: float
    high: float
    metric: str
    limit: float
    relative: bool = True
    #: One of `LEVELS`.
    evidence: str = ""
    unit: str = optional(default="")
    #: The column and the label of the group, where the guardrail is by a column.
    column: str = optional(default="")
    group: str = optional(default="")


@dataclass(frozen=True, slots=True, repr=False)
class ShipDecision(Record):
    """What to do: "ship", "hold" or "test", and why.

    Of several targets, `target` is the one to ship; `targets` has the action for each.
    """

    action: str = "test"
    reasons: tuple[Finding, ...] = ()
    target: str | None = None
    targets: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        which = "" if self.target is None else f" {self.target!r}"
        return f"ShipDecision({self.action!r}{which}, {[finding.code for finding in self.reasons]})"

    def __str__(self) -> str:
        """Return the action and a line for each reason."""
        return "\n".join([self.action, *(f"  {finding.text}" for finding in self.reasons)])


@dataclass(frozen=True, slots=True)
class Provenance(Record):
    """Versions, options, data fingerprint, seed and command of a run."""

    counterrank: str = ""
    python: str = ""
    libraries: dict[str, str] = field(default_factory=dict)
    options: Json = field(default_factory=dict)
    estimators: tuple[str, ...] = ()
    seed: int = 0
    fingerprint: str = ""
    command: str | None = None
    #: From SOURCE_DATE_EPOCH alone: no clock is read.
    created: str | None = optional()

    def __repr__(self) -> str:
        return f"Provenance(counterrank={self.counterrank!r}, seed={self.seed})"


#: What the primary says at the top of an evaluation's JSON, beside its estimates and lifts.
ABOVE: Final = ("recommended", "verdict", "comparisons", "segments", "skipped")
#: The baseline that is no target: the policy whose rankings were logged.
LOGGER = "logger"


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(RecordResult):
    """The result of `counterrank.evaluate`: estimates, lifts, comparisons, diagnostics, verdict.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> cr.evaluate(log, {"new": [[.5, .5]] * 100}, estimators=["ips"])
    Evaluation(n=100, K=2, targets=['new'], estimators=['ips'], verdict='directional')
    """

    SCHEMA, NAME, ROWS = "counterrank/evaluation/2", "evaluation", "estimates"
    REPORT = "counterrank.report.evaluation"

    log: LogSummary
    #: Every metric, the primary among them; what stands at the top of the JSON is that of the primary.
    metrics: tuple[MetricResult, ...]
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    #: The fitted behaviour tree in words, where there is one.
    behavior: ForestDescription | None = None
    #: What this log can detect, for each target.
    planning: dict[str, SamplePlan] = field(default_factory=dict)
    sensitivity: dict[str, Sensitivity] = field(default_factory=dict)
    audit: Audit = field(default_factory=Audit)
    provenance: Provenance = field(default_factory=Provenance)
    guardrails: tuple[GuardrailResult, ...] = ()
    decision: ShipDecision = field(default_factory=ShipDecision)
    #: The policy that lifts are against; "logger" for the one that served the log.
    baseline: str = LOGGER

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The estimates of the primary."""
        return self.metric().estimates

    @property
    def recommended(self) -> dict[str, str]:
        """The recommended estimator of each target, for the primary."""
        return self.metric().recommended

    @property
    def verdict(self) -> Verdict:
        """How far the estimates of the primary can be believed."""
        return self.metric().verdict

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The differences of targets in the primary."""
        return self.metric().comparisons

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The lifts of the primary in groups of rows."""
        return self.metric().segments

    @property
    def skipped(self) -> tuple[Finding, ...]:
        """The estimators that could not run."""
        return self.metric().skipped

    def keys(self) -> tuple[str, ...]:
        """Return the keys of the JSON form."""
        return *super().keys(), "estimates", *ABOVE

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` or a JSON file of `evaluate --json` describes.

        Raises
        ------
        ConfigError
            It is no evaluation, or a damaged one.
        """
        cls.check_schema(content)
        log = value_of(LogSummary, content.get("log"), "log")
        diagnostics = value_of(Json, content.get("diagnostics") or {}, "diagnostics")
        weights = {key: record for key, record in diagnostics.items() if "/" in key}
        metrics = value_of(tuple[Json, ...], content.get("metrics") or [], "metrics")
        lifts = value_of(tuple[Json, ...], content.get("lift"), "lift")
        verdict = value_of(Json, content.get("verdict"), "verdict")
        top = {name: content[name] for name in ABOVE if name in content} | {"verdict": verdict}
        records = [
            # What was fitted of the primary stands at the top; in files of version 1 all that is known of it.
            {
                **record,
                **top,
                "estimates": content.get("estimates"),
                "lift": [*lifts, *(record.get("lift") or [])],
            }
            if record.get("primary")
            else record
            for record in metrics or [{"primary": True, "value": log.value, "stderr": log.stderr}]
        ]
        complete = {
            **content,
            "diagnostics": {**diagnostics, "weights": weights},
            "metrics": [{**record, "estimates": with_lifts(record, log.n)} for record in records],
        }
        return super().from_dict(complete)

    def to_dict(self) -> Json:
        """Return the JSON form: plain types only, NaN and infinities as null."""
        primary = self.metric()
        above = {name: plain(primary[name]) for name in ABOVE}
        return {**super().to_dict(), **above, **rows_of(primary.estimates)}

    def flaw(self) -> tuple[str, str] | None:
        """Return what is missing where no metric is the primary."""
        if any(metric.primary for metric in self.metrics):
            return None
        return "metrics", "a list with a primary metric"

    def metric(self, name: str | None = None) -> MetricResult:
        """Return what was found of a metric; by default of the primary."""
        for result in self.metrics:
            if result.primary if name is None else result.name == name:
                return result
        raise unknown("metric", name or "primary", [result.name for result in self.metrics])

    def estimate(self, target: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate of the primary; by default the recommended one of the first target."""
        return self.metric().estimate(target, estimator)

    def called(self, **words: str) -> Self:
        """Return the same result, whose reports call a `reward` or a `ranking` by these words."""
        return replace(self, log=replace(self.log, words={**self.log.words, **words}))

    def _rows(self) -> list[Json]:
        """Return a row for each estimate: value and lift, each with its error and interval."""
        return [_row(estimate) for estimate in self.estimates]

    def to_frame(self) -> Any:
        """Return `table`."""
        return self.table

    def __repr__(self) -> str:
        """Return what there is to ask for; `print` shows the whole table."""
        names = list(dict.fromkeys(e.estimator for e in self.estimates))
        size = f"n={self.log.n}, K={self.log.K}"
        return (
            f"Evaluation({size}, targets={list(self.recommended)}, estimators={names}, "
            f"verdict={self.verdict.level!r})"
        )


def _row(estimate: Estimate) -> Json:
    value, lift = estimate.to_dict(), estimate.lift.to_dict()
    for record, names in ((value, ("by_position", "details")), (lift, ("by_position",))):
        for name in names:
            record.pop(name, None)
    return {
        **value,
        "lift": lift.pop("value"),
        **{f"lift_{key}": item for key, item in lift.items()},
    }
