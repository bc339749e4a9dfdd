"""Groups of users: by the split that matters most, and listed with what matters to each."""

import re
from typing import Any

import pytest
from tests.report import sample
from tests.report.test_html import Page

from counterrank.report.behavior import behavior, reads
from counterrank.report.document import Mask, Masks, Table, walk
from counterrank.report.svg import mask


def masks(model: dict[str, Any] | None = None) -> list[Masks]:
    """Return the pictures of every target, the first ones open."""
    return [block for block in walk(reads(sample.reading(model))) if isinstance(block, Masks)]


def with_people(shares: tuple[float, ...], sees: list[list[float]]) -> dict[str, Any]:
    model = sample.model()
    group = model["behavior"]["people"][0]
    model["behavior"]["people"] = [{**group, "share": share, "sees": sees} for share in shares]
    return model


def test_every_target_has_a_picture_of_each_group_in_words() -> None:
    first, second = masks()
    assert [(group.group, group.share, group.words) for group in first.groups] == [
        ("Device is mobile", 60, "Reads from the top: all items above matter.")
    ]
    assert first.unit == "pages" and second.groups == first.groups


def test_shares_of_the_groups_add_up() -> None:
    for shares in ((0.664, 0.336), (1 / 3,) * 3, (0.125,) * 8):
        shown = [
            group.share for group in masks(with_people(shares, [[1.0, 0.0], [1.0, 1.0]]))[0].groups
        ]
        assert (
            sum(shown) == 100
            and max(abs(a - 100 * b) for a, b in zip(shown, shares, strict=True)) < 1
        )


def test_a_cell_is_full_half_or_the_item_itself() -> None:
    model = with_people((1.0,), [[1.0, 0.5, 0.1], [0.96, 1.0, 0.0], [0.0, 0.15, 1.0]])
    picture = Page(sample.page(model))
    body = sample.page(model).partition('class="matrix"')[2].partition("</svg>")[0]
    assert body.count('class="self"') == 3
    assert body.count("<rect") - 3 == 9 and body.count('class="hit"') == 2
    assert body.count("<path") == 1  # the half cell: its share is .5
    assert 'aria-label="3 by 3 cells. Some items above' in body
    assert picture.open == []


@pytest.mark.parametrize(
    ("length", "cell", "numbers"), [(6, 24, 6), (10, 18, 10), (20, 8, 5), (40, 4, 5)]
)
def test_pictures_stay_small_and_number_what_fits(length: int, cell: int, numbers: int) -> None:
    sees = [[float(item <= place) for item in range(length)] for place in range(length)]
    drawn = str(mask(Mask("a", 100, "", sees)))
    assert f'width="{cell}"' in drawn and drawn.count("<text") == 2 * numbers
    assert int(re.search(r'viewBox="0 0 (\d+)', drawn)[1]) <= 240


def test_a_page_of_one_item_has_no_picture_and_no_section() -> None:
    single = with_people((1.0,), [[1.0]])
    single["behavior"]["others"] = {}
    assert reads(sample.reading(single)) == []
    without = sample.model()
    without["behavior"] = None
    assert reads(sample.reading(without)) == []


def test_every_group_of_every_position_is_listed_in_words() -> None:
    found = behavior(sample.reading())
    tables = [one for one in found if isinstance(one, Table) and one.caption.startswith("Groups")]
    assert [one.caption.rpartition(" ")[2] for one in tables] == list(sample.TARGETS)
    rows = {(rule, words, position) for rule, words, position, *_ in tables[0].rows}
    assert ("everyone", "only the own item matters", "1") in rows
    assert ("device is mobile", "the items above matter", "3") in rows
