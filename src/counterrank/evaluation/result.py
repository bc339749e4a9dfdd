"""Evaluation: everything that was found, as plain data that renders itself."""

import json
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from counterrank import atomic
from counterrank.estimators import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult

SCHEMA = "counterrank/evaluation/1"


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
    verdict: dict[str, Any] = field(default_factory=dict)
    planning: dict[str, Any] = field(default_factory=dict)
    sensitivity: dict[str, Any] = field(default_factory=dict)
    audit: tuple[dict[str, Any], ...] = ()
    skipped: tuple[dict[str, str], ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)

    def estimate(self, target: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate; by default the recommended estimator of the first target."""
        wanted = target or self.estimates[0].target
        name = estimator or self.recommended[wanted]
        for found in self.estimates:
            if (found.target, found.estimator) == (wanted, name):
                return found
        known = ", ".join(f"{e.target}/{e.estimator}" for e in self.estimates)
        raise KeyError(f"no estimate {wanted}/{name}; known: {known}")

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

    def to_json(self, path: "str | os.PathLike[str] | None" = None) -> str:
        """Return the result as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        if path is not None:
            atomic.write_text(path, text)
        return text

    def to_html(self, path: "str | os.PathLike[str] | None" = None) -> str:
        """Return the self-contained report, and write it to `path` if one is given."""
        from counterrank.report import html

        text = html.render(self.to_dict())
        if path is not None:
            atomic.write_text(path, text)
        return text

    def plot(self, kind: str = "values") -> "Figure":
        """Return a chart of the report as a matplotlib figure; `figure.savefig("lift.svg")` keeps it.

        Kinds: "values", "agreement", "order-path", "positions", "segments", "weights". Needs the extra `plots`.
        """
        from counterrank.report import pictures

        return pictures.draw(self.to_dict(), kind)

    def to_frame(self) -> Any:
        """Return a pandas frame with a row for each estimate: value and lift, each with its error and interval."""
        from counterrank.errors import require

        rows = [_row(estimate) for estimate in self.estimates]
        return require("pandas", extra="frames").DataFrame(rows)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from counterrank.report import terminal

        yield from terminal.renderables(self.to_dict())

    def _repr_html_(self) -> str:
        from counterrank.report import notebook

        return notebook.render(self.to_dict())

    def __repr__(self) -> str:
        """Return what there is to ask for; `print` shows the whole table."""
        names = list(dict.fromkeys(e.estimator for e in self.estimates))
        size = f"n={self.log.get('n')}, K={self.log.get('K')}"
        verdict = self.verdict.get("level", "none")
        return f"Evaluation({size}, targets={list(self.recommended)}, estimators={names}, verdict={verdict!r})"

    def __str__(self) -> str:
        import io

        from rich.console import Console

        stream = io.StringIO()
        Console(file=stream, width=110, color_system=None).print(self)
        return stream.getvalue()


def _row(estimate: Estimate) -> dict[str, Any]:
    value = {key: item for key, item in estimate.to_dict().items() if key not in ("by_position", "details")}
    lift = {key: item for key, item in _lift(estimate).items() if key != "by_position"}
    return {**value, "lift": lift.pop("value"), **{f"lift_{key}": item for key, item in lift.items()}}


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
