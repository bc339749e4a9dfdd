"""One page for many metrics: the decision first, a row per metric, words that follow the baseline."""

import io
import json

import pytest
from rich.console import Console

import counterrank as cr
from counterrank.report.document import walk

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def result(log):
    return cr.evaluate(
        log,
        ["new"],
        rewards={"any": "any(clicks)", "per click": "revenue / clicks", NASTY: "mrr(clicks)"},
        guardrails=["revenue >= -0.02", "clicks by device >= -0.5", "order >= -2 EUR"],
        estimators=["rips", "ips"],
        segments=["device"],
    )


@pytest.fixture(scope="module")
def over(log):
    return cr.evaluate(
        log, ["new"], estimators=["rips"], guardrails=["revenue >= -0.9"], baseline="prod"
    )


@pytest.fixture(scope="module")
def two(log):
    return cr.evaluate(log, ["new", "prod"], estimators=["rips"])


def printed(result, width=130):
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(result)
    return stream.getvalue()


def test_the_decision_comes_first_on_the_page_and_in_the_terminal(result):
    page, text = result.to_html(), printed(result)
    assert "<h1>Test new.</h1>" in page and page.index("Test new.") < page.index('class="cards')
    assert text.startswith("Test new.") and text.index("Test new.") < text.index("Estimates")


def test_every_metric_has_a_row_everywhere(result):
    page, text, cell = result.to_html(), printed(result), result._repr_html_()
    for name in ("clicks", "revenue", "order", "any", "per click"):
        assert name in text
        assert name in cell
        assert f">{name}" in page


def test_guardrails_have_a_table_and_groups_one_line(result):
    (table,) = [
        b
        for b in walk(result.document().blocks)
        if getattr(b, "caption", "").startswith("Guardrails")
    ]
    assert [row[1] for row in table.rows] == [
        "revenue",
        table.rows[1][1],
        "order",
    ]
    groups = [one for one in result.guardrails if one.column == "device"]
    safe = sum(one.status == "safe" for one in groups)
    assert f"clicks by device: {safe} of {len(groups)} devices safe" in table.rows[1][1]
    assert "Guardrails" in printed(result)


def test_names_are_escaped_in_pages_and_cells(result):
    for text in (result.to_html(), result._repr_html_()):
        assert NASTY not in text.partition('id="model"')[0]


def test_words_follow_the_baseline(over, result):
    text, page = printed(over), over.to_html()
    assert "today" not in text
    assert "than prod" in text or "between new and prod" in text or "cannot tell" in text
    assert "the logging policy earned" in text
    assert "today's policy" not in page.partition('id="model"')[0].replace("&#39;", "'")
    assert "than today" in printed(result) or "between new and today" in printed(result)


def test_the_baseline_has_no_segments_or_positions_of_its_own(log):
    found = cr.evaluate(log, ["new"], estimators=["rips"], segments=["device"], baseline="prod")
    for kind in ("segments", "positions"):
        assert {one.mark.name for one in found.document().figures(kind)} == {"new"}


def test_the_baseline_has_no_card_of_its_own(over):
    assert 'data-target="prod"><' not in over.to_html().partition("</section>")[0]


def test_positions_and_segments_of_other_metrics_are_behind_a_click(result):
    page = result.to_html()
    assert "revenue: positions and segments" in page
    assert page.count("Where in the ranking") >= 2


def test_charts_are_figures(two):
    pytest.importorskip("matplotlib")
    # A heading for each policy, below it a row for each metric.
    (axes,) = two.plot("lifts").axes
    assert len(axes.get_yticklabels()) == 2 * (1 + len(two.metrics)) > 4


def test_a_stored_result_makes_the_same_page(result):
    again = cr.Evaluation.from_dict(json.loads(result.to_json()))
    assert again.to_html() == result.to_html()
    assert printed(again) == printed(result)


def test_one_metric_over_the_logger_has_a_scorecard_of_one_row(data):
    log = cr.RankingLog(
        action=data["action"], reward=data["click"], propensity=data["propensity"]
    ).with_targets({"new": data["new"]})
    page = cr.evaluate(log, ["new"], estimators=["ips"]).to_html()
    assert 'id="metrics"' in page and "today&#39;s policy" in page
