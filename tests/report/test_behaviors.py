"""The behaviour tree in words and matrices."""

from typing import Any

from tests.report import sample

from counterrank.behavior import Condition, ForestDescription
from counterrank.report import behavior


def test_positions_with_the_same_rules_share_their_groups() -> None:
    found = behavior.groups(ForestDescription.from_dict(sample.behavior()))
    assert [(g.rule, g.positions) for g in found] == [
        ("everyone", (1,)), ("device is mobile", (2, 3, 4, 5, 6)), ("device is not "
                                                                    "mobile", (2, 3, 4, 5, 6)),
    ]  # fmt: skip
    phones = found[1]
    assert phones.mask[0] is None and phones.mask[2] == (1, 1, 1, 0, 0, 0)
    assert phones.share == 0.6 and phones.models == ("C",)


def test_one_model_for_all_positions_is_one_matrix() -> None:
    mask = [[1, 0], [1, 1]]
    leaf = sample.leaf([], 1.0, "C", mask)
    found = behavior.groups(
        ForestDescription.from_dict({"positions": [{"position": None, "groups": [leaf]}]})
    )
    assert [(g.mask, g.positions) for g in found] == [(((1, 0), (1, 1)), ())]


def test_nothing_is_no_group() -> None:
    assert behavior.by_target(None) == [] and behavior.groups(ForestDescription()) == []


def one_group(name: str) -> dict[str, Any]:
    """Everyone behaves alike, by a model of this name."""
    leaf = sample.leaf([], 1.0, name, [[1, 1], [1, 1]])
    return {"positions": [{"position": None, "groups": [leaf]}]}


def body_of(described: dict[str, Any], targets: list[str]) -> str:
    estimates = [sample.estimate(target, "aips", 1.0, 0.1) for target in targets]
    changed = {
        "estimates": estimates,
        "behavior": described,
        "recommended": dict.fromkeys(targets, "aips"),
    }
    found = behavior.behavior(sample.reading({**sample.model(), **changed}))
    assert found is not None
    return str(found.body)


def test_every_target_has_its_trees_under_its_name() -> None:
    described = {
        **one_group("S"),
        "target": "old",
        "others": {"new": {**one_group("C"), "target": "new"}, "plain": {"target": "plain"}},
    }
    body = body_of(described, ["old", "new", "plain"])
    before, first, second = body.split('<h3 class="of-target">')
    assert before == ""
    assert " old</span>" in first and "every item matters" in first and 'class="group t0"' in first
    assert (
        " new</span>" in second
        and "the items above matter" in second
        and 'class="group t1"' in second
    )
    assert "every item matters" not in second and " plain</span>" not in body
    assert first.count("<details") == second.count("<details") == 1


def test_the_only_target_needs_no_heading() -> None:
    body = body_of({**one_group("S"), "target": "old", "others": {}}, ["old"])
    assert "of-target" not in body and "every item matters" in body


def test_many_targets_share_the_room_for_cards() -> None:
    leaves = [
        sample.leaf([Condition("x_hour", "range", high=float(hour))], 0.1, "S", [[1]])
        for hour in range(10)
    ]
    many = {"positions": [{"position": None, "groups": leaves}]}
    described = {
        **many,
        "target": "a",
        "others": {name: {**many, "target": name} for name in "bcde"},
    }
    assert body_of({**many, "target": "a"}, ["a"]).count('class="group t') == 10
    assert body_of(described, list("abcde")).count('class="group t') == 5 * behavior.FEWEST
