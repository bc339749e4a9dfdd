"""Estimates made by hand against each other: who may judge whom, and which target is better."""

from types import SimpleNamespace

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.source import MemorySource
from counterrank.estimators import Estimate, get_estimator
from counterrank.estimators.base import Lift, PositionValue
from counterrank.estimators.solution import traits_of_weights
from counterrank.estimators.weights.moments import moments_of
from counterrank.estimators.weights.thresholds import SIGNIFICANT, THRESHOLDS
from counterrank.evaluation.comparisons import (
    compare,
    path_of,
    rivals,
    usable,
    weighed_like,
)
from counterrank.evaluation.fit import Fit, fit_metrics
from counterrank.evaluation.request import Options
from counterrank.evaluation.solve import solve
from counterrank.evaluation.sweep import Sweep
from counterrank.metrics import Metrics
from counterrank.statistics import (
    Looks,
    Quantity,
    UnitScores,
    bias_aware_half,
    holm,
    two_sided,
)

K = 4


def weights(w):
    w = np.asarray(w, dtype=float)
    return moments_of(w, w, np.ones_like(w), np.ones(w.shape[1]))[0]


def calm(n=1000):
    return weights(1.0 + 0.1 * np.where(np.arange(n) % 2, 1.0, -1.0)[:, None])


def estimate(name, value=1.0, *, target="new", ess=1000.0, moments=None, **more):
    return Estimate(
        target=target, estimator=name, value=value, stderr=0.1, by_position=(PositionValue(value, 0.1),) * K, ess=ess,
        n=1000, level=0.95, lift=Lift(0.0, 0.1, -0.2, 0.2), ends=(value - 0.2, value + 0.2),
        moments=moments, **more,
    )  # fmt: skip


def fit_of(one):
    """The fit behind an estimate, of which only names and traits are looked at."""
    traits = get_estimator(one.estimator).traits
    return Fit("reward", one.target, one.estimator, SimpleNamespace(traits=traits))


class Stubs:
    """Estimates by fit, whose differences have the standard errors that are written down for them."""

    def __init__(self, *estimates, errors=(), default=0.1):
        self.estimates = {fit_of(one): one for one in estimates}
        self.fits, self.errors, self.default = [*self.estimates], dict(errors), default
        self.solutions = {
            fit: SimpleNamespace(positions=(0,) * K, traits=one.traits)
            for fit, one in self.estimates.items()
        }
        self.recommended = {fit.target: fit for fit in self.fits}

    def distance(self, fit, other):
        error = self.errors.get((fit.name, other.name), self.default)
        one, two = self.estimates[fit], self.estimates[other]
        rows = UnitScores(400, 10**9)
        allowance = one.allowance + two.allowance
        return Quantity(rows, one.value - two.value, np.array([error]), allowance=allowance)

    def rivals(self, first, *others):
        judges = {self.fits[i]: self.estimates[self.fits[i]] for i in others}
        return rivals(self.fits[first], judges, self)


def test_weights_behind_an_estimate_are_found_by_assumption_or_by_order():
    plain = [
        estimate("iips", moments=calm(), target="other"),
        estimate("iips"),
        estimate("rips", moments=calm()),
        estimate("order-2", moments=calm()),
        estimate("ips", moments=calm()),
    ]

    def like(name, **more):
        table = Stubs(*plain, estimate(name, **more))
        found = weighed_like(table.fits[-1], table.estimates)
        return None if found is None else table.fits.index(found)

    assert like("auto", traits=traits_of_weights("rips")) == 2
    assert like("auto", traits=traits_of_weights(2)) == 3
    assert like("snips") == 4
    assert like("auto", traits=traits_of_weights("iips")) is None
    # Of four positions, order 9 is all of them.
    assert like("order-9") == 4


def test_rivals_are_the_plain_ones_that_assume_less():
    table = Stubs(
        estimate("iips"), estimate("order-2", 1.3), estimate("rips", 1.1), estimate("snrips", 9.0),
        estimate("ips", 0.7), errors={("iips", "rips"): 0.4}, default=9.0,
    )  # fmt: skip
    found = table.rivals(0, 1, 2, 3, 4)
    assert [one.name for one in found] == ["order-2", "rips", "ips"]
    np.testing.assert_allclose([one.difference for one in found], [-0.3, -0.1, 0.3])
    assert [one.stderr for one in found] == pytest.approx([9.0, 0.4, 9.0])
    assert [one.name for one in table.rivals(1, 2, 3, 4)] == ["ips"]
    assert table.rivals(4, 0, 1, 2, 3) == []


