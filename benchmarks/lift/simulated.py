"""The simulated populations: a shop, close targets, special users, and worlds of older studies."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import accuracy_study, real_rankings
from benchmarks.lift import pages
from benchmarks.lift.cells import DRAWS, Case, Cell, Kept, Truth
from benchmarks.lift.pages import Pages
from counterrank.common.atomic import write_text
from counterrank.research.simulate import World, true_value

#: Pages by which a true lift is known: its error is far below what any log can tell.
TRUE_PAGES = 2**17

#: A page of a shop: rare clicks, a large catalogue, visitors who leave once they have clicked.
SHOP = Pages(
    0, "reading", n=10_000, items=2_000, candidates=50, K=10, rate=-3.1, leave=0.4, better=0.8
)
CLOSE = Pages(0, n=20_000, items=300, candidates=30, K=8, apart=0.35)


def _page_cell(population: str, name: str, world: Pages, kept: Kept, *, sweep: bool = True) -> Cell:
    def make(number: int) -> Case:
        if world.target == "retrained":
            return pages.case(world, number, None)
        truth = kept.truth(_key(population, world), lambda: pages.World(world).truth(TRUE_PAGES))
        return pages.case(world, number, truth)

    return Cell(population, name, make, sweep)


def _key(population: str, world: Pages) -> str:
    import hashlib

    # The log's size does not enter the truth.
    text = repr(replace(world, n=0))
    return f"{population}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _seed(draws: str, *place: int) -> int:
    return int(np.random.default_rng([DRAWS[draws], 67, *place]).integers(10**9))


def shop(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the shop's cells: two shops with every reward, and every kind of target."""
    out = []
    for number in range(3):
        base = replace(SHOP, seed=_seed(draws, 1, number))
        variants = {
            "clicks": base,
            "revenue": replace(base, reward="revenue"),
            "revenue, price unknown": replace(base, reward="revenue", known_price=False),
            "any click": replace(base, reward="any click"),
            "reciprocal rank": replace(base, reward="reciprocal rank"),
        }
        out += [
            _page_cell(
                "shop",
                f"shop {number} {name}",
                world,
                kept,
                # One reward per page varies most between shops.
                sweep=number == 0 or (number == 1 and world.reward not in ("clicks", "revenue")),
            )
            for name, world in variants.items()
        ]
    base = replace(SHOP, seed=_seed(draws, 1, 9))
    kinds = {
        "chance": replace(base, better=0.0),
        "retrained": replace(base, target="retrained"),
        "deterministic": replace(base, target="top"),
        "none": replace(base, target="none"),
        "far": replace(base, apart=0.9),
    }
    out += [_page_cell("shop", f"clicks, {name}", world, kept) for name, world in kinds.items()]
    for number in range(2):
        # More clicks on cheaper items: gains and losses that nearly cancel.
        cheap = replace(SHOP, seed=_seed(draws, 1, 20 + number), reward="revenue", target="cheaper")
        hidden = replace(cheap, known_price=False)
        for name, world in (("", cheap), (", price unknown", hidden)):
            label = f"shop {10 + number} revenue, cheaper items{name}"
            out.append(_page_cell("shop", label, world, kept))
    return out


