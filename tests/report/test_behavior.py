"""Groups of users: by the split that matters most, and listed with what matters to each."""

from tests.report import sample

from counterrank.report.behavior import behavior
from counterrank.report.document import Table


def test_every_target_has_its_groups_and_how_many_items_matter_to_them() -> None:
    found = behavior(sample.reading())
    tables = [
        one for one in found if isinstance(one, Table) and one.caption.startswith("Who looks")
    ]
    assert [one.caption.rpartition(" ")[2] for one in tables] == list(sample.TARGETS)
    # Every item above matters: 2.5 others of 5 on average.
    assert tables[0].rows == [("device is mobile", "60\u202f%", "2 of 5")]


def test_every_group_of_every_position_is_listed_in_words() -> None:
    found = behavior(sample.reading())
    tables = [one for one in found if isinstance(one, Table) and one.caption.startswith("Groups")]
    assert [one.caption.rpartition(" ")[2] for one in tables] == list(sample.TARGETS)
    rows = {(rule, words, position) for rule, words, position, *_ in tables[0].rows}
    assert ("everyone", "only the own item matters", "1") in rows
    assert ("device is mobile", "the items above matter", "3") in rows
