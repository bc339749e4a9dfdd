"""Plain sentences: the outcome and the evidence never mix."""

import copy
from typing import Any

import pytest
from tests.report import sample

from counterrank.evaluation import Comparison, OrderPoint, ValidationReport
from counterrank.report import sentences
from counterrank.report.estimates import path_drawing
from counterrank.report.reading import Reading


@pytest.fixture
def model() -> dict[str, Any]:
    return sample.model()


def change(model: dict[str, Any], target: str, **lift: float) -> Reading:
    changed = copy.deepcopy(model)
    for row in changed["lift"]:
        if row["target"] == target:
            row.update(lift)
    return sample.reading(changed)


def test_answer_names_target_units_lift_and_interval(model: dict[str, Any]) -> None:
    text = sentences.answer(sample.reading(model), "personalised").replace("\u202f", " ")
    expected = (
        "Under personalised, a page would earn 0.100 clicks more than today (+8.3 %, 95 % "
        "interval +6.9 % to +9.8 %)."
    )
    assert text == expected


def test_a_loss_is_said_as_fewer(model: dict[str, Any]) -> None:
    assert "0.120 clicks fewer than today" in sentences.answer(sample.reading(model), "clickbait")


def test_directional_evidence_is_said_as_probable(model: dict[str, Any]) -> None:
    assert "would probably earn" in sentences.answer(sample.reading(model), "clickbait")


def test_an_interval_over_zero_is_no_finding(model: dict[str, Any]) -> None:
    reading = change(
        model, "personalised", low=-0.01, high=0.2, relative_low=-0.01, relative_high=0.2
    )
    assert "no change at all is just as plausible" in sentences.answer(reading, "personalised")
    assert "cannot be told apart" in sentences.headline(reading)


def test_insufficient_evidence_beats_a_large_lift(model: dict[str, Any]) -> None:
    model["verdict"]["targets"]["personalised"] = "insufficient"
    reading = sample.reading(model)
    assert sentences.answer(reading, "personalised").startswith(
        "This log cannot tell what personalised would earn."
    )
    assert "beats" not in sentences.headline(reading)


def test_headline_covers_every_target(model: dict[str, Any]) -> None:
    assert (
        sentences.headline(sample.reading(model))
        == "personalised beats today's policy; clickbait probably does worse"
    )
    model["verdict"] = {}
    assert (
        sentences.headline(sample.reading(model))
        == "personalised beats today's policy; clickbait does worse"
    )


def test_settle_gives_help_then_rows_then_test(model: dict[str, Any]) -> None:
    lines = [
        line.replace("\u202f", " ") for line in sentences.settle(sample.reading(model), "clickbait")
    ]
    assert lines == [
        "Log more exploration at positions 5 and 6.",
        "This log can detect a lift of about 2.5 % or more.",
        "To detect 2 %, about 38,000 logged pages are needed.",
        "An A/B test with 61,000 pages in total would be as precise as this log.",
    ]
    assert sentences.settle(sample.reading(model), "personalised") == []


def test_no_plan_is_made_of_an_error_that_cannot_be_trusted(model: dict[str, Any]) -> None:
    model["verdict"]["targets"]["clickbait"] = "insufficient"
    assert sentences.settle(sample.reading(model), "clickbait") == [
        "Log more exploration at positions 5 and 6.",
        "An A/B test would settle it without weights.",
    ]


def test_comparison_puts_the_better_one_first(model: dict[str, Any]) -> None:
    text = sentences.comparison(sample.reading(model), sample.result(model).comparisons[0])
    assert text.startswith("personalised earns 0.220 clicks per page more than clickbait (adjusted")
    assert "+0.180 to +0.260" in text


def test_level_is_written_as_asked() -> None:
    model = sample.model()
    for row in model["estimates"]:
        row["level"] = 0.995
    assert sentences.level(sample.reading(model)) == "99.5\u202f%"


@pytest.mark.parametrize(
    ("widths", "values", "said"),
    [
        ((0.1, 0.1, 0.1), (1.0, 1.01, 1.02), "No drift"),
        ((0.1, 0.1, 0.1), (1.0, 1.5, 1.6), "how items act on each other matters"),
        ((0.1, 0.2, 0.9), (1.0, 1.01, 1.2), "the data ends before"),
        ((0.1, 0.2, 0.9), (1.0, 1.5, 1.6), "there the data ends"),
    ],
)
def test_order_path_is_read_aloud(
    widths: tuple[float, ...], values: tuple[float, ...], said: str
) -> None:
    path = [
        OrderPoint(k, v, low=v - w, high=v + w)
        for k, (v, w) in enumerate(zip(values, widths, strict=True))
    ]
    assert said in sentences.path(path)


def test_the_card_gives_the_lift_in_units_beside_the_share(model: dict[str, Any]) -> None:
    text = sentences.answer(sample.reading(model), "personalised", absolute=True).replace(
        "\u202f", " "
    )
    assert text.startswith(
        "Under personalised, a page would earn 0.100 clicks more than today (95 % interval +0.0"
    )
    assert text.count("%") == 1


