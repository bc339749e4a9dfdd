"""A policy of your own that ranks without replacement, evaluated from the log of a Plackett-Luce
ranker.

Run: python docs/tutorials/own_policy.py
"""

import numpy as np

import counterrank as cr

rng = np.random.default_rng(0)
n, A, K = 3000, 5, 3

# The old ranker draws items one after another in proportion to exp(score), without repeats.
scores = rng.normal(size=(n, A))
old = cr.PlackettLuce(scores)
action = old.sample(K, rng)[:, 0]  # (n, K)

# Clicks: the better the item, the likelier; an equally good item just above takes attention away.
quality = 1 / (1 + np.exp(-np.take_along_axis(scores, action, axis=1)))
above = np.concatenate([np.zeros((n, 1)), quality[:, :-1]], axis=1)
clicks = (rng.random((n, K)) < 0.5 * quality * (1 - 0.5 * above)).astype(float)
log = cr.RankingLog(action=action, reward=clicks, propensity=old, context=scores[:, :2])


# The candidate is a function: given context rows and the items shown so far, the next item's
# probabilities. It is sharper than the old ranker, and mixes in a tenth of chance, so that it can
# be compared.
def step(rows, shown):
    """Return (r, A) probabilities of the next item; shown (r, k) are the items above."""
    odds = np.exp(1.5 * (scores[rows] - scores[rows].max(axis=1, keepdims=True)))
    for column in shown.T:
        odds[np.arange(len(rows)), column] = 0.0
    free = odds > 0
    return 0.9 * odds / odds.sum(axis=1, keepdims=True) + 0.1 * free / free.sum(
        axis=1, keepdims=True
    )


new = cr.Autoregressive(step, n, A)

# Probabilities of items at any subset of positions come from the policies themselves: exact, no
# skipping of positions.
for estimator in (cr.IPS(), cr.RIPS(), cr.IIPS()):
    found = estimator.estimate(log, new)
    low, high = found.interval()
    print(f"{found.estimator:>5}: {found.value:.3f} ({low:.3f} to {high:.3f}), ESS {found.ess:.0f}")

# Play the new policy for real: here that is possible, and all three that can be right should agree
# with it.
fresh = new.sample(K, rng)[:, 0]
quality = 1 / (1 + np.exp(-np.take_along_axis(scores, fresh, axis=1)))
above = np.concatenate([np.zeros((n, 1)), quality[:, :-1]], axis=1)
truth = float((0.5 * quality * (1 - 0.5 * above)).sum(axis=1).mean())
print(f"truth: {truth:.3f}; the old ranker earned {log.value:.3f}")

rips = cr.RIPS().estimate(log, new)
assert abs(rips.value - truth) < 4 * rips.stderr
