"""A result survives its JSON form, and a damaged one is refused."""

import json

import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.common.messages import code_of


@pytest.fixture(scope="module")
def result(gentle):
    return cr.evaluate(gentle, estimators=["ips", "iips"], segments=["x_0"])


def test_what_is_read_back_is_what_was_written(result):
    found = cr.Evaluation.from_dict(json.loads(result.to_json()))
    assert found.to_dict() == result.to_dict()
    mine, there = result.estimate("new", "ips"), found.estimate("new", "ips")
    assert there.lift.low == mine.lift.low and there.interval() == mine.interval()
    assert [code_of(f) for f in there.flags] == [code_of(f) for f in mine.flags]
    assert found.verdict.level == result.verdict.level and repr(found) == repr(result)


def older(finding, words):
    """A finding as schema 1 had it: in the audit `check` and `found`, in a verdict `check` and `reason`."""
    text, status = words
    short = {"passed": "pass", "warned": "warn", "failed": "fail"}
    row = {"check": finding["code"], text: finding["text"], "cause": finding["cause"]}
    row["status"] = short[finding["status"]] if status else finding["status"]
    return row | {"target": finding.get("target"), "help": ", or ".join(finding["remedies"])}


def test_a_result_of_schema_1_is_read(result, tmp_path):
    """The keys of findings were others; what they say is the same."""
    whole = json.loads(result.to_json())
    past = {**whole, "schema": "counterrank/evaluation/1"}
    past["audit"] = [older(row, ("found", False)) for row in whole["audit"]]
    reasons = [older(row, ("reason", True)) for row in whole["verdict"]["reasons"]]
    past["verdict"] = {**whole["verdict"], "reasons": reasons}
    (tmp_path / "past.json").write_text(json.dumps(past))
    found = cr.load(tmp_path / "past.json")

    def said(rows):
        return [(row.code, row.text, row.status, row.target, row.help) for row in rows]

    assert said(found.verdict.reasons) == said(result.verdict.reasons)
    assert said(found.audit) == said(result.audit)
    assert found.to_dict()["schema"] == "counterrank/evaluation/2"
    assert found.estimate("new", "ips").lift.low == result.estimate("new", "ips").lift.low


def test_a_level_that_was_not_written_is_refused(result):
    found = cr.Evaluation.from_dict(result.to_dict()).estimate("new", "ips")
    with pytest.raises(ConfigError, match="interval at level 0.95, not at 0.5"):
        found.interval(0.5)


def test_other_files_and_damaged_ones_are_refused(result):
    with pytest.raises(ConfigError, match="evaluation/2. is expected here, not .other/1."):
        cr.Evaluation.from_dict({"schema": "other/1"})
    for name in ("estimates", "lift", "log", "verdict"):
        damaged = {key: value for key, value in result.to_dict().items() if key != name}
        with pytest.raises(ConfigError, match=f"damaged.*{name}"):
            cr.Evaluation.from_dict(damaged)
    with pytest.raises(ConfigError, match="damaged"):
        cr.Evaluation.from_dict({**result.to_dict(), "estimates": [3]})