def test_of_several_numbers_of_rows_the_largest_is_advised(model: dict[str, Any]) -> None:
    def doubt(check: str, rows: int | None, words: str) -> dict[str, Any]:
        return {
            "target": "clickbait",
            "check": check,
            "status": "warn",
            "reason": "r",
            "help": words,
            "rows": rows,
        }

    model["verdict"]["reasons"] = [
        doubt("units", 500, "about 500 rows"), doubt("ess", 1100, "about 1,100 "
                                                                  "rows"), doubt("tail", None, "or that")
    ]  # fmt: skip
    assert sentences.settle(sample.reading(model), "clickbait")[:2] == [
        "About 1,100 rows.",
        "Or that.",
    ]


def test_no_difference_at_all_is_said_without_an_interval(model: dict[str, Any]) -> None:
    zero = dict.fromkeys(("value", "low", "high", "relative", "relative_low", "relative_high"), 0.0)
    reading = change(model, "personalised", **zero)
    assert "no difference at all between personalised and today's policy" in sentences.answer(
        reading, "personalised"
    )
    assert sentences.settle(reading, "personalised") == []


def test_an_interval_of_no_width_is_not_shown(model: dict[str, Any]) -> None:
    reading = change(model, "personalised", relative=-0.25, relative_low=-0.25, relative_high=-0.25)
    assert "these rows give no interval" in sentences.answer(reading, "personalised")


def test_where_shares_have_no_meaning_plans_are_in_units(model: dict[str, Any]) -> None:
    model["planning"]["clickbait"] = {
        "detectable_lift": 1.0617,
        "detectable_relative": None,
        "rows_for": [],
    }
    assert "This log can detect a lift of about 1.06 clicks or more." in sentences.settle(
        sample.reading(model), "clickbait"
    )


def test_one_is_singular(model: dict[str, Any]) -> None:
    model["log"].update(n=1, K=1)
    assert sentences.logged(sample.reading(model)).startswith("From 1 page of 1 position;")


def test_without_a_share_the_card_does_not_say_the_interval_twice(model: dict[str, Any]) -> None:
    reading = change(model, "personalised", relative=float("nan"))
    assert sentences.answer(reading, "personalised", absolute=True).endswith(
        "clicks more than today."
    )


def test_no_difference_is_said_also_where_the_evidence_is_insufficient(
    model: dict[str, Any],
) -> None:
    model["verdict"] = {"level": "insufficient", "reasons": [], "targets": {}}
    zero = dict.fromkeys(("value", "low", "high", "relative", "relative_low", "relative_high"), 0.0)
    assert "no difference at all" in sentences.answer(
        change(model, "personalised", **zero), "personalised"
    )


def test_two_targets_that_are_the_same_are_not_ranked(model: dict[str, Any]) -> None:
    row = Comparison("a", "b", 0.0, 0.0, 0.0, 0.0)
    found = sentences.comparison(sample.reading(model), row)
    assert found == "a and b do not differ at all on this log."


@pytest.mark.parametrize(
    ("flags", "name"),
    [([], "with a reward model"), (["weights-only"], "with mean-zero controls")],
)
def test_the_second_path_is_called_what_it_is(model: dict[str, Any], flags, name) -> None:
    best = next(e for e in model["estimates"] if e["target"] == "clickbait")
    best["flags"], best["flag_codes"] = [f"{code}: so" for code in flags], flags
    best["details"] = {"order_path": [{"order": k, "value": 1.0, "stderr": 0.1} for k in (1, 2)]}
    drawn = path_drawing(sample.reading(model), "clickbait")
    assert drawn is not None and name in drawn.names


def test_advice_is_given_once(model: dict[str, Any]) -> None:
    explore = "a logging policy that explores more"
    told = [
        ("units", ["more rows", explore]),
        ("precision", ["more rows"]),
        ("agreement", ["more rows", explore, "run more estimators"]),
        ("tail", ["lighter weights", "a higher order"]),
    ]
    both = {"target": "clickbait", "status": "fail", "reason": "so"}
    model["verdict"]["reasons"] = [
        {**both, "check": check, "help": ", or ".join(ways), "ways": ways} for check, ways in told
    ]
    last = ["Run more estimators.", "Lighter weights, or a higher order."]
    found = sentences.settle(sample.reading(model), "clickbait")
    assert found[:3] == ["More rows, or a logging policy that explores more.", *last]
    # A number of rows says more than "more rows", wherever it stands.
    model["verdict"]["reasons"].append({**both, "check": "ess", "help": "about 9 rows", "rows": 9})
    found = sentences.settle(sample.reading(model), "clickbait")
    assert found[:4] == ["A logging policy that explores more.", *last, "About 9 rows."]


def test_errors_that_cancel_are_not_called_none():
    """Two arms predicted from each other err in opposite ways: the mean says nothing where none held."""
    from counterrank.report.validating import sentences as of_validation

    def said(*held):
        row = {"from": "a", "to": "b"}
        pairs = [{**row, "covered": one, "sign_right": one} for one in held]
        summary = {"pairs": 2, "bias": 0.001, "bias_low": -0.01, "bias_high": 0.012}
        report = ValidationReport.from_dict({"summary": summary, "pairs": pairs})
        return " ".join(of_validation(report))

    assert "0 of 2 intervals held" in said(False, False)
    assert "No constant error" not in said(False, False) and "cancel" in said(False, False)
    assert "No constant error was found" in said(True, True, True, False)