def test_self_normalised_whole_rankings_judge_as_ips_does():
    table = Stubs(
        estimate("iips"), estimate("rips", 1.1), estimate("snips", 0.6),
        errors={("rips", "snips"): 0.1}, default=9.0,
    )  # fmt: skip
    # Where both differ beyond chance, it is RIPS that assumes more.
    found = [(one.name, one.usable) for one in table.rivals(0, 1, 2)]
    assert found == [("rips", False), ("snips", True)]


def test_a_rival_that_is_contradicted_itself_is_no_judge():
    def usable_of(z, **of_ips):
        table = Stubs(
            estimate("iips"), estimate("rips", 1.0), estimate("ips", 1.0 + z, **of_ips), default=1.0
        )
        by_name = {one.name: one.usable for one in table.rivals(0, 1, 2)}
        return by_name["rips"], by_name["ips"]

    line = next(z for z in np.arange(1.0, 5.0, 0.01) if two_sided(z, 1.0) < SIGNIFICANT)
    assert usable_of(line - 0.02) == (True, True)
    assert usable_of(line + 0.01) == usable_of(-line - 0.01) == (False, True)
    assert usable_of(line + 0.01, ess=1.0) == (True, False)  # IPS itself cannot be believed


def test_weights_that_may_judge_others():
    least = THRESHOLDS["ess"].directional
    assert usable(estimate("ips", ess=least)) and not usable(estimate("ips", ess=least - 0.1))
    assert usable(estimate("ips", moments=calm()))
    assert not usable(estimate("ips", ess=least - 0.1, moments=calm()))
    heavy = np.random.default_rng(0).pareto(0.8, size=(4000, 1))
    assert not usable(estimate("ips", moments=weights(heavy / heavy.mean())))
    assert not usable(estimate("ips", moments=weights(1.2 * np.asarray([[0.9], [1.1]] * 500))))


def test_the_order_path_runs_from_own_items_to_whole_rankings():
    found = [
        estimate("ips", 4.0),
        estimate("rips"),
        estimate("order-2", 2.0),
        estimate("iips", 1.0),
        estimate("snips", 9.0),
    ]
    estimates = Stubs(*found, estimate("order-3", target="other")).estimates
    path = path_of("new", estimates)
    assert [(row["order"], row["estimator"], row["value"]) for row in path] == [
        (1, "iips", 1.0), (2, "order-2", 2.0), (4, "ips", 4.0)
    ]  # fmt: skip
    assert (path[0]["low"], path[0]["high"], path[0]["ess"]) == (0.8, 1.2, 1000.0)
    assert path_of("nobody", estimates) == ()


