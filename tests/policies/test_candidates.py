"""Ragged candidates: the same numbers as dense policies, features beside them, and what is refused."""

import itertools

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError, PolicyError, PropensityError
from counterrank.io import concat
from counterrank.policies import (
    Candidates,
    ItemFeatures,
    Scored,
    parse_named_policy,
    parse_policy,
    policy_from_table,
)

SPECS = ["plackett-luce:temperature=0.7", "top", "softmax:temperature=2", "epsilon:epsilon=0.2", "rand-top-n:n=3",
         "swap:probability=0.3", "shuffle", "below:after=2", "0.9*top+0.1*swap:probability=0.5"]  # fmt: skip


def ragged(rng, n=30, items=12, least=4):
    lists = [rng.permutation(items)[: rng.integers(least, items + 1)].tolist() for _ in range(n)]
    return Candidates.from_lists(lists, n_items=items)


def table_of(sets, scores):
    table = np.full((sets.n, sets.n_items), -np.inf)
    table[np.repeat(np.arange(sets.n), sets.counts), sets.items] = scores
    return table


@pytest.mark.parametrize("text", SPECS)
def test_ragged_candidates_give_the_numbers_of_the_dense_policy(text):
    rng = np.random.default_rng(1)
    sets = ragged(rng)
    scores = rng.normal(size=len(sets.items))
    spec = parse_policy(text)
    over, dense = (
        spec.bind(candidates=sets, scores=scores),
        spec.bind(scores=table_of(sets, scores)),
    )
    items = over.sample(4, rng)[:, 0]
    masks = np.array(list(itertools.product((False, True), repeat=4)))
    np.testing.assert_allclose(
        over.prefix_log_prob(items), dense.prefix_log_prob(items), rtol=1e-12
    )
    found, wanted = over.subset_log_prob(items, masks), dense.subset_log_prob(items, masks)
    np.testing.assert_allclose(found.log_prob, wanted.log_prob, rtol=1e-9, atol=1e-12)
    shuffled = np.sort(items, axis=1)
    np.testing.assert_allclose(
        over.prefix_log_prob(shuffled), dense.prefix_log_prob(shuffled), rtol=1e-12
    )
    if spec.kind == "softmax":
        np.testing.assert_allclose(over.dist(), dense.dist(), rtol=1e-12)
        np.testing.assert_allclose(over.dist().sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("text", SPECS)
def test_blocks_and_rows_do_not_matter(text, monkeypatch):
    rng = np.random.default_rng(2)
    sets = ragged(rng, n=40)
    policy = parse_policy(text).bind(candidates=sets, scores=rng.normal(size=len(sets.items)))
    items = policy.sample(4, rng)[:, 0]
    whole = policy.position_log_prob(items)
    rows = np.array([7, 3, 3, 39])
    np.testing.assert_allclose(
        policy.take(rows).position_log_prob(items[rows]), whole[rows], rtol=1e-9
    )
    np.testing.assert_allclose(
        policy.take(slice(5, 20)).position_log_prob(items[5:20]), whole[5:20], rtol=1e-9
    )
    pieces = [slice(0, 1), slice(1, 25), slice(25, 40)]
    joined = Scored.concat([policy.take(piece) for piece in pieces])
    np.testing.assert_array_equal(joined.position_log_prob(items), whole)
    monkeypatch.setattr(Candidates.blocks, "__defaults__", (30,))
    np.testing.assert_allclose(policy.position_log_prob(items), whole, rtol=1e-9)


def test_blocks_cover_all_rows_once_and_stay_small():
    rng = np.random.default_rng(3)
    sets = ragged(rng, n=200)
    for cells in (1, 20, 100, 10_000):
        blocks = list(sets.blocks(cells))
        assert [block.start for block in blocks[1:]] == [block.stop for block in blocks[:-1]]
        assert blocks[0].start == 0 and blocks[-1].stop == 200
        for block in blocks:
            padded = sets.counts[block].max() * (block.stop - block.start)
            assert padded <= cells or block.stop - block.start == 1


def test_locate_agrees_with_a_naive_twin():
    rng = np.random.default_rng(4)
    sets = ragged(rng)
    for asked in (3, 65):
        items = rng.integers(-1, 14, size=(sets.n, asked))
        found = sets.locate(items)
        for i in range(sets.n):
            row = sets.items[sets.offsets[i] : sets.offsets[i + 1]].tolist()
            twin = [-1 if a < 0 else row.index(a) if a in row else -2 for a in items[i]]
            assert found[i].tolist() == twin
    np.testing.assert_array_equal(
        sets.locate(items.reshape(sets.n, 5, -1)).reshape(sets.n, -1), sets.locate(items)
    )


def test_short_lists_give_padded_draws_and_items_outside_are_impossible():
    sets = Candidates.from_lists([[4, 1], [0, 1, 2, 3]])
    policy = parse_policy("plackett-luce").bind(candidates=sets, scores=np.zeros(6))
    drawn = policy.sample(3, np.random.default_rng(0), size=50)
    assert (drawn[0, :, 2] == -1).all() and set(drawn[0, :, 0]) == {1, 4}
    found = policy.prefix_log_prob(np.array([[4, 0, -1], [3, 0, 4]]))
    np.testing.assert_allclose(np.exp(found), [[0.5, 0, 0], [0.25, 1 / 12, 0]])


def log_of(rng, n=60, **options):
    sets = ragged(rng, n=n, least=6)
    scores = [rng.normal(size=len(sets.items)) for _ in range(2)]
    logger = parse_policy("plackett-luce").bind(candidates=sets, scores=scores[0])
    target = parse_policy("plackett-luce:temperature=0.5").bind(candidates=sets, scores=scores[1])
    action = logger.sample(3, rng)[:, 0]
    reward = rng.random((n, 3))
    return cr.RankingLog(
        action=action,
        reward=reward,
        propensity=logger,
        targets={"new": target},
        candidates=sets,
        **options,
    ), scores


def test_a_log_over_candidates_estimates_like_one_over_all_items():
    rng = np.random.default_rng(5)
    log, scores = log_of(rng)
    tables = [table_of(log.candidates, s) for s in scores]
    dense = cr.RankingLog(
        action=log.action, reward=log.reward, propensity=cr.PlackettLuce(tables[0])
    )
    for estimator in (cr.IPS(), cr.RIPS(), cr.IIPS()):
        wanted = estimator.estimate(dense, cr.PlackettLuce(tables[1], 0.5))
        assert estimator.estimate(log, "new").value == pytest.approx(wanted.value, rel=1e-9)


def test_parts_of_a_log_share_the_candidates_that_were_cut():
    rng = np.random.default_rng(6)
    log, _ = log_of(rng)
    for part in (log.take(slice(10, 30)), log.where(np.arange(60) % 2), *log.chunks(25)):
        assert part.propensity.candidates is part.candidates is part.targets["new"].candidates
        assert part.candidates.n == part.n
        np.testing.assert_array_equal(part.shown >= 0, part.action >= 0)
    again = concat(list(log.chunks(25)))
    np.testing.assert_array_equal(again.candidates.items, log.candidates.items)
    np.testing.assert_array_equal(again.propensity.scores, log.propensity.scores)
    assert again.propensity.candidates is again.candidates
    assert log.n_actions == 12


def test_features_follow_items_into_draws():
    sets = Candidates.from_lists(
        [[3, 1], [0, 2, 1]],
        {"z_price": [[3.5, 1.5], [0.5, np.nan, 1.25]], "z_brand": [[0, -1], [1, 1, 0]]},
        categories={"z_brand": ("acme", "bolt")},
    )
    by_item = ItemFeatures([[10.0], [11.0], [np.nan], [13.0]], ("age",))
    log = cr.RankingLog(
        action=[[1, 3], [2, -1]], reward=np.zeros((2, 2)), propensity=np.ones((2, 2)),
        candidates=sets, item_features=by_item,
    )  # fmt: skip
    assert log.item_feature_names == ("z_price", "z_brand", "age")
    assert log.categories_of_items == {"z_brand": ("acme", "bolt")}
    nan = np.nan
    wanted = [[[1.5, nan, 11], [3.5, 0, 13]], [[nan, 1, nan], [nan, nan, nan]]]
    np.testing.assert_array_equal(log.features_of(log.action), wanted)
    draws = np.array([[[3, 1], [1, 0]], [[0, 1], [2, 0]]])
    found = log.features_of(draws)
    assert found.shape == (2, 2, 2, 3)
    np.testing.assert_array_equal(found[0, 1, 1], [nan, nan, 10])  # item 0 is no candidate of row 0
    part = log.take(np.array([1]))
    np.testing.assert_array_equal(part.features_of(part.action), log.features_of(log.action)[1:])


def test_a_shown_item_that_is_no_candidate_is_refused_when_weights_are_made():
    rng = np.random.default_rng(7)
    log, _ = log_of(rng)
    action = log.action.copy()
    row = int(np.argmax(log.candidates.counts < 12))
    absent = np.setdiff1d(
        np.arange(12), log.candidates.items[slice(*log.candidates.offsets[[row, row + 1]])]
    )[0]
    action[row, 1] = absent
    bad = cr.RankingLog(action=action, reward=log.reward, propensity=log.propensity, targets=log.targets,
                        candidates=log.candidates)  # fmt: skip
    assert bad.shown[row, 1] == -2
    with pytest.raises(
        PropensityError, match=f"row {row}, position 2: item {absent} was shown but is not among"
    ):
        cr.IPS().estimate(bad, "new")
    scores = np.zeros((1, 3))
    scores[0, 2] = -np.inf
    never = cr.RankingLog(action=[[0, 2]], reward=[[1, 1]], propensity=cr.PlackettLuce(scores),
                          targets={"new": cr.UniformPermutation(3)})  # fmt: skip
    with pytest.raises(PropensityError, match="row 0, position 2: the logging policy never shows"):
        cr.IPS().estimate(never, "new")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1, 2], []], "row 1 has no candidate"),
        ([[1, 2], [3, 4, 3]], "row 1: item 3 is listed twice"),
        ([[1, 2], [3, -1]], "row 1, candidate 2: -1 is no item"),
    ],
)
def test_bad_candidates_are_named(lists, message):
    with pytest.raises(PolicyError, match=message):
        Candidates.from_lists(lists)


