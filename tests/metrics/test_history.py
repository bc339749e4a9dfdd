"""History by metric: each on an axis of its own, with its unit."""

import re

import pytest

import counterrank as cr
from counterrank.report.history import write_history


@pytest.fixture(scope="module")
def page(log, tmp_path_factory):
    where = tmp_path_factory.mktemp("runs")
    asked = {"rewards": {"per click": "revenue / clicks"}, "estimators": ["ips"]}
    for night in ("2026-11-01", "2026-11-02"):
        cr.evaluate(log, ["new"], **asked).to_json(where / f"{night}.json")
    (index, *_), _ = write_history(where, where.parent / "history.html")
    return index.read_text()


def test_every_metric_has_a_section_and_an_axis_of_its_own(page):
    for metric, unit in (
        ("clicks", "per ranking"),
        ("revenue", "per ranking"),
        ("per click", "per clicks"),
    ):
        assert f"new · {metric}" in page
        assert f"Lift in {metric} {unit}, " in page
    assert len(set(re.findall("Lift in [^<>]*, in per cent", page))) == 4


def test_the_list_and_every_run_show_the_decision(page):
    assert page.count(">Test new.<") == 2
    assert page.count(">test</td>") == 8
