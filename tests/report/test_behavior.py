"""Kinds of users: joined, named and drawn as the classes of a reward model say."""

from typing import Any

import numpy as np
import pytest
from tests.report import sample

from counterrank import behavior as masks
from counterrank.behavior import ForestDescription
from counterrank.report.behavior import groups, ranges, seen, simple_model, visibility


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
    assert simple_model(given * (1 - np.eye(length)), 2.0) == words


def test_scattered_items_are_no_simple_model() -> None:
    rng = np.random.default_rng(0)
    assert simple_model(masks.random(10, 4, rng).astype(float), 1.0) is None


def test_faint_numbers_are_not_seen() -> None:
    everything = 1.0 - np.eye(6)
    assert not seen(0.3 * everything, 1.5).any()
    assert seen(0.6 * everything, 1.5).sum() == 30


@pytest.mark.parametrize("damage", [None, "text", [[0.0, "x"], [1.0, 0.0]], [[0.0, 1.0]], 5])
def test_damaged_numbers_are_left_out(damage: Any) -> None:
    changed = sample.model()
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
