"""The answer: headline and cards follow the decision and the verdict, and result and measurement never mix."""

import copy
import math
from typing import Any

import pytest
from tests.report import sample

from counterrank.evaluation import Comparison, OrderPoint, Validation
from counterrank.report import answer
from counterrank.report.document import Scorecard
from counterrank.report.estimates import path_in_words
from counterrank.report.reading import Reading
from counterrank.report.validating import sentences as of_validation
from counterrank.report.words import percent, plain, short, span


@pytest.fixture
def model() -> dict[str, Any]:
    """A model whose log passed its audit."""
    found = sample.model()
    found["audit"] = [one for one in found["audit"] if one["status"] != "failed"]
    return found


def change(model: dict[str, Any], target: str, **lift: float) -> Reading:
    changed = copy.deepcopy(model)
    for row in changed["lift"]:
        if row["target"] == target:
            row.update(lift)
    return sample.reading(changed)


def card(reading: Reading, target: str) -> Any:
    (found,) = [one for one in answer.answer(reading) if isinstance(one, Scorecard)]
    return next(one for one in found.cards if one.mark.name == target)


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


def test_a_failed_audit_is_the_headline_and_nothing_else_is_advised():
    reading = sample.reading(sample.model())
    assert answer.headline(reading).endswith("fix this first")
    found = card(reading, "clickbait")
    assert found.advice == () and found.cause == ""
    text = sample.page(sample.model())
    assert "Log more digits." in text.partition("For data scientists")[0]


def test_the_card_has_two_labels_a_cause_and_at_most_two_remedies(model):
    model["verdict"]["reasons"] += [
        sample.reason("clickbait", code, "warn", f"{code} is bad", f"mend {code}")
        for code in ("tail", "support", "units")
    ]  # fmt: skip
    found = card(sample.reading(model), "clickbait")
    assert [(one.name, one.text) for one in found.labels] == [
        ("Result", "worse"),
        ("Measurement", "directional"),
    ]
    assert found.cause and len(found.advice) == 2


def test_the_sentence_names_units_and_lift(model):
    reading = sample.reading(model)
    assert (
        card(reading, "personalised").sentence
        == "personalised would earn 0.100 clicks per page more than today."
    )
    assert "would probably earn 0.120 clicks per page fewer" in card(reading, "clickbait").sentence


def test_an_interval_over_zero_is_no_finding(model):
    reading = change(
        model, "personalised", low=-0.01, high=0.2, relative_low=-0.01, relative_high=0.2
    )
    found = card(reading, "personalised")
    assert found.sentence.endswith("the interval includes no change.")
    assert found.labels[0].text == "no clear difference" and found.labels[1].text == "reliable"


def test_a_lift_that_rounds_to_nothing_is_as_much_as_today(model):
    reading = change(model, "personalised", value=0.0001, low=-0.05, high=0.05)
    assert card(reading, "personalised").sentence.startswith(
        "personalised may earn about as much as today;"
    )


def test_insufficient_evidence_is_a_guess_and_a_test_would_settle_it(model):
    model["verdict"]["targets"]["clickbait"] = "insufficient"
    found = card(sample.reading(model), "clickbait")
    assert found.above == "best guess" and found.sentence.startswith("This log cannot tell")
    assert found.advice[-1] == "An A/B test would settle it without weights."


def test_no_difference_at_all_is_said_without_advice(model):
    zero = dict.fromkeys(("value", "low", "high", "relative", "relative_low", "relative_high"), 0.0)
    found = card(change(model, "personalised", **zero), "personalised")
    assert (
        "no difference at all between personalised and today's policy" in found.sentence
        and not found.advice
    )


def test_a_target_without_evidence_stays_on_the_page_and_has_no_number(model):
    reason = "no row of the log could have come from it"
    for row in model["estimates"]:
        if row["target"] == "personalised":
            row.update(
                value=None, low=None, high=None, stderr=None, estimable=False, not_estimable=reason
            )
    found = card(sample.reading(model), "personalised")
    assert found.number == "not estimable" and reason in found.sentence
    assert [one.name for one in found.labels] == ["Measurement"]
    assert reason in sample.page(model) and reason in sample.shown(model)


def test_an_interval_of_no_width_is_not_shown(model):
    reading = change(model, "personalised", relative=-0.25, relative_low=-0.25, relative_high=-0.25)
    assert card(reading, "personalised").interval == "these rows give no interval"


def test_digits_follow_the_interval_where_it_allows_for_bias(model):
    reading = change(model, "personalised", value=0.1234, stderr=0.0004, low=0.06, high=0.18)
    assert "0.123 clicks" in card(reading, "personalised").sentence


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


def test_one_is_singular(model):
    model["log"].update(n=1, K=1)
    assert answer.logged(sample.reading(model)).startswith("From 1 page of 1 position;")


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
    (_, clickbait) = sample.figures(None, "agreement")
    assert clickbait.aid.startswith("Ips and rips differ by 2.3 errors.")


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
    for row in model["lift"]:
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
    assert f"<h1>{title}</h1>" in sample.page(model) and title in sample.shown(model)
    assert title in sample.result(model)._repr_html_()
    assert not math.isnan(sample.result(model).log.value)
