"""Compare rules for the estimate of `auto` on recorded logs, in seconds.

    python -m benchmarks.lift --data DIR --logs 12 --record out/record --out out/lift
    python -m benchmarks.lift.rules out/record

A rule moves the estimate from the models towards members that rely more on the data. The table has the
mean squared error of the lift relative to the present rule: geometric mean over the cells of a
population, and its standard error by the bootstrap over logs. Targets equal to the logger are left out.
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.lift.cells import Floats, Ints
from benchmarks.lift.record import Question, Recorded, read
from counterrank.estimators.auto.rule import AIMED, MODELS, Summary, exact, shrinkage

#: A rule: the combination of members (J,) that is the estimate.
Rule = Callable[[Question], Floats]
#: Squared errors are in half-widths of an A/B test; those below this one are all as good.
SMALL = 1e-4
RESAMPLED = 100


def present(question: Question) -> Floats:
    """Return the combination that `auto` uses."""
    return question.decide().weights


def steps(aimed: float, whole: float, models: float = 0.0) -> Rule:
    """Return the rule that moves by 1 - c s^2 / d^2 in each step: c of the aimed step, and of weights.

    `models`: part of the variance of the start that counts as the prior variance of its bias.
    """

    def rule(question: Question) -> Floats:
        summary, J = question.summary, len(question.summary.members)
        value, covariance = summary.value[1 : 1 + J], summary.covariance[1 : 1 + J, 1 : 1 + J]
        start = np.eye(len(summary.value))[1] - np.eye(len(summary.value))[0]
        prior = question.unknown + models * float(start @ summary.covariance @ start)
        weights = np.eye(J)[0]
        for j in corrections(summary):
            move, name = np.eye(J)[j] - weights, summary.members[j]
            d, variance = float(move @ value), max(float(move @ covariance @ move), 0.0)
            limit = (aimed if name == AIMED else whole) * variance
            share = 1.0 - limit / d**2 if d**2 > limit else 0.0
            if exact(summary, name):
                share = max(share, shrinkage(prior, variance**0.5))
            weights = weights + share * move
        return weights

    return rule


def at_once(limit: float) -> Rule:
    """Return the rule with one step, towards the best combination of all corrections."""

    def rule(question: Question) -> Floats:
        summary, J = question.summary, len(question.summary.members)
        covariance, start = summary.covariance[1 : 1 + J, 1 : 1 + J], np.eye(J)[0]
        moves = np.eye(J)[corrections(summary)] - start
        moves = moves[(moves @ covariance * moves).sum(axis=1) > 0]
        while len(moves):
            spread = np.sqrt(np.diag(moves @ covariance @ moves.T))
            relation = moves @ covariance @ moves.T / np.outer(spread, spread)
            best = np.linalg.pinv(relation, rcond=1e-6, hermitian=True) @ (1 / spread) / spread
            if (best >= 0).all() and best.sum() > 0:
                move = best @ moves / best.sum()
                d, variance = (
                    float(move @ summary.value[1 : 1 + J]),
                    float(move @ covariance @ move),
                )
                share = 1.0 - limit * variance / d**2 if d**2 > limit * variance else 0.0
                combined: Floats = (
                    start + max(share, shrinkage(question.unknown, variance**0.5)) * move
                )
                return combined
            # A combination with negative parts would extrapolate.
            moves = np.delete(moves, int(best.argmin()), axis=0)
        return start

    return rule


def corrections(summary: Summary) -> list[int]:
    """Return the members that correct the start, from the fewest data to the most."""
    modelled = MODELS in summary.members
    return [
        j
        for j, name in enumerate(summary.members)
        if j and summary.occurred[j] and (name != "iips" or not modelled or exact(summary, name))
    ]


RULES: dict[str, Rule] = {
    "without own positions": steps(4, 4),
    "aimed and weights from sqrt(2) standard errors on": steps(2, 2),
    "aimed from sqrt(2) on": steps(2, 4),
    "weights from sqrt(2) on": steps(4, 2),
    "no aimed step": steps(np.inf, 4),
    "bias of the models as large as their error": steps(4, 4, 1),
    "one step, from sqrt(2) on": at_once(2),
    "one step, from 2 on": at_once(4),
    "whole correction": steps(0, np.inf),
}


def squared_errors(rule: Rule, logs: list[Recorded]) -> Floats:
    """Return the squared errors of the lift (n,), in half-widths of an A/B test."""
    out = []
    for one in logs:
        summary, weights = one.question.summary, rule(one.question)
        lift = float(weights @ summary.value[1 : 1 + len(weights)]) - float(summary.value[0])
        out.append(((lift - one.truth.lift) / one.test_half_width) ** 2)
    return np.array(out)


def compared(own: list[Floats], other: list[Floats]) -> tuple[float, float]:
    """Return the ratio of mean squared errors of cells, as a geometric mean, and its error (log)."""
    rng = np.random.default_rng(0)

    def ratio(rows: list[Ints]) -> float:
        pairs = zip(own, other, rows, strict=True)
        return float(
            np.mean([np.log((a[at].mean() + SMALL) / (b[at].mean() + SMALL)) for a, b, at in pairs])
        )

    again = [
        ratio([rng.integers(len(cell), size=len(cell)) for cell in own]) for _ in range(RESAMPLED)
    ]
    return float(np.exp(ratio([np.arange(len(cell)) for cell in own]))), float(np.std(again))


def table(folder: Path) -> str:
    """Return the table of the recorded logs in a folder, `POPULATION/CELL-logN.npz`."""
    cells: dict[str, dict[str, list[Recorded]]] = {}
    for path in sorted(folder.glob("*/*.npz")):
        one = read(path)
        if one.truth.lift or one.truth.stderr:
            name = re.sub(r"-log\d+$", "", path.stem)
            cells.setdefault(path.parent.name, {}).setdefault(name, []).append(one)
    logs = {p: sum(map(len, found.values())) for p, found in cells.items()}
    lines = ["| rule | " + " | ".join(f"{p} ({n})" for p, n in logs.items()) + " |"]
    lines.append("|" + "---|" * (1 + len(logs)))
    now = {p: [squared_errors(present, c) for c in found.values()] for p, found in cells.items()}
    for name, rule in RULES.items():
        row = [
            "{:.2f} ± {:.2f}".format(
                *compared([squared_errors(rule, c) for c in found.values()], now[p])
            )
            for p, found in cells.items()
        ]
        lines.append(f"| {name} | " + " | ".join(row) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what --record of benchmarks.lift wrote")
    print(table(parser.parse_args().folder))
