"""Ordinary logs through the whole product: a result or one message, whatever people write.

Run: python -m benchmarks.ordinary [seconds] [seed]      (part of make fuzz; a bounded run is part of the tests)

A fault prints the way and the recipe, with which it can be repeated:
`run_case("evaluate", Recipe(context="dates"), folder)`.

A new command, check or metric is one line in `WAYS`; what a result can show is one line in `VIEWS`.
"""

import contextlib
import io
import itertools
import json
import math
import re
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pyarrow.parquet as pq

import counterrank as cr
from benchmarks.ordinary_logs import AXES, MOST_CELLS, OrdinaryLog, Recipe, covering, make
from counterrank.common.errors import CounterrankError

#: Rows a batch when files are streamed: several batches even of short logs.
ROWS = 97


@dataclass(frozen=True)
class Case:
    """A log of a recipe, and a folder of its own."""

    recipe: Recipe
    folder: Path
    most_cells: int = MOST_CELLS

    def made(self, *, arms: bool | Literal["scores"] = False) -> OrdinaryLog:
        return make(self.recipe, arms=arms, most_cells=self.most_cells)

    def file(self, made: OrdinaryLog, kind: str = "parquet") -> Path:
        """Return the log written to disk; Parquet in several row groups."""
        path = self.folder / f"log.{kind}"
        if kind == "parquet":
            pq.write_table(made.table, path, row_group_size=ROWS)
        else:
            rows = made.table.to_pylist()
            path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
        return path

    def files(self, *more: str) -> list[str]:
        """Return the options of a command that writes everything it can."""
        where = self.folder / "out"
        return [
            f"--html={where}.html",
            f"--json={where}.json",
            *(f"{name}={where}.policy.json" for name in more),
        ]

    @property
    def independent(self) -> bool:
        """Whether the user says that rows are independent; nobody does who has units."""
        return self.recipe.unit == "none"


def evaluated(case: Case, **options: Any) -> Any:
    made = case.made()
    asks = {**made.asks, "independent_rows": case.independent, **options}
    return cr.evaluate(made.log(), ["new"], **asks)


def streamed(case: Case, **options: Any) -> Any:
    made = case.made()
    asks = {**made.asks, "independent_rows": case.independent, **options}
    return cr.evaluate(case.file(made), ["new"], **asks, **made.reading)


def validated(case: Case) -> Any:
    made = case.made(arms=True)
    return cr.validate(made.table, "arm", **made.reading)


def compared(case: Case, **options: Any) -> Any:
    made = case.made(arms="scores")
    return cr.abtest(made.table, "arm", **options, **made.reading)


def learned(case: Case, **options: Any) -> Any:
    made = case.made()
    return cr.learn(made.table, despite_audit=True, **options, **made.reading)


def planned(case: Case, **options: Any) -> Any:
    made = case.made()
    return cr.plan(made.log(), ["new"], **options)


def command(case: Case, *arguments: str, kind: str = "parquet", arms: bool = False) -> str:
    """Return what the command printed; the log is its first argument."""
    made = case.made(arms=arms)
    asked = (
        ["--estimate-propensity"]
        if "estimate_propensity" in made.asks and "evaluate" in arguments
        else []
    )
    first, *rest = arguments
    return called(first, str(case.file(made, kind)), *rest, *asked, *made.arguments())


def called(*arguments: str) -> str:
    """Return what a command printed, run in this process as the console script does."""
    from counterrank.cli.main import run

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["counterrank", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            run()
        except SystemExit as stop:
            code = stop.code
    out.flush()
    told = err.getvalue()
    if code not in (0, 1, 2) or "Traceback" in told:
        raise AssertionError(f"exit {code}: {told}")
    if code == 2 and not told.strip() and "check" not in arguments:
        raise AssertionError("exit 2 without a message")
    return out.buffer.getvalue().decode()


def job(case: Case) -> str:
    """Return what `counterrank run` printed, the options of a command as keys of a file."""
    made = case.made()
    case.file(made)
    keys = {
        "log": "log.parquet",
        "target": ["new"],
        "segment": ["device"],
        "html": "r.html",
        "json": "r.json",
    }
    keys |= {
        name.replace("_", "-"): value for name, value in made.reading.items() if name != "policies"
    }
    if made.asks:
        keys["estimate-propensity"] = made.asks["estimate_propensity"]
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items())
    text += "".join(
        f"[policies]\n{name} = {json.dumps(spec)}\n"
        for name, spec in made.reading.get("policies", {}).items()
    )
    path = case.folder / "job.toml"
    path.write_text(text)
    return called("run", str(path))


