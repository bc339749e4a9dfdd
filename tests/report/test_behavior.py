"""Groups of users: drawn by the split that matters most, and listed with what matters to each."""

from tests.report import sample

from counterrank.report.behavior import behavior
from counterrank.report.document import Table


def test_every_target_has_its_matrices_under_its_name() -> None:
    figures = sample.figures(None, "people")
    assert [one.mark.name for one in figures] == list(sample.TARGETS)
    card = figures[0].drawing.cards[0]
    assert "its own item and about" in card.words and len(card.shades) == sample.K


def test_every_group_of_every_position_is_listed_in_words() -> None:
    found = behavior(sample.reading())
    tables = [one for one in found if isinstance(one, Table) and one.caption.startswith("Groups")]
    assert [one.caption.rpartition(" ")[2] for one in tables] == list(sample.TARGETS)
    rows = {(rule, words, position) for rule, words, position, *_ in tables[0].rows}
    assert ("everyone", "only the own item matters", "1") in rows
    assert ("device is mobile", "the items above matter", "3") in rows
