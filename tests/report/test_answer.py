"""The answer: headline and cards follow the decision and the verdict, and result and measurement never mix."""

import copy
import math
import re
from typing import Any

import pytest
from tests.report import sample

from counterrank.evaluation import Comparison, OrderPoint, Validation
from counterrank.report import answer
from counterrank.report.estimates import path_in_words
from counterrank.report.evaluation_view import Reading
from counterrank.report.validation import sentences as of_validation
from counterrank.report.words import percent, plain, short, span


@pytest.fixture
def model() -> dict[str, Any]:
    return sample.model()


def change(model: dict[str, Any], target: str, **lift: float) -> Reading:
    changed = copy.deepcopy(model)
    for row in changed["lift"]:
        if row["target"] == target:
            row.update(lift)
    return sample.reading(changed)


def line(reading: Reading, target: str) -> Any:
    (forest,) = answer.forests(reading)
    return next(one for one in forest.lines if one.label == target)


def cell(reading: Reading, target: str) -> Any:
    return line(reading, target).cells[0]


@pytest.mark.parametrize(
    ("actions", "best", "said"),
    [
        ({"personalised": "ship", "clickbait": "hold"}, "personalised", "Ship personalised. Do not ship clickbait."),
        ({"personalised": "test", "clickbait": "test"}, None, "Test personalised and clickbait."),
        ({"personalised": "hold", "clickbait": "hold"}, None, "Do not ship personalised or clickbait."),
        ({"personalised": "ship", "clickbait": "ship"}, "clickbait",
         "Ship clickbait. personalised could be shipped too."),
    ],
)  # fmt: skip
def test_the_headline_groups_policies_by_action(model, actions, best, said):
    model["decision"] = {"action": "test", "target": best, "targets": actions, "reasons": []}
    assert answer.headline(sample.reading(model)) == said


def test_names_are_set_apart_and_many_are_counted(model):
    assert answer.headline(sample.reading(model)).pieces[:2] == ("Ship ", ("personalised",))
    names = [f"p{number}" for number in range(9)]
    told = "".join("".join(piece) for piece in answer.names_apart(names, "and"))
    assert told == "p0, p1, p2 and 6 more"


def test_a_refused_log_has_its_cause_and_no_lift_anywhere():
    model = sample.refused()
    reading = sample.reading(model)
    assert answer.headline(reading).endswith("fix this first")
    page = sample.page(model).partition('id="model"')[0]
    for text in (page, sample.shown(model, verbose=True), sample.result(model).summary()):
        assert not re.search(
            r"[+−][\d.]+", re.sub(r"<(style|script).*?</\1>", "", text, flags=re.S)
        )
        assert "Cannot tell yet" in text and "personalised" in text
    assert "Remedy: log more digits" in page and page.index("sums") < page.index(
        "Health of the log"
    )


def test_each_number_of_the_picture_is_that_of_the_result(model):
    reading = sample.reading(model)
    for target in sample.TARGETS:
        lift, drawn = sample.result(model).estimate(target).lift, cell(reading, target)
        assert (drawn.value, drawn.low, drawn.high) == pytest.approx(
            (100 * lift.relative, 100 * lift.relative_low, 100 * lift.relative_high)
        )
        assert drawn.shown in sample.page(model) and drawn.reach in sample.page(model)


def test_policies_stand_in_the_order_of_what_to_do_then_of_their_lift(model):
    model["decision"]["targets"] = {"personalised": "hold", "clickbait": "ship"}
    assert [one.name for one in answer.in_order(sample.reading(model))] == [
        "clickbait",
        "personalised",
    ]
    model["decision"].update(targets=dict.fromkeys(sample.TARGETS, "test"), target=None)
    assert [one.name for one in answer.in_order(sample.reading(model))] == [
        "personalised",
        "clickbait",
    ]
    model["metrics"][0]["lower_is_better"] = True
    assert [one.name for one in answer.in_order(sample.reading(model))] == [
        "clickbait",
        "personalised",
    ]


def test_colour_is_the_outcome_for_the_metric_and_not_its_sign(model):
    reading = sample.reading(model)
    assert (cell(reading, "personalised").mark.look, cell(reading, "clickbait").mark.look) == (
        "better",
        "worse",
    )
    model["metrics"][0]["lower_is_better"] = True
    assert cell(sample.reading(model), "personalised").mark.look == "worse"


def test_a_line_has_a_cause_and_at_most_two_remedies(model):
    model["verdict"]["reasons"] += [
        sample.reason("clickbait", code, "warn", f"{code} is bad", f"mend {code}")
        for code in ("tail", "support", "units")
    ]  # fmt: skip
    shown = line(sample.reading(model), "clickbait")
    assert shown.cause and len(shown.advice) == 2 and shown.note == "directional"


