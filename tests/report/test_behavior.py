"""Kinds of users: joined, named and drawn as the classes of a reward model say."""

import copy
from typing import Any

import numpy as np
import pytest
from tests.report import sample

from counterrank import behavior as masks
from counterrank.behavior import ForestDescription
from counterrank.report.behavior import Kinds, groups, kinds, looks_at, ranges, seen, visibility

K = sample.K
EVERYTHING, ABOVE, NEAR, ITSELF = (masks.mask(name, K) for name in ("S", "C", "N1", "I"))


def sees(mask: Any, size: float = 1.5, noise: float = 0.05, seed: int = 0) -> list[list[float]]:
    """Return a class's numbers, with an empty diagonal as fits have it."""
    rng = np.random.default_rng(seed)
    return np.asarray(
        (size * mask + noise * rng.standard_normal((K, K))) * (1 - np.eye(K))
    ).tolist()


def regression() -> dict[str, Any]:
    """Seven classes: two coincide, another is hardly there and damaged by noise, one is nobody's."""
    outlier = np.array(sees(NEAR, noise=0.0))
    outlier[0, 5] = 0.5
    given = [
        (0.35, sees(EVERYTHING)),
        (0.25, sees(ABOVE)),
        (0.2, sees(NEAR)),
        (0.13, sees(EVERYTHING, seed=1)),
        (0.05, sees(ITSELF)),
        (0.015, outlier.tolist()),
        (0.005, sees(EVERYTHING, size=90.0)),
    ]
    return {
        "visibility": sample.SEEN,
        "behaviors": [{"share": share, "sees": m} for share, m in given],
    }


def model() -> dict[str, Any]:
    found = copy.deepcopy(sample.model())
    found["estimates"][0]["details"]["regression"] = regression()
    return found


def test_classes_that_coincide_are_one_kind_and_rare_ones_are_others() -> None:
    found = kinds(regression())
    assert isinstance(found, Kinds)
    assert [(round(kind.share, 3), kind.looks_at) for kind in found.found] == [
        (0.48, "everything"),
        (0.25, "what stands above"),
        (0.215, "direct neighbours"),  # one number far off, but the same items are seen
        (0.05, "the item itself only"),
    ]
    assert found.others == pytest.approx(0.005)
    assert 1.5 < found.scale < 1.8  # nobody's class has no say


def test_a_joined_kind_has_the_average_of_its_classes() -> None:
    both = [np.array(sees(EVERYTHING, seed=seed)) for seed in (0, 1)]
    given = [
        {"share": share, "sees": one.tolist()} for share, one in zip((0.6, 0.2), both, strict=True)
    ]
    found = kinds({"behaviors": given})
    assert found is not None
    np.testing.assert_allclose(found.found[0].sees, 0.75 * both[0] + 0.25 * both[1], atol=1e-12)


@pytest.mark.parametrize("length", [4, 8, 16])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("S", "everything"),
        ("I", "the item itself only"),
        ("C", "what stands above"),
        ("IC", "what stands below"),
        ("N1", "direct neighbours"),
        ("C1", "what stands above and 1 item below"),
        ("P1", "the first item"),
        ("W1", "1 item just above"),
    ],
)
def test_simple_models_are_recognised_in_noise(name: str, words: str, length: int) -> None:
    """Noise has a sixth of the size: a threshold is three standard deviations away; the seed is
    fixed.
    """
    rng = np.random.default_rng(4)
    size = rng.uniform(0.6, 2.0)
    given = (masks.mask(name, length) + rng.normal(0, 0.1, (length, length))) * size
    assert looks_at(given * (1 - np.eye(length)), 2.0) == words


def test_scattered_items_are_called_so() -> None:
    rng = np.random.default_rng(0)
    assert looks_at(masks.random(10, 2, rng).astype(float), 1.0) == "few things here and there"
    assert looks_at(masks.random(10, 4, rng).astype(float), 1.0) == "some things here and there"
    assert looks_at(masks.random(10, 6, rng).astype(float), 1.0) == "most things, with gaps"


