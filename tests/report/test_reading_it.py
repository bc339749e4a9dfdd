"""What a product manager reads first: agreement in words, the margin of the sign, numbers that fit,
no evidence.
"""

import io
import re

import pytest
from rich.console import Console
from tests.report import sample

from counterrank.report import evaluation
from counterrank.report.estimates import agreement_drawing, agreement_in_words, values_drawing
from counterrank.report.numbers import percent, plain, short, span
from counterrank.report.sentences import cards
from counterrank.report.terminal import renderables
from counterrank.report.where import positions_drawing, segments_drawing


def changed(target: str, estimator: str, **values: object) -> dict:
    model = sample.model()
    for row in model["estimates"]:
        if (row["target"], row["estimator"]) == (target, estimator):
            row.update(values)
    return model


def test_intervals_that_do_not_overlap_are_named():
    reading = sample.reading(sample.model())
    target = reading.targets[0]
    other = next(
        e.estimator for e in reading.of(target)[1:] if e.estimator in ("ips", "rips", "snips")
    )
    best = reading.best(target)
    far = changed(target, other, low=best.high + 1, high=best.high + 2)
    near = changed(target, other, low=best.low, high=best.high)
    assert f"{other} " in agreement_in_words(sample.reading(far), target)
    assert "not overlap" in agreement_in_words(sample.reading(far), target)
    assert other not in agreement_in_words(sample.reading(near), target).split(" do")[0]


def test_terminal_and_notebook_have_one_number_of_digits_in_a_column():
    model = changed("clickbait", "ips", stderr=2.34, low=-3.0, high=5.0)
    for row in model["lift"]:
        if (row["target"], row["estimator"]) == ("clickbait", "ips"):
            row.update(stderr=2.34)
    stream = io.StringIO()
    Console(file=stream, width=130, color_system=None).print(
        *renderables(sample.result(model)), sep="\n"
    )
    text = stream.getvalue()
    part = text[text.index(" clickbait ") :].splitlines()[1:]
    cells = [re.split(r"  +", line.strip(" ★")) for line in part if re.match(r" [★ ] \w", line)]
    for column in (1, 4):
        assert len({len(line[column].partition(".")[2]) for line in cells}) == 1
    shown = evaluation._lines(sample.reading(model), "clickbait")
    assert len(shown) > 2
    for name in ("value", "lift"):
        assert len({len(line[name].partition(".")[2]) for line in shown}) == 1


@pytest.mark.parametrize(
    ("kept", "told"), [(("ips", "iips"), "Nothing else was asked for"), (("ips",), "Nothing else")]
)
def test_where_nothing_should_agree_no_agreement_is_spoken_of(kept, told):
    model = sample.model()
    model["estimates"] = [e for e in model["estimates"] if e["estimator"] in kept]
    model["recommended"] = {target: "ips" for target in model["recommended"]}
    assert agreement_in_words(sample.reading(model), "clickbait").startswith(told)


def test_one_column_has_one_number_of_digits():
    reading = sample.reading(sample.model())
    for target in reading.targets:
        shown = [row.shown for row in agreement_drawing(reading, target).rows if not row.heading]
        assert len({len(text.partition(".")[2]) for text in shown}) == 1


@pytest.mark.parametrize(("level", "z"), [(0.95, 1.959964), (0.8, 1.281552), (0.99, 2.575829)])
def test_what_has_a_standard_error_only_gets_an_interval_of_the_level(level, z):
    model = sample.model()
    for row in model["estimates"]:
        row["level"] = level
    reading = sample.reading(model)
    [today, *_] = values_drawing(reading).rows
    assert (today.low, today.high) == pytest.approx((1.2 - z * 0.006, 1.2 + z * 0.006), abs=1e-7)
    first = reading.model_path("personalised")[0]
    assert (first["low"], first["high"]) == pytest.approx((1.25 - z * 0.008, 1.25 + z * 0.008))
    at = reading.lift("personalised")["by_position"][0]
    point = positions_drawing(reading, "personalised").series[0].points[0]
    assert point.high - point.y == pytest.approx(z * at["stderr"], rel=1e-6)


def test_how_wrong_propensities_may_be_stands_on_the_card():
    model = sample.model()
    target = sample.reading(model).targets[0]
    model["sensitivity"] = {target: {"sign_changes_at": 1.31, "curve": []}}
    card = next(card for card in cards(sample.reading(model)) if card.target == target)
    assert "wrong by a factor of 1.31" in card.margin
    assert card.margin in evaluation.page(sample.result(model))


def test_a_target_without_evidence_stays_on_the_page_and_has_no_number():
    model = sample.model()
    target = sample.reading(model).targets[0]
    reason = "no row of the log could have come from it"
    for row in model["estimates"]:
        if row["target"] == target:
            row.update(
                value=None, low=None, high=None, stderr=None, estimable=False, not_estimable=reason
            )
    reading = sample.reading(model)
    assert target in reading.targets
    card = next(card for card in cards(reading) if card.target == target)
    assert card.number == "not estimable" and reason in card.sentence
    assert reason in evaluation.page(sample.result(model))
    assert any(
        reason in str(part.renderable.renderables[0])
        for part in list(renderables(sample.result(model)))[1:3]
    )


def test_huge_numbers_stay_short():
    assert plain(1_146_320_181_046.0, 1e10) == "1.146\xa0trillion"
    assert plain(2.4e15, 1e10) == "2.40e+15"
    # Ends of one interval are told in one way.
    assert span(756_801_774.0, 3.34e9, 6.6e8) == "757\xa0million to 3.3\xa0billion"
    assert [short(v) for v in (1.2e10, -4e12, 3e15)] == ["12B", "−4T", "3.00e+15"]
    assert percent(1e13, sign=True).startswith("+1.00e+15")
    assert len(short(123_456_789.0)) <= 6


def test_segments_have_one_number_of_digits_too():
    changed = sample.model()
    changed["segments"][2]["lift"] |= {"stderr": 0.4}
    for target in sample.TARGETS:
        rows = segments_drawing(sample.reading(changed), target).rows
        shown = {row.shown.partition(".")[2] for row in rows if not row.heading}
        assert {len(digits) for digits in shown} == {3}


def test_no_aid_speaks_of_dark_and_light():
    text = evaluation.page(sample.result(sample.model()))
    assert "dark is" not in text and "darker" not in text


def test_where_methods_differ_ips_says_which_to_doubt():
    target = sample.TARGETS[0]
    best = sample.reading(sample.model()).best(target)
    far = {"low": best.high + 1, "high": best.high + 2}
    told = agreement_in_words(sample.reading(changed(target, "rips", **far)), target)
    assert told.startswith("rips does not overlap") and "ips, which assumes nothing" in told
    told = agreement_in_words(sample.reading(changed(target, "ips", **far)), target)
    assert "which assumes nothing" not in told
