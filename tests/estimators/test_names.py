"""The grammar of estimator names: what is taken apart is put together again, and says what the
estimator does.
"""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators import Form, parse, registry
from counterrank.estimators.names import PLAIN, weights_word

WEIGHTS = (*PLAIN, "order-1", "order-2", "order-12")
PREFIXES = {form: form.value for form in Form if form not in (Form.CASCADE, Form.WORD)}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("form", PREFIXES)
def test_a_name_is_its_form_and_its_weights(form, weights):
    name = parse(PREFIXES[form] + weights)
    assert (name.form, name.weights, str(name)) == (form, weights, PREFIXES[form] + weights)
    assert name.order == (int(weights[6:]) if weights.startswith("order-") else None)
    assert registry.get(str(name)).name == str(name)


def test_every_registered_name_is_made_by_itself():
    for name in registry.names():
        assert registry.get(name).name == name
        assert registry.get(f" {name.upper()} ").name == name


@pytest.mark.parametrize(
    "name", ["auto", "dm", "pi", "first-position", "snauto", "order-", "order-x", "order-٣", ""]
)
def test_words_have_no_weights_of_the_grammar(name):
    found = parse(name)
    assert found.form is Form.WORD and found.order is None


@pytest.mark.parametrize(
    "name", ["order-٣", "dr-pairs", "dr-mask", "snauto", "mips", "clip-dm", "dr-cascade-dr"]
)
def test_what_is_no_estimator_is_refused(name):
    with pytest.raises(cr.CounterrankError):
        registry.get(name)


def test_models_are_known_by_name():
    names = [
        name
        for name in registry.names()
        if parse(name).form is not Form.WORD or name in ("dm", "pi")
    ]
    using = {name for name in names if parse(name).uses_model}
    # An estimator without a model runs on a log that has the shown items' probabilities alone.
    log = cr.RankingLog(
        action=[[0, 1], [1, 0], [1, 1]], reward=np.ones((3, 2)), propensity=np.full((3, 2), 0.5)
    )
    for name in names:
        if name.endswith("aips"):
            continue  # the tree needs more rows
        if name in using:
            with pytest.raises(cr.CounterrankError, match="whole distribution"):
                registry.get(name).estimate(log, np.full((3, 2), 0.5))
        else:
            assert np.isfinite(registry.get(name).estimate(log, np.full((3, 2), 0.5)).value)


def _unbiased_under(name, K):
    """Sets of positions whose interactions with position K the estimator allows: the assumption,
    spelled out.
    """
    from itertools import combinations

    others = [
        set(c) for size in range(K) for c in combinations(range(K), size)
    ]  # as seen from the last position
    allowed = {"ips": K, "iips": 1, "rips": K}.get(parse(name).weights, parse(name).order)
    return {frozenset(c) for c in others if len(c) < allowed}


def traits(name):
    return registry.get(name).traits


def test_assuming_less_is_a_strict_order_that_follows_from_what_each_allows():
    K, names = 4, ["iips", "order-2", "order-3", "ips", "snips", "dr-order-2", "cv-iips", "order-9"]
    for one in names:
        for two in names:
            allows_more = _unbiased_under(one, K) > _unbiased_under(two, K)
            assert traits(one).assumes_less(traits(two), K) == allows_more, (one, two)
    # From the first position the cascade allows nothing, from the last everything: it contains IIPS
    # alone.
    less_than = {name for name in (*names, "rips") if traits("rips").assumes_less(traits(name), K)}
    assert less_than == {"iips", "cv-iips"}
    assert {name for name in names if traits(name).assumes_less(traits("rips"), K)} == {
        "ips",
        "snips",
        "order-9",
    }


def test_learnt_behaviour_is_judged_by_orders_above_pairs_and_ratios_judge_nothing():
    assert not traits("order-2").assumes_less(traits("aips"), 4)
    assert traits("order-3").assumes_less(traits("aips"), 4)
    alone = {name for name in registry.names() if traits(name).weighs_alone}
    assert alone == {"ips", "iips", "rips", "aips", "order-2", "order-3"}


def test_values_are_called_by_their_word():
    assert [weights_word(w) for w in (3, "aips", np.eye(2, dtype=bool))] == [
        "order-3",
        "aips",
        "mask",
    ]
