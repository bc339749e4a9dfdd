"""Ordinary logs: the kinds of columns that people really write, put together by recipe and seed.

Each axis is a table of named generators (`CONTEXTS`, `REWARDS`, ...). A recipe names one of each,
and `make` returns the log as a table with the options that read it. A new kind of column is one
line in its table; `covering` then brings it together with everything else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.policies import Policy, parse_policy

Rng = np.random.Generator
Columns = dict[str, NDArray[Any] | list[Any]]


class LogReading(TypedDict, total=False):
    """Options that read a log."""

    logger: str
    policies: dict[str, str]
    propensity_kind: str


class Asks(TypedDict, total=False):
    """Options of `evaluate` that are not about reading."""

    estimate_propensity: str | bool


DAY = np.datetime64("2026-03-01")


def _zipf(rng: Rng, levels: int, n: int) -> Ints:
    chances = 1.0 / np.arange(1, levels + 1)
    return rng.choice(levels, n, p=chances / chances.sum())


def _one_hot(codes: Ints, levels: int) -> Columns:
    return {f"x_is_{level}": (codes == level) * 1.0 for level in range(levels)}


def _holes(rng: Rng, n: int, share: float) -> Floats:
    return np.where(rng.random(n) < share, np.nan, rng.normal(size=n))


def _words(codes: Ints, word: str) -> list[str]:
    return [f"{word}{code}" for code in codes]


def _late(n: int) -> list[str]:
    """Return a category of which one level appears in the last rows only."""
    return ["new in town" if i >= n - max(1, n // 50) else f"town {i % 3}" for i in range(n)]


#: Context columns (rng, n); their names start with x_.
CONTEXTS: dict[str, Callable[[Rng, int], Columns]] = {
    "none": lambda rng, n: {},
    "numbers": lambda rng, n: {"x_age": rng.normal(40, 12, n), "x_visits": rng.poisson(3, n)},
    "constant": lambda rng, n: {"x_version": np.full(n, 7.0), "x_land": ["AT"] * n},
    "one-hot, rare and absent levels": lambda rng, n: _one_hot(_zipf(rng, 38, n), 40),
    "a flag that is set twice": lambda rng, n: {"x_vip": np.arange(n) < 2, "x_ad": np.arange(n) == 5},
    "200 columns": lambda rng, n: {f"x_{j}": rng.normal(size=n) for j in range(200)},
    "unseen category": lambda rng, n: {"x_town": _late(n)},
    "NaN in some": lambda rng, n: {"x_age": _holes(rng, n, 0.1), "x_income": _holes(rng, n, 0.9)},
    "NaN in all": lambda rng, n: {"x_gone": np.full(n, np.nan), "x_age": rng.normal(size=n)},
    "null text": lambda rng, n: {"x_ref": [None if c == 0 else f"ref {c}" for c in _zipf(rng, 4, n)]},
    "dates": lambda rng, n: {"x_signup": DAY - rng.integers(0, 900, n)},
    "times": lambda rng, n: {
        "x_seen": pa.array((DAY + np.sort(rng.integers(0, 9, n))).astype("datetime64[us]"), pa.timestamp("us", "UTC"))
    },
    "booleans": lambda rng, n: {"x_mobile": rng.random(n) < 0.5, "x_member": rng.random(n) < 0.02},
    "5,000 levels": lambda rng, n: {"x_query": _words(rng.integers(0, 5000, n), "q")},
    "huge numbers": lambda rng, n: {"x_ns": 1_770_000_000_000_000_000 + rng.integers(0, 10**15, n)},
    "tiny numbers": lambda rng, n: {"x_p": rng.random(n) * 1e-300, "x_eps": np.full(n, 1e-308)},
    "odd text": lambda rng, n: {
        "x_note": np.array(["", " ", "na\u00efve \U0001f600", "a,b", '"', "<b>", "[x]", "=1+1"])[rng.integers(0, 8, n)]
    },
}  # fmt: skip


def _page(rng: Rng, n: int, K: int) -> Floats:
    """Return a reward of the whole page, in its last slot."""
    return np.pad((rng.random((n, 1)) < 0.3) * 1.0, ((0, 0), (K - 1, 0)))


#: Rewards (rng, n, K) of the shown items.
REWARDS: dict[str, Callable[[Rng, int, int], NDArray[Any]]] = {
    "clicks": lambda rng, n, K: (rng.random((n, K)) < 0.2).astype(np.int64),
    "rare": lambda rng, n, K: (rng.random((n, K)) < 0.004) * 1.0,
    "all zero": lambda rng, n, K: np.zeros((n, K)),
    "one click": lambda rng, n, K: (np.arange(n * K) == (n * K) // 2).reshape(n, K) * 1.0,
    "amounts": lambda rng, n, K: (rng.random((n, K)) < 0.1) * np.exp(rng.normal(3, 1, (n, K))),
    "cents": lambda rng, n, K: (rng.random((n, K)) < 0.1) * rng.integers(1, 10**7, (n, K)),
    "negative": lambda rng, n, K: rng.normal(-0.5, 1, (n, K)),
    "constant": lambda rng, n, K: np.full((n, K), 2.5),
    "one per page": _page,
    "booleans": lambda rng, n, K: rng.random((n, K)) < 0.3,
    "tiny": lambda rng, n, K: rng.random((n, K)) * 1e-30,
    "huge": lambda rng, n, K: rng.random((n, K)) * 1e30,
}

#: Users (rng, n); None where the log has none.
UNITS: dict[str, Callable[[Rng, int], Any]] = {
    "none": lambda rng, n: None,
    "one": lambda rng, n: ["me"] * n,
    "all different": lambda rng, n: np.arange(n),
    "one heavy": lambda rng, n: np.where(np.arange(n) < n // 10, 0, 1 + np.arange(n)),
    "names": lambda rng, n: _words(rng.integers(0, max(1, n // 3), n), "user "),
    "huge integers": lambda rng, n: (1 << 62) + rng.integers(0, max(1, n // 2), n),
}

#: Names of items: (codes, row of each) -> ids; codes are those of a small catalogue.
IDS: dict[str, Callable[[Ints, Ints], NDArray[Any]]] = {
    "integers": lambda codes, rows: codes,
    "from one": lambda codes, rows: codes + 1,
    "strings": lambda codes, rows: np.char.add("item ", codes.astype(str)),
    "huge integers": lambda codes, rows: codes + (1 << 60),
    "never repeated": lambda codes, rows: codes + 1000 * rows,
    "names never repeated": lambda codes, rows: np.char.add("doc ", (codes + 1000 * rows).astype(str)),
}  # fmt: skip

#: Rankings in the log; shortened where pages are long.
SIZES: dict[str, int] = {
    "1": 1,
    "2": 2,
    "9": 9,
    "60": 60,
    "400": 400,
    "1,500": 1500,
    "50,000": 50_000,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """K positions and C candidates; `ragged` cuts pages and candidate lists short."""

    K: int
    C: int
    ragged: bool = False


SHAPES: dict[str, Shape] = {
    "K 1": Shape(1, 4),
    "K 3": Shape(3, 6),
    "C = K": Shape(3, 3),
    "C = K = 1": Shape(1, 1),
    "ragged": Shape(4, 7, ragged=True),
    "K 8": Shape(8, 12),
    "K 50": Shape(50, 60),
}


@dataclass(frozen=True, slots=True)
class Logger:
    """How rankings were drawn, and what was written down of it.

    `spec` is how scores become rankings. `written` is "scores", "shown-only" (scores without the
    candidates that were not shown), "dist" (whole distributions), a kind of propensity, or "nothing".
    """

    spec: str
    written: str = "scores"


LOGGERS: dict[str, Logger] = {
    "factored": Logger("softmax", "factored"),
    "factored with distributions": Logger("softmax", "dist"),
    "prefix": Logger("plackett-luce", "prefix"),
    "position": Logger("plackett-luce", "position"),
    "joint": Logger("plackett-luce", "joint"),
    "plackett-luce": Logger("plackett-luce"),
    "plackett-luce, sharp": Logger("plackett-luce:temperature=0.1"),
    "softmax": Logger("softmax"),
    "top": Logger("top"),
    "epsilon": Logger("epsilon:epsilon=0.1"),
    "rand-top-n": Logger("rand-top-n:n={C}"),
    "swap": Logger("swap:probability=0.3"),
    "unknown": Logger("plackett-luce", "nothing"),
    "unknown, with scores": Logger("plackett-luce", "unsaid"),
    "shown only": Logger("plackett-luce", "shown-only"),
}

#: Scores of the logger from standard normal ones (n, C).
SCORES: dict[str, Callable[[Floats], Floats]] = {
    "plain": lambda scores: scores,
    "one decimal": lambda scores: scores.round(1),
    "all equal": lambda scores: np.zeros_like(scores),
    "one equal pair": lambda scores: scores[:, np.maximum(np.arange(scores.shape[1]) - 1, 0)],
    "huge": lambda scores: scores * 1e6,
}  # fmt: skip

#: A target: (logger's scores, fresh ones) -> its scores, and its kind (None: as the logger).
TARGETS: dict[str, tuple[Callable[[Floats, Floats], Floats], str | None]] = {
    "other": (lambda old, fresh: fresh, None),
    "near": (lambda old, fresh: old + 0.1 * fresh, None),
    "equal": (lambda old, fresh: old, None),
    "opposite": (lambda old, fresh: -3 * old, None),
    "top": (lambda old, fresh: fresh, "top"),
    "top of equal scores": (lambda old, fresh: np.zeros_like(old), "top"),
    "uniform": (lambda old, fresh: np.zeros_like(old), None),
    "epsilon": (lambda old, fresh: fresh, "epsilon:epsilon=0.2"),
    "swap": (lambda old, fresh: fresh, "swap:probability=0.5"),
}

#: What is known of candidates (rng, n, C); lists whose names start with z_.
FEATURES: dict[str, Callable[[Rng, int, int], dict[str, NDArray[Any]]]] = {
    "none": lambda rng, n, C: {},
    "numbers": lambda rng, n, C: {"z_price": rng.lognormal(3, 1, (n, C)), "z_new": rng.random((n, C)) < 0.1},
    "categories": lambda rng, n, C: {"z_brand": np.char.add("brand ", rng.integers(0, 9, (n, C)).astype(str))},
    "constant": lambda rng, n, C: {"z_version": np.ones((n, C))},
    "NaN in some": lambda rng, n, C: {"z_age": np.where(rng.random((n, C)) < 0.2, np.nan, rng.random((n, C)))},
}  # fmt: skip

#: Every axis of a recipe by name.
AXES: dict[str, Mapping[str, Any]] = {
    "context": CONTEXTS,
    "reward": REWARDS,
    "unit": UNITS,
    "ids": IDS,
    "size": SIZES,
    "shape": SHAPES,
    "logger": LOGGERS,
    "scores": SCORES,
    "target": TARGETS,
    "features": FEATURES,
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a log is made of: a name on each axis, and a seed."""

    context: str = "numbers"
    reward: str = "clicks"
    unit: str = "none"
    ids: str = "integers"
    size: str = "400"
    shape: str = "K 3"
    logger: str = "plackett-luce"
    scores: str = "plain"
    target: str = "other"
    features: str = "none"
    seed: int = 0

    def __str__(self) -> str:
        """Return the call that makes it again; what is as by default is left out."""
        usual = asdict(Recipe())
        told = [f"{name}={value!r}" for name, value in asdict(self).items() if value != usual[name]]
        return f"Recipe({', '.join(told)})"


