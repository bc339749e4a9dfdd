"""The paper's section 3 (Kiyohara et al. 2023) by enumeration: what the real estimators give on the
whole distribution against each formula written out with loops.
"""

import itertools

import numpy as np
import pytest

import counterrank as cr

K = 3


def positions_of(c, k):
    return tuple(np.flatnonzero(c[k]).tolist())


def per_row_variance(estimate, k):
    """Return n V(estimate) over the whole distribution: the log is the population, so divide by n,
    not n - 1.
    """
    return estimate.by_position[k].stderr ** 2 * (estimate.n - 1)


def all_masks_containing(c):
    """Return every mask that contains c: each free cell on or off (K = 3: at most 64)."""
    free = [cell for cell in itertools.product(range(K), repeat=2) if not c[cell]]
    for choice in itertools.product((False, True), repeat=len(free)):
        larger = c.copy()
        for cell, on in zip(free, choice, strict=True):
            larger[cell] |= on
        yield larger


def test_proposition_3_1_aips_with_observed_behaviour_is_unbiased(mixed):
    log, target, masks = mixed.log()
    estimate = cr.AIPS(behavior=masks).estimate(log, target)
    for k in range(K):
        assert estimate.by_position[k].value == pytest.approx(mixed.value(k), rel=1e-12)
    assert estimate.value == pytest.approx(sum(mixed.value(k) for k in range(K)), rel=1e-12)


def test_proposition_3_1_holds_for_weighted_positions(mixed):
    log, target, masks = mixed.log()
    alpha = np.array([1.0, 0.25, 0.0])
    estimate = cr.AIPS(behavior=masks).estimate(log.with_position_weights(alpha), target)
    assert estimate.value == pytest.approx(
        sum(alpha[k] * mixed.value(k) for k in range(K)), rel=1e-12
    )


def variance_gap(world, k, larger_of):
    """E[ w(Phi)^2 V(w(Phi^d | Phi)) E[r^2 | Phi] ]: theorem 3.2 when `larger_of` gives all ones
    (appendix A.2).
    """
    from itertools import product

    noise = 0.75

    def inner(x, c, a):
        phi, larger = positions_of(c, k), positions_of(larger_of(c), k)
        rest = tuple(sorted(set(larger) - set(phi)))
        second = first = 0.0
        for items in product(range(2), repeat=len(rest)):
            b = list(a)
            for m, item in zip(rest, items, strict=True):
                b[m] = item
            chance, ratio = world.p0(x, b, rest), world.p1(x, b, rest) / world.p0(x, b, rest)
            first += chance * ratio
            second += chance * ratio**2
        weight = world.p1(x, a, phi) / world.p0(x, a, phi)
        return weight**2 * (second - first**2) * (world.q(x, c, a, k) ** 2 + noise**2)

    return world.expectation(inner)


def test_theorem_3_2_variance_reduction_over_ips(mixed):
    log, target, masks = mixed.log()
    aips, ips = cr.AIPS(behavior=masks).estimate(log, target), cr.IPS().estimate(log, target)
    for k in range(K):
        expected = variance_gap(mixed, k, np.ones_like)
        got = per_row_variance(ips, k) - per_row_variance(aips, k)
        assert got == pytest.approx(expected, rel=1e-11)
        assert expected > 0.1  # the test would be empty if nothing were gained


def test_theorem_3_3_no_unbiased_mask_has_less_variance(world_of):
    world = world_of("N1")
    log, target, masks = world.log()
    best = cr.AIPS(behavior=masks).estimate(log, target)
    for larger in all_masks_containing(masks[0]):
        other = cr.AIPS(behavior=larger).estimate(log, target)
        for k in range(K):
            assert other.by_position[k].value == pytest.approx(world.value(k), rel=1e-12)
            gap = per_row_variance(other, k) - per_row_variance(best, k)
            expected = variance_gap(world, k, lambda c, larger=larger: larger)
            assert gap == pytest.approx(expected, rel=1e-11, abs=1e-11)
            assert expected >= 0


@pytest.mark.parametrize("truth", ["S", "C", "N1", "I", "IC"])
@pytest.mark.parametrize("assumed", ["S", "C", "N1", "I", "IC", "P1"])
def test_theorem_3_4_bias_with_a_wrong_behaviour_model(world_of, truth, assumed):
    from counterrank.estimators.behavior import mask

    world = world_of(truth, seed=3)
    wrong, true = mask(assumed, K), mask(truth, K)
    log, target, _ = world.log()
    estimate = cr.AIPS(behavior=wrong).estimate(log, target)
    everything = tuple(range(K))
    for k in range(K):
        missing = tuple(sorted(set(positions_of(true, k)) - set(positions_of(wrong, k))))

        def bias(x, c, a, k=k, missing=missing):
            delta = world.p0(x, a, missing) / world.p1(x, a, missing)
            under_target = world.p1(x, a, everything) / world.p0(x, a, everything)
            return under_target * (delta - 1.0) * world.q(x, c, a, k)

        expected = world.expectation(bias)
        assert estimate.by_position[k].value - world.value(k) == pytest.approx(
            expected, rel=1e-11, abs=1e-12
        )
        assert abs(expected) < 1e-12 if not missing else abs(expected) > 1e-4
    if (wrong | ~true).all():  # every item that matters is in the mask: no bias
        assert estimate.value == pytest.approx(sum(world.value(k) for k in range(K)), rel=1e-12)


def test_estimators_are_the_masks_they_claim_to_be(world_of):
    world = world_of("S", seed=5)
    log, target, _ = world.log()
    for estimator, name in ((cr.IPS(), "S"), (cr.RIPS(), "C"), (cr.IIPS(), "I")):
        one, other = estimator.estimate(log, target), cr.AIPS(behavior=name).estimate(log, target)
        assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr), rel=1e-13)


@pytest.mark.parametrize(
    ("truth", "unbiased"),
    [("I", {"ips", "rips", "iips"}), ("C", {"ips", "rips"}), ("S", {"ips"}), ("IC", {"ips"})],
)
def test_rips_and_iips_are_biased_exactly_when_their_assumption_fails(world_of, truth, unbiased):
    world = world_of(truth, seed=12)
    log, target, _ = world.log()
    for name, estimator in (("ips", cr.IPS()), ("rips", cr.RIPS()), ("iips", cr.IIPS())):
        found = estimator.estimate(log, target).by_position
        bias = max(abs(found[k].value - world.value(k)) for k in range(K))
        assert bias < 1e-11 if name in unbiased else bias > 0.02, (name, bias)
