"""Numbers as text."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterrank
from counterrank.common.texts import in_percent
from counterrank.report import words as numbers

FINITE = st.floats(-1e9, 1e9).filter(lambda v: v == 0 or abs(v) > 1e-6)


@given(FINITE, st.floats(1e-6, 1e6))
def test_rounding_stays_well_below_the_error(value: float, error: float) -> None:
    shown = numbers.plain(value, error).replace(",", "").replace(numbers.MINUS, "-")
    # Half of the last digit is at most a seventh of the error: 0.5 / 3.55.
    assert abs(float(shown) - value) <= error / 7 + 1e-9 * abs(value)


@given(FINITE)
def test_no_error_leaves_three_digits(value: float) -> None:
    shown = numbers.plain(value).replace(",", "").replace(numbers.MINUS, "-")
    assert math.isclose(float(shown), value, rel_tol=6e-3, abs_tol=1e-8)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "3", True])
def test_what_is_no_number_is_a_dash(value: object) -> None:
    shown = {
        f(value)
        for f in (numbers.plain, numbers.percent, numbers.count, numbers.short, numbers.roughly)
    }
    assert shown == {numbers.NONE}


@pytest.mark.parametrize("text", [numbers.plain(-1e-9, 0.1, sign=True), numbers.plain(0.0, 0.1)])
def test_zero_has_no_sign(text: str) -> None:
    assert text == "0.00"


def test_percent_has_unit_and_sign() -> None:
    assert numbers.percent(0.115, sign=True) == "+11.5\u202f%"
    assert numbers.percent(-0.5) == "−50.0\u202f%"


def test_large_counts_are_words() -> None:
    assert [numbers.count(v) for v in (999, 1e6, 2.5e9)] == ["999", "1 million", "2.5 billion"]


def test_shares_are_written_in_one_way_everywhere() -> None:
    """A format such as `:.1%` has no space before its sign; the report and all other texts have
    one. Pages of the paper are Markdown with tables of their own.
    """
    package = Path(counterrank.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        if "paper" not in path.parts
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r":[^{}]*\.\d%\}", line)
    ]
    assert found == []
    assert in_percent(0.5) == numbers.percent(0.5, digits=1) == "50.0\u202f%"