def equal(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return far targets in shops where no feature shows what users like: as good as the logger, or
    worse.
    """
    hidden = replace(SHOP, target="equal", known=False, known_price=False, leave=0.0)
    worlds = {
        "equal": replace(hidden, better=0.0),
        "equal, known": replace(hidden, better=0.0, known=True),
        "worse": replace(hidden, better=-0.3),
        "better": replace(hidden, better=0.2),
        "equal, more clicks": replace(hidden, better=0.0, rate=-1.5, K=6, candidates=30, items=500),
    }
    return [
        _page_cell("equal", name, replace(world, seed=_seed(draws, 4, at)), kept)
        for at, (name, world) in enumerate(worlds.items())
    ]


def close(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return targets whose lift is 1 to 3 %, or none although they differ, at n = 20,000."""
    out = []
    behaviors = ("position", "reading", "redundancy", "carousel", "trust", "one click")
    goals = (0.01, 0.02, 0.03)
    for at, behavior in enumerate(behaviors):
        for goal in (goals[at % 3], 0.0):
            base = replace(
                CLOSE,
                seed=_seed(draws, 2, at, int(goal > 0)),
                behavior=behavior,
                leave=0.3 if behavior == "reading" else 0.0,
            )
            name = f"{behavior} {goal:+.0%}" if goal else f"{behavior} lift 0"
            out.append(_aimed_cell(name, base, goal, kept, sweep=at < 3))
    return out


def _aimed_cell(name: str, base: Pages, goal: float, kept: Kept, *, sweep: bool) -> Cell:
    def make(number: int) -> Case:
        world = replace(base, better=_better(base, goal, kept))
        truth = kept.truth(_key("close", world), lambda: pages.World(world).truth(4 * TRUE_PAGES))
        return pages.case(world, number, truth)

    return Cell("close", name, make, sweep)


def _better(base: Pages, goal: float, kept: Kept) -> float:
    """Return what `aimed` finds, kept beside the truths: it takes a dozen of them."""
    if kept.folder is None:
        return pages.aimed(base, goal).better
    path = kept.folder / f"aimed-{goal:g}-{_key('close', base)}.json"
    if not path.exists():
        write_text(path, json.dumps(pages.aimed(base, goal).better))
    return float(json.loads(path.read_text()))


def special(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return users whom most models do not know: trust by kind of item, one click, attention."""
    base = Pages(0, apart=0.6)
    worlds = {
        "trust": replace(base, behavior="trust"),
        "trust, long": replace(base, behavior="trust", K=12, n=20_000),
        "one click": replace(base, behavior="one click"),
        "saturated": replace(base, behavior="one click", outside=0.3),
        "carousel": replace(base, behavior="carousel"),
        "carousel, saturated": replace(base, behavior="carousel", outside=0.3),
        "redundancy, hidden": replace(base, behavior="redundancy", rate=-0.5),
        "redundancy, hidden, retrained": replace(
            base, behavior="redundancy", rate=-0.5, target="retrained"
        ),
        "trust, by kind": replace(
            base, behavior="trust", target="kind", K=10, n=20_000, rate=-0.5, apart=0.8
        ),
    }
    return [
        _page_cell("special", name, replace(world, seed=_seed(draws, 3, at)), kept)
        for at, (name, world) in enumerate(worlds.items())
    ]


#: Populations of the older studies that each set of draws takes; those of judging were never
#: looked at before.
SHAPED = {"dev": "develop", "fresh": "fourth"}
FACTORED = {"dev": "dev", "fresh": "eighth"}
#: Environments of the factored study.
ENVIRONMENTS = 15


def shaped(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the worlds of `benchmarks/real_rankings.py`; far and deterministic ones apart."""
    found = real_rankings.population(SHAPED[draws])
    short = {cell["id"] for cell in real_rankings.quick(found)}
    longer = [c["id"] for c in found if c["n"] > 2_000 and c["world"]["items"] <= 100]
    out = []
    for cell in found:
        # The short sweep has every family at n = 2,000, and every third of the long logs.
        n = 2_000 if cell["id"] in short else cell["n"]
        sweep = cell["id"] in short or cell["id"] in longer[::3]
        population = "far" if cell["family"] in ("far", "top") else "shaped"
        name = f"{cell['id']} {cell['family']} {cell['world']['logger']} n {n}"
        out.append(Cell(population, name, _world_case(World(**cell["world"]), n, kept), sweep))
    return out


def _world_case(world: World, n: int, kept: Kept) -> Callable[[int], Case]:
    def truth() -> Truth:
        new, old = (
            true_value(world, which, relative_error=1e-3) for which in ("target", "logging")
        )
        sd_old, sd_new = (
            _spread(world.draw(2**14, np.random.default_rng([world.seed, 5]), policy=which))
            for which in ("logging", "target")
        )
        error = float(np.hypot(new.stderr, old.stderr))
        return Truth(new.value - old.value, old.value, sd_old, sd_new, error)

    def make(number: int) -> Case:
        found = kept.truth(f"shaped-{world.fingerprint}", truth)
        # Numbers of logs that no earlier study has used.
        return Case(world.log(n, 400 + number), found)

    return make


def factored(draws: str, data: Path | None, kept: Kept) -> list[Cell]:
    """Return the environments of `benchmarks/accuracy_study.py`."""
    found = accuracy_study.population(FACTORED[draws], ENVIRONMENTS)
    return [
        Cell(
            "factored",
            f"{cell['id']} {cell['family']} K {cell['options']['K']} n {cell['n']}",
            _factored_case(cell, draws, kept),
            sweep=cell["n"] <= 2_000,
        )
        for cell in found
    ]


def _factored_case(cell: dict[str, Any], draws: str, kept: Kept) -> Callable[[int], Case]:
    def truth() -> Truth:
        env = accuracy_study.environment(cell)
        new, old = (true_value(env, which) for which in ("target", "logging"))
        sd_old, sd_new = (
            _spread(env.draw(2**14, np.random.default_rng([cell["id"], 5]), policy=which))
            for which in ("logging", "target")
        )
        error = float(np.hypot(new.stderr, old.stderr))
        return Truth(new.value - old.value, old.value, sd_old, sd_new, error)

    def make(number: int) -> Case:
        env = accuracy_study.environment(cell)
        rng = np.random.default_rng([DRAWS[draws], 71, cell["id"], number])
        log = env.draw(cell["n"], rng).to_log()
        return Case(log, kept.truth(f"factored-{env.fingerprint}", truth))

    return make


def _spread(drawn: Any) -> float:
    return float(drawn.reward.sum(axis=1).std())