@dataclass(frozen=True)
class Way:
    """One way to use the product. It takes a case, and returns a result or what was printed.

    `suits` names what it can work with, by axis: of other logs it would say one sentence, the same each time.
    """

    use: Callable[[Case], Any]
    suits: Mapping[str, Sequence[str]] = field(default_factory=dict)


#: Logs that are long enough to be cut in two, or for two arms.
_LONG = {"size": ["400", "1,500", "400"]}
#: Logs from which something can be learned.
_LEARNABLE = {
    **_LONG,
    "logger": [
        "plackett-luce",
        "softmax",
        "epsilon",
        "rand-top-n",
        "swap",
        "factored with distributions",
        "plackett-luce, sharp",
    ],
    "shape": ["K 3", "K 1", "ragged", "K 8", "C = K"],
    "ids": ["integers", "from one", "strings", "huge integers"],
    "reward": ["clicks", "booleans", "one per page", "rare", "amounts"],
    "features": ["numbers", "categories", "NaN in some", "constant"],
}
#: Logs with scores; a plan fits models and draws pages, which takes seconds a log.
_PLANNED = {
    "size": ["60", "9", "400"],
    "logger": ["plackett-luce", "top", "swap", "plackett-luce, sharp", "factored", "epsilon"],
}
#: Everything but the longest logs, which are for `make fuzz`.
_SHORT = {"size": ["1", "2", "9", "60", "400", "1,500"]}

WEIGHTS = ["ips", "iips", "rips", "snips"]

#: Metrics of any reward, by position or of the page, a ratio, and guardrails of each kind.
SEVERAL: dict[str, Any] = {
    "rewards": {
        "reward": "reward",
        "any": "any(reward)",
        "count": "count(reward)",
        "each": "reward / impressions",
        "size": "sum(reward) / count(reward)",
    },
    "guardrails": ["any >= -0.02", "each >= -1 unit", "reward by device >= -0.1"],
}

#: Logs in which metrics vary: of others one sentence says that they do not.
_VARIED = {
    "size": ["60", "400", "1,500"],
    "reward": ["clicks", "booleans", "one per page", "rare", "amounts"],
}

WAYS: dict[str, Way] = {
    "evaluate": Way(evaluated),
    "evaluate, streamed": Way(streamed),
    "evaluate, by weights": Way(lambda case: evaluated(case, estimators=WEIGHTS, segments=["device"])),
    "evaluate, all estimators": Way(lambda case: evaluated(case, estimators="all", position_weights="dcg")),
    "evaluate, segments and time": Way(lambda case: streamed(case, segments=["device", "day"], time="day")),
    "evaluate, at any time": Way(lambda case: evaluated(case, sequential=True, practical=0.01)),
    "check": Way(lambda case: cr.audit_log(case.made().log())),
    "learn": Way(learned, _LEARNABLE),
    "learn, assumed": Way(lambda case: learned(case, grade="assumed", segments=["device"]), _LEARNABLE),
    "validate": Way(validated, _LONG),
    "abtest": Way(compared, _LONG),
    "abtest, at any time": Way(lambda case: compared(case, sequential=True, baseline="b"), _LONG),
    "$ evaluate": Way(lambda case: command(case, "evaluate", "--target=new", "--segment=device", *case.files())),
    "$ evaluate, jsonl": Way(lambda case: command(case, "evaluate", "--target=new", "--json=-", kind="jsonl")),
    "$ check": Way(lambda case: command(case, "check", "--target=new", "--time=day", "--segment=device")),
    "$ learn": Way(lambda case: command(case, "learn", "--despite-audit", *case.files("--out")), _LEARNABLE),
    "$ validate": Way(lambda case: command(case, "validate", "--arm=arm", *case.files(), arms=True), _LONG),
    "$ abtest": Way(lambda case: command(case, "abtest", "--arm=arm", *case.files(), arms=True), _LONG),
    "plan": Way(planned, _PLANNED),
    "$ plan": Way(
        lambda case: command(case, "plan", *case.files("--out")), _PLANNED
    ),
    "$ run": Way(job),
    "evaluate, several metrics": Way(lambda case: evaluated(case, estimators="ips,rips", **SEVERAL), _VARIED),
    "evaluate, several metrics, streamed": Way(lambda case: streamed(case, estimators="ips,rips", **SEVERAL), _VARIED),
    "evaluate, several metrics by auto": Way(lambda case: evaluated(case, estimators="auto", **SEVERAL), _VARIED),
    "$ evaluate, several metrics": Way(lambda case: command(
        case, "evaluate", "--target=new", "--reward=reward", "--reward=any=any(reward)", "--guardrail=any >= -0.02",
        "--require=ship", "--estimators=rips,ips", *case.files()), _VARIED),
}  # fmt: skip


