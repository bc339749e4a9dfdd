"""The ledger: its commands run as they are written, and its tables are made from results."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from benchmarks.ledger import __main__ as ledger
from benchmarks.ledger import claims, tables, worlds
from benchmarks.ledger.results import Errors, geometric
from matplotlib import pyplot

from counterrank.cli.main import main
from counterrank.research.bench import Protocol
from counterrank.research.paper import figures, results
from counterrank.research.simulate import paper

COMMANDS = [words for words in ledger.commands() if words[2] != "page"]


def test_every_figure_of_the_ledger_has_a_command_and_every_figure_is_run():
    run = {words[2] for words in COMMANDS}
    assert set(figures.FIGURES) <= run
    compared = {claim.figure for claim in (*claims.COMPARED, *claims.CHANGES)}
    assert compared | {name for name, *_ in claims.TOLD_ERRORS} | {*tables.RUN_TIMES} <= run


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[2:5:2]))
def test_a_command_of_the_ledger_runs(words, tmp_path, monkeypatch):
    """As written, but one seed, one point of the figure, logs of 400 rankings and no pictures."""
    monkeypatch.setattr(results, "save", lambda figure, *_: pyplot.close(figure) or [])
    monkeypatch.setattr(figures, "Setting", partial(figures.Setting, n=400))
    get = figures.get
    monkeypatch.setattr(
        figures, "get", lambda name: replace(get(name), values=get(name).values[:1])
    )
    read = Protocol.read
    small = {"worlds": ("text:1",), "seeds": (0,)}
    monkeypatch.setattr(Protocol, "read", lambda path: replace(read(path), **small))
    words = ledger.moved(words[1:], tmp_path)
    if "--seeds" in words:
        words[words.index("--seeds") + 1] = "1"
        words += ["--jobs", "1"]
    if words[1].endswith(".toml"):
        words[1] = str(tables.DOCS / Path(words[1]).name)
    main.main(words, standalone_mode=False)
    assert list(tmp_path.rglob("*.md")) and list(tmp_path.rglob("seed-*.parquet"))


def test_the_page_has_a_place_for_every_table():
    page = (tables.DOCS / "reproduction.md").read_text(encoding="utf-8")
    names = ("claims", "agreement", *tables.MAIN)
    assert ledger.written(page, dict.fromkeys(names, "| a |")).count("| a |\n<!-- end -->") == len(
        names
    )
    with pytest.raises(SystemExit, match="0 places for nothing"):
        ledger.written(page, {"nothing": ""})


def results_of(name, values, x, truth=2.0):
    count = len(values)
    return {
        "x": np.array([x] * count, dtype=object),
        "seed": np.arange(count),
        "estimator": np.array([name] * count),
        "value": np.array(values),
        "low": np.array(values) - 1,
        "high": np.array(values) + 1,
        "truth": np.full(count, truth),
    }


def joined(*parts):
    return Errors({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def test_a_claim_is_counted_in_every_world():
    """`aips` has a quarter of the error of `iips` in one world of four, and four times the error in three."""
    names = [worlds.world_name("text", w, figures.Setting()) for w in range(worlds.COUNT)]
    parts = []
    for w, x in enumerate(names):
        mine, other = (3.0, 4.0) if w == 0 else (4.0, 3.0)
        parts += [results_of("aips", [mine] * 3, x), results_of("iips", [other] * 3, x)]
    elsewhere = claims.Elsewhere(joined(*parts), "text")
    assert elsewhere.below("aips", ["iips"], [{}], worse=False).startswith("1 of 4; 2.0 (")
    assert elsewhere.below("aips", ["iips"], [{}], worse=True).startswith("3 of 4; 2.0 (")
    assert elsewhere.errors.ratio("aips", "iips", names[0])[0] == pytest.approx(0.25)
    assert elsewhere.errors.coverage("aips") == (3, 12)


def test_ratios_over_worlds_are_geometric_means():
    value, (low, high) = geometric([0.5, 1.0, 2.0])
    # Logarithms -.693, 0, .693: standard error .4, t at two degrees of freedom 4.303.
    assert (value, low) == pytest.approx((1.0, np.exp(-4.3027 * 0.6931 / np.sqrt(3))), rel=1e-3)
    assert low * high == pytest.approx(1.0)


@pytest.mark.parametrize("K", [4, 6, 7, 8])
def test_models_that_are_the_same_in_the_worlds_of_the_text(K):
    """R6 equals S for K <= 7, R3 for K <= 4, as the page says."""
    world = paper(K=K)
    masks = dict(zip(world.behavior_names, world.masks, strict=True))
    assert (masks["R6"] == masks["S"]).all() == (K <= 7)
    assert (masks["R3"] == masks["S"]).all() == (K <= 4)
