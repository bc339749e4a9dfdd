"""What `auto` may choose from, by what the log offers."""

from dataclasses import dataclass, replace

from counterrank.errors import EstimatorError
from counterrank.ratios import Ratios

#: The order of a mask's whole product.
WHOLE = 0
#: Masks x orders besides whole rankings, smaller masks and lower orders first: people read from the top (C), or look at
#: what is next to an item (N1).
CANDIDATES = (("N1", 2), ("C", 2), ("N1", 3), ("C", 3), ("C", WHOLE))
#: Contains both masks, and tells on either where whole rankings are too noisy to. Never used itself: nothing tests its
#: pairs.
WITNESS = ("C1", 3)


@dataclass(frozen=True, slots=True)
class Route:
    """The members of a log's estimate, and what each may leave unseen.

    `members` (name, share): the bias a member may have, as a share of the anchor A (how much items interact, as
    measured), from the first to the least biased. They are assumptions, stated with every result; no method can be
    honest without one. The estimate goes from `start` over `early` towards each in turn; intervals rest on any of the
    members. `evidence`: the first member's step needs d^2 above this many variances; `typical`: the bias a member
    usually has, as a part of the largest one allowed for; `outside`: the usual size of effects outside a mask, as a
    share of A.
    """

    start: str
    members: tuple[tuple[str, float], ...]
    effect: str
    simple: str = "iips"
    factored: bool = True
    early: tuple[str, ...] = ()
    evidence: float = 1.0
    typical: float = 0.2
    #: How far the estimate meets the simple member where the log does not tell them apart; see `rule._met`.
    meeting: float = 0.0
    outside: float = 0.2
    #: Columns of a log whose positions depend on each other.
    columns: tuple[str, ...] = ()


#: With a reward model: its own mean first, then DR with order 1, with projected pair weights, with exact orders.
MODEL = Route(
    start="dm",
    early=("dr-order-1",),
    members=(("dr-pairs", 0.4), ("dr-order-2", 0.32), ("dr-order-3", 0.12), ("dr-ips", 0.0)),
    effect="projected",
    evidence=4.0,
    typical=0.05,
    meeting=2.0,
)

#: With classes of users: they explain the rewards of whole rankings, so less is left unseen.
CLASSES = replace(MODEL, members=(("dr-pairs", 0.15), ("dr-order-2", 0.12), ("dr-order-3", 0.05), ("dr-ips", 0.0)))

#: With three-way effects: where there are some there may be more than rows to see them, and pairs tell nothing of them.
TRIPLES = replace(MODEL, members=(("dr-pairs", 0.6), ("dr-order-2", 0.6), ("dr-order-3", 0.2), ("dr-ips", 0.0)))

#: With weights alone: order 2 takes the part of the pairs, with the controls' help.
WEIGHTS = Route(
    start="dr-order-1",
    members=(("dr-order-2", 0.6), ("dr-order-3", 0.18), ("dr-ips", 0.0)),
    effect="dr-order-2",
    simple="dr-order-1",
)

_MASKS = {"iips": ("position", 1.5), "rips": ("prefix", 0.6), "ips": ("joint", 0.0)}


def model_route(name: str) -> Route:
    """Return the route of a log by the reward model it got.

    >>> model_route("behaviors-sum") is CLASSES, model_route("visibility-triple") is TRIPLES, model_route("") is MODEL
    (True, True, True)
    """
    if name.endswith("-triple"):
        return TRIPLES
    return CLASSES if name.startswith("behaviors-") else MODEL


def route_for(kind: str, ratios: Ratios, *, model: bool = False) -> Route:
    """Return the route without whole distributions: "weights", or "masks" for positions that depend on each other.

    With `model` the masks' members are doubly robust.
    """
    if kind == "weights":
        return WEIGHTS
    usable = [name for name, (capability, _) in _MASKS.items() if capability in ratios.supports]
    if not usable:
        raise EstimatorError(f"'auto' finds no usable weights in '{ratios.kind}' propensities")
    prefix = "dr-" if model else ""
    members = tuple((f"{prefix}{name}", _MASKS[name][1]) for name in usable)
    columns = ("logger", *usable, *(name for name, _ in members if model))
    effect = members[min(1, len(members) - 1)][0]
    return Route(members[0][0], members, effect, members[0][0], factored=False, columns=columns)
