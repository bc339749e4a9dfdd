"""The behaviour tree in words and matrices."""

from tests.report import sample

from counterrank.report import behaviors


def test_positions_with_the_same_rules_share_their_groups() -> None:
    found = behaviors.groups(behaviors.forests(sample.behavior())[0])
    assert [(g.rule, g.positions) for g in found] == [
        ("everyone", (1,)), ("device is mobile", (2, 3, 4, 5, 6)), ("device is not mobile", (2, 3, 4, 5, 6)),
    ]  # fmt: skip
    phones = found[1]
    assert phones.mask[0] is None and phones.mask[2] == (1, 1, 1, 0, 0, 0)
    assert phones.share == 0.6 and phones.models == ("C",)


def test_one_model_for_all_positions_is_one_matrix() -> None:
    mask = [[1, 0], [1, 1]]
    leaf = {"rules": [], "share": 1.0, "model": "C", "items": mask}
    found = behaviors.groups({"positions": [{"position": None, "groups": [leaf]}]})
    assert [(g.mask, g.positions) for g in found] == [(((1, 0), (1, 1)), ())]


def test_nothing_is_no_group() -> None:
    assert behaviors.forests(None) == [] and behaviors.groups({}) == []
