"""History by metric: each on an axis of its own, with its unit."""

import re

import pytest

import counterrank as cr
from counterrank.report.serve.pages import history, listing
from counterrank.report.serve.store import Store


@pytest.fixture(scope="module")
def folder(log, tmp_path_factory):
    where = tmp_path_factory.mktemp("runs")
    asked = {"rewards": {"per click": "revenue / clicks"}, "estimators": ["ips"]}
    for night, baseline in (("2026-11-01", None), ("2026-11-02", None)):
        cr.evaluate(log, ["new"], baseline=baseline, **asked).to_json(where / f"{night}.json")
    return where


def test_every_metric_has_a_section_and_an_axis_of_its_own(folder):
    page = history(Store.of(folder).entries(), {})
    for metric, unit in (
        ("clicks", "per ranking"),
        ("revenue", "per ranking"),
        ("per click", "per clicks"),
    ):
        assert f"new · {metric}" in page
        assert f"lift in {metric} {unit}" in page
    assert len(re.findall("run by run", page)) == 4


def test_the_list_shows_decisions(folder):
    page = listing(Store.of(folder).entries(), "runs")
    assert page.count("Run a test of new before shipping") == 2