def test_kinds_that_see_everything_but_less_far_stay_apart() -> None:
    given = [{"share": 0.5, "sees": sees(EVERYTHING, size=size)} for size in (1.5, 0.7)]
    found = kinds({"behaviors": given})
    assert found is not None and [kind.looks_at for kind in found.found] == [
        "everything",
        "everything",
    ]


def test_faint_numbers_are_not_seen() -> None:
    assert not seen(np.array(sees(EVERYTHING, size=0.3)), 1.5).any()
    assert seen(np.array(sees(EVERYTHING, size=0.6)), 1.5).sum() == K * (K - 1)


def test_every_kind_is_drawn_with_its_share_on_one_scale() -> None:
    (figure,) = sample.figures(model(), "kinds")
    assert [card.words for card in figure.drawing.cards] == [
        "look at everything",
        "look at what stands above",
        "look at direct neighbours",
        "look at the item itself only",
    ]
    assert figure.drawing.cards[0].title == "48\u202f% of the pages" and "Others: 0.5" in figure.aid
    scale = kinds(regression()).scale
    assert figure.drawing.cards[1].shades[2][1] == pytest.approx(
        np.array(sees(ABOVE))[2, 1] / scale
    )


@pytest.mark.parametrize(
    "damage",
    [
        None, "text", 5, [], [5], [{}], [{"share": 0.5}], [{"share": "x", "sees": [[0, 1], [1, 0]]}],
        [{"share": 0.5, "sees": "text"}], [{"share": 0.5, "sees": [[0.0, None], [1.0, 0.0]]}],
        [{"share": 0.5, "sees": [[0.0, 1e300], [1.0, 0.0]]}], [{"share": 0.5, "sees": [[0.0, 0.0], [0.0, 0.0]]}],
        [{"share": 0.5, "sees": [[0, 1], [1, 0]]}, {"share": 0.5, "sees": [[0, 1, 1], [1, 0, 1], [1, 1, 0]]}],
        [{"share": 0.001, "sees": [[0, 1], [1, 0]]}],
    ],
)  # fmt: skip
def test_damaged_classes_are_left_out(damage: Any) -> None:
    assert kinds({"behaviors": damage}) is None
    changed = model()
    changed["estimates"][0]["details"]["regression"]["behaviors"] = damage
    assert sample.figures(changed, "visibility") and not sample.figures(changed, "kinds")


def test_classes_of_another_length_than_the_average_are_not_drawn() -> None:
    changed = model()
    given = [{"share": 0.5, "sees": [[0, 1], [0, 0]]}, {"share": 0.5, "sees": [[0, 0], [1, 0]]}]
    changed["estimates"][0]["details"]["regression"]["behaviors"] = given
    assert sample.figures(changed, "visibility") and not sample.figures(changed, "kinds")


@pytest.mark.parametrize("damage", [None, "text", [[0.0, "x"], [1.0, 0.0]], [[0.0, 1.0]], 5])
def test_damaged_numbers_are_left_out(damage: Any) -> None:
    changed = model()
    changed["estimates"][0]["details"]["regression"]["visibility"] = damage
    assert visibility(sample.reading(changed)) == []


def test_positions_with_the_same_rules_share_their_groups() -> None:
    found = groups(ForestDescription.from_dict(sample.behavior()))
    many = (2, 3, 4, 5, 6)
    assert [(g.rule, g.positions) for g in found] == [
        ("everyone", (1,)),
        ("device is mobile", many),
        ("device is not mobile", many),
    ]
    phones = found[1]
    assert phones.mask[0] is None and phones.mask[2] == (1, 1, 1, 0, 0, 0)
    assert phones.share == 0.6 and phones.models == ("C",) and ranges(many) == "2–6"


def test_every_target_has_its_groups_under_its_name() -> None:
    figures = sample.figures(None, "groups")
    assert [one.mark.name for one in figures] == list(sample.TARGETS)
    assert "only the own item matters" in figures[0].drawing.cards[0].words
