"""What the paper claims, in order, and what the runs say of each claim in its three kinds of worlds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.ledger import worlds
from benchmarks.ledger.results import Errors, Number, geometric, short, text
from counterrank.research import simulate
from counterrank.research.paper import results
from counterrank.research.paper.figures import Setting

CLASSIC = ("ips", "iips", "rips")
TRUE, TOLD, TOLD_ELSEWHERE = "aips (true)", "aips (oracle)", "aips (oracle printed)"


@dataclass(frozen=True)
class Elsewhere:
    """Results of the study `claims.toml`: worlds of the text ("text") and random ones ("random")."""

    errors: Errors
    kind: str

    def at(self, number: int, **varied: Any) -> str:
        """Return the name of a world at a point."""
        return worlds.world_name(self.kind, number, replace(Setting(), **varied))

    def count(self, holds: Callable[[str], bool], points: Sequence[dict[str, Any]]) -> str:
        """Return in how many worlds and points something holds."""
        names = [self.at(w, **point) for point in points for w in range(worlds.COUNT)]
        return f"{sum(map(holds, names))} of {len(names)}"

    def ratio(self, of_world: Callable[[str], float], points: Sequence[dict[str, Any]]) -> Number:
        """Return a geometric mean over worlds, each with the mean over points, and its interval."""
        means = [
            float(np.exp(np.mean([np.log(of_world(self.at(w, **point))) for point in points])))
            for w in range(worlds.COUNT)
        ]
        return geometric(means)

    def below(
        self, name: str, rivals: Sequence[str], points: Sequence[dict[str, Any]], *, worse: bool
    ) -> str:
        """Return how often an estimator has less MSE than all rivals (or more), and its MSE over the best of them."""

        def relative(world: str) -> float:
            best = self.errors.best(rivals, world)
            return self.errors.ratio(name, best, world)[0]

        count = self.count(lambda world: (relative(world) < 1.0) is not worse, points)
        return f"{count}; {text(self.ratio(relative, points))}"


def points(name: str, *values: float) -> list[dict[str, Any]]:
    """Return points at which one parameter varies.

    >>> points("n", 1000, 4000)
    [{'n': 1000}, {'n': 4000}]
    """
    return [{name: value} for value in values or worlds.POINTS[name]]


def over(errors: Errors, name: str, rivals: Sequence[str], xs: Sequence[float]) -> str:
    """Return, point by point, the MSE over that of the best rival on the same seeds."""
    return "; ".join(f"{x:,g}: {text(errors.ratio(name, errors.best(rivals, x), x))}" for x in xs)


def holds_at(good: Sequence[float], xs: Sequence[float]) -> str:
    """Return at which of the points a claim holds."""
    if len(good) == len(xs):
        return "yes"
    return f"at {', '.join(f'{x:,g}' for x in good)}" if good else "**no**"


def in_print(figure: str, name: str, rivals: Sequence[str], xs: Sequence[float]) -> str:
    """Return the same ratios of the published values, where all are published."""
    ratios = []
    for x in xs:
        values = [results.published(figure, "mse", other, x) for other in (name, *rivals)]
        if None not in values:
            ratios.append(short(values[0] / min(values[1:])))
    return f" [{', '.join(ratios)}]" if len(ratios) == len(xs) else ""


@dataclass(frozen=True)
class Claim:
    """A claim about errors: what the paper says, the figure, and what is compared there and elsewhere."""

    says: str
    figure: str
    name: str
    rivals: tuple[str, ...]
    xs: tuple[float, ...]
    points: list[dict[str, Any]]
    #: Whether the claim is that it has more error, not less.
    worse: bool = False

    def line(self, errors: Errors, elsewhere: Sequence[Elsewhere]) -> tuple[str, ...]:
        """Return the claim's line: ours, and where it holds."""
        xs, names = self.xs or tuple(errors.points), (self.name, *self.rivals)
        less = {x: errors.ratio(self.name, errors.best(self.rivals, x), x)[0] < 1.0 for x in xs}
        rivals = [_elsewhere(name) for name in self.rivals]
        return (
            self.says,
            f"`reproduce {self.figure}`, {errors.seeds(names)}",
            over(errors, self.name, self.rivals, xs)
            + in_print(self.figure, self.name, self.rivals, xs),
            holds_at([x for x in xs if less[x] is not self.worse], xs),
            *(
                other.below(_elsewhere(self.name), rivals, self.points, worse=self.worse)
                for other in elsewhere
            ),
        )


