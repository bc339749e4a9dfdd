"""Evaluation: everything that was found, as plain data that renders itself."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from counterrank import atomic
from counterrank.audit import Audit
from counterrank.errors import ConfigError, UnknownNameError
from counterrank.estimators import Estimate
from counterrank.texts import suggestion

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult

SCHEMA = "counterrank/evaluation/1"


class Verdict(dict[str, Any]):
    """How far the evidence can be believed: `level`, `summary`, and the `reasons`, a row for each
    check.

    It is the dictionary of the JSON result too.

    >>> reason = {"target": "new", "check": "units", "status": "warn", "reason": "80 rows", "help": "more rows"}
    >>> verdict = Verdict(level="directional", summary="80 rows.", targets={"new": "directional"}, reasons=[reason])
    >>> verdict, verdict.level == verdict["level"], len(verdict.reasons)
    (Verdict('directional', warn=['units']), True, 1)
    """

    @property
    def level(self) -> str:
        """The lowest level of all targets: "reliable", "directional" or "insufficient"; "none" of
        no verdict.
        """
        return str(self.get("level", "none"))

    @property
    def summary(self) -> str:
        """The level of each target and what decided it, in a sentence."""
        return str(self.get("summary", ""))

    @property
    def targets(self) -> dict[str, str]:
        """The level of each target by its name."""
        return dict(self.get("targets", {}))

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """A row for each check: `target`, `check`, `status` ("pass", "warn", "fail"), `reason`,
        `help`, `rows`.
        """
        return list(self.get("reasons", ()))

    def __repr__(self) -> str:
        """Return the level and the checks that did not pass."""
        blamed = {
            status: [row["check"] for row in self.reasons if row["status"] == status]
            for status in _BLAMED
        }
        told = [
            f"{status}={list(dict.fromkeys(checks))}" for status, checks in blamed.items() if checks
        ]
        return f"Verdict({', '.join([repr(self.level), *told])})"

    def __str__(self) -> str:
        """Return the sentence, and a line for each check that did not pass."""
        lines = [
            f"{row['status']} {row['check']}: {row['reason']}"
            for row in self.reasons
            if row["status"] in _BLAMED
        ]
        return "\n".join([self.summary or self.level, *(f"  {line}" for line in lines)])


_BLAMED = ("fail", "warn")


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """The result of `counterrank.evaluate`: estimates, lifts, comparisons, diagnostics, verdict.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> cr.evaluate(log, {"new": [[.5, .5]] * 100}, estimators=["ips"])
    Evaluation(n=100, K=2, targets=['new'], estimators=['ips'], verdict='directional')
    """

    log: dict[str, Any]
    estimates: tuple[Estimate, ...]
    recommended: dict[str, str]
    comparisons: tuple[dict[str, Any], ...] = ()
    segments: tuple[dict[str, Any], ...] = ()
    diagnostics: dict[str, Any] = field(default_factory=dict)
    behavior: dict[str, Any] | None = None
    verdict: Verdict = field(default_factory=Verdict)
    planning: dict[str, Any] = field(default_factory=dict)
    sensitivity: dict[str, Any] = field(default_factory=dict)
    audit: Audit = field(default_factory=Audit)
    skipped: tuple[dict[str, str], ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)

    def estimate(self, target: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate; by default the recommended estimator of the first target."""
        wanted = target or self.estimates[0].target
        if wanted not in self.recommended:
            raise _unknown("target", wanted, self.recommended)
        name = estimator or self.recommended[wanted]
        of_target = {found.estimator: found for found in self.estimates if found.target == wanted}
        if name not in of_target:
            raise _unknown("estimator", name, of_target)
        return of_target[name]

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` or a JSON file of `evaluate --json` describes.

        Raises
        ------
        ConfigError
            It is no evaluation, or a damaged one.
        """
        from counterrank.evaluation.stored import estimates_from

        if found.get("schema") != SCHEMA:
            raise ConfigError(
                f"this is no evaluation: its schema is {found.get('schema')!r}, not {SCHEMA!r}"
            )
        plain = ("log", "recommended", "diagnostics", "behavior", "planning", "sensitivity")
        try:
            return cls(
                estimates=estimates_from(found),
                comparisons=tuple(found["comparisons"]),
                segments=tuple(found["segments"]),
                verdict=Verdict(found["verdict"]),
                audit=Audit(found["audit"]),
                skipped=tuple(found["skipped"]),
                provenance=dict(found["provenance"]),
                **{name: found[name] for name in plain},
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise ConfigError(f"this evaluation is damaged: {problem!r}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: plain types only, NaN and infinities as null."""
        lifts = [{"target": e.target, "estimator": e.estimator, **_lift(e)} for e in self.estimates]
        found: dict[str, Any] = _plain(
            {
                "schema": SCHEMA,
                "log": self.log,
                "estimates": [e.to_dict() for e in self.estimates],
                "lift": lifts,
                "recommended": self.recommended,
                "comparisons": list(self.comparisons),
                "segments": list(self.segments),
                "diagnostics": self.diagnostics,
                "behavior": self.behavior,
                "verdict": self.verdict,
                "planning": self.planning,
                "sensitivity": self.sensitivity,
                "audit": list(self.audit),
                "skipped": list(self.skipped),
                "provenance": self.provenance,
            }
        )
        return found

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the result as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        if path is not None:
            atomic.write_text(path, text)
        return text

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the self-contained report, and write it to `path` if one is given."""
        from counterrank.report import html

        text = html.render(self.to_dict())
        if path is not None:
            atomic.write_text(path, text)
        return text

    def plot(self, kind: str = "values") -> Figure:
        """Return a chart of the report as a matplotlib figure; `figure.savefig("lift.svg")` keeps
        it.

        Kinds: "values", "agreement", "order-path", "positions", "segments", "weights". Needs the
        extra `plots`.
        """
        from counterrank.report import pictures

        return pictures.draw(self.to_dict(), kind)

    def to_frame(self) -> Any:
        """Return a pandas frame with a row for each estimate: value and lift, each with its error
        and interval.
        """
        from counterrank.errors import require

        rows = [_row(estimate) for estimate in self.estimates]
        return require("pandas", extra="frames").DataFrame(rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from counterrank.report import terminal

        yield from terminal.renderables(self.to_dict())

    def _repr_html_(self) -> str:
        from counterrank.report import html

        return html.fragment(self.to_dict())

    def __repr__(self) -> str:
        """Return what there is to ask for; `print` shows the whole table."""
        names = list(dict.fromkeys(e.estimator for e in self.estimates))
        size = f"n={self.log.get('n')}, K={self.log.get('K')}"
        return (
            f"Evaluation({size}, targets={list(self.recommended)}, estimators={names}, "
            f"verdict={self.verdict.level!r})"
        )

    def __str__(self) -> str:
        import io

        from rich.console import Console

        stream = io.StringIO()
        Console(file=stream, width=110, color_system=None).print(self)
        return stream.getvalue()


def _unknown(what: str, name: str, known: Iterable[str]) -> UnknownNameError:
    names = list(known)
    return UnknownNameError(
        f"there is no {what} '{name}'{suggestion(name, names)}; {what}s are {', '.join(names)}"
    )


def _row(estimate: Estimate) -> dict[str, Any]:
    value = {
        key: item
        for key, item in estimate.to_dict().items()
        if key not in ("by_position", "details")
    }
    lift = {key: item for key, item in _lift(estimate).items() if key != "by_position"}
    return {
        **value,
        "lift": lift.pop("value"),
        **{f"lift_{key}": item for key, item in lift.items()},
    }


def _lift(estimate: Estimate) -> dict[str, Any]:
    lift = estimate.lift
    return {
        "value": lift.value,
        "stderr": lift.stderr,
        "low": lift.low,
        "high": lift.high,
        "relative": lift.relative,
        "relative_low": lift.relative_low,
        "relative_high": lift.relative_high,
        "by_position": [{"value": p.value, "stderr": p.stderr} for p in lift.by_position],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
