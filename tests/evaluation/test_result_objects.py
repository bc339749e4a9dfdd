"""What people touch in a notebook: names with a remedy, a verdict and an audit that say what they
are.
"""

import copy
import json
import pickle
import re

import numpy as np
import pytest

import counterrank as cr
from counterrank.checks import Audit, Finding
from counterrank.common.findings import FAILED, PASSED, WARNED
from counterrank.evaluation import Verdict


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(3)
    action = rng.integers(0, 3, (600, 2))
    return cr.RankingLog(
        action=action,
        reward=(rng.random((600, 2)) < 0.2 + 0.2 * action / 3).astype(float),
        propensity=np.full((600, 2), 1 / 3),
        columns={"device": np.array(["tv", "phone", "desk"] * 200)},
    )


@pytest.fixture(scope="module")
def result(log):
    target = np.array([0.2, 0.3, 0.5])[log.action]
    return cr.evaluate(
        log, {"new": target, "other": target}, estimators=["iips", "ips"], segments="device"
    )


def test_one_column_may_be_named_without_a_list(log, result):
    assert {row["column"] for row in result.segments} == {"device"}
    assert {row["label"] for row in result.segments} == {"tv", "phone", "desk"}
    in_a_list = cr.evaluate(
        log, {"new": np.full((600, 2), 1 / 3)}, estimators=["iips"], segments=["device"]
    )
    alone = cr.evaluate(
        log, {"new": np.full((600, 2), 1 / 3)}, estimators=["iips"], segments="device"
    )
    assert alone.segments == in_a_list.segments
    assert cr.audit_log(log, segments="device") == cr.audit_log(log, segments=["device"])


@pytest.mark.parametrize("asked", [("nwe",), ("new", "isp")])
def test_an_unknown_name_says_which_there_are(result, asked):
    near, known = ("'new'", "new, other") if len(asked) == 1 else ("'ips'", "iips, ips")
    with pytest.raises(
        cr.CounterrankError,
        match=f"no .* '{asked[-1]}' \\(did you mean {near}\\?\\).* are {known}$",
    ):
        result.estimate(*asked)
    with pytest.raises(KeyError):  # as before
        result.estimate(*asked)


def test_an_estimate_says_in_a_line_what_it_is(result):
    shown = repr(result.estimate("new", "iips"))
    assert shown.startswith("Estimate(iips of new: ") and len(shown) < 120
    lift = repr(result.estimate("new", "iips").lift)
    assert re.fullmatch(r"Lift\([+-]\S+ \([+-]\S+ to [+-]\S+\)\)", lift)


def test_a_verdict_is_an_object_and_is_read_by_key_too(result):
    verdict = result.verdict
    assert (
        verdict.level
        == verdict["level"]
        == verdict.get("level")
        == result.to_dict()["verdict"]["level"]
    )
    assert verdict.reasons == verdict["reasons"] and verdict.targets == verdict["targets"]
    assert verdict.summary == verdict["summary"]
    assert json.loads(result.to_json())["verdict"] == verdict.to_dict()
    assert verdict.reasons[0]["check"] == verdict.reasons[0].check
    assert {"level", "reasons", "summary", "targets"} <= set(dir(verdict))
    shown = repr(verdict)
    assert shown.startswith(f"Verdict('{verdict.level}'") and len(shown) < 200 and "units" in shown
    assert verdict.summary in str(verdict) and "warn units" in str(verdict)
    for other in (copy.copy(verdict), pickle.loads(pickle.dumps(verdict))):
        assert isinstance(other, Verdict) and other == verdict


def test_a_result_without_a_verdict_says_so():
    assert (
        repr(Verdict()) == "Verdict('none')"
        and Verdict().reasons == ()
        and str(Verdict()) == "none"
    )


def test_audits_can_be_asked_for_what_went_wrong(log, result):
    found = cr.audit_log(log)
    assert found[0]["status"] in ("passed", "warned", "failed", "skipped")
    parts = (found.failed, found.warned, found.passed, found.skipped)
    assert sum(map(len, parts)) == len(found) and all(isinstance(part, Audit) for part in parts)
    assert len(repr(found)) < 200 and f"passed={len(found.passed)}" in repr(found)
    assert json.loads(found.to_json()) == {
        "schema": "counterrank/audit/2",
        "audit": [one.to_dict() for one in found],
    }
    assert isinstance(result.audit, Audit) and pickle.loads(pickle.dumps(found)) == found


def test_what_a_column_is_called_is_never_markup():
    evil = Audit(
        [Finding("units", FAILED, "[red]<b>x</b>\x1b[2J", ("a & b",)),
         Finding("drift", WARNED, "y", ("what to do",), cause="why"),
         Finding("range", PASSED, "z")]
    )  # fmt: skip
    assert repr(evil) == "Audit(failed=['units'], warned=['drift'], passed=1)"
    assert (
        "&lt;b&gt;" in evil._repr_html_()
        and "<b>" not in evil._repr_html_()
        and "a &amp; b" in evil._repr_html_()
    )
    assert (
        "[red]<b>x</b>" in str(evil)
        and "\x1b" not in str(evil)
        and "✗ Enough independent" in str(evil)
    )
    assert "Likely cause: why" in str(evil) and "Remedy: what to do" in str(evil)


@pytest.mark.parametrize(
    "call",
    [
        lambda log, **more: cr.evaluate(log, {"new": np.full((600, 2), 1 / 3)}, **more),
        lambda log, **more: cr.audit_log(log, **more),
        lambda log, **more: cr.learn(log, **more),
        lambda log, **more: cr.validate(log, "device", **more),
    ],
)
def test_options_that_a_log_in_memory_would_ignore_are_refused(log, call):
    with pytest.raises(cr.CounterrankError, match=r"'segment' \(did you mean 'segments'\?\)"):
        call(log, segment="device")
    with pytest.raises(cr.CounterrankError, match="'unit' says how to read a log"):
        call(log, unit="device")