def plots(result: Any) -> None:
    """Draw every kind of chart; one that has nothing to draw says so."""
    from counterrank.report.pictures import KINDS

    for kind in KINDS if isinstance(result, cr.Evaluation) else (None,):
        with contextlib.suppress(CounterrankError):
            figure = result.plot() if kind is None else result.plot(kind)
            figure.savefig(io.BytesIO(), format="svg")


def tells(name: str) -> Callable[[Any], Any]:
    return lambda result: getattr(result, name, lambda: "")()


#: What a result can be asked for. Texts are looked at for numbers that are none.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "print": str,
    "repr": lambda result: None if isinstance(result, str) else repr(result),
    "json": tells("to_json"),
    "page": tells("to_html"),
    "notebook": tells("_repr_html_"),
    "frame": tells("to_frame"),
    "charts": lambda result: plots(result) if hasattr(result, "plot") else None,
}

#: What must not stand for a number anywhere; a page's scripts and styles are cut out before.
_NO_NUMBER = re.compile(
    r"(?<![\w-])[-+\u2212]?(nan|inf|infinity)(?![\w-])(?! in some)", re.IGNORECASE
)
_HIDDEN = re.compile(r"<(script|style).*?</\1>|<[^>]*>", re.DOTALL)


def no_nan(text: str) -> None:
    """Raise where a text has a number that is none."""
    seen = _HIDDEN.sub(" ", text)
    if found := _NO_NUMBER.search(seen):
        raise AssertionError(
            f"'{found[0]}' in: ...{seen[max(0, found.start() - 80) : found.end() + 40]}..."
        )


def look_at(result: Any) -> None:
    """Ask a result for everything it can show, and raise where a headline is no number."""
    if isinstance(result, cr.Evaluation):
        for one in result.estimates:
            # An error may be unknown, as with one user; a value that is shown may not.
            if one.estimable and not math.isfinite(one.value):
                raise AssertionError(f"{one.estimator} is estimable, but {one.value}")
    for name, view in VIEWS.items():
        shown = view(result)
        if isinstance(shown, str):
            try:
                no_nan(shown)
            except AssertionError as problem:
                raise AssertionError(f"{name}: {problem}") from None


def run_case(way: str, recipe: Recipe, folder: Path, most_cells: int = MOST_CELLS) -> str:
    """Return "answered", or what was refused and why; anything else is raised as it is."""
    case = Case(recipe, folder, most_cells)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Doubts about a log are told as warnings on purpose.
        warnings.simplefilter("ignore", cr.CounterrankWarning)
        try:
            look_at(WAYS[way].use(case))
        except CounterrankError as problem:
            if not str(problem).strip():
                raise AssertionError("an error without a message") from problem
            return f"refused: {problem}"
    for page in folder.glob("*.html"):
        no_nan(page.read_text())
    return "answered"


def cases(seed: int, way: str, *, short: bool = False) -> list[Recipe]:
    """Return the recipes on which a way is tried; `short` leaves out those of many seconds."""
    fixed = {**(_SHORT if short else {}), **WAYS[way].suits}
    return list(covering([seed, list(WAYS).index(way)], **fixed))


def main(seconds: float = 600.0, seed: int = 0) -> int:
    """Try each way on each name of every axis, again with other seeds until the time is up."""
    faults, answered, refused, slowest = 0, 0, 0, (0.0, "")
    stop = time.monotonic() + seconds
    # Not itertools.product, which would hold all turns at once, and they never end.
    for turn, way in ((turn, way) for turn in itertools.count(seed) for way in WAYS):
        for recipe in cases(turn, way):
            if time.monotonic() > stop:
                break
            start = time.monotonic()
            try:
                with tempfile.TemporaryDirectory() as name:
                    told = run_case(way, recipe, Path(name), 10 * MOST_CELLS)
                answered, refused = answered + (told == "answered"), refused + (told != "answered")
            except Exception:
                faults += 1
                print(f"{way!r}, {recipe}:\n{traceback.format_exc(limit=-5)}", flush=True)
            slowest = max(slowest, (time.monotonic() - start, f"{way!r}, {recipe}"))
        if time.monotonic() > stop:
            break
    print(
        f"{answered} answered, {refused} refused, {faults} faults over {len(AXES)} axes; the slowest "
        f"took {slowest[0]:.0f} s: {slowest[1]}"
    )
    return faults


if __name__ == "__main__":
    sys.exit(
        min(main(*(float(argument) for argument in sys.argv[1:2]), *map(int, sys.argv[2:3])), 1)
    )