def test_an_interval_over_zero_is_no_finding(model):
    model["decision"]["targets"]["personalised"] = "test"
    reading = change(
        model, "personalised", low=-0.01, high=0.2, relative_low=-0.01, relative_high=0.2
    )
    assert cell(reading, "personalised").mark.name == "no clear difference"
    assert line(reading, "personalised").cause == "The interval includes no change."


def test_insufficient_evidence_is_a_guess_and_a_test_would_settle_it(model):
    model["verdict"]["targets"]["clickbait"] = "insufficient"
    model["metrics"][0]["verdict"]["targets"]["clickbait"] = "insufficient"
    shown = line(sample.reading(model), "clickbait")
    assert shown.note == "insufficient: a best guess" and shown.cells[0].faded
    assert shown.advice[-1] == "An A/B test would settle it without weights."


def test_no_difference_at_all_is_said_without_advice(model):
    zero = dict.fromkeys(("value", "low", "high", "relative", "relative_low", "relative_high"), 0.0)
    shown = line(change(model, "personalised", **zero), "personalised")
    assert "no difference between it and today's policy" in shown.cause
    assert shown.state == "same" and not shown.advice and not shown.cells


def test_a_target_without_evidence_stays_on_the_page_and_has_no_number(model):
    reason = "no row of the log could have come from it"
    for rows in (model["estimates"], model["metrics"][0]["estimates"]):
        for row in rows:
            if row["target"] == "personalised":
                row.update(
                    value=None,
                    low=None,
                    high=None,
                    stderr=None,
                    estimable=False,
                    not_estimable=reason,
                )
    shown = line(sample.reading(model), "personalised")
    assert shown.state == "unknown" and not shown.cells and reason in shown.cause.lower()
    for text in (sample.page(model), sample.shown(model)):
        assert reason in text.lower() and "Cannot tell yet" in text and "not estimable" in text


def test_guardrails_are_regions_with_their_status_in_the_row(model):
    rail = {"expression": "clicks >= -0.01", "target": "clickbait", "status": "broken", "lift": -0.1,
            "low": -0.2, "high": -0.05, "metric": "clicks", "limit": -0.01, "relative": True}  # fmt: skip
    model["guardrails"] = [
        rail,
        {**rail, "target": "personalised", "status": "safe", "low": 0.0, "high": 0.1},
    ]
    reading = sample.reading(model)
    (forest,) = answer.forests(reading)
    assert forest.columns[0].harm == (-math.inf, -1.0)
    assert forest.columns[0].scale.low < -1.0 < forest.columns[0].scale.high
    assert (cell(reading, "clickbait").status, cell(reading, "personalised").status) == (
        "broken",
        "safe",
    )
    assert "breaks the limit of clicks (≥ −1.0\u202f%)" in line(reading, "clickbait").cause
    assert "✗ broken" in sample.shown(model) and 'class="status broken"' in sample.page(model)


def test_digits_follow_the_interval_where_it_allows_for_bias(model):
    reading = change(model, "personalised", value=0.1234, stderr=0.0004, low=0.06, high=0.18)
    assert "+0.123 clicks" in cell(reading, "personalised").tip


def test_comparison_puts_the_better_one_first(model):
    text = answer.comparison(sample.reading(model), sample.result(model).comparisons[0])
    assert text.startswith("personalised earns 0.220 clicks per page more than clickbait (adjusted")
    assert "+0.180 to +0.260" in text
    same = Comparison(0.0, 0.0, 0.0, 0.0, better="a", than="b")
    assert (
        answer.comparison(sample.reading(model), same)
        == "a and b do not differ at all on this log."
    )


def test_level_is_written_as_asked(model):
    for row in model["estimates"]:
        row["level"] = 0.995
    assert sample.reading(model).level_words == "99.5\u202f%"


def test_the_line_of_facts_has_file_size_users_and_unit(model):
    model["log"].update(n=1, K=1)
    assert "1 page of 1 position" in answer.facts_of(sample.reading(model))
    model["log"].update(
        n=24_000, units=7_098, period=["2026-02-27T08:00:00", "2026-03-02T23:59:59"]
    )
    model["provenance"]["created"] = "2026-03-03T04:05:06+00:00"
    facts = " · ".join(answer.facts_of(sample.reading(model)))
    assert facts.startswith(
        "log.parquet · 27 February to 2 March 2026 · "
        "24,000 pages of 1 position · 7,098 users · metric: clicks per page, today 1.200"
    )
    assert facts.endswith(" · run 3 March 2026, 04:05")
    assert facts in sample.page(model) and "7,098 users" in sample.shown(model)


