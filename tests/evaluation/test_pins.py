"""Adjustments that nobody sees unless they are gone: Holm in agreement and comparisons, units in
auto.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.evaluation.logs import gentle_log

import counterrank as cr
from counterrank.evaluation import comparisons
from counterrank.evaluation.comparisons import Rival
from counterrank.evaluation.verdict import TargetEvidence, reasons
from counterrank.statistics import bias_aware_half, critical_value, holm, two_sided


def agreement(estimate, rivals):
    rows = reasons(
        TargetEvidence(estimate, 1.0, 6000, 6000.0, moments=estimate.moments, rivals=rivals)
    )
    return next(row["status"] for row in rows if row["check"] == "agreement")


def test_agreement_is_adjusted_for_the_number_of_rivals(gentle):
    """One rival at p = 0.006 contradicts at 1 %; the same among three is a doubt (Holm: 0.018)."""
    found = cr.evaluate(gentle, estimators=["iips"], audit=False).estimate()
    half = (found.high - found.low) / 2
    far = Rival("ips", 2 * half, 2 * half / 2.748, usable=True)
    near = [Rival(name, 0.0, half, usable=True) for name in ("order-2", "order-3")]
    assert two_sided(far.difference, far.stderr) == pytest.approx(0.006, abs=2e-4)
    assert agreement(found, [far]) == "fail"
    assert agreement(found, [far, *near]) == "warn"


def test_a_rival_without_error_contradicts_nothing(gentle):
    found = cr.evaluate(gentle, estimators=["iips"], audit=False).estimate()
    assert agreement(found, [Rival("ips", -0.01466, 0.0, usable=True)]) == "pass"


def test_what_the_interval_allows_for_is_no_contradiction(gentle):
    """Beyond the allowance B: (d - B) / se = 2.748 is p = 0.006, and its distance counts in
    half-widths less B.
    """
    found = cr.evaluate(gentle, estimators=["iips"], audit=False).estimate()
    half = (found.high - found.low) / 2
    B = 0.5 * half
    allowing = replace(found, allowance=B)

    def rival(beyond, sign=1):
        return [Rival("ips", sign * (B + beyond), beyond / 2.748, usable=True)]

    for sign in (1, -1):
        assert agreement(found, rival(0.4 * half, sign)) == "warn"
        assert agreement(allowing, rival(0.24 * half, sign)) == "pass"
        assert agreement(allowing, rival(0.26 * half, sign)) == "warn"
        assert agreement(allowing, rival(0.49 * half, sign)) == "warn"
        assert agreement(allowing, rival(0.51 * half, sign)) == "fail"
        within = Rival("ips", sign * 0.99 * B, 1e-3 * B, usable=True)
        assert agreement(allowing, [within]) == "pass" and agreement(found, [within]) == "pass"
        over = Rival("ips", sign * 1.2 * B, 1e-3 * B, usable=True)
        assert agreement(allowing, [over]) == "pass" and agreement(found, [over]) == "warn"


def test_an_allowance_stands_in_for_rivals_that_cannot_be_asked(gentle):
    found = cr.evaluate(gentle, estimators=["iips"], audit=False).estimate()
    hidden = [Rival("ips", 9.0, 0.1, usable=False)]
    for rivals in ([], hidden):
        assert agreement(found, rivals) == "warn"
        assert agreement(replace(found, allowance=1e-3), rivals) == "pass"


@pytest.mark.parametrize("shape, asked", [(0.69, True), (0.71, False), (0.99, False)])
def test_rivals_with_heavy_tails_are_not_asked(gentle, monkeypatch, shape, asked):
    found = cr.evaluate(gentle, estimators=["ips"], audit=False).estimate()
    monkeypatch.setattr(comparisons, "tail_index", lambda moments: shape)
    assert comparisons.usable(found) is asked


def test_comparisons_are_adjusted_for_the_number_of_pairs(gentle):
    own = gentle.targets["new"].values
    targets = {"a": own, "b": gentle.propensity, "c": (own + gentle.propensity.values) / 2}
    result = cr.evaluate(gentle, targets, estimators=["iips"], audit=False)
    rows = result.comparisons
    raw = [two_sided(row["value"], row["stderr"]) for row in rows]
    np.testing.assert_allclose([row["p_value"] for row in rows], holm(raw), rtol=1e-12)
    assert min(row["p_value"] for row in rows) == pytest.approx(3 * min(raw), rel=1e-9)
    half = critical_value(1 - 0.05 / 3, gentle.n - 1) * rows[0]["stderr"]
    assert rows[0]["high"] - rows[0]["value"] == pytest.approx(half, rel=1e-9)


def repeated(n, times):
    """Every row `times` times, all of one unit: no more is known than from the rows once."""
    once = gentle_log(n, unit=np.arange(n))
    rows = np.repeat(np.arange(n), times)
    many = cr.RankingLog(
        action=once.action[rows], reward=once.reward[rows], propensity=once.propensity.values[rows], unit=rows,
        context=once.context[rows], dists={name: table[rows] for name, table in once.dists.items()},
        targets={"new": cr.Propensity("factored", once.targets["new"].values[rows])},
    )  # fmt: skip
    return once, many


@pytest.mark.parametrize("name", ["auto", "iips", "order-2", "snips"])
def test_repeated_rows_of_one_unit_are_no_news(name):
    """Ignoring units would halve the error of the value and of the lift."""
    once, many = (
        cr.evaluate(log, estimators=[name], audit=False).estimate() for log in repeated(900, 4)
    )
    assert many.stderr == pytest.approx(once.stderr, rel=0.2)
    if name == "auto":
        # Models fitted on four copies of a row are held back less, so that they vary more between
        # folds: the error of a lift that rests on them may grow, never shrink.
        assert many.lift.stderr > 0.8 * once.lift.stderr
    else:
        assert many.lift.stderr == pytest.approx(once.lift.stderr, rel=0.2)


@pytest.mark.parametrize("name", ["auto", "iips"])
def test_six_units_have_five_degrees_of_freedom(name):
    log = gentle_log(1200, unit=np.arange(1200) % 6)
    found = cr.evaluate(log, estimators=[name], audit=False).estimate()
    assert found.high - found.low >= 2 * 0.999 * critical_value(0.95, df=5) * found.stderr
    assert (
        found.lift.high - found.lift.low
        >= 2 * 0.999 * critical_value(0.95, df=5) * found.lift.stderr
    )


def test_comparisons_take_the_allowance_off_before_testing(gentle):
    """Two estimates that allow for bias: their difference must exceed both allowances to be
    significant.
    """
    own = gentle.targets["new"].values
    result = cr.evaluate(
        gentle, {"a": own, "b": gentle.propensity}, estimators=["auto"], audit=False
    )
    row, allowed = result.comparisons[0], sum(result.estimate(t).allowance for t in ("a", "b"))
    assert row["bias_allowance"] == pytest.approx(allowed)
    # What is tested is the centre of the interval, not the shrunk value.
    beyond = max(abs(row["high"] + row["low"]) / 2 - allowed, 0.0)
    assert row["p_value"] == pytest.approx(two_sided(beyond, row["stderr"]))
    half = bias_aware_half(row["stderr"], allowed, 0.95, gentle.n - 1)
    assert (row["high"] - row["low"]) / 2 == pytest.approx(half, rel=1e-9)
