"""Reading the order path: what a log can say about interaction, and where it falls silent.

Run: python docs/tutorials/order_path.py
"""

import numpy as np

import counterrank as cr
from counterrank.estimators import registry


def world(rng, n, *, pairs, sharpness, K=4, A=3):
    """Return a log and the target's true value; `pairs` is the strength of interaction between
    items.
    """
    old = np.full(A, 1 / A)
    new = np.exp(sharpness * np.arange(A))
    new /= new.sum()
    action = rng.integers(0, A, (n, K))
    own = 0.5 + 0.1 * np.arange(A)

    def expected(items):
        same = (items[:, :, None] == items[:, None, :]).sum(
            axis=2
        ) - 1  # how many twins an item has
        return own[items] - pairs * same / (K - 1)

    reward = expected(action) + 0.1 * rng.normal(size=(n, K))
    log = cr.RankingLog(
        action=action, reward=reward, propensity=old[action], targets={"new": new[action]}
    )
    shown = rng.choice(A, size=(200_000, K), p=new)
    return log, float(expected(shown).sum(axis=1).mean())


rng = np.random.default_rng(0)
cases = {
    "flat: no interaction": world(rng, 5000, pairs=0.0, sharpness=0.5),
    "levels off: pairs matter": world(rng, 5000, pairs=0.6, sharpness=0.5),
    "funnel: too few rows for so different a policy": world(
        rng, 300, pairs=0.6, sharpness=1.0, K=7
    ),
}
paths = {}
for title, (log, truth) in cases.items():
    print(f"\n{title} (truth {truth:.3f})")
    paths[title] = [registry.get(f"order-{m}").estimate(log, "new") for m in range(1, log.K + 1)]
    for found in paths[title]:
        low, high = found.interval()
        bar = "#" * round(20 * found.stderr / paths[title][-1].stderr)
        print(
            f"  {found.estimator}: {found.value:6.3f}  ({low:6.3f} to {high:6.3f})  ESS "
            f"{found.ess:5.0f}  {bar}"
        )

# Flat: order 1 agrees with order 4, and is far more precise.
flat = paths["flat: no interaction"]
assert (
    abs(flat[0].value - flat[-1].value) < 4 * flat[-1].stderr and flat[0].stderr < flat[-1].stderr
)

# Levels off: order 1 is wrong by many of its own errors; order 2 and higher agree with the truth.
log, truth = cases["levels off: pairs matter"]
levels = paths["levels off: pairs matter"]
assert abs(levels[0].value - truth) > 6 * levels[0].stderr
assert abs(levels[1].value - truth) < 4 * levels[1].stderr

# Funnel: errors grow at once, few effective rows are left, and the flags say that even the
# intervals may be too short.
funnel = paths["funnel: too few rows for so different a policy"]
print("\nflags of the last:", *funnel[-1].flags, sep="\n  ")
assert (
    funnel[1].stderr > 3 * funnel[0].stderr
    and funnel[-1].ess < funnel[-1].n / 5
    and funnel[-1].flags
)