def _elsewhere(name: str) -> str:
    """Return what an estimator of the published runs is called in other worlds."""
    return name.replace("aips (oracle", "aips (oracle printed")


#: Claims that one estimator has less error than others.
COMPARED = (
    Claim("RQ1: AIPS has the lowest MSE over n", "data-size", TOLD, (*CLASSIC, TRUE), (), points("n")),
    Claim(
        "RQ1: AIPS (true) is worse than RIPS for n ≤ 2,000",
        "data-size", TRUE, ("rips",), (1000, 2000), points("n", 1000), worse=True,
    ),
    Claim(
        "RQ1: AIPS (true) is better than IIPS and RIPS when n is large",
        "data-size", TRUE, ("iips", "rips"), (16000, 32000), points("n", 16000),
    ),
    Claim(
        "RQ2: AIPS is best over K, also compared with AIPS (true)",
        "slate-size", TOLD, (*CLASSIC, TRUE), (), points("K"),
    ),
    Claim("RQ3: AIPS is below IPS, IIPS and RIPS at every delta", "behavior", TOLD, CLASSIC, (), points("delta")),
    Claim(
        "RQ3: AIPS is below AIPS (true) for delta ≥ 0.6",
        "behavior", TOLD, (TRUE,), (0.6, 0.8, 1.0), points("delta", 0.6, 1.0),
    ),
    Claim(
        "RQ3: AIPS (true) is best for delta ≤ 0.4",
        "behavior", TRUE, (*CLASSIC, TOLD), (0.0, 0.2, 0.4), points("delta", 0.0),
    ),
    Claim(
        "A2: AIPS is best for a deterministic target (epsilon 0)",
        "epsilon", TOLD, CLASSIC, (0.0,), points("epsilon", 0.0),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A claim about how errors change between two values of a parameter: MSE at `high` over that at `low`."""

    says: str
    figure: str
    parameter: str
    low: float
    high: float
    names: tuple[str, ...]
    holds: Callable[[dict[str, float]], bool]

    def line(self, errors: Errors, elsewhere: Sequence[Elsewhere]) -> tuple[str, ...]:
        """Return the claim's line: by estimator the ratio of the errors at both ends."""
        ratios = {name: errors.change(name, self.low, self.high) for name in self.names}
        ours = "; ".join(f"{name} {text(number)}" for name, number in ratios.items())
        held = self.holds({name: number[0] for name, number in ratios.items()})
        return (
            self.says,
            f"`reproduce {self.figure}`, {errors.seeds(self.names)}",
            f"{self.high:,g} over {self.low:,g}: {ours}",
            "yes" if held else "**no**",
            *(self._elsewhere(other) for other in elsewhere),
        )

    def _elsewhere(self, other: Elsewhere) -> str:
        held, relative = 0, []
        for w in range(worlds.COUNT):
            low, high = (other.at(w, **{self.parameter: x}) for x in (self.low, self.high))
            found = {
                name: other.errors.change(_elsewhere(name), low, high)[0] for name in self.names
            }
            held += self.holds(found)
            relative.append(found[self.names[-1]])
        return f"{held} of {worlds.COUNT}; {self.names[-1]} {text(geometric(relative))}"


CHANGES = (
    Change(
        "RQ1: IIPS and RIPS do not improve with n (at least half of the error remains)",
        "data-size", "n", 4000, 16000, ("iips", "rips"), lambda r: min(r.values()) > 0.5,
    ),
    Change(
        "A1: AIPS is robust to reward noise, IPS and AIPS (true) are not (they grow more)",
        "reward-noise", "sigma", 0.0, 1.0, ("ips", TRUE, TOLD),
        lambda r: r[TOLD] < min(r["ips"], r[TRUE]),
    ),
    Change(
        "A3: the identifiability lambda has little effect on AIPS (less than a factor of 2)",
        "identifiability", "lam", 0.0, 16.0, ("rips", TOLD), lambda r: 0.5 < r[TOLD] < 2.0,
    ),
)  # fmt: skip


def accurate(errors: Errors, elsewhere: Sequence[Elsewhere]) -> tuple[str, ...]:
    """Return the line of A2: IPS and AIPS (true) with a target that is nearly uniform."""
    names = ("ips", TRUE)
    ours = "; ".join(f"{name} {text(errors.mse(name, 0.8))}" for name in names)
    worst = max(errors.mse(name, x)[0] for name in names for x in (0.8, 1.0))

    def small(other: Elsewhere) -> Callable[[str], bool]:
        return lambda world: max(other.errors.mse(name, world)[0] for name in names) < 0.01

    return (
        "A2: IPS and AIPS (true) are accurate for epsilon ≥ 0.8 (MSE / V² below 0.01)",
        f"`reproduce epsilon`, {errors.seeds(names)}",
        f"0.8: {ours}",
        "yes" if worst < 0.01 else "**no**",
        *(other.count(small(other), points("epsilon", 1.0)) for other in elsewhere),
    )


#: Where A4 is looked at: figure, parameter and values.
TOLD_ERRORS = (
    ("noise-data-size", "n", (8000, 32000)),
    ("noise-slate-size", "K", (4, 14)),
    ("noise-behavior", "delta", (0, 1)),
)


def told_error(by_figure: dict[str, Errors], elsewhere: Sequence[Elsewhere]) -> tuple[str, ...]:
    """Return the line of A4: the error of the told bias, .5 against .1."""
    low, high = "aips (oracle .1)", "aips (oracle .5)"
    parts = [
        f"{name} = {x:,g}: {text(by_figure[figure].ratio(high, low, x))}"
        for figure, name, xs in TOLD_ERRORS
        for x in xs
    ]
    worse = by_figure["noise-data-size"].ratio(high, low, 32000)[0] > 1.0
    smaller = by_figure["noise-slate-size"].ratio(high, low, 14)[0] <= 1.0
    seeds = min(by_figure[figure].seeds((low, high)) for figure, *_ in TOLD_ERRORS)

    def other(where: Elsewhere) -> str:
        def relative(world: str) -> float:
            return where.errors.ratio(_elsewhere(high), _elsewhere(low), world)[0]

        few, many = (text(where.ratio(relative, points("n", n))) for n in (1000, 16000))
        return f"n = 1,000: {few}; 16,000: {many}"

    return (
        "A4: a larger error of the given bias is worse only for large n and small K (.5 over .1)",
        f"`reproduce noise-data-size`, `noise-slate-size`, `noise-behavior`, {seeds}",
        "; ".join(parts),
        "yes" if worse and smaller else "**not clearly**",
        *(other(where) for where in elsewhere),
    )


def uniform_behaviours() -> tuple[str, ...]:
    """Return the line of section 4.1: shares of behaviours at delta = .5, by 200,000 contexts of each world."""
    rng = np.random.default_rng(0)

    def shares(world: simulate.Environment) -> np.ndarray:
        context = rng.standard_normal((200_000, world.d))
        return simulate.behavior_probability(world, context).mean(axis=0)

    def text_of(found: Sequence[np.ndarray]) -> str:
        return f"**no**: {short(np.min(found))} to {short(np.max(found))}"

    of_paper = shares(simulate.published(delta=0.5))
    others = (
        text_of([shares(worlds.environment(kind, w, delta=0.5)) for w in range(worlds.COUNT)])
        for kind in ("text", "random")
    )
    return (
        "Section 4.1: delta = 0.5 gives uniform behaviours (1/6 each)",
        "`reproduce distribution-delta`, exact",
        f"shares from {short(of_paper.min())} to {short(of_paper.max())}",
        "**no**: theta differs between behaviours",
        *others,
    )
