"""Mixtures in one line, and in a file that a server and a log share."""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, PolicyError
from counterrank.policies import exploration_file, mixture_of, parse_policy


def test_a_mixture_is_read_as_it_is_written():
    text = "0.9*top+0.05*plackett-luce:temperature=1e+05+0.05*swap:probability=0.5,places=3"
    spec = parse_policy(text)
    assert [share for share, _ in spec.parts] == [0.9, 0.05, 0.05]
    assert spec.parts[1][1].options == {"temperature": 1e5}
    assert parse_policy(spec.text) == spec
    assert not spec.deterministic
    assert parse_policy("0.5*top+0.5*swap:probability=0").deterministic


def test_a_mixture_draws_each_part_for_its_share():
    policy = parse_policy("0.75*top+0.25*shuffle").bind(scores=[[2.0, 1.0, 0.0]])
    chance = np.exp(policy.prefix_log_prob(np.array([[0, 1, 2]]))[0, -1])
    assert chance == pytest.approx(0.75 + 0.25 / 6, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0.9*top+0.3*shuffle", "sum to 1.2"),
        ("x*top+0.3*shuffle", "'x' is no share"),
        ("-0.1*top+1.1*shuffle", "is no share"),
        ("0.5*top+0.5*softmax", "cannot be mixed"),
        ("0.5*top+0.5*policy.npz+0*top", "cannot be mixed"),
        ("0.5*top+0.5*nothing", "unknown kind 'nothing'"),
    ],
)
def test_what_is_no_mixture_is_refused(text, why):
    with pytest.raises(ConfigError, match=why):
        parse_policy(text)


def test_parts_of_no_traffic_are_left_out():
    assert mixture_of([(1.0, parse_policy("top")), (0.0, parse_policy("shuffle"))]).kind == "top"


def test_a_file_serves_and_reads_the_same_policy(tmp_path):
    rng = np.random.default_rng(0)
    spec = parse_policy("0.8*top+0.2*plackett-luce:temperature=0.5")
    path = tmp_path / "explore.json"
    path.write_text(exploration_file(spec, {"cost": 0.01}))
    scores = rng.normal(size=(50, 4))
    served = cr.load_policy(path).bind(scores=scores)
    pages = served.sample(2, rng)[:, 0]
    rows = [
        {
            "action": page.tolist(),
            "reward": [0, 1],
            "candidates": [0, 1, 2, 3],
            "propensity_scores": line.tolist(),
            "new_scores": line.tolist(),
        }
        for page, line in zip(pages, scores, strict=True)
    ]
    log_file = tmp_path / "log.jsonl"
    log_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = cr.read_log(log_file, logger=str(path), policies={"new": str(path)})
    np.testing.assert_allclose(
        log.propensity.prefix_log_prob(pages), served.prefix_log_prob(pages), rtol=1e-12
    )
    assert log.target("new").spec == spec


@pytest.mark.parametrize("policy", [None, 3, "nothing", "other.json"])
def test_a_file_without_a_spec_is_refused(tmp_path, policy):
    path = tmp_path / "explore.json"
    path.write_text(json.dumps({"schema": "counterrank/exploration/1", "policy": policy}))
    with pytest.raises(PolicyError, match=r"explore\.json"):
        cr.load_policy(path)