def test_bad_features_and_rows_are_named():
    with pytest.raises(PolicyError, match="row 1: 'z_a' has 1 values for 2 candidates"):
        Candidates.from_lists([[1], [2, 3]], {"z_a": [[0.5], [0.5]]})
    with pytest.raises(PolicyError, match="row 1: feature 'z_a' is infinite"):
        Candidates.from_lists([[1], [2, 3]], {"z_a": [[0.5], [0.5, np.inf]]})
    with pytest.raises(PolicyError, match="holds <U1 values"):
        Candidates.from_lists([[1]], {"z_a": [["b"]]})
    with pytest.raises(PolicyError, match="offsets must run from 0"):
        Candidates(np.array([0, 3]), np.array([1, 2]))
    with pytest.raises(PolicyError, match="flat array of integer ids"):
        Candidates(np.array([0, 2]), np.array([1.0, 2.0]))
    with pytest.raises(LogError, match="candidates have 1 rows, the log has 2"):
        cr.RankingLog(
            action=[[0], [1]], reward=[[0], [1]], propensity=[[1], [1]], candidates=[[0, 1]]
        )
    with pytest.raises(PolicyError, match="2 columns but 1 names"):
        ItemFeatures([[1.0, 2.0]], ("a",))
    with pytest.raises(PolicyError, match="item 1: feature 'a' is infinite"):
        ItemFeatures([[1.0], [np.inf]], ("a",))
    with pytest.raises(PolicyError, match=r"must be \(A, d\)"):
        ItemFeatures([1.0], ("a",))
    with pytest.raises(PolicyError, match="must be numbers"):
        ItemFeatures([["x"]], ("a",))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.0, 1.0], "'old' has 2 values for 5 candidates"),
        ([0.0, 1.0, np.nan, 0.0, 0.0], "row 1: 'old' is nan for item 7"),
        ([0.0, 1.0, 0.0, np.inf, 0.0], "row 1: 'old' is inf for item 2"),
        ([0.0, 1.0, -np.inf, -np.inf, -np.inf], "row 1: every 'old' is -inf"),
    ],
)
def test_bad_scores_are_named(scores, message):
    sets = Candidates.from_lists([[1, 2], [7, 2, 3]])
    with pytest.raises(PolicyError, match=message):
        parse_policy("top").bind(candidates=sets, scores=scores, name="old")


