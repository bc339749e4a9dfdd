"""Do plans come true: predicted errors, what the optimum saves, and whether costs lie in their intervals.

    python -m benchmarks.plan [--data DIR] [--worlds 6] [--logs 4]

Simulated worlds: a log of a deterministic ranker (every third of a drawing one) is planned from; then
logs are drawn from the options with the world's own users, and rankers that the plan has not seen are
evaluated on them. News pages (`--data` holds news_pages.csv.gz): their order was random, so that
rejection turns them into real logs of any within-page logger; plans are made from one half of the
readers and tried on the other.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import counterrank as cr
from benchmarks.lift.news import ARTICLES, FILE, Pages, clicks, standardised
from counterrank.exploration import ExplorationOption
from counterrank.exploration.options import Family
from counterrank.exploration.planner import PlanInputs, PlanRequest, production
from counterrank.policies import Candidates, PolicySpec, Scored, parse_policy
from counterrank.research.simulate import World

Floats = NDArray[np.float64]
ROWS, REAL_ROWS = 4_000, 4_000
#: Places and production of the news pages: sharper ones would leave too few pages.
NEWS = (
    (1, "top"),
    (1, "plackett-luce:temperature=0.5"),
    (2, "plackett-luce:temperature=1"),
    (3, "plackett-luce:temperature=2"),
)
BEHAVIORS = ("dbn", "cascade", "position")


@dataclass(frozen=True, slots=True)
class Seen:
    """A predicted and a real standard error of sqrt(n) lifts, and how many rows count."""

    place: str
    kind: str
    target: str
    estimator: str
    predicted: float
    real: float
    effective: float
    #: Whether it is the one that the plan tells people.
    told: bool


def world_of(number: int) -> World:
    """Return one of the worlds: behaviour, length and candidates vary."""
    shapes = ((4, 30, 8), (10, 60, 20), (6, 40, 12))
    K, items, candidates = shapes[number % 3]
    behavior = BEHAVIORS[number // 3 % 3]
    return World(seed=700 + number, behavior=behavior, K=K, items=items, candidates=candidates)


def bare(log: cr.RankingLog) -> cr.RankingLog:
    """Return a log without its target."""
    return replace(log, targets={})


def errors_on(
    log: cr.RankingLog, served: PolicySpec, families: list[Family], seed: int
) -> Iterator[tuple[str, str, float]]:
    """Yield sqrt(n) standard errors of lifts of rankers that no plan has seen, by family and estimator."""
    logger = production(log)
    rng = np.random.default_rng([seed, 99])
    targets = {
        one.name: Scored(
            logger.candidates,
            logger.scores + one.noise * rng.normal(size=logger.scores.shape),
            served,
        )
        for one in families
    }
    known = log.with_targets(targets)
    for name in targets:
        for estimator in (cr.IPS(), cr.IIPS()):
            found = estimator.estimate(known, name)
            if found.lift is not None and math.isfinite(found.lift.stderr):
                yield name, estimator.name, found.lift.stderr * math.sqrt(log.n)


def simulated(number: int, logs: int, seen: list[Seen], costs: list[tuple[str, bool]]) -> None:
    """Plan in one world and try the plan there."""
    world = world_of(number)
    served = parse_policy("plackett-luce:temperature=0.3" if number % 3 == 2 else "top")
    log = bare(world.draw(ROWS, np.random.default_rng([number, 1]), policy=served).to_log())
    plan = cr.plan(log, seed=number)
    logger = production(log)
    asked = PlanRequest(ROWS, 0.01, 0.01, 0.95, None, number)
    bench = PlanInputs.from_log(log, logger, (), asked)
    place = f"world {number} {world.behavior} K={world.K} {served.kind}"
    rng = [number, 2]
    today = world.draw(30_000, np.random.default_rng(rng), policy=served).q.sum(axis=1).mean()
    for option in plan.options[1:]:
        spec = parse_policy(option.spec)
        earned = world.draw(30_000, np.random.default_rng(rng), policy=spec).q.sum(axis=1).mean()
        true = 1 - earned / today
        costs.append((place, option.cost.low <= true <= option.cost.high))
        if spec.deterministic or option not in tuned(plan):
            continue
        shown = bench.option(spec)
        predicted = {
            (name, one.estimator): one
            for name in bench.targets
            for one in bench.predicted(shown, name)
        }
        real = defaultdict(list)
        for r in range(logs):
            drawn = bare(
                world.draw(REAL_ROWS, np.random.default_rng([number, 3, r]), policy=spec).to_log()
            )
            for name, estimator, error in errors_on(drawn, served, bench.families, r):
                real[name, estimator].append(error)
        for key, one in predicted.items():
            if real[key]:
                seen.append(
                    Seen(
                        place,
                        option.kind,
                        *key,
                        one.spread,
                        root(real[key]),
                        one.share * REAL_ROWS,
                        told(option, *key),
                    )
                )
    print(f"{place}: planned and tried", flush=True)


def tuned(plan: cr.ExplorationPlan) -> list[ExplorationOption]:
    """Return of each kind the option whose cost is nearest to the budget, and not far above it."""
    found: dict[str, ExplorationOption] = {}
    for option in plan.options:
        gap = abs(option.cost.value - plan.budget)
        best = found.get(option.kind)
        if option.cost.value <= 1.3 * plan.budget and (
            best is None or gap < abs(best.cost.value - plan.budget)
        ):
            found[option.kind] = option
    return list(found.values())


def told(option: ExplorationOption, target: str, estimator: str) -> bool:
    """Return whether the plan speaks of this estimator for a target."""
    return any(
        one.target == target and one.estimator == estimator and one.lift is not None
        for one in option.detectable
    )


def root(errors: list[float]) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def news_log(pages: Pages, scores: Floats, K: int, spec: PolicySpec) -> cr.RankingLog:
    """Return pages as a log of a policy over their nine articles; the first K places count."""
    n = len(pages.read)
    ids = np.arange(n * ARTICLES, dtype=np.int32)
    sets = Candidates(
        np.arange(n + 1) * ARTICLES,
        ids,
        {"z_pref": pages.pref.ravel(), "z_topic": pages.topic.ravel().astype(np.int64)},
        {"z_topic": pages.topics},
    )
    return cr.RankingLog(
        action=ids.reshape(n, ARTICLES)[:, :K].astype(np.int64),
        reward=clicks(pages.read, K),
        propensity=spec.bind(candidates=sets, scores=scores.ravel()),
        context=pages.context,
        unit=pages.user,
        candidates=sets,
    )


def rejected(
    pages: Pages, scores: Floats, K: int, spec: PolicySpec, rng: np.random.Generator
) -> cr.RankingLog:
    """Return the log that a policy would have written: pages are kept as often as it shows them."""
    n = len(pages.read)
    sets = Candidates(np.arange(n + 1) * ARTICLES, np.tile(np.arange(ARTICLES, dtype=np.int32), n))
    policy = spec.bind(candidates=sets, scores=scores.ravel())
    shown = np.broadcast_to(np.arange(K), (n, K))
    chance = np.exp(policy.prefix_log_prob(shown)[:, -1])
    keep = rng.random(n) < chance / chance.max()
    return news_log(pages.take(keep), scores[keep], K, spec)


def news(path: Path, logs: int, seen: list[Seen]) -> None:
    """Plan on pages of half of the readers, and try it on those of the others."""
    every = Pages.load(path)
    users = np.unique(every.user)
    first = np.isin(every.user, users[::2])
    popular = every.popularity()
    scores = standardised(standardised(every.pref) + standardised(popular[every.topic]))
    # Articles of one topic would have equal scores; a ranker has something to tell them apart.
    scores = scores + 0.1 * np.random.default_rng(0).normal(size=scores.shape)
    for K, served in NEWS:
        spec = parse_policy(served)
        rng = np.random.default_rng(K)
        log = rejected(every.take(first), scores[first], K, spec, rng)
        plan = cr.plan(log)
        asked = PlanRequest(log.n, 0.01, 0.01, 0.95, None, 0)
        bench = PlanInputs.from_log(log, production(log), (), asked)
        for option in plan.options:
            tried = parse_policy(option.spec)
            if tried.deterministic or option not in tuned(plan):
                continue
            shown = bench.option(tried)
            predicted = {
                (name, one.estimator): one
                for name in bench.targets
                for one in bench.predicted(shown, name)
            }
            real, rows = defaultdict(list), []
            for r in range(4 * logs):
                drawn = rejected(
                    every.take(~first), scores[~first], K, tried, np.random.default_rng([K, r])
                )
                rows.append(drawn.n)
                single = replace(drawn, unit=None)
                for name, estimator, error in errors_on(single, spec, bench.families, r):
                    real[name, estimator].append(error)
            for key, one in predicted.items():
                if real[key]:
                    effective = one.share * float(np.mean(rows))
                    seen.append(
                        Seen(
                            f"news K={K} {served}",
                            option.kind,
                            *key,
                            one.spread,
                            root(real[key]),
                            effective,
                            told(option, *key),
                        )
                    )
        print(f"news K={K} {served}: {log.n} pages planned from", flush=True)


def tell_errors(seen: list[Seen]) -> None:
    """Print how near predictions are: those that plans tell, and all with enough effective rows."""
    print(
        "\npredicted / real standard errors: those that the plan tells; all with 100 effective rows"
    )
    for place in dict.fromkeys(one.place for one in seen):
        own = [one for one in seen if one.place == place and one.effective >= 100]
        lines = []
        for some in ([one for one in own if one.told], own):
            ratios = [one.predicted / one.real for one in some] or [math.nan]
            within = sum(abs(ratio - 1) <= 0.15 for ratio in ratios)
            lines.append(
                f"median {np.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}, "
                f"{within} of {len(some)} within 15 %"
            )
        print(f"  {place}: {'; '.join(lines)}", flush=True)


def tell_gains(seen: list[Seen]) -> None:
    """Print the optimum's real error over those of a shuffled share and of one temperature."""
    print(
        "\nreal errors of the better optimum at 1 % loss, relative to others (root of the mean square over sizes):"
    )
    for place in dict.fromkeys(one.place for one in seen):
        by_kind: dict[str, list[float]] = defaultdict(list)
        for one in seen:
            if one.place == place and one.estimator == ("ips" if "K=1 " in place else "iips"):
                by_kind[one.kind].append(one.predicted if one.effective < 100 else one.real)
        best = min((root(by_kind[k]) for k in by_kind if k.startswith("optimum")), default=math.nan)
        told = [
            f"{kind} {best / root(by_kind[kind]):.2f}"
            for kind in ("a share shuffled", "epsilon at slots", "Plackett-Luce")
            if by_kind[kind]
        ]
        print(f"  {place}: {', '.join(told)}")


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="Folder of news_pages.csv.gz.")
    parser.add_argument("--worlds", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="Number of the first world.")
    parser.add_argument("--logs", type=int, default=4)
    asked = parser.parse_args()
    seen: list[Seen] = []
    costs: list[tuple[str, bool]] = []
    for number in range(asked.first, asked.first + asked.worlds):
        simulated(number, asked.logs, seen, costs)
        tell_errors(seen)
        tell_gains(seen)
        held = sum(one for _, one in costs)
        print(f"costs within their interval: {held} of {len(costs)}", flush=True)
    file = None if asked.data is None else asked.data / FILE
    if file is not None and file.exists():
        news(file, asked.logs, seen)
    else:
        print("no news pages: give --data with the folder of news_pages.csv.gz")
    tell_errors(seen)
    tell_gains(seen)
    if costs:
        print(f"\ncosts within their interval: {sum(held for _, held in costs)} of {len(costs)}")


if __name__ == "__main__":
    main()
