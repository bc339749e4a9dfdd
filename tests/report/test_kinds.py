"""Kinds of users: joined, named and drawn as the classes of a reward model say."""

import copy
import re
from html import unescape
from typing import Any

import numpy as np
import pytest
from tests.report import sample
from tests.report.test_terminal import shown

from counterrank import behavior as masks
from counterrank.report import evaluation
from counterrank.report.numbers import NARROW
from counterrank.report.visibility import Kinds, kinds, looks_at, seen, visibility

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


def test_the_page_shows_every_kind_with_its_share_and_numbers() -> None:
    part = visibility(sample.reading(model()))
    assert part is not None
    text = unescape(str(part.body)).replace(NARROW, " ")
    assert text.count('class="kind mark"') == 4 and "Kinds of users found" in text
    assert "<title>48 % of the pages: users look at everything</title>" in text
    assert "<strong>5 %</strong> look at the item itself only" in text
    assert "Others: 0.5 %" in text
    assert text.split("Kinds of users found")[1].count(">direct neighbours</td>") == K
    assert "Kinds of users found" in evaluation.page(sample.result(model()))


def test_the_colours_of_all_kinds_are_on_one_scale() -> None:
    given = [
        {"share": share, "sees": sees(EVERYTHING, size=s, noise=0.0)}
        for share, s in ((0.6, 2.0), (0.4, 1.0))
    ]
    changed = model()
    changed["estimates"][0]["details"]["regression"]["behaviors"] = given
    text = str(visibility(sample.reading(changed))).split("Kinds of users found")[1]
    shades = re.findall(r'<path d="([^"]*)" class="on-scale" fill-opacity="([^"]*)"', text)
    assert [(path.count("M"), shade) for path, shade in shades] == [
        (K * (K - 1), "0.85"),
        (K * (K - 1), "0.425"),
    ]


def test_the_terminal_has_one_line() -> None:
    line = "Kinds of users found: 4 (48 % look at everything; 25 % look at what stands above;"
    assert line in shown(model(), 200).replace("\N{NO-BREAK SPACE}", " ")
    assert "Kinds of users" not in shown(sample.model())


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
    text = evaluation.page(sample.result(changed))
    assert "What is seen from where" in text and "Kinds of users found" not in text
    assert "Kinds of users" not in shown(changed)


def test_classes_of_another_length_than_the_average_are_not_drawn() -> None:
    changed = model()
    given = [{"share": 0.5, "sees": [[0, 1], [0, 0]]}, {"share": 0.5, "sees": [[0, 0], [1, 0]]}]
    changed["estimates"][0]["details"]["regression"]["behaviors"] = given
    part = visibility(sample.reading(changed))
    assert part is not None and "Kinds of users" not in str(part.body)
