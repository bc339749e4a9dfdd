"""Table 2 of the paper, computed: a wrong behaviour model can have the smaller MSE.

A world of two actions and two positions in which the reward at position 1 is mu + delta 1{a_2 = 1}
plus noise. The logger is uniform, the target shows action 1 with probability p. The true model
weighs both positions, the wrong one only the first. Its parameters are solved for so that bias and
variances are the table's: 0, 0.5 and 0.1, 0.3.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The table's numbers: bias of the wrong model, variances of the true and of the wrong one.
PRINTED = {"bias": 0.1, "true_variance": 0.5, "wrong_variance": 0.3}


@dataclass(frozen=True, slots=True)
class World:
    """Target probability p, base reward mu, interaction delta, rows n; noise has standard deviation
    sigma.
    """

    p: float
    mu: float
    delta: float
    n: int = 10
    sigma: float = 1.0


def bias_and_variance(world: World, *, both: bool) -> tuple[float, float]:
    """Return bias and variance of V_1 by enumeration, weighing both positions or the first alone."""
    first = second = value = 0.0
    for a1, a2 in product((0, 1), repeat=2):
        target = [1 - world.p, world.p]
        mean = world.mu + world.delta * a2
        weight = 2 * target[a1] * (2 * target[a2] if both else 1.0)
        first += 0.25 * weight * mean
        second += 0.25 * weight**2 * (mean**2 + world.sigma**2)
        value += target[a1] * target[a2] * mean
    return first - value, (second - first**2) / world.n


def solve() -> World:
    """Return the world in which the table's numbers hold.

    >>> world = solve()
    >>> [round(x, 6) for x in bias_and_variance(world, both=False)]
    [0.1, 0.3]
    """
    from scipy import optimize

    def off(unknown: NDArray[np.float64]) -> list[float]:
        world = World(0.5 + 0.5 / (1 + np.exp(-unknown[0])), unknown[1], unknown[2])
        bias, wrong = bias_and_variance(world, both=False)
        return [
            bias - PRINTED["bias"],
            wrong - PRINTED["wrong_variance"],
            bias_and_variance(world, both=True)[1] - PRINTED["true_variance"],
        ]

    found = optimize.root(off, [0.0, 1.0, -0.5], tol=1e-13)
    p, mu, delta = found.x
    return World(float(0.5 + 0.5 / (1 + np.exp(-p))), float(mu), float(delta))


def rows() -> list[dict[str, Any]]:
    """Return bias, variance and MSE of both models."""
    world = solve()
    found = []
    for name, both in (("true model", True), ("wrong but optimised model", False)):
        bias, variance = bias_and_variance(world, both=both)
        found.append(
            {
                "x": 0.0,
                "estimator": name,
                "bias": bias,
                "variance": variance,
                "mse": bias**2 + variance,
            }
        )
    return found


def table(columns: dict[str, NDArray[Any]]) -> str:
    """Return the table as Markdown."""
    lines = ["| AIPS with the | bias | variance | MSE |\n|---|---|---|---|"]
    for i in range(2):
        cells = " | ".join(f"{abs(columns[key][i]):.2f}" for key in ("bias", "variance", "mse"))
        lines.append(f"| {columns['estimator'][i]} | {cells} |")
    return "\n".join(lines) + "\n"