@dataclass(frozen=True, slots=True, eq=False)
class OrdinaryLog:
    """A log as a person would write it: a table, and the options that read it.

    `table` has a column `arm` where two policies, `a` and `b`, served the rows, each with
    probabilities in a column of its own. `asks` are options of `evaluate` that are not about reading.
    """

    recipe: Recipe
    table: pa.Table
    reading: LogReading = field(default_factory=LogReading)
    asks: Asks = field(default_factory=Asks)

    def log(self) -> RankingLog:
        """Return it in memory, with its target."""
        from counterrank.io import from_frame

        required = "estimate_propensity" not in self.asks
        return from_frame(self.table, targets=["new"], require_propensity=required, **self.reading)

    def arguments(self) -> list[str]:
        """Return the options of the command line that say the same as `reading`."""
        named = self.reading.get("policies", {})
        found = [f"--policy={key}={spec}" for key, spec in named.items()]
        for name, value in self.reading.items():
            if name != "policies":
                found += [f"--{name.replace('_', '-')}={value}"]
        return found


#: Rows x positions x candidates that a log may have: what keeps a case to a second or so.
MOST_CELLS = 120_000


def make(
    recipe: Recipe, *, arms: bool | Literal["scores"] = False, most_cells: int = MOST_CELLS
) -> OrdinaryLog:
    """Return the log of a recipe; with `arms` that of an A/B test.

    Parameters
    ----------
    recipe
        What it is made of.
    arms
        Whether the rows were served by two policies, named in a column `arm`; "scores" writes what
        they score in the place of probabilities.
    most_cells
        The number of rows times positions times candidates; long logs of long pages are shortened.
    """
    rng = np.random.default_rng(recipe.seed)
    shape, logger = SHAPES[recipe.shape], LOGGERS[recipe.logger]
    n = max(1, min(SIZES[recipe.size], most_cells // (shape.K * shape.C)))
    old = SCORES[recipe.scores](rng.normal(size=(n, shape.C)))
    change, kind = TARGETS[recipe.target]
    new = change(old, rng.normal(size=(n, shape.C)))
    spec = _possible(logger.spec, shape)
    kind = _possible(kind or logger.spec, shape)
    serving = parse_policy(spec).bind(scores=old)
    shown = serving.sample(shape.K, rng)[:, 0]
    page = _Page(n, shape, shown, rng)
    wanted = parse_policy(kind).bind(scores=new)
    columns: Columns = {}
    reading: LogReading = {}
    asks: Asks = {}
    if arms:
        by_new = rng.random(n) < 0.5
        other = parse_policy(spec).bind(scores=new)
        page.shown[:] = np.where(by_new[:, None], other.sample(shape.K, rng)[:, 0], shown)
        columns["arm"] = np.where(by_new, "b", "a")
        served = {"a": serving, "b": other}
    if arms == "scores":
        columns |= {
            f"{name}_scores": page.by_candidate(one) for name, one in (("a", old), ("b", new))
        }
        columns["candidates"] = []
        reading["policies"] = dict.fromkeys(served, spec)
    elif arms:
        numbers = {name: _probabilities(one, page.shown, "prefix") for name, one in served.items()}
        numbers["propensity"] = np.where(by_new[:, None], numbers["b"], numbers["a"])
        columns |= {name: page.lists(values) for name, values in numbers.items()}
        reading["propensity_kind"] = "prefix"
    else:
        more, reading, asks = _written(
            page, Logger(spec, logger.written), kind, (serving, wanted), (old, new)
        )
        columns |= more
    rows = np.arange(n)
    ids = IDS[recipe.ids]
    columns["action"] = page.lists(ids(page.shown, rows[:, None]))
    columns["reward"] = page.lists(REWARDS[recipe.reward](rng, n, shape.K))
    if "candidates" in columns:
        columns["candidates"] = page.candidates(ids)
        known = FEATURES[recipe.features](np.random.default_rng([recipe.seed, 1]), n, shape.C)
        columns |= {name: page.by_candidate(values) for name, values in known.items()}
    columns |= CONTEXTS[recipe.context](rng, n)
    unit = UNITS[recipe.unit](rng, n)
    if unit is not None:
        columns["unit"] = unit
    columns["device"] = np.array(["phone", "desk", "tv"])[_zipf(rng, 3, n)]
    columns["day"] = DAY + np.sort(rng.integers(0, 14, n))
    return OrdinaryLog(recipe, pa.table(columns), reading, asks)


def _possible(spec: str, shape: Shape) -> str:
    """Return how scores become rankings of this shape; one place cannot be swapped with another."""
    spec = spec.replace("{C}", str(shape.C))
    alone = shape.K == 1 and parse_policy(spec).kind == "swap"
    return "epsilon:epsilon=0.3" if alone else spec


@dataclass(slots=True)
class _Page:
    """Pages under way: places of the shown items among the candidates (n, K), and what is cut."""

    n: int
    shape: Shape
    shown: Ints
    rng: Rng
    lengths: Ints = field(init=False)
    offered: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        low = 1 if self.shape.ragged else self.shape.K
        self.lengths = self.rng.integers(low, self.shape.K + 1, self.n)
        self.offered = np.ones((self.n, self.shape.C), dtype=bool)

    def lists(self, values: NDArray[Any]) -> list[Any]:
        """Return a list per row, of what was shown."""
        rows = zip(values.tolist(), self.lengths.tolist(), strict=True)
        return [row[:length] for row, length in rows]

    def by_candidate(self, values: NDArray[Any]) -> list[Any]:
        """Return a list per row, of what was offered."""
        return [row[keep].tolist() for row, keep in zip(values, self.offered, strict=True)]

    def candidates(self, ids: Callable[[Ints, Ints], NDArray[Any]]) -> list[Any]:
        """Return the ids of what was offered."""
        places = np.broadcast_to(np.arange(self.shape.C), (self.n, self.shape.C))
        return self.by_candidate(ids(places, np.arange(self.n)[:, None]))

    def offer_shown_only(self) -> None:
        """Leave out the candidates that were not shown."""
        self.offered[:] = False
        np.put_along_axis(self.offered, self.shown, True, axis=1)


def _written(
    page: _Page,
    logger: Logger,
    kind: str,
    policies: tuple[Policy, Policy],
    scores: tuple[Floats, Floats],
) -> tuple[Columns, LogReading, Asks]:
    """Return columns of what is known of logger and target, and how to read them."""
    names = ("propensity", "new")
    columns: Columns = {}
    if logger.written in ("scores", "shown-only", "unsaid"):
        if logger.written == "shown-only":
            page.offer_shown_only()
        columns = {
            f"{name}_scores": page.by_candidate(one)
            for name, one in zip(names, scores, strict=True)
        }
        columns["candidates"] = []
        reading: LogReading = {"logger": logger.spec, "policies": {"new": kind}}
        if logger.written == "unsaid":
            del reading["logger"]
            return columns, reading, {"estimate_propensity": "plackett-luce"}
        return columns, reading, {}
    if logger.written == "nothing":
        numbers = _probabilities(policies[1], page.shown, "prefix")
        asks: Asks = {"estimate_propensity": True}
        return {"new": page.lists(numbers)}, {"propensity_kind": "prefix"}, asks
    written = "factored" if logger.written == "dist" else logger.written
    for name, one in zip(names, policies, strict=True):
        values = _probabilities(one, page.shown, written)
        columns[name] = values if written == "joint" else page.lists(values)
        if logger.written == "dist":
            columns[f"{name}_dist"] = _table(one, page).tolist()
    return columns, {"propensity_kind": written}, {}


def _table(policy: Policy, page: _Page) -> Floats:
    """Return how likely each item is at the first position (n, C)."""
    items = np.broadcast_to(np.arange(page.shape.C), (page.n, page.shape.C))
    columns = [policy.prefix_log_prob(np.ascontiguousarray(items[:, [j]])) for j in range(page.shape.C)]  # fmt: skip
    return np.exp(np.concatenate(columns, axis=1))


def _probabilities(policy: Policy, shown: Ints, kind: str) -> Floats:
    """Return the numbers of a kind of propensity, of the shown items."""
    if kind == "position":
        return np.exp(policy.position_log_prob(shown))
    # Of each item given those above; positions drawn independently have the same numbers.
    logs = policy.prefix_log_prob(shown)
    if kind == "joint":
        return np.exp(logs[:, -1])
    # What cannot be reached stays out of reach.
    steps = np.diff(np.where(np.isfinite(logs), logs, -1e6), axis=1, prepend=0.0)
    return np.exp(np.minimum(steps, 0.0))


def covering(seed: int | Sequence[int], **fixed: Sequence[str]) -> Iterator[Recipe]:
    """Yield recipes that together hold each name of every axis.

    There are as many as the longest axis has names. Names of an axis are dealt in random order, again
    from the start where an axis is shorter. `fixed` restricts an axis to some names.
    """
    rng = np.random.default_rng(seed)
    tables = {axis: list(fixed.get(axis, names)) for axis, names in AXES.items()}
    size = max(map(len, tables.values()))
    dealt = {
        axis: np.resize(rng.permutation(np.array(names, dtype=object)), size)
        for axis, names in tables.items()
    }
    for i in range(size):
        names = {axis: str(values[i]) for axis, values in dealt.items()}
        yield Recipe(**names, seed=int(rng.integers(1 << 31)))