@pytest.mark.parametrize(
    ("widths", "values", "said"),
    [
        ((0.1, 0.1, 0.1), (1.0, 1.01, 1.02), "No drift"),
        ((0.1, 0.1, 0.1), (1.0, 1.5, 1.6), "items affect each other here"),
        ((0.1, 0.2, 0.9), (1.0, 1.01, 1.2), "too few rows to tell"),
        ((0.1, 0.2, 0.9), (1.0, 1.5, 1.6), "too few rows to tell"),
    ],
)
def test_order_path_is_read_aloud(widths, values, said):
    path = [
        OrderPoint(v, low=v - w, high=v + w, order=k)
        for k, (v, w) in enumerate(zip(values, widths, strict=True))
    ]
    assert said in path_in_words(path)


def test_words_about_agreement_are_those_of_the_verdict():
    assert "Clickbait: ips and rips differ by 2.3 errors." in sample.page()


def test_one_column_has_one_number_of_digits():
    for kind in ("agreement", "segments"):
        for figure in sample.figures(None, kind):
            shown = [row.shown for row in figure.rows if not row.heading]
            assert len({len(text.partition(".")[2]) for text in shown}) == 1


@pytest.mark.parametrize(("level", "z"), [(0.95, 1.959964), (0.8, 1.281552), (0.99, 2.575829)])
def test_what_has_a_standard_error_only_gets_an_interval_of_the_level(level, z):
    model = sample.model()
    for row in model["estimates"]:
        row["level"] = level
    today = sample.figures(model, "values")[0].rows[0]
    assert (today.low, today.high) == pytest.approx((1.2 - z * 0.006, 1.2 + z * 0.006), abs=1e-7)
    at = sample.result(model).estimate("personalised").lift["by_position"][0]
    point = sample.figures(model, "positions")[0].rows[0]
    assert point.high - point.value == pytest.approx(z * at["stderr"], rel=1e-6)


def test_lifts_are_shares_with_their_intervals_or_amounts_where_shares_mean_nothing():
    rows = sample.figures(None, "lifts")[0].rows
    for row in rows:
        lift = sample.result().estimate(row.label).lift
        assert (row.value, row.low) == pytest.approx((100 * lift.relative, 100 * lift.relative_low))
    model = sample.model()
    for rows in (model["lift"], model["metrics"][0]["lift"]):
        for row in rows:
            row.update(relative=None, relative_low=None, relative_high=None)
    chart = sample.figures(model, "lifts")[0]
    assert "clicks per page" in chart.axis and chart.rows[0].value == pytest.approx(0.1)


def test_huge_numbers_stay_short():
    assert plain(1_146_320_181_046.0, 1e10) == "1.146\xa0trillion"
    assert plain(2.4e15, 1e10) == "2.40e+15"
    # Ends of one interval are told in one way.
    assert span(756_801_774.0, 3.34e9, 6.6e8) == "757\xa0million to 3.3\xa0billion"
    assert [short(v) for v in (1.2e10, -4e12, 3e15)] == ["12B", "−4T", "3.00e+15"]
    assert percent(1e13, sign=True).startswith("+1.00e+15")


def test_errors_that_cancel_are_not_called_none():
    """Two arms predicted from each other err in opposite ways: the mean says nothing where none was contained."""

    def said(*contained):
        row = {"from": "a", "to": "b"}
        pairs = [{**row, "covered": one, "sign_right": one} for one in contained]
        summary = {"pairs": 2, "bias": 0.001, "bias_low": -0.01, "bias_high": 0.012}
        report = Validation.from_dict(
            {"schema": Validation.SCHEMA, "summary": summary, "pairs": pairs}
        )
        return " ".join(of_validation(report))

    assert "0 of 2 intervals contained the outcome" in said(False, False)
    assert "No constant error" not in said(False, False) and "cancel" in said(False, False)
    assert "No constant error was found" in said(True, True, True, False)


def test_page_terminal_and_notebook_say_the_same(model):
    title = answer.headline(sample.reading(model))
    assert "Ship <b>personalised</b>. Do not ship <b>clickbait</b>." in sample.page(model)
    assert title in sample.page(model)
    assert title in sample.shown(model)
    cell = sample.result(model)._repr_html_()
    assert "Ship <b>personalised</b>. Do not ship <b>clickbait</b>." in cell
    assert not math.isnan(sample.result(model).log.value)
