"""What `auto` may choose from, by what the log offers."""

from dataclasses import dataclass

from counterrank.errors import EstimatorError
from counterrank.ratios import Ratios


@dataclass(frozen=True, slots=True)
class Route:
    """Where the estimate starts, where it may move, and what its interval may rest on.

    `start`, then `steps` (name, kappa): move towards the member by the factor max(0, 1 - kappa Var(d)/d^2) of the
    difference d. `bases` (name, share): an interval z se + share x anchor. `effect` and `simple` are the members
    whose distance measures how much items interact.
    """

    start: str
    steps: tuple[tuple[str, float], ...]
    bases: tuple[tuple[str, float], ...]
    effect: str
    simple: str = "iips"
    factored: bool = True
    #: Columns of a log whose positions depend on each other.
    columns: tuple[str, ...] = ()


#: With a reward model. The shares are assumptions, stated with the result: bias left after pairs, order 2, order 3.
MODEL = Route(
    start="dr-order-1",
    steps=(
        ("dr-pairs", 1.0),
        ("dr-order-2", 9.0),
        ("dr-order-3", 9.0),
        ("dr-order-4", 9.0),
        ("dr-order-6", 9.0),
        ("dr-ips", 9.0),
    ),
    bases=(("dr-pairs", 0.35), ("dr-order-2", 0.26), ("dr-order-3", 0.09), ("dr-ips", 0.0)),
    effect="projected",
)

#: With weights alone: order 2 takes the part of the pairs, with the controls' help.
WEIGHTS = Route(
    start="dr-order-1",
    steps=(("dr-order-2", 1.0), ("dr-order-3", 9.0), ("dr-order-4", 9.0), ("dr-order-6", 9.0), ("dr-ips", 9.0)),
    bases=(("dr-order-1", 1.0), ("dr-order-2", 0.35), ("dr-order-3", 0.12), ("dr-ips", 0.0)),
    effect="dr-order-2",
)


def route_for(kind: str, ratios: Ratios) -> Route:
    """Return the route of a log: "model", "weights", or "masks" for positions that depend on each other."""
    if kind == "model":
        return MODEL
    if kind == "weights":
        return WEIGHTS
    needs = {"iips": "position", "rips": "prefix", "ips": "joint"}
    usable = [name for name, capability in needs.items() if capability in ratios.supports]
    if not usable:
        raise EstimatorError(f"'auto' finds no usable weights in '{ratios.kind}' propensities")
    shares = {"iips": 1.0, "rips": 0.35, "ips": 0.0}
    effect = "rips" if "rips" in usable else usable[-1]
    return Route(
        start=usable[0],
        steps=tuple((name, 1.0 if name == "rips" else 4.0) for name in usable[1:]),
        bases=tuple((name, shares[name]) for name in usable),
        effect=effect,
        simple=usable[0],
        factored=False,
        columns=("logger", *usable),
    )
