"""The page of a folder of results: what is there, and only that."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.errors import ConfigError
from counterrank.research.paper import figures, runner
from counterrank.research.paper import results as published
from counterrank.research.paper.page import _in_words, page, write_page
from counterrank.research.paper.results import PointSummary, seed_file
from counterrank.research.paper.runner import run_seeds


def results(out, figure, estimators, seeds=2, **changes):
    experiment = replace(figures.get(figure), estimators=estimators, **changes)
    run_seeds(experiment, "published", range(seeds), out / figure, jobs=1)


def test_the_page_compares_with_the_published_values(tmp_path):
    results(tmp_path, "data-size", ("ips", "iips"), values=(1000,))
    (tmp_path / "behavior.md").write_text("here")
    assert list(write_page(tmp_path)) == [f"wrote {tmp_path / 'reproduction.md'}"]
    text = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert (
        "### Over the number of rankings n, figure 2" in text
        and "length of the ranking" not in text
    )
    assert "| iips | 0.2" in text and "(0.206; 1.00, 0.9" in text
    assert "| squared bias / V² | 1000 |" in text and "(0.000777) |" in text
    assert "| variance / V² | 1000 |" in text and "(0.001) |" in text
    assert "**AIPS with the oracle**: no results yet." in text
    assert "## Time" not in text and "<!--" not in text
    assert "accuracy.md" not in text


def test_sentences_say_what_was_measured(tmp_path):
    """Without results no number of ours is told; with them, those of the tables."""
    text = page(tmp_path, tmp_path)
    assert "solved for its numbers: no results yet." in text
    assert "the own one), no results yet." in text
    assert "as 0.012, 0.0109 and 0.012.\n" in text and "Ours gives" not in text
    results(tmp_path, "toy", (), seeds=1)
    found = [
        summary(name, mse)
        for name, mse in (("aips", 0.03), ("aips (oracle)", 0.02), *CLASSIC.items())
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            published,
            "summaries",
            lambda out, figure, *a, **k: found if figure == "data-size" else [],
        )
        text = page(tmp_path, tmp_path)
    assert "bias 0.00 and 0.10, variance 0.50 and 0.30, MSE 0.50 and 0.31." in text
    assert "Ours gives 0.02." in text
    told = " ".join(text.split())
    assert (
        "its MSE is 1.5 to 1.5 times the oracle's (median 1.5), and above that of the best of "
        in told
    )
    assert "IPS, IIPS and RIPS at 1 of 1 points." in told


def test_the_listing_is_compared_on_common_runs(tmp_path):
    assert "In the published world no results yet." in " ".join(page(tmp_path, tmp_path).split())
    names = ("aips (oracle)", "aips (oracle, text)")
    results(tmp_path, "data-size", names, seeds=1, values=(1000,))
    results(tmp_path, "data-size", names[:1], seeds=2, values=(1000,))
    told = " ".join(page(tmp_path, tmp_path).split())
    rows = published.read_rows(tmp_path / "data-size", "published", [0])
    error = {
        name: (rows["value"] - rows["truth"])[(rows["estimator"] == name) & (rows["x"] == 1000)][0]
        for name in names
    }
    ratio = (error[names[1]] / error[names[0]]) ** 2
    assert f"over number of rankings n {ratio:.2f} (1 seeds)." in told


def test_the_world_of_the_text_is_told_in_its_own_numbers():
    found = [summary(name, mse) for name, mse in (("auto", 0.005), *CLASSIC.items())]
    told = _in_words(found)
    assert told.startswith("Best of ips, iips, rips, aips (true): rips at 1 of 1 sizes.")
    assert "`auto` divided by the best of them: 0.25;" in told


CLASSIC = {"ips": 0.2, "iips": 0.03, "rips": 0.02}


def summary(name, mse, x=8000.0):
    bands = dict.fromkeys(published.METRICS, (mse / 2, 2 * mse))
    return PointSummary(
        x, name, 9, {"mse": mse, "squared_bias": 0.0, "variance": mse}, bands, 0.9, 1.0, 0.1
    )


def test_time_is_told_of_whole_trials(tmp_path):
    for figure, x in (("runtime-data-size", 8000), ("runtime-slate-size", 4)):
        results(tmp_path, figure, ("ips", "aips (oracle)"), seeds=1, values=(x,))
    text = page(tmp_path, tmp_path)
    assert "CPU hours" in text and "took the public code 167.2 s" in text.replace("\n", " ")


def test_other_figures_and_worlds_have_tables_too(tmp_path):
    results(tmp_path, "toy", (), seeds=1)
    results(tmp_path, "distribution-delta", (), seeds=1, values=(0.5,))
    text = page(tmp_path, tmp_path)
    assert "## The other figures" in text and "### toy" in text and "| I1 | 0.2" in text
    run_seeds(replace(figures.get("data-size"), estimators=("ips",), values=(300,)), "random", range(1),
              tmp_path / "data-size", jobs=1)  # fmt: skip
    list(write_page(tmp_path, tmp_path / "random.md", preset="random"))
    assert "### data-size" in (tmp_path / "random.md").read_text(encoding="utf-8")


def test_estimators_can_follow_later(tmp_path):
    results(tmp_path, "data-size", ("ips",), seeds=1, values=(300,))
    path = seed_file(tmp_path / "data-size", "published", 0)
    before = pq.read_table(path).to_pylist()
    results(tmp_path, "data-size", ("ips", "iips"), seeds=1, values=(300,))
    after = pq.read_table(path).to_pylist()
    assert after[:1] == before and [row["estimator"] for row in after] == ["ips", "iips"]
    assert runner.missing_estimators(
        replace(figures.get("data-size"), estimators=("ips", "rips")), path
    ) == ("rips",)


def compared(ratio, low, high, name="aips (oracle)"):
    summary = PointSummary(8000, name, 9, {"mse": ratio}, {"mse": (low, high)}, 0.9, 1.0, 0.1)
    return published.BesidePublished("data-size", summary, 1.0)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([(1.1, 0.9, 1.3)], "1 of 1 values lie within 25%"),
        ([(1.4, 1.2, 1.6)], "None is outside beyond chance"),
        ([(1.4, 1.3, 1.6), (1.0, 0.9, 1.1)], "Beyond chance: aips (oracle) at n = 8000."),
    ],
)
def test_the_verdict_weighs_the_interval(found, told):
    assert told in published.verdict([compared(*c) for c in found], ["aips (oracle)"], 0.25)


def test_an_estimator_that_a_figure_lacks_is_refused():
    assert runner.only(figures.get("data-size"), ["auto", "ips"]).estimators == ("ips", "auto")
    with pytest.raises(
        ConfigError, match="figure 'noise-behavior' has no estimator 'auto'; it has ips"
    ):
        runner.only(figures.get("noise-behavior"), ["auto"])


def test_real_pages_have_tables_of_their_own(tmp_path):
    from counterrank.research.paper.runner import folder_of

    rows = [
        {"x": 0.0, "estimator": name, "value": 1.0, "truth": 1.5, "error": error, "seed": 0}
        for name, error in (("ips", 0.25), ("aips (pasif)", 0.5))
    ]
    path = seed_file(folder_of(tmp_path, "/logs/pages.csv.gz"), "logs", 0)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    text = page(tmp_path, tmp_path)
    assert "## The real-world protocol" in text and "On real pages, `pages`, 1 bootstraps" in text
    assert "| ips | 100% | 100% | 0.25 |" in text and "| aips (pasif) | 0% |  | 0.5 |" in text
