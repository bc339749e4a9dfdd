"""The page of a run: every figure with its number, caption, picture and tables; estimators may follow."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.common.errors import ConfigError, CounterrankError
from counterrank.research.bench import methods
from counterrank.research.paper import figures
from counterrank.research.paper.results import seed_file
from counterrank.research.paper.runner import (
    contenders,
    missing_methods,
    run_seeds,
    write_outcome,
    write_page,
)


def results(out, figure, names, seeds=2, **changes):
    experiment, some = replace(figures.get(figure), **changes), methods(names)
    run_seeds(experiment, range(seeds), out / figure, some, jobs=1)
    return experiment


def test_the_page_has_numbers_captions_pictures_and_published_values(tmp_path):
    experiment = results(tmp_path, "data-size", ("ips", "iips"), values=(1000,))
    list(write_outcome(experiment, range(2), tmp_path / "data-size"))
    assert list(write_page(tmp_path)) == [f"wrote {tmp_path / 'page.md'}"]
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    title = "Figure 2. Error of the estimators over the number of rankings n"
    assert f"## {title}\n" in text and f"![{title}](data-size/figure-2.svg)" in text
    assert "Figure 3" not in text
    assert "| iips | 0.2" in text and "(0.206, x1.00: " in text
    assert "| squared bias / V² | 1000 |" in text and "| variance / V² | 1000 |" in text
    drawn = (tmp_path / "data-size" / "figure-2.svg").read_text(encoding="utf-8")
    # Text is drawn as outlines, each with a comment that says it.
    assert f"<!-- {title} -->" in drawn and "<!-- published (hollow) -->" in drawn


def test_other_figures_have_tables_too(tmp_path):
    results(tmp_path, "toy", (), seeds=1)
    results(tmp_path, "distribution-delta", (), seeds=1, values=(0.5,))
    list(write_page(tmp_path))
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "## Table 2. Strategic variance reduction" in text and "0.31 (0.31)" in text
    assert "## Figure 6. Behaviours by delta" in text and "| I1 | 0.2" in text


def test_estimators_can_follow_later(tmp_path):
    results(tmp_path, "data-size", ("ips",), seeds=1, values=(300,))
    path = seed_file(tmp_path / "data-size", 0)
    before = pq.read_table(path).to_pylist()
    results(tmp_path, "data-size", ("ips", "iips"), seeds=1, values=(300,))
    after = pq.read_table(path).to_pylist()
    assert after[:1] == before and [row["estimator"] for row in after] == ["ips", "iips"]
    assert [m.name for m in missing_methods(methods(["ips", "rips"]), path)] == ["rips"]


def test_any_estimator_may_run_and_what_is_none_is_refused():
    experiment = figures.get("noise-behavior")
    assert [m.name for m in contenders(experiment)] == list(experiment.estimators)
    some = ["order-2", "aips (pasif)", "counterrank:IIPS"]
    assert [m.name for m in contenders(experiment, some)] == [*some[:2], "iips"]
    for wrong, told in (
        ("nothing", "there is no estimator"),
        ("no.module:Name", "cannot be loaded"),
        ("aips (nothing)", "there is no MSE estimate 'nothing'"),
    ):
        with pytest.raises(CounterrankError, match=told):
            contenders(experiment, [wrong])
    with pytest.raises(ConfigError, match="figure 'toy' has no estimators"):
        contenders(figures.get("toy"), ["ips"])


def test_the_ab_test_has_the_candidates_of_its_section():
    found = {m.name: m.estimator for m in contenders(figures.get("real-world"))}
    tree = found["aips (pasif)"].behavior
    assert tree.candidates == "real-world" and tree.mse == "pasif"


def test_real_pages_have_tables_of_their_own(tmp_path):
    rows = [
        {"x": 0.0, "estimator": name, "value": value, "truth": 1.5, "truth_stderr": 0.1, "seed": 0}
        for name, value in (("ips", 1.0), ("aips (pasif)", 0.5))
    ]
    path = seed_file(tmp_path / "real-world", 0)
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    list(write_page(tmp_path))
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "## Figure 5. Squared errors on an A/B log: CDF and CVaR" in text
    assert (
        "| ips | 100% | 100% | 100% | 0.25 |" in text
        and "| aips (pasif) | 0% | 0% |  | 1 |" in text
    )
