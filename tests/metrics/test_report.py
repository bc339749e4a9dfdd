"""One page for many metrics: the decision first, a row per metric, words that follow the baseline."""

import io
import json

import pytest
from rich.console import Console

import counterrank as cr
from counterrank.report import answer

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
    head = "<h1>Test <b>new</b>.</h1>"
    assert head in page and page.index(head) < page.index('class="forest')
    assert text.startswith("Test new.") and text.index("Test new.") < text.index("Estimates")


def test_every_metric_has_a_row_everywhere(result):
    page, text, cell = result.to_html(), printed(result), result._repr_html_()
    for name in ("clicks", "revenue", "order", "any", "per click"):
        assert name in text
        assert name in cell
        assert f">{name}" in page


def test_guardrails_stand_in_the_row_of_the_policy_and_groups_in_one_line(result):
    (forest,) = [
        block for block in result.document().blocks if getattr(block, "kind", "") == "lifts"
    ]
    statuses = {cell.label: cell.status for cell in forest.lines[0].cells if cell.status}
    worst = min(
        (one.status for one in result.guardrails if one.column),
        key=["broken", "open", "safe"].index,
    )
    assert statuses == {
        "clicks": worst, **{one.metric: one.status for one in result.guardrails if not one.column}
    }  # fmt: skip
    groups = [one for one in result.guardrails if one.column == "device"]
    safe = sum(one.status == "safe" for one in groups)
    assert f"{safe} of {len(groups)} devices safe" in answer.group_words(groups)
    assert answer.group_words(groups[:1]) == f"{groups[0].group} {groups[0].status}"


def test_names_are_escaped_in_pages_and_cells(result):
    for text in (result.to_html(), result._repr_html_()):
        assert NASTY not in text.partition('id="model"')[0]


def test_words_follow_the_baseline(over, result):
    text, page = printed(over), over.to_html()
    assert "today" not in text
    assert "Lift over prod" in text
    assert "the logging policy earned" in text
    assert "today's policy" not in page.partition('id="model"')[0].replace("&#39;", "'")
    assert "Lift over today's policy" in printed(result)


def test_the_baseline_has_no_segments_or_positions_of_its_own(log):
    found = cr.evaluate(log, ["new"], estimators=["rips"], segments=["device"], baseline="prod")
    for kind in ("segments", "positions"):
        named = {one.name.rpartition(": ")[2] for one in found.document().figures(kind)}
        assert named == {"new"}


def test_the_baseline_has_no_line_of_its_own(over):
    assert 'data-target="prod"' not in over.to_html().partition("</section>")[0]


def test_positions_and_segments_of_other_metrics_are_behind_a_click(result):
    page = result.to_html()
    assert page.count("The same for revenue") == 2


def test_charts_are_figures(two):
    pytest.importorskip("matplotlib")
    # A panel for each metric with a row for each policy.
    panels = two.plot("lifts").axes
    assert [len(axes.get_yticklabels()) for axes in panels] == [2] * len(two.metrics)


def test_a_stored_result_makes_the_same_page(result):
    again = cr.Evaluation.from_dict(json.loads(result.to_json()))
    assert again.to_html() == result.to_html()
    assert printed(again) == printed(result)


def test_one_metric_over_the_logger_has_a_picture_of_one_row(data):
    log = cr.RankingLog(
        action=data["action"], reward=data["click"], propensity=data["propensity"]
    ).with_targets({"new": data["new"]})
    page = cr.evaluate(log, ["new"], estimators=["ips"]).to_html()
    assert page.count('class="big') == 1 and "today&#39;s policy" in page
