"""A result read back from its JSON form: what `Evaluation.to_dict` wrote."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from counterrank.audit import Audit
from counterrank.errors import ConfigError
from counterrank.estimators import Estimate, Lift, PositionValue
from counterrank.evaluation.tables import Diagnostics, JointLift, LogSummary, MetricResult
from counterrank.findings import AUDIT, ESTIMATORS_SKIPPED, Finding, Keys
from counterrank.messages import Message
from counterrank.records import Json, value_of
from counterrank.statistics import check_level

if TYPE_CHECKING:
    from counterrank.evaluation.result import Evaluation

    Read = TypeVar("Read", bound=Evaluation)

Row = Mapping[str, Any]


def evaluation_from(kind: "type[Read]", found: Row) -> "Read":
    """Return a whole evaluation; what an older version did not write is empty."""
    kind.check_schema(found)
    for name in ("log", "estimates", "lift", "recommended", "verdict"):
        if found.get(name) is None:
            raise ConfigError(f"this evaluation is damaged: it has no '{name}'")
    made: Json = {
        "estimates": estimates_from(found),
        "metrics": tuple(
            _metric(one, found)
            for one in value_of(tuple[Json, ...], found.get("metrics") or [], "metrics")
        ),
        "diagnostics": Diagnostics.from_dict(
            value_of(Json, found.get("diagnostics") or {}, "diagnostics")
        ),
        "audit": Audit(_findings(found, "audit", AUDIT)),
        "skipped": _findings(found, "skipped", ESTIMATORS_SKIPPED),
    }
    hints = get_type_hints(kind)
    rest = {
        name: value_of(hint, found[name], name)
        for name, hint in hints.items()
        if name not in made and found.get(name) is not None
    }
    result = kind(**made, **rest)
    _check_recommended(result)
    for one in result.metrics:
        _check_recommended(one)
    wide = {len(rows) for rows in result.correlations.values()} - {len(result.metrics)}
    if wide or not all(
        len(row) == len(rows) for rows in result.correlations.values() for row in rows
    ):
        raise ConfigError(
            "this evaluation is damaged: 'correlations' has not a row and a column for each metric"
        )
    return result


def _findings(found: Row, name: str, keys: Keys) -> tuple[Finding, ...]:
    rows = keys.read(value_of(tuple[Json, ...], found.get(name) or [], name))
    made: tuple[Finding, ...] = value_of(tuple[Finding, ...], rows, name)
    return made


def _check_recommended(found: "Evaluation | MetricResult") -> None:
    known = {(one.target, one.estimator) for one in found.estimates}
    for target in {one.target for one in found.estimates} | {*found.recommended}:
        if (target, found.recommended.get(target)) not in known:
            raise ConfigError(f"this evaluation is damaged: '{target}' has no recommended estimate")


def estimates_from(found: Row) -> tuple[Estimate, ...]:
    """Return all estimates of a result, each with its lift."""
    rows, lifts = (value_of(tuple[Json, ...], found[name], name) for name in ("estimates", "lift"))
    by_name = {(str(one.get("target")), str(one.get("estimator"))): one for one in lifts}
    n = value_of(LogSummary, found["log"], "log").n
    return tuple(
        _estimate(one, by_name.get((str(one.get("target")), str(one.get("estimator"))), {}), n)
        for one in rows
    )


def _metric(found: Row, whole: Row) -> MetricResult:
    """Return one metric; the estimates of the primary are those of the whole result."""
    primary = value_of(bool, found.get("primary"), "metrics.primary")
    texts = {
        name: value_of(str, found.get(name) or "", f"metrics.{name}")
        for name in ("name", "expression", "kind", "unit")
    }
    hints = get_type_hints(MetricResult)
    rows = {
        name: value_of(hints[name], found.get(name), f"metrics.{name}")
        for name in ("recommended", "verdict", "segments", "comparisons")
        if found.get(name) is not None or name == "recommended"
    }
    lifts = value_of(tuple[Json, ...], found.get("lift") or [], "metrics.lift")
    return MetricResult(
        **texts,
        **rows,
        primary=primary,
        lower_is_better=bool(found.get("lower_is_better")),
        value=_number(found, "value"),
        stderr=_number(found, "stderr"),
        estimates=estimates_from(whole if primary else {**found, "log": whole["log"]}),
        skipped=_findings(found, "skipped", ESTIMATORS_SKIPPED),
        joint=tuple(JointLift.from_dict(one) for one in lifts if "adjusted_low" in one),
    )


def _estimate(found: Row, lift: Row, n: int) -> Estimate:
    """Return an estimate whose interval is the one that was written."""
    level = check_level(_number(found, "level")) if "level" in found else 0.95
    return Estimate(
        target=value_of(str, found.get("target"), "target"),
        estimator=value_of(str, found.get("estimator"), "estimator"),
        value=_number(found, "value"),
        stderr=_number(found, "stderr"),
        by_position=value_of(
            tuple[PositionValue, ...], found.get("by_position") or [], "by_position"
        ),
        ess=_number(found, "ess"),
        n=n,
        level=level,
        lift=Lift.from_dict(lift),
        flags=_flags(found),
        details=value_of(Json, found.get("details") or {}, "details"),
        ends=(_number(found, "low"), _number(found, "high")),
        not_estimable=value_of(str, found.get("not_estimable") or "", "not_estimable"),
    )


def _number(found: Row, name: str) -> float:
    return float(value_of(float, found.get(name), f"estimates.{name}"))


def _flags(found: Row) -> tuple[str, ...]:
    """Return the flags of an estimate, with their codes where those were written."""
    flags = value_of(tuple[str, ...], found.get("flags") or [], "flags")
    codes = value_of(tuple[str, ...], found.get("flag_codes") or [""] * len(flags), "flag_codes")
    return tuple(
        Message.read(code, flag) if code else flag for code, flag in zip(codes, flags, strict=False)
    )
