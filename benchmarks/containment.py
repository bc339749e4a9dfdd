"""How often do intervals of comparisons, lifts over a baseline, ratio metrics and joint intervals hold the truth?

Run: OMP_NUM_THREADS=1 python -m benchmarks.containment [--logs 240] [--first 0] [--estimators auto]

Every log is of a world of its own: five groups of users, four items, pages of three, clicks that depend on all
items of the page, and amounts that depend on the item. Two targets, alike in every second world, are evaluated
with one of them as the baseline, for clicks, revenue and revenue per click. The truth is computed by enumeration.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import counterrank as cr

Floats = NDArray[np.float64]
X, K, A = 5, 3, 4
METRICS = {"clicks": "click", "revenue": "revenue", "per click": "revenue / click"}
#: Spread of a logged amount around the mean of its item.
NOISE = 0.5


@dataclass(frozen=True)
class World:
    """Users in five groups; a click depends on the group, the item and its neighbours, an amount on the item."""

    seed: int

    @cached_property
    def tables(self) -> tuple[dict[str, Floats], Floats, Floats]:
        """Policies (X, A) by name, click probabilities (X, A^K, K) of every page, and amounts (A,)."""
        rng = np.random.default_rng([self.seed, 1])
        alike, interaction = self.seed % 2 == 0, float(self.seed // 2 % 3) / 2
        scores = rng.normal(size=(3, X, A))
        tilt = {"logger": 0.4 * scores[0], "prod": 0.4 * scores[0] + 0.6 * scores[1]}
        tilt["new"] = (tilt["prod"] if alike else tilt["logger"]) + 0.4 * scores[2]
        policies = {name: softmax(table) for name, table in tilt.items()}
        own = rng.normal(-1.0, 0.8, (X, A))
        pairs = interaction * rng.normal(0.0, 0.8, (A, A))
        by_page = [
            [own[:, page[k]] + sum(pairs[page[k], page[m]] for m in range(K) if m != k) for k in range(K)]
            for page in PAGES
        ]  # fmt: skip
        chance = 1.0 / (1.0 + np.exp(-np.array(by_page).transpose(2, 0, 1)))
        return policies, chance, rng.lognormal(0.0, 0.6, A)

    def truth(self, name: str) -> dict[str, Floats]:
        """Return each metric of a policy at every position."""
        policies, chance, amounts = self.tables
        shown = policies[name][:, PAGES].prod(axis=2)  # (X, A^K)
        clicks = np.einsum("xp,xpk->k", shown, chance) / X
        revenue = np.einsum("xp,xpk,pk->k", shown, chance, amounts[PAGES]) / X
        return {
            "clicks": clicks,
            "revenue": revenue,
            "per click": revenue.sum(keepdims=True) / clicks.sum(),
        }

    def draw(self) -> cr.RankingLog:
        """Return the log of this world."""
        rng = np.random.default_rng([self.seed, 2])
        n = (1500, 4000)[self.seed // 6 % 2]
        policies, chance, amounts = self.tables
        group = rng.integers(0, X, n)
        steps = policies["logger"].cumsum(axis=1)[group]
        action = (rng.random((n, K, 1)) > steps[:, None, :]).sum(axis=2).clip(max=A - 1)
        page = action @ A ** np.arange(K - 1, -1, -1)
        click = (rng.random((n, K)) < chance[group, page]).astype(float)
        noise = rng.lognormal(-(NOISE**2) / 2, NOISE, (n, K))
        whole = {name: table[group] for name, table in policies.items()}
        return cr.RankingLog(
            action=action, reward={"click": click, "revenue": click * amounts[action] * noise},
            propensity=np.take_along_axis(whole["logger"], action, axis=1), context=np.eye(X)[group],
            targets={name: np.take_along_axis(whole[name], action, axis=1) for name in ("new", "prod")},
            dists={"propensity": whole["logger"], "new": whole["new"], "prod": whole["prod"]},
        )  # fmt: skip


PAGES = np.array(list(itertools.product(range(A), repeat=K)))


def softmax(scores: Floats) -> Floats:
    """Return probabilities in proportion to exponentials, along the last axis."""
    table = np.exp(scores)
    return np.asarray(table / table.sum(axis=-1, keepdims=True))


#: What an interval is of, whether it holds the truth, and (value - truth) / standard error.
Row = tuple[str, bool, float]


def rows_of(seed: int, estimators: str) -> Iterator[Row]:
    """Yield whether each interval of a world's evaluation holds the truth."""
    world = World(seed)
    new, prod = world.truth("new"), world.truth("prod")
    result: Any = cr.evaluate(
        world.draw(), ["new", "prod"], baseline="prod", rewards=METRICS, estimators=estimators,
        audit=False, seed=seed,
    )  # fmt: skip
    joint = []
    for name in METRICS:
        lift = result.metric(name).estimate("new").lift
        gap = float(new[name].sum() - prod[name].sum())
        share = float(new[name].sum() / prod[name].sum() - 1.0)
        ratio = "ratio metric" if name == "per click" else "metric"
        yield f"{ratio}: lift over the baseline", lift.low <= gap <= lift.high, away(lift, gap)
        relative = lift.relative_low <= share <= lift.relative_high
        yield f"{ratio}: relative lift", relative, np.nan
        joint.append(lift.adjusted_low <= gap <= lift.adjusted_high)
        half = stats.norm.ppf(0.975)
        for place, k in zip(lift.by_position, range(K), strict=False):
            miss = place.value - (new[name][k] - prod[name][k])
            yield (
                "lift of a position (without allowance)",
                abs(miss) <= half * place.stderr,
                miss / place.stderr,
            )
        for row in result.metric(name).comparisons:
            sign = 1.0 if row.better == "new" else -1.0
            yield (
                "comparison of two targets",
                row.low <= sign * gap <= row.high,
                away(row, sign * gap),
            )
    yield "joint intervals of three metrics, all at once", all(joint), np.nan


def away(number: Any, truth: float) -> float:
    """Return how many standard errors a value is from the truth."""
    return float((number.value - truth) / number.stderr)


def main() -> None:
    """Print how often each kind of interval held the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=240)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--estimators", default="auto")
    options = parser.parse_args()
    held: dict[str, list[bool]] = {}
    scores: dict[str, list[float]] = {}
    for seed in range(options.first, options.first + options.logs):
        for what, inside, score in rows_of(seed, options.estimators):
            held.setdefault(what, []).append(inside)
            scores.setdefault(what, []).append(score)
    print(
        f"{options.logs} logs, {options.estimators}; root of the mean squared (value - truth) / standard error"
    )
    for what, inside in held.items():
        low, high = stats.binomtest(sum(inside), len(inside)).proportion_ci(0.95)
        print(
            f"{what:48s} {np.mean(inside):.3f} ({low:.3f} to {high:.3f})  of {len(inside):4d}"
            f"  {np.sqrt(np.mean(np.square(scores[what]))):.2f}"
        )


if __name__ == "__main__":
    main()
