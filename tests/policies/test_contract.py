"""Every policy against the list of all its rankings: all masks, prefixes, positions, draws, rows,
storage.
"""

import numpy as np
import pytest

from counterrank import policies as cp
from counterrank.common.errors import PolicyError

ROWS, ITEMS, PLACES = 3, 5, 4


def rankings_of(case, rng, draws=4):
    """Rankings to ask about: drawn ones, so that most have mass, and random ones, many without."""
    drawn = case.policy.sample(PLACES, rng, size=draws)
    drawn = np.broadcast_to(drawn, (ROWS, draws, PLACES)).transpose(1, 0, 2)
    random = np.array(
        [[rng.permutation(ITEMS)[:PLACES] for _ in range(ROWS)] for _ in range(draws)]
    )
    return np.concatenate([drawn, random])


def close(case, result, truth):
    """Exact methods to 1e-12 of the probability; sampled ones within 6 of their own errors.

    Each sampled case compares about 400 values; normal errors would exceed 6 once in 1e6 runs of
    it. The relative error itself is estimated, hence the allowance of 1e-9 and a factor on top.
    """
    found = np.exp(result.log_prob)
    error = np.sqrt(result.rel_var)
    assert (np.abs(found - truth) <= 1e-12 * truth + 6 * error * truth * (1 + 3 * error)).all()
    if not case.sampled:
        assert (result.rel_var == 0).all()


@pytest.mark.slow
def test_all_masks_prefixes_and_positions_agree_with_enumeration(case, all_masks, twin):
    rng = np.random.default_rng(7)
    masks = all_masks(PLACES)
    for items in rankings_of(case, rng, draws=2):
        truth = np.array(
            [[twin(case.tables[i], items[i], mask) for mask in masks] for i in range(ROWS)]
        )
        close(case, case.policy.subset_log_prob(items, masks), truth)
        per_row = np.stack([rng.permutation(len(masks))[:7] for _ in range(ROWS)])
        close(
            case,
            case.policy.subset_log_prob(items, masks[per_row]),
            np.take_along_axis(truth, per_row, axis=1),
        )
        prefix = [
            [twin(case.tables[i], items[i], np.arange(PLACES) <= k) for k in range(PLACES)]
            for i in range(ROWS)
        ]
        np.testing.assert_allclose(
            np.exp(case.policy.prefix_log_prob(items)), prefix, rtol=1e-12, atol=0
        )
        if not case.sampled:
            single = [
                [twin(case.tables[i], items[i], np.arange(PLACES) == k) for k in range(PLACES)]
                for i in range(ROWS)
            ]
            np.testing.assert_allclose(
                np.exp(case.policy.position_log_prob(items)), single, rtol=1e-9, atol=0
            )


def test_probabilities_of_all_rankings_sum_to_one(case):
    every = list(case.tables[0])
    for i in range(ROWS):
        every += [r for r in case.tables[i] if r not in case.tables[0]]
    every = np.array(list(dict.fromkeys(every)))
    for i in range(ROWS):
        row = case.policy.take(np.array([i]))
        total = np.exp(row.prefix_log_prob(every)[:, -1]).sum()
        assert total == pytest.approx(1, abs=1e-12)


def test_draws_have_the_stated_probabilities(case):
    """Chi-square of 4000 draws per row, seeded; false alarms 1e-6 per row if the seed were free."""
    from scipy.stats import chi2

    size = 500 if case.name == "autoregressive-sampled" else 4000
    drawn = case.policy.sample(PLACES, np.random.default_rng(11), size=size)
    drawn = np.broadcast_to(drawn, (ROWS, size, PLACES))
    for i in range(ROWS):
        table = case.tables[i]
        seen = dict.fromkeys(table, 0)
        for ranking in map(tuple, drawn[i].tolist()):
            assert ranking in seen
            seen[ranking] += 1
        expected = np.array(list(table.values())) * size
        observed = np.array(list(seen.values()))
        rare = expected < 5
        if rare.any():
            expected = np.append(expected[~rare], expected[rare].sum())
            observed = np.append(observed[~rare], observed[rare].sum())
        keep = expected > 0
        statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
        if keep.sum() > 1:
            assert statistic < chi2.ppf(1 - 1e-6, keep.sum() - 1)


def test_take_follows_rows(case):
    items = rankings_of(case, np.random.default_rng(3), draws=1)[0]
    rows = np.array([2, 0])
    part = case.policy.take(rows)
    np.testing.assert_array_equal(
        part.prefix_log_prob(items[rows]), case.policy.prefix_log_prob(items)[rows]
    )
    masks = np.eye(PLACES, dtype=bool)
    whole = case.policy.subset_log_prob(items, masks)
    np.testing.assert_array_equal(
        part.subset_log_prob(items[rows], masks).log_prob, whole.log_prob[rows]
    )
    sliced = case.policy.take(slice(1, 3))
    np.testing.assert_array_equal(
        sliced.prefix_log_prob(items[1:]), case.policy.prefix_log_prob(items)[1:]
    )


def test_padding_counts_for_nothing(case, all_masks):
    items = rankings_of(case, np.random.default_rng(5), draws=1)[0]
    short = items.copy()
    short[:, 2:] = -1
    masks = all_masks(PLACES)
    cut = masks & (np.arange(PLACES) < 2)
    found = case.policy.subset_log_prob(short, masks)
    if not case.sampled:
        np.testing.assert_allclose(
            found.log_prob, case.policy.subset_log_prob(items, cut).log_prob, rtol=1e-12
        )
    prefix = case.policy.prefix_log_prob(short)
    np.testing.assert_array_equal(prefix[:, 2], prefix[:, 1])
    np.testing.assert_allclose(case.policy.position_log_prob(short)[:, 2:], 0, atol=1e-15)


def test_stored_and_loaded_is_the_same(case, tmp_path):
    path = tmp_path / "policy.npz"
    if not case.storable:
        with pytest.raises(PolicyError, match="cannot be stored"):
            cp.save_policy(case.policy, path)
        assert not path.exists()
        return
    cp.save_policy(case.policy, path)
    loaded = cp.load_policy(path)
    assert type(loaded) is type(case.policy)
    items = rankings_of(case, np.random.default_rng(9), draws=1)[0]
    masks = np.eye(PLACES, dtype=bool)
    before, after = case.policy.subset_log_prob(items, masks), loaded.subset_log_prob(items, masks)
    np.testing.assert_array_equal(before.log_prob, after.log_prob)
    np.testing.assert_array_equal(before.rel_var, after.rel_var)


def test_capabilities_are_met(case):
    assert ("dist" in case.policy.capabilities) == case.policy.factored
    if case.policy.factored:
        np.testing.assert_allclose(case.policy.dist().sum(axis=-1), 1, rtol=1e-12)
    else:
        with pytest.raises(PolicyError, match="no per-position distribution"):
            case.policy.dist()


def test_actions_that_do_not_fit_are_named(case):
    items = np.tile(np.arange(PLACES), (ROWS, 1))
    items[1, 2] = ITEMS
    with pytest.raises(PolicyError, match="row 1, position 3: action 5"):
        case.policy.prefix_log_prob(items)
    with pytest.raises(PolicyError, match="masks must be"):
        case.policy.subset_log_prob(np.tile(np.arange(PLACES), (ROWS, 1)), np.ones((2, PLACES)))


def test_a_policy_prints_as_its_kind_and_size(case):
    assert (
        repr(case.policy)
        == f"{type(case.policy).__name__}(rows={case.policy.n_rows}, actions={ITEMS})"
    )
