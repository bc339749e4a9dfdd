"""Odd but honest services keep their decision: nothing of them is refuted, and what looks odd is a question."""

import numpy as np
import pytest
from benchmarks.audit_power import answered
from benchmarks.healthy import KINDS, as_numbers, healthy_world, shortened
from benchmarks.other_services import SERVICES
from benchmarks.pipeline_errors import ERRORS, Shop, audited, shop_world

import counterrank as cr


def stands(world, **options):
    found = cr.audit_log(world.log(), ["new"], time=world.time, **options)
    return [one for one in found if one.stands and one.kind != "note"]


@pytest.mark.parametrize(
    "kind",
    ["seconds of watching", "packs of ten", "cents", "one place and eight", "promotion", "release",
     "long tail", "kiosks", "weekends", "country", "new users", "season"],
)  # fmt: skip
def test_nothing_is_said_of_an_honest_service(kind):
    """In `python -m benchmarks.healthy --seeds 6` none of these is asked about in more than one log of six."""
    assert stands(healthy_world(kind, 0, 4000)) == []


def test_pages_with_fewer_places_are_compared_at_the_places_that_both_have():
    rng = np.random.default_rng(0)
    assert stands(shortened(as_numbers(SERVICES["news, widget"](rng, 8000)))) == []


def test_two_levels_are_not_twice_as_far_apart_as_they_are():
    """People at a television open seven where others open ten."""
    assert stands(healthy_world("televisions", 2, 4000)) == []


def test_questions_of_a_healthy_log_are_answered_by_the_line_that_they_print():
    world = healthy_world("night", 1, 4000)
    (question,) = stands(world)
    assert answered(world, (question.answer,))


def test_a_first_screen_is_a_question_that_can_be_answered():
    world = healthy_world("first screen", 1, 4000)
    (asked,) = stands(world)
    assert (asked.kind, asked.status, asked.about) == ("question", "warned", "rewards")
    assert asked.text.endswith("?") and not asked.where and "leave" not in asked.help
    assert asked.answer == "rewards-by-position where x_device = 'mobile' and position >= 5"
    for answer in (asked.answer, "rewards-by-position where device = 'mobile'"):
        assert stands(world, accept=answer) == []
    assert stands(world, accept="rewards-by-position where device = 'tablet'") == [asked]
    # The pattern is another one where the screen ends higher up.
    higher = world.columns["reward"].copy()
    higher[world.columns["x_device"] == "mobile", 3] = 0.0
    (again,) = stands(world.changed(reward=higher), accept=asked.answer)
    assert "position >= 4" in again.answer


def test_a_question_keeps_the_evidence_and_an_answer_gives_it_back():
    log = healthy_world("first screen", 1, 4000).log()
    options = {"target_is_fresh": True, "estimators": "auto"}
    asked = cr.evaluate(log, ["new"], **options)
    question = next(one for one in asked.audit if one.kind == "question")
    assert "rewards-by-position" in {one.code for one in asked.verdict.reasons if one.blamed}
    assert "fix this first" not in asked.summary()
    told = {"code": question.code, "where": question.pattern, "reason": "four items fit on a phone"}
    answered = cr.evaluate(log, ["new"], accept=[told], **options)
    assert "rewards-by-position" not in {one.code for one in answered.verdict.reasons}
    row = next(one for one in answered.to_dict()["audit"] if one["code"] == question.code)
    assert row["accepted"] == {"reason": "four items fit on a phone"}
    assert "four items fit on a phone" in answered.to_html()
    (recorded,) = answered.provenance.options["accept"]
    assert recorded["reason"] == "four items fit on a phone"
    assert cr.Evaluation.from_dict(answered.to_dict()).to_dict() == answered.to_dict()


@pytest.mark.parametrize(
    "name, cause",
    [("scores logged times 1.3", "scores"), ("other scores on one day", "scores-by-day"),
     ("new scores know the clicks", "scores-by-target"), ("all rows twice, new ids", "duplicates"),
     ("no clicks from mobile", "rewards-by-level"),
     ("no clicks from mobile, from a day on", "rewards-by-level-and-day")],
)  # fmt: skip
def test_one_error_is_told_once(name, cause):
    audit = audited(ERRORS[name](shop_world(Shop(), 0), np.random.default_rng(1)))
    assert [one.code for one in audit if one.stands and one.kind != "note"] == [cause]
    (root,) = [one for one in audit if one.code == cause and one.stands]
    assert set(root.explains) == {one.code for one in audit if one.explained_by}


def test_a_segment_is_one_column_with_the_name_that_the_file_has():
    from dataclasses import replace

    world = as_numbers(ERRORS["scores logged times 1.3"](shop_world(Shop(), 0), None))
    columns = {name.removeprefix("x_"): one for name, one in world.columns.items()}
    log = replace(world, columns=columns, context=()).log()
    codes = [
        [one.code for one in cr.evaluate(log, ["new"], segments=["device"], time="day").audit],
        [one.code for one in cr.audit_log(log, ["new"], segments=["device"], time="day")],
    ]
    assert codes[0] == codes[1] and "mean-weight-by-device" in codes[0]
    assert not any("x_device" in code for code in codes[0])


def test_every_kind_is_reproducible():
    assert len(KINDS) >= 15
    one, other = (healthy_world("tips", 3, 200).columns["reward"] for _ in range(2))
    assert (one == other).all()


def test_the_command_prints_the_answer_that_it_takes(tmp_path):
    import json

    import pyarrow.parquet as pq
    from click.testing import CliRunner

    from counterrank.cli.main import main

    pq.write_table(healthy_world("first screen", 1, 4000).table(), tmp_path / "log.parquet")
    asked = [
        "check",
        str(tmp_path / "log.parquet"),
        "--target",
        "new",
        "--propensity-kind",
        "prefix",
    ]
    asked += ["--columns", "unit=user", "--context", "x_device,x_country,x_age"]
    told = CliRunner().invoke(main, [*asked, "--json", "-"])
    (question,) = [row for row in json.loads(told.stdout)["audit"] if row["kind"] == "question"]
    answered = CliRunner().invoke(main, [*asked, "--json", "-", "--accept", question["answer"]])
    rows = json.loads(answered.stdout)["audit"]
    assert not [row for row in rows if row["kind"] == "question" and row["status"] == "warned"]
    assert [row["accepted"] for row in rows if row.get("accepted")] == [{"reason": ""}]