@pytest.mark.parametrize("text", ["swap:probability=0.3", "0.6*top+0.4*swap:probability=1,first=2"])
def test_a_swap_exchanges_the_places_that_a_short_page_has(text):
    """Each row has the probabilities of a page of its own length; draws follow them."""
    lists, scores = [[1, 2, 3], [7, 2], [5], [4, 6, 0]], [3.0, 2, 1, 1, 2, 0, 5, 4, -np.inf]
    spec = parse_policy(text)
    policy = spec.bind(candidates=Candidates.from_lists(lists), scores=scores)
    pages = policy.sample(3, np.random.default_rng(0), size=4000)
    start = 0
    for row, items in enumerate(lists):
        known = [score for score in scores[start : start + len(items)] if score > -np.inf]
        start, size = start + len(items), len(known)
        orders = np.array(list(itertools.permutations(range(size))))
        # A swap below the first place needs a third.
        alone = parse_policy("top") if size <= (2 if "first" in text else 1) else spec
        expected = np.exp(alone.dense(np.array([known]), size).prefix_log_prob(orders)[:, -1])
        assert expected.sum() == pytest.approx(1)
        shown = np.full((len(orders), 3), -1)
        shown[:, :size] = np.array(items)[orders]
        every = policy.take(np.full(len(orders), row))
        found = np.exp(every.prefix_log_prob(shown)[:, -1])
        np.testing.assert_allclose(found, expected, atol=1e-12)
        # 4000 draws, 4.5 standard errors: a false alarm in 150,000.
        drawn = (pages[row][:, None] == shown).all(axis=2).mean(axis=0)
        assert np.abs(drawn - expected).max() < 4.5 * 0.5 / 4000**0.5


