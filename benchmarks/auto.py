"""Cost of `auto`, in CPU relative to what one would run instead; one thread, compiled code warm.

    python benchmarks/auto.py                    both shapes below
    python benchmarks/auto.py --n 1000000 --items 100
    python benchmarks/auto.py --n 1000000 --items 3 --k 8 --factored

Up to 50,000 rankings: one scikit-learn gradient boosting on the shown items, averaged over 8 draws
of the target. Longer logs: RIPS in plain NumPy with the policies' probabilities given
(`--factored`: IPS). OMP_NUM_THREADS=1 keeps idle threads out.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import counterrank as cr
from counterrank.research.simulate import World, random

#: Items, K and the ratio that was promised, at n = 2,000.
SHAPES = ((20, 5, 0.5), (1000, 10, 1.0))
DRAWS = 8


def seconds(action: Callable[[], object], repeat: int = 3) -> float:
    """Return the least CPU seconds of a few runs."""
    best = np.inf
    for _ in range(repeat):
        began = time.process_time()
        action()
        best = min(best, time.process_time() - began)
    return best


def boosting(log: cr.RankingLog) -> float:
    """Return the mean of a gradient boosting on item, position, context and item features over
    drawn rankings.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    drawn = log.targets["new"].sample(log.K, np.random.default_rng(0), size=DRAWS)

    def columns(items: np.ndarray) -> np.ndarray:
        n, size, K = items.shape
        x = np.repeat(log.context, size * K, axis=0)
        place = np.tile(np.arange(K), n * size)
        parts = [x, items.reshape(-1, 1), place[:, None]]
        if log.item_features is not None:
            parts.append(log.item_features.values[items.reshape(-1)])
        return np.concatenate(parts, axis=1)

    model = HistGradientBoostingRegressor().fit(
        columns(log.action[:, None, :]), log.reward.reshape(-1)
    )
    return float(model.predict(columns(drawn)).sum() / len(log.action) / DRAWS)


def plain_rips(log: cr.RankingLog, p0: np.ndarray, p1: np.ndarray) -> float:
    """Return RIPS as anyone would write it."""
    weight = np.cumprod(p1 / p0, axis=1)
    return float((weight * log.reward).sum(axis=1).mean())


def plain_ips(log: cr.RankingLog) -> float:
    """Return IPS as anyone would write it."""
    weight = (log.targets["new"].values / log.propensity.values).prod(axis=1)
    return float((weight * log.reward.sum(axis=1)).mean())


def factored(n: int, K: int, actions: int, repeat: int) -> None:
    """Print the cost on a log of independent positions with whole distributions."""
    env = random(1, K=K, actions=actions)
    cr.Auto().estimate(env.draw(3000, np.random.default_rng(0)).to_log(), "new")
    log = env.draw(n, np.random.default_rng(1)).to_log()
    own, other = (
        seconds(lambda: cr.Auto().estimate(log, "new"), repeat),
        seconds(lambda: plain_ips(log)),
    )
    print(
        f"n={n} actions={actions} K={K} factored: auto {own:.2f} s, NumPy IPS {other:.3f} s = "
        f"{own / other:.1f} x"
    )


def conditionals(policy: cr.Policy, action: np.ndarray) -> np.ndarray:
    """Return P(a_k | above) (n, K)."""
    cumulative = policy.prefix_log_prob(action)
    return np.exp(np.diff(cumulative, axis=1, prepend=0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--items", type=int)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--factored", action="store_true")
    options = parser.parse_args()
    if options.factored:
        factored(options.n, options.k, options.items or 3, options.repeat)
        return
    shapes = SHAPES if options.items is None else ((options.items, options.k, np.nan),)
    for items, K, promised in shapes:
        world = World(seed=3, behavior="dbn", items=items, K=K)
        cr.Auto().estimate(world.log(500, 1), "new")
        log = world.log(options.n, 0)
        own = seconds(lambda log=log: cr.Auto().estimate(log, "new"), options.repeat)
        if options.n <= 50_000:
            name, other = (
                "gradient boosting",
                seconds(lambda log=log: boosting(log), options.repeat),
            )
        else:
            p0, p1 = (
                conditionals(policy, log.action) for policy in (log.propensity, log.targets["new"])
            )
            name, other = (
                "NumPy RIPS",
                seconds(lambda log=log, p0=p0, p1=p1: plain_rips(log, p0, p1)),
            )
            promised = 60.0
        print(f"n={options.n} items={items} K={K}: auto {own:.2f} s, {name} {other:.3f} s = "
              f"{own / other:.2f} x (promised {promised})", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
