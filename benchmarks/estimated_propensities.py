"""Coverage of intervals whose propensities were estimated from scores: `python
benchmarks/estimated_propensities.py [--logs 200]`.

Small logs of a large catalogue: 500 requests, 3 of 10 candidates shown from 800 items by scores of
unknown temperature and a feature; clicks by position; the target has other scores.
"""

import argparse

import numpy as np

import counterrank as cr
from counterrank.policies import Candidates, parse_policy

N, K, C, A = 500, 3, 10, 800
CURVE = np.array([0.8, 0.5, 0.35])
ESTIMATORS = ("iips", "rips", "ips", "auto")


def scored(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return the logger's scores, the feature, the target's scores and the relevance, (n, C) each."""
    scores, price = rng.normal(size=(2, n, C))
    new = scores + 0.6 * rng.normal(size=(n, C))
    return scores, price, new, 1 / (1 + np.exp(1 - new - 0.5 * price))


def one_log(seed: int) -> cr.RankingLog:
    rng = np.random.default_rng([seed, 99])
    lists = [rng.choice(A, size=C, replace=False).tolist() for _ in range(N)]
    scores, price, new, relevance = scored(N, rng)
    sets = Candidates.from_lists(lists, {"z_price": price.tolist()})
    rule = parse_policy("plackett-luce")
    logger = rule.bind(candidates=sets, scores=(scores / 0.6 + 0.5 * price).ravel())
    action = logger.sample(K, rng)[:, 0]
    chance = CURVE * np.take_along_axis(relevance, sets.locate(action), axis=1)
    return cr.RankingLog(
        action=action,
        reward=(rng.random((N, K)) < chance).astype(float),
        # The scores of a logger of which nobody said how it ranks by them.
        propensity=parse_policy("top").bind(candidates=sets, scores=scores.ravel()),
        candidates=sets,
        targets={"new": rule.bind(candidates=sets, scores=new.ravel())},
        unit=np.arange(N),
        notes=("propensity-missing",),
    )


def truth(n: int = 200_000) -> float:
    rng = np.random.default_rng(12345)
    _, _, new, relevance = scored(n, rng)
    order = np.argsort(-(new + rng.gumbel(size=new.shape)), axis=1)[:, :K]
    return float((CURVE * np.take_along_axis(relevance, order, axis=1)).sum(axis=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    given = parser.parse_args()
    value = truth()
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in ESTIMATORS}
    for seed in range(given.logs):
        options = {"estimators": ESTIMATORS, "estimate_propensity": "plackett-luce"}
        for e in cr.evaluate(one_log(seed), ["new"], audit=False, **options).estimates:
            rows[e.estimator].append((e.value, e.stderr, e.low <= value <= e.high))
    print(f"true value {value:.4f}; {given.logs} logs of {N} requests")
    print("| estimator | coverage | bias | standard deviation | mean standard error |")
    print("|---|---|---|---|---|")
    for name, found in rows.items():
        v, error, covered = np.array(found).T
        bias = v.mean() - value
        print(
            f"| {name} | {covered.mean():.3f} | {bias:+.4f} | {v.std():.4f} | {error.mean():.4f} |"
        )


if __name__ == "__main__":
    main()
