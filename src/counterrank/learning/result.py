"""What learning found: the policy, its certificate, the path to it, and who gains."""

import json
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from counterrank.atomic import write_text
from counterrank.learning.policy import LearnedPolicy

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult

SCHEMA = "counterrank/learning/1"


@dataclass(frozen=True, slots=True)
class Step:
    """A place on the path from the logger (m = 1) to the best ranking that it could have shown.

    `value` is the lift on rows that did not fit the model, `low` the bound to expect of the
    certifying rows, by which m is chosen, `ess` effective rows.
    """

    m: int
    value: float
    low: float
    ess: float
    #: On the Plackett-Luce path: how often the learned score counts.
    strength: float | None = None

    @property
    def step(self) -> float:
        """0 is the logger, 1 fully learned."""
        return 1.0 - 1.0 / (self.m if self.strength is None else 1.0 + self.strength)


@dataclass(frozen=True, slots=True)
class Certificate:
    """A lower bound of the paired lift of exactly what is exported, from rows that chose nothing."""

    grade: str
    level: float
    m: int
    value: float
    stderr: float
    low: float
    #: What the logger earned per ranking on the same rows.
    logger: float
    rows: dict[str, int]
    #: About how many rows would certify this gain, where these did not; None where there is no gain
    #: to certify.
    more_rows: int | None
    path: tuple[Step, ...]
    #: The lift on the learning rows, and whether it is large enough there to be believed.
    learned: float = 0.0
    agreed: bool = True
    #: Of the exported policy; `strength` where it is no best of m.
    kind: str = "best-of"
    strength: float | None = None

    @property
    def name(self) -> str:
        """The policy in words."""
        if self.strength is None:
            return f"best of {self.m}"
        if self.kind == "added":
            return f"today's scores + {self.strength:g} x learned"
        return f"{self.strength:g} x learned scores"

    @property
    def certified(self) -> bool:
        """Whether the policy is better than the logger at the level asked for."""
        return self.low > 0

    def __str__(self) -> str:
        """Return the certificate in one sentence."""
        sure = f"{self.level:.0%}"
        if self.certified:
            means = "whatever users do" if self.grade == "free" else "if rows are many"
            return (
                f"{upper(self.name)} earns at least {self.low:.4g} more per ranking than today's "
                f"{self.logger:.4g} ({self.low / self.logger:+.1%} or more; estimate "
                f"{self.value:+.4g}), with {sure} confidence {means}."
                if self.logger > 0
                else f"{upper(self.name)} earns at least {self.low:.4g} more per ranking than "
                f"today, with {sure} confidence {means}."
            )
        if self.more_rows is None:
            return (
                "Nothing could be certified: what was learned earns no more than today's "
                "policy on new rows."
            )
        if not self.agreed:
            return (
                f"Not yet: {self.name} seems to earn {self.learned:+.4g} per ranking, too "
                "little to be told from chance on the rows it was learned on. About "
                f"{self.more_rows:,} rows like these would show it."
            )
        return (
            f"Not yet: {self.name} seems to earn {self.value:+.4g} per ranking, but the {sure} "
            f"bound is {self.low:+.4g}. About {self.more_rows:,} rows like these would show it."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """The result of `counterrank.learning`."""

    policy: LearnedPolicy
    certificate: Certificate
    segments: tuple[dict[str, Any], ...] = ()
    exposure: tuple[dict[str, Any], ...] = ()
    #: The lift that the model expects of a plain sort by score, which no log certifies; None where
    #: it fills no page.
    sort: float | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> tuple[Step, ...]:
        """From the logger to the largest m that was tried."""
        return self.certificate.path

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the policy as JSON."""
        self.policy.save(path)

    def to_dict(self, policy: str | None = None) -> dict[str, Any]:
        """Return the JSON form; `policy` is the name of the file that was written, if one was."""
        found = self.certificate
        return {
            "schema": SCHEMA,
            "certified": found.certified,
            "grade": found.grade,
            "sentence": str(found),
            "lift": {
                "value": found.value,
                "stderr": found.stderr,
                "low": _number(found.low),
                "level": found.level,
            },
            "logger": {"value": found.logger},
            "kind": found.kind,
            "name": found.name,
            "m": found.m,
            "strength": found.strength,
            "step": Step(found.m, 0.0, 0.0, 0.0, found.strength).step,
            "path": [
                {
                    "m": one.m,
                    "strength": one.strength,
                    "step": one.step,
                    "value": one.value,
                    "low": _number(one.low),
                    "ess": one.ess,
                }
                for one in found.path
            ],
            "rows": found.rows,
            "more_rows": found.more_rows,
            "segments": list(self.segments),
            "exposure": list(self.exposure),
            "sort": {"value": self.sort, "certified": False},
            "model": self.details,
            "policy": policy,
        }

    def to_json(
        self, path: "str | os.PathLike[str] | None" = None, *, policy: str | None = None
    ) -> str:
        """Return the result as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(policy), indent=2, ensure_ascii=False, default=str) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: "str | os.PathLike[str] | None" = None) -> str:
        """Return the page a manager reads, and write it to `path` if one is given."""
        from counterrank.report import learning_page

        text = learning_page(self.to_dict())
        if path is not None:
            write_text(path, text)
        return text

    def plot(self, kind: str = "path") -> "Figure":
        """Return the path as a matplotlib figure; needs the extra `plots`."""
        from counterrank.report import learning_picture

        return learning_picture(self.to_dict(), kind)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from counterrank.report import learning_terminal

        yield from learning_terminal(self.to_dict())

    def __repr__(self) -> str:
        """Return the certificate in short."""
        found = self.certificate
        return (
            f"Learned(certified={found.certified}, m={found.m}, lift={found.value:.4g}, "
            f"low={found.low:.4g})"
        )


def upper(text: str) -> str:
    """Return a text that begins a sentence."""
    return text[:1].upper() + text[1:]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
