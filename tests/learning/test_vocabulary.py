"""A learned policy on another log: categories and items by name, and what does not match is
refused.
"""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
from tests.learning.conftest import EXAMINED, RELEVANCE, learn

import counterrank as cr
from counterrank.common.errors import PolicyError
from counterrank.learning import LearnedPolicy

LABELS = ("desk", "phone", "tablet")


def log_of(seed: int, *, labels=LABELS, items=None, n=900, **more) -> cr.RankingLog:
    """Clicks that depend on the device by name: on phones the catalogue counts backwards."""
    rng = np.random.default_rng(seed)
    device = rng.integers(0, len(labels), n)
    phone = np.array([label == "phone" for label in labels])[device]
    policy = cr.PlackettLuce(np.zeros((n, 6)))
    action = policy.sample(3, rng)[:, 0]
    worth = np.where(phone[:, None], RELEVANCE[::-1][action], RELEVANCE[action]) * EXAMINED
    given = {} if items is None else {"action_names": items}
    return cr.RankingLog(
        action=action,
        reward=(rng.random(action.shape) < worth).astype(float),
        propensity=policy,
        context=device[:, None].astype(float),
        context_names=("device",),
        categories={"device": tuple(labels)},
        **given,
        **more,
    )


@pytest.fixture(scope="module")
def policy() -> LearnedPolicy:
    return learn(log_of(1), despite_audit=True).policy


def test_categories_are_compared_by_name(policy):
    """The same rows under another numbering of labels: the same scores."""
    log = log_of(2)
    turned = log.take(slice(0, log.n))
    names = ("watch", *(LABELS[j] for j in (1, 2, 0)))
    codes = np.array([names.index(label) for label in LABELS])[log.context[:, 0].astype(int)]
    object.__setattr__(turned, "context", codes[:, None].astype(float))
    object.__setattr__(turned, "categories", {"device": names})
    one, two = (replace(policy, kind="plackett-luce").bind(part) for part in (log, turned))
    np.testing.assert_array_equal(one.scores, two.scores)
    one, two = (
        replace(policy, kind="top").bind(part).sample(3, np.random.default_rng(0))
        for part in (log, turned)
    )
    np.testing.assert_array_equal(one, two)
    one, two = (policy.bind(part).joint_weight(part.action) for part in (log, turned))
    np.testing.assert_array_equal(one, two)


def test_a_label_that_was_never_seen_counts_as_missing(policy):
    scores = policy.scores([["watch"], ["phone"], [None]], [[0, 1, 2]] * 3)
    np.testing.assert_array_equal(scores[0], scores[2])
    by_code = policy.scores([[float(LABELS.index("phone"))]], [[0, 1, 2]])
    np.testing.assert_array_equal(scores[1], by_code[0])
    with pytest.raises(PolicyError, match="no label that the policy was learned with"):
        policy.bind(log_of(3, labels=("watch", "car")))


def test_a_category_is_no_number(policy):
    log = log_of(4)
    object.__setattr__(log, "categories", {})
    with pytest.raises(PolicyError, match="categories in 'device'"):
        policy.bind(log)


NAMES = ("ant", "bee", "cat", "dog", "eel", "fox")


def test_items_are_compared_by_name():
    """Learned on names; on another log the same items have other numbers, or ids in place of names."""
    named = learn(log_of(1, items=NAMES), despite_audit=True).policy
    log = log_of(5, items=NAMES)
    turned = log_of(5, items=NAMES)
    object.__setattr__(turned, "action_names", NAMES[::-1])
    plain = replace(named, kind="plackett-luce")
    np.testing.assert_array_equal(plain.bind(log).scores, plain.bind(turned).scores[:, ::-1])
    with pytest.raises(PolicyError, match="none of this log's items"):
        named.bind(log_of(5))
    with pytest.raises(PolicyError, match="by names"):
        named.scores([["phone"]], [[0, 1, 2]])


def test_a_policy_of_numbers_knows_no_names(policy):
    with pytest.raises(PolicyError, match="none of this log's items"):
        policy.bind(log_of(6, items=NAMES))
    with pytest.raises(PolicyError, match="by numbers"):
        policy.scores([["phone"]], [["ant", "bee"]])
    # Numbers written as text are the same items.
    text = log_of(6, items=tuple(str(i) for i in (3, 4, 5, 0, 1, 2)))
    plain = replace(policy, kind="plackett-luce")
    np.testing.assert_array_equal(
        plain.bind(text).scores, plain.bind(log_of(6)).scores[:, [3, 4, 5, 0, 1, 2]]
    )


def test_pages_longer_than_it_was_learned_on_are_refused(policy):
    rng = np.random.default_rng(0)
    longer = cr.PlackettLuce(np.zeros((50, 6)))
    log = cr.RankingLog(
        action=longer.sample(4, rng)[:, 0],
        reward=np.zeros((50, 4)),
        propensity=longer,
        context=np.zeros((50, 1)),
        context_names=("device",),
        categories={"device": LABELS},
    )
    with pytest.raises(PolicyError, match="pages of 3 positions, and this log has 4"):
        policy.bind(log)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 1e30}, "m is a whole number"),
        ({"m": 10**400}, "m is a whole number"),
        ({"m": True}, "m is a whole number"),
        ({"position_weights": [1.0]}, "one position weight"),
        ({"position_weights": [1.0, float("nan"), 1.0]}, "one position weight"),
        ({"temperature": float("inf")}, "temperature"),
        ({"items": []}, "items are"),
        ({"items": [1, 2, 3, 4, 5, 6]}, "items are"),
        ({"items": ["a", "a"]}, "items are"),
        ({"context": {"names": ["device"], "categories": {}}}, "do not match their names"),
    ],
)
def test_a_damaged_policy_file_is_refused(policy, change, message):
    data = json.loads(json.dumps({**policy.to_dict(), **change}))
    with pytest.raises(PolicyError, match=message):
        LearnedPolicy.from_dict(data)


def entries(data, path=()):
    """Paths to all values of JSON data; of a list, to itself and one entry."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from entries(value, (*path, key))
        return
    yield path
    if isinstance(data, list) and data:
        yield from entries(data[len(data) // 2], (*path, len(data) // 2))


def test_a_policy_file_changed_anywhere_is_refused_or_serves(policy):
    """Every value replaced by nine others: a PolicyError, or a policy that draws pages."""
    log = log_of(7, n=12)
    whole = policy.to_dict()
    for path in entries(whole):
        for value in (None, -1, 2, 1e30, "x", [], {}, [1.0, 2.0], 10**400):
            data = copy.deepcopy(whole)
            at = data
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            try:
                LearnedPolicy.from_dict(data).bind(log).sample(3, np.random.default_rng(0))
            except PolicyError:
                continue


def test_its_name_is_short(policy):
    assert repr(policy) == f"LearnedPolicy('best-of', m={policy.m}, items=6, context=['device'])"