@pytest.mark.parametrize(
    "text", [*SPECS, "swap:probability=0.3,places=4", "new/policy.json", "p.npz"]
)
def test_specs_round_trip(text):
    spec = parse_policy(text)
    assert parse_policy(spec.text) == spec
    assert parse_named_policy(f"new={text}") == ("new", spec)
    assert spec.needs_scores == (spec.path is None)
    if spec.path is None and not spec.parts:
        assert policy_from_table({"kind": spec.kind, **spec.options}, "[logger]") == spec
    assert policy_from_table({"kind": text}, "[logger]") == spec


def test_which_specs_are_deterministic():
    certain = [
        parse_policy(text).deterministic
        for text in (*SPECS, "epsilon:epsilon=0", "swap:probability=0")
    ]
    assert certain == [name == "top" for name in SPECS] + [True, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best", "unknown kind 'best'; known: plackett-luce, top"),
        ("top:n=3", "'top' has no option 'n'; it takes none"),
        ("plackett-luce:t=3", "'plackett-luce' has no option 't'; it takes temperature"),
        ("plackett-luce:temperature=0", "temperature must be a positive number, got '0'"),
        ("plackett-luce:temperature=nan", "temperature must be a positive number, got 'nan'"),
        ("softmax:temperature=inf", "temperature must be a positive number"),
        ("epsilon", "'epsilon' needs epsilon .a probability, 0 to 1.; write epsilon:epsilon=0.5"),
        ("epsilon:epsilon=1.5", "epsilon must be a probability, 0 to 1, got '1.5'"),
        ("rand-top-n:n=2.5", "n must be a whole number from 1, got '2.5'"),
        ("swap:probability=0.1,places=1", "places must be a whole number from 2"),
        ("epsilon:epsilon", "'epsilon' is not option=value"),
        ("epsilon:epsilon=0.1,epsilon=0.2", "option 'epsilon' is given twice"),
        ("", "unknown kind ''"),
    ],
)
def test_bad_specs_are_explained(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_policy(text)


def test_bad_names_and_tables_are_explained():
    for text in ("top", "=top", "new=", "epsilon:epsilon=0.1"):
        with pytest.raises(ConfigError, match="names no policy; write NAME=KIND"):
            parse_named_policy(text)
    with pytest.raises(ConfigError, match=r"\[logger\] needs kind"):
        policy_from_table({"temperature": 1}, "[logger]")
    with pytest.raises(ConfigError, match="a policy file takes no options"):
        policy_from_table({"kind": "p.json", "temperature": 1}, "[logger]")
    with pytest.raises(
        ConfigError, match=r"\[policies.new\]: n must be a whole number from 1, got 'True'"
    ):
        policy_from_table({"kind": "rand-top-n", "n": True}, "[policies.new]")
    with pytest.raises(PolicyError, match="is a policy file"):
        parse_policy("p.json").bind(scores=np.zeros((1, 2)))
    with pytest.raises(PolicyError, match=r"'scores' must be \(n, A\)"):
        parse_policy("top").bind(scores=np.zeros(2))