def test_targets_are_compared_on_the_same_rows_with_all_pairs_counted():
    table = Stubs(
        estimate("auto", 3.0, target="a", allowance=0.1), estimate("ips", 2.0, target="b"),
        estimate("auto", 2.6, target="c", allowance=0.05),
        errors={("auto", "ips"): 0.2, ("ips", "auto"): 0.3}, default=0.25,
    )  # fmt: skip
    rows = compare(table, table, 0.9)
    assert [(row["better"], row["than"]) for row in rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    values, errors, allowed = (1.0, 0.4, -0.6), (0.2, 0.25, 0.3), (0.1, 0.15, 0.05)
    p = holm(
        [
            two_sided(max(abs(v) - b, 0.0), s)
            for v, s, b in zip(values, errors, allowed, strict=True)
        ]
    )
    for row, value, error, b, p_value in zip(rows, values, errors, allowed, p, strict=True):
        assert row["value"] == pytest.approx(value) and row["stderr"] == pytest.approx(error)
        half = bias_aware_half(error, b, 1 - 0.1 / 3)
        assert (row["low"], row["high"]) == pytest.approx((value - half, value + half))
        assert row["bias_allowance"] == pytest.approx(b) and row["p_value"] == pytest.approx(
            p_value
        )


def test_a_difference_within_the_allowances_is_no_difference():
    table = Stubs(
        estimate("auto", 1.0, target="a", allowance=0.3),
        estimate("auto", 1.4, target="b", allowance=0.2),
        default=0.01,
    )
    (row,) = compare(table, table, 0.95)
    assert row["p_value"] == 1.0 and row["low"] < 0 < row["high"]


def test_looking_every_night_widens_by_the_rows_of_the_pass():
    table = Stubs(estimate("auto", 1.0, target="a"), estimate("auto", 1.4, target="b"))
    looks = Looks(2000)
    (row,) = compare(table, table, 0.95, looks)
    assert row["high"] - row["value"] == pytest.approx(looks.critical(0.95, 400) * 0.1)
    assert row["p_value"] == pytest.approx(looks.p_value(0.4, 0.1, 400, 0.95))


def test_a_ratio_of_means_may_follow_a_mean_of_other_weights():
    """Fits that share one pass ask it for more as they come."""
    rng = np.random.default_rng(0)
    p0, p1 = rng.uniform(0.2, 1, (60_000, 2)), rng.uniform(0.2, 1, (60_000, 2))
    log = cr.RankingLog(
        action=np.zeros((60_000, 2), int), reward=p0, propensity=p0, targets={"new": p1}
    )
    found = cr.evaluate(log, ["new"], estimators="rips,snips", audit=False)
    assert {one.estimator for one in found.estimates} == {"rips", "snips"}


@pytest.mark.parametrize("context", [False, True])
def test_controls_count_where_auto_is_held_against_others(context):
    """One position and weights alone: auto is the mean of y = w r with (w - 1) and (w - 1) x regressed out.

    Its difference to IPS is the part that the controls take away: its error is theirs, row by row.
    """
    rng = np.random.default_rng(4)
    n = 500
    action = rng.integers(0, 2, (n, 1))
    target = np.where(action, 0.75, 0.25)
    x = rng.normal(size=(n, 1))
    reward = 1.0 + 0.3 * x + rng.random((n, 1)) * action
    log = cr.RankingLog(
        action=action, reward=reward, propensity=np.full((n, 1), 0.5), targets={"new": target},
        context=x if context else None,
    )  # fmt: skip
    options = Options(targets=("new",), estimators=("auto", "ips"))
    metrics = fit_metrics(MemorySource(log), options, Metrics.requested(log, {}, None), {})
    table = solve(metrics, MemorySource(log).reduce(Sweep(metrics)), options)
    fits = {fit.name: fit for fit in metrics[0].fits}
    w = target[:, 0] / 0.5
    controls = np.column_stack([w - 1, (w - 1) * x[:, 0]] if context else [w - 1])
    y = w * reward[:, 0]
    away = controls - controls.mean(axis=0)
    beta = np.linalg.lstsq(away, y - y.mean(), rcond=None)[0]
    solution = table.solutions[fits["auto"]]
    assert solution.total.value == pytest.approx(y.mean() - controls.mean(axis=0) @ beta, rel=1e-9)
    left = y - y.mean() - away @ beta
    assert solution.total.stderr == pytest.approx(left.std(ddof=1) / n**0.5, rel=1e-9)
    assert solution.total.stderr < 0.7 * table.beside_others(solution).total.stderr
    regressed = away @ beta
    gap = table.distance(fits["auto"], fits["ips"])
    assert gap.stderr == pytest.approx(regressed.std(ddof=1) / n**0.5, rel=1e-9)


@pytest.mark.parametrize("K", [1, 2])
def test_lifts_over_a_target_have_the_error_of_values_without_controls(K):
    """Weights alone: the controls of two targets are chosen apart, so the error is that of their plain means.

    Of the page and of each position, row by row.
    """
    rng, n = np.random.default_rng(4), 400
    action = rng.integers(0, 2, (n, K))
    targets = {"new": np.where(action, 0.75, 0.25), "prod": np.where(action, 0.6, 0.4)}
    reward = 1.0 + rng.random((n, K)) * action
    log = cr.RankingLog(
        action=action, reward=reward, propensity=np.full((n, K), 0.5), targets=targets
    )
    options = Options(targets=("new", "prod"), estimators=("auto",), baseline="prod")
    metrics = fit_metrics(MemorySource(log), options, Metrics.requested(log, {}, None), {})
    swept = MemorySource(log).reduce(Sweep(metrics, paired=True))
    table = solve(metrics, swept, options)
    fits = {fit.target: fit for fit in metrics[0].fits if fit.name == "auto"}
    solutions = {name: table.solutions[fit] for name, fit in fits.items()}
    found = table.estimate(fits["new"]).lift
    rows = {}
    for name, solution in solutions.items():
        details = solution.details
        assert set(details["centre"]) == {"iips"} and solution.controls
        rows[name] = targets[name] / 0.5 * reward
    gap = rows["new"] - rows["prod"]
    assert found.stderr == pytest.approx(gap.sum(axis=1).std(ddof=1) / n**0.5, rel=1e-9)
    errors = [position.stderr for position in found.by_position]
    np.testing.assert_allclose(errors, gap.std(axis=0, ddof=1) / n**0.5, rtol=1e-9)
    with_controls = solutions["new"].total - solutions["prod"].total
    assert found.stderr > 1.2 * with_controls.stderr
