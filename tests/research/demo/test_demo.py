"""The demo's shop: its truth is right, and its point is visible."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import counterrank as cr
from counterrank.report import at_least
from counterrank.research.demo import make_log, run, shop


def test_the_closed_form_agrees_with_clicks() -> None:
    rng = np.random.default_rng(5)
    who = shop.visits(200_000, rng)
    for name in shop.TARGETS:
        policy = shop.target_policy(who, name)
        shown = cr.Factored(policy).sample(shop.SLOTS, rng)[:, 0]
        clicks = (rng.random(shown.shape) < shop.click_probability(who, shown)).sum(axis=1)
        error = clicks.std() / np.sqrt(len(clicks))
        # Two looks at |z| < 5: a false alarm in a million runs.
        assert abs(clicks.mean() - shop.true_value(who, policy)) < 5 * error


def test_policies_are_distributions_that_the_log_covers() -> None:
    who = shop.visits(1000, np.random.default_rng(1))
    logging = shop.logging_policy(who)
    for policy in (logging, *(shop.target_policy(who, name) for name in shop.TARGETS)):
        assert policy.shape == (1000, len(shop.MODULES))
        np.testing.assert_allclose(policy.sum(axis=1), 1, atol=1e-12)
        assert (policy / logging).max() < 3


def test_one_target_is_good_and_the_other_only_looks_good(tmp_path: Path) -> None:
    truth = shop.truth()
    assert truth["personalised"] > 1.05 * truth["logging"] > truth["clickbait"] * 1.1
    make_log(tmp_path / "log.parquet")
    result = cr.evaluate(
        tmp_path / "log.parquet",
        list(shop.TARGETS),
        estimators=["iips", "ips", "order-3"],
        audit=False,
    )
    alone, whole = (result.estimate("clickbait", name).lift for name in ("iips", "ips"))
    assert alone.low > 0 > whole.value
    for name in shop.TARGETS:
        found = result.estimate(name, "order-3")
        # Seeded: this holds or not, once and for all.
        assert abs(found.value - truth[name]) < 3 * found.stderr


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_log(tmp_path / name, n=500)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    make_log(tmp_path / "c", n=500, seed=1)
    assert (tmp_path / "c").read_bytes() != (tmp_path / "a").read_bytes()


@pytest.mark.slow
def test_run_prints_the_truth_and_writes_the_reports(tmp_path: Path) -> None:
    stream = io.StringIO()
    run(tmp_path, console=Console(file=stream, width=100), n=2000)
    text = stream.getvalue()
    assert "★ auto" in text and "the truth is known" in text and "report.html" in text
    model = json.loads((tmp_path / "report.json").read_text())
    assert {row["target"] for row in model["segments"]} == set(shop.TARGETS)
    page = (tmp_path / "report.html").read_text()
    assert "clicks per page" in page and len(page) < 1_000_000
    assert "The truth: +" in text and "certificate" in (tmp_path / "learned.html").read_text()
    learned = json.loads((tmp_path / "learned.json").read_text())
    low, error = (
        100 * learned["lift"][name] / learned["logger"]["value"] for name in ("low", "stderr")
    )
    assert f"at least {at_least(low, error)}" in text.replace("+", ""), text
    assert float(re.search(r"The truth: \+([\d.]+)", text)[1]) >= low
    assert learned["certified"] and cr.load_policy(tmp_path / "policy.json").m == learned["m"]


@pytest.mark.slow
def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    shown = readme.split("The demo prints:")[1].split("```")[1].removeprefix("text\n")
    stream = io.StringIO()
    run(tmp_path, console=Console(file=stream, width=110))
    printed = " ".join(stream.getvalue().split())
    for line in filter(None, shown.splitlines()):
        assert " ".join(line.split()) in printed, line
