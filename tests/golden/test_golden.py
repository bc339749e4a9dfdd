"""Every number of 50 small logs is what it was, unless REASONS.md says why it is not.

`python -m tests.golden.make` prints what differs, and writes it with a reason.
"""

import json

import pytest
from tests.golden.cases import CASES, numbers_of
from tests.golden.documents import FLAT, FOLDER, TOLERANCE, differences


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_what_they_were(name):
    stored = json.loads((FOLDER / f"{name}.json").read_text())
    found = differences(stored, numbers_of(name), FLAT.get(name, TOLERANCE))
    shown = "\n  ".join(
        [*found[:20], *([f"and {len(found) - 20} more"] if len(found) > 20 else [])]
    )
    assert not found, f"{name}:\n  {shown}\n`python -m tests.golden.make` says more"


def test_no_numbers_are_left_behind():
    assert {path.stem for path in FOLDER.glob("*.json")} == {*CASES}


def test_what_changes_goes_or_comes_is_a_difference():
    before = {"lift": [{"target": "new", "value": 1.0, "status": "passed"}], "flags": []}

    def changed(**changes):
        return differences(before, {**before, **changes})

    assert (
        changed(lift=[{"target": "new", "value": 1.0 + 1e-10, "status": "passed", "p": 0.5}]) == []
    )
    assert changed(lift=[{"target": "new", "value": 1.0 + 1e-8, "status": "passed"}]) != []
    assert changed(lift=[{"target": "new", "value": 1.0, "status": "failed"}]) != []
    assert changed(lift=[{"target": "new", "status": "passed"}]) != []
    assert changed(lift=[*before["lift"], {"target": "old", "value": 1.0}]) != []
    assert changed(lift=[]) != [] and changed(flags=["heavy"]) != []
