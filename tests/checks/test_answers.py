"""Answers to questions, and findings that another one is the cause of."""

from dataclasses import replace

import pytest

import counterrank as cr
from counterrank.checks import Answer, Audit, answers_of, concluded
from counterrank.common.findings import FAILED, PASSED, WARNED, Finding

ASKED = Finding(
    "rewards-by-level", WARNED, "fewer on phones", kind="question", about="rewards",
    pattern="x_device = 'mobile' and ratio = 0.6",
)  # fmt: skip


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        ("rewards-by-level", True),
        ("rewards-by-level where device = 'mobile'", True),
        ("rewards-by-level where x_device='mobile' AND ratio=0.7", True),
        ({"code": "rewards-by-level", "where": "device = 'mobile'", "reason": "small screens"}, True),
        ("rewards-by-level where device = 'tablet'", False),
        ("rewards-by-level where device = 'mobile' and ratio = 0.3", False),
        ("rewards-by-level where device = 'mobile' and country = 'DE'", False),
        ("rewards-by-day", False),
    ],
)  # fmt: skip
def test_an_answer_fits_the_pattern_that_it_names(accept, answered):
    (found,) = concluded([ASKED], answers_of(accept))
    assert (found.accepted is not None) == answered == (found.status is PASSED)
    assert found.blamed != answered and found.kind == "question"
    reason = accept.get("reason", "") if isinstance(accept, dict) else ""
    assert not answered or found.to_dict()["accepted"] == {"reason": reason}


def test_the_answer_that_a_question_offers_fits_it_and_nothing_is_offered_for_what_is_refuted():
    offered = ASKED.to_dict()["answer"]
    (found,) = concluded([ASKED], answers_of([offered]))
    assert found.accepted == {"reason": ""}
    refuted = replace(ASKED, status=FAILED, kind="refuted")
    assert "answer" not in refuted.to_dict()
    assert concluded([refuted], answers_of([offered]))[0].status is FAILED


def test_an_answer_without_a_size_does_not_cover_rewards_that_are_gone():
    gone = replace(ASKED, pattern="device = 'mobile' and ratio = 0.02")
    assert not Answer.parse("rewards-by-level where device = 'mobile'").fits(gone)
    assert Answer.parse("rewards-by-level where device = 'mobile' and ratio = 0.02").fits(gone)


def test_a_quote_in_a_label_comes_back():
    asked = replace(ASKED, pattern="shop = 'L''été'")
    assert Answer.parse(asked.answer).fits(asked)
    assert not Answer.parse("rewards-by-level where shop = 'L'").fits(asked)


@pytest.mark.parametrize(
    ("accept", "said"),
    [
        ("rewards-by-levl", "did you mean"),
        ("rewards-by-level where device is mobile", "cannot read"),
        ("rewards-by-level where device = 'mobile' or day = 3", "joined by and"),
        ("rewards-by-level where device = 'mobile' and", "ends with and"),
        ({"code": "drift", "were": "x"}, "unknown key 'were'"),
        ({"where": "device = 'mobile'"}, "'CODE where CONDITION'"),
        ("rewards-by-level where ratio = much", "a number"),
    ],
)
def test_what_cannot_be_read_is_refused(accept, said):
    with pytest.raises(cr.CounterrankError, match=said):
        concluded([ASKED], answers_of(accept))


def finding(code: str, status=FAILED, **more) -> Finding:
    return Finding(code, status, code, **more)


def test_the_cause_names_what_it_explains_and_what_that_explains_in_turn():
    findings = [
        finding("mean-weight", explains=("mean-weight-by-*",)),
        finding("mean-weight-by-day"),
        finding("scores", explains=("mean-weight",)),
        finding("rewards-by-day"),
    ]
    audit = Audit(concluded(findings))
    assert audit[2].explains == ("mean-weight", "mean-weight-by-day")
    assert [one.explained_by for one in audit] == ["scores", "scores", "", ""]
    assert [one.code for one in audit.failed] == ["scores", "rewards-by-day"]
    assert Audit.from_dict(audit.to_dict()) == audit


def test_a_part_of_the_rows_is_the_cause_of_the_whole_and_not_the_reverse():
    whole = finding("scores", explains=("scores-by-*",))
    part = finding("scores-by-day", explains=("scores",), where="day != '2026-11-06'")
    found = concluded([whole, part])
    assert found[0].explained_by == "scores-by-day" and not found[1].explained_by


def test_nothing_is_explained_by_what_is_less_grave_or_of_another_target():
    asked = finding("scores", WARNED, kind="question", explains=("mean-weight",))
    other = finding("target-scores", target="b", explains=("mean-weight",))
    found = concluded([asked, other, finding("mean-weight", target="a")])
    assert not any(one.explained_by or one.explains for one in found)
