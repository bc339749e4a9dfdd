"""What a new user met in an hour: one sentence that says it, or it works."""

import shlex
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from benchmarks.ordinary_logs import Recipe, make

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError, PropensityError
from counterrank.io import ReadOptions, from_frame, read_log
from counterrank.report.document import AxisScale, tick_names

N, C, K = 60, 5, 3


def long_table(shown_only=False):
    """One row per candidate, as databases export them."""
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(2, N, C))
    action = cr.PlackettLuce(old).sample(K, rng)[:, 0]
    place = np.full((N, C), 0)
    np.put_along_axis(place, action, np.arange(1, K + 1)[None], axis=1)
    shown = [int(p) or None for p in place.ravel()]
    table = pa.table(
        {
            "request": np.repeat([f"r{i}" for i in range(N)], C),
            "item": np.tile(np.arange(C), N),
            "old_score": old.ravel(),
            "new_score": new.ravel(),
            "shown": shown,
            "click": [None if p is None else int(rng.random() < 0.3) for p in shown],
            "price": rng.random(N * C),
            "brand": np.tile(["a", "b", "c", "a", "b"], N),
        }
    )
    return table.filter(pa.compute.is_valid(table["shown"])) if shown_only else table


COLUMNS = {
    "ranking": "request", "position": "shown", "action": "item", "reward": "click",
    "propensity_scores": "old_score", "new_scores": "new_score",
}  # fmt: skip
READING = {"logger": "plackett-luce", "policies": {"new": "plackett-luce"}, "targets": "new"}


@pytest.fixture(params=["frame", "csv", "parquet"])
def long_log(request, tmp_path):
    """The table, or a file of it."""
    table = long_table()
    path = tmp_path / f"log.{request.param}"
    if request.param == "csv":
        pyarrow.csv.write_csv(table, path)
    elif request.param == "parquet":
        pq.write_table(table, path)
    return table if request.param == "frame" else path


def read(given, **options):
    opening = from_frame if isinstance(given, pa.Table) else read_log
    return opening(given, **{**READING, "columns": COLUMNS, **options})


def test_logger_and_target_rank_by_one_column(long_log):
    log = read(long_log, columns=COLUMNS | {"new_scores": "old_score"}, policies={"new": "top"})
    np.testing.assert_array_equal(log.target("new").scores, log.propensity.scores)


def test_the_request_is_the_unit_too(long_log):
    assert read(long_log, unit="request").unit.tolist() == [f"r{i}" for i in range(N)]


def test_a_score_is_a_feature_too(long_log):
    mapped = COLUMNS | {"z_price": "price", "z_kind": "brand", "z_old": "old_score"}
    log = read(long_log, columns=mapped)
    table = long_table()
    assert set(log.candidates.features) == {"z_price", "z_kind", "z_old"}
    np.testing.assert_allclose(log.candidates.features["z_price"], table["price"].to_numpy())
    np.testing.assert_array_equal(log.candidates.features["z_old"], log.propensity.scores)
    labels = log.candidates.categories["z_kind"]
    named = [labels[int(code)] for code in log.candidates.features["z_kind"]]
    assert named == table["brand"].to_pylist()


def test_features_in_lists_are_mapped():
    made = make(Recipe(features="numbers", size="9"))
    renamed = made.table.rename_columns(
        ["price" if name == "z_price" else name for name in made.table.column_names]
    )
    log = from_frame(renamed, columns={"z_price": "price"}, targets="new", **made.reading)
    assert list(log.candidates.features) == ["z_new", "z_price"]


def test_a_feature_that_is_not_there_is_named():
    with pytest.raises(LogError, match=r"no column 'pryce' for 'z_price' \(did you mean 'price'"):
        read(long_table(), columns=COLUMNS | {"z_price": "pryce"})
    made = make(Recipe(size="9"))
    with pytest.raises(LogError, match="must hold a list with an entry for each candidate"):
        from_frame(made.table, columns={"z_day": "day"}, targets="new", **made.reading)


def test_context_is_named_and_not_mapped():
    with pytest.raises(ConfigError, match="name them with --context age"):
        ReadOptions.from_keywords(columns="x_age=age")


class TestJobs:
    """Lists of columns, as the documentation writes them."""

    @pytest.fixture
    def log(self, tmp_path):
        rng = np.random.default_rng(1)
        slots = {f"slot_{name}": rng.integers(0, 2, N) for name in "abc"}
        clicks = {f"click_{name}": rng.integers(0, 2, N) for name in "abc"}
        half = [[0.5] * 3] * N
        pq.write_table(
            pa.table({**slots, **clicks, "propensity": half, "new": half}), tmp_path / "log.parquet"
        )
        return tmp_path

    def test_a_job_with_lists_of_columns_runs(self, log):
        from click.testing import CliRunner

        from counterrank.cli.main import main

        (log / "job.toml").write_text(
            'log = "log.parquet"\ntarget = "new"\nestimators = ["ips"]\njson = "out.json"\n[columns]\n'
            'action = ["slot_a", "slot_b", "slot_c"]\nreward = ["click_a", "click_b", "click_c"]\n'
        )
        done = CliRunner().invoke(main, ["run", str(log / "job.toml")])
        assert done.exit_code == 0, done.output
        assert (log / "out.json").exists()

    def test_commas_go_on_with_a_list(self):
        found = ReadOptions.from_keywords(columns="action=a,b,c, reward=clicks").columns
        assert found == {"action": ("a", "b", "c"), "reward": "clicks"}
        with pytest.raises(ConfigError, match="'items' is not understood"):
            ReadOptions.from_keywords(columns="items,reward=clicks")


def findings(log, check):
    return [found for found in cr.audit_log(log) if found["check"] == check]


def test_an_export_of_shown_items_is_recognised():
    (found,) = findings(read(long_table(shown_only=True)), "scores")[:1]
    assert found["status"] == "warned" and "all candidates were shown" in found["found"]
    assert "export the others too" in found["remedy"]
    assert not any(
        "were shown, in each" in f["found"] for f in findings(read(long_table()), "scores")
    )


def test_missing_values_of_the_context_are_told():
    (found,) = findings(make(Recipe(context="NaN in some")).log(), "context")
    assert found["status"] == "warned" and "x_income in 9" in found["found"]
    (found,) = findings(make(Recipe()).log(), "context")
    assert found["status"] == "passed"


class TestTies:
    """Two candidates of one score in row 7; the logger showed the one that is listed later."""

    READING = {"logger": "swap:probability=0.2", "policies": {"new": "top"}}

    @pytest.fixture
    def table(self):
        scores = np.tile([3.0, 2.0, 1.0, 0.0], (50, 1))
        scores[7] = [3.0, 2.0, 2.0, 1.0]
        action = np.tile([0, 1], (50, 1))
        action[::5] = [1, 0]
        action[7] = [0, 2]
        rng = np.random.default_rng(0)
        return pa.table(
            {
                "action": action.tolist(), "reward": rng.random((50, 2)).tolist(),
                "candidates": [[0, 1, 2, 3]] * 50, "propensity_scores": scores.tolist(),
                "new_scores": scores.tolist(), "day": np.arange(50),
            }
        )  # fmt: skip

    def test_they_are_called_so(self, table):
        log = from_frame(table, targets="new", **self.READING)
        told = "row 7.*ties explain 1 of 1 such rows among 50.*--config drop_ties=true"
        with pytest.raises(PropensityError, match=told):
            cr.evaluate(log, ["new"], estimators=["ips"], independent_rows=True)

    def test_rows_in_which_they_decide_can_be_left_out(self, table, tmp_path):
        pq.write_table(table, tmp_path / "log.parquet", row_group_size=8)
        rest = from_frame(
            table.filter(pa.compute.not_equal(table["day"], 7)), targets="new", **self.READING
        )
        found = [
            cr.evaluate(log, ["new"], estimators=["ips"], independent_rows=True, **more)
            for log, more in (
                (rest, {}),
                (from_frame(table, targets="new", drop_ties=True, **self.READING), {}),
                (tmp_path / "log.parquet", {**self.READING, "drop_ties": True}),
                (
                    tmp_path / "log.parquet",
                    {**self.READING, "drop_ties": True, "where": "day < 60"},
                ),
            )
        ]
        assert [one.log["n"] for one in found] == [49] * 4
        values = [one.estimate("new", "ips").value for one in found]
        np.testing.assert_allclose(values, values[0], rtol=1e-12)
        assert any("equal scores decide" in flag for flag in found[1].estimate("new", "ips").flags)

    def test_nothing_is_left_where_all_are_tied(self, table, tmp_path):
        equal = table.set_column(3, "propensity_scores", pa.array([[1.0] * 4] * 50))
        pq.write_table(equal, tmp_path / "log.parquet")
        for log in (equal, tmp_path / "log.parquet"):
            with pytest.raises(LogError, match="equal scores decide in every row"):
                cr.evaluate(log, ["new"], drop_ties=True, **self.READING)

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ("plackett-luce", [False] * 4), ("softmax", [False] * 4), ("top", [True, True, False, False]),
            ("epsilon:epsilon=0.1", [True, True, False, False]), ("swap:probability=0.5", [True, True, False, False]),
            ("swap:probability=0.5,places=3", [True, True, True, False]),
            ("rand-top-n:n=3", [False, False, True, False]),
        ],
    )  # fmt: skip
    def test_where_they_decide(self, spec, expected):
        # Equal at places 1 and 2, 2 and 3, 3 and 4, and two that cannot be shown.
        rows = [[4, 4, 2, 1], [4, 3, 3, 1], [4, 3, 2, 2], [4, 3, -np.inf, -np.inf]]
        sets = cr.Candidates.from_lists([[0, 1, 2, 3]] * 4)
        policy = cr.parse_policy(spec).bind(scores=np.ravel(rows).astype(float), candidates=sets)
        assert policy.tied(2).tolist() == expected


def test_without_ties_nothing_is_said_of_them():
    log = cr.RankingLog(
        action=[[1, 0]] * 30, reward=np.zeros((30, 2)), candidates=[[0, 1, 2]] * 30,
        propensity=cr.parse_policy("swap:probability=0.2,places=2").bind(
            scores=np.tile([1.0, 2.0, 3.0], 30), candidates=cr.Candidates.from_lists([[0, 1, 2]] * 30)
        ),
    )  # fmt: skip
    with pytest.raises(PropensityError, match="never shows what was logged.*belong together"):
        cr.evaluate(log, {"new": cr.Deterministic([[2, 1]] * 30, 3)}, estimators=["ips"])


@pytest.mark.parametrize("reader", [read_log, from_frame, cr.RankingLog.from_frame])
def test_readers_list_their_options(reader):
    # `evaluate` tells the reader which target is the baseline, for its messages.
    names = {field.name for field in fields(ReadOptions)} - {"baseline"}
    assert [name for name in names if name not in reader.__doc__] == []


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["search", "feed", "shop", "random"])
def test_simulate_prints_the_command_that_fits(preset, tmp_path, monkeypatch):
    from click.testing import CliRunner

    from counterrank.cli.main import main

    monkeypatch.chdir(tmp_path)
    asked = ["simulate", "--preset", preset, "--n", "300", "--k", "3", "--out", "a log.parquet"]
    told = CliRunner().invoke(main, asked)
    line = next(row for row in told.stderr.splitlines() if row.startswith("evaluate it with: "))
    command = shlex.split(line.removeprefix("evaluate it with: "))
    assert command[0] == "counterrank"
    done = CliRunner().invoke(main, [*command[1:], "--estimators", "ips", "--quiet"])
    assert done.exit_code == 0, done.output


def test_ticks_have_different_names():
    for scale in (AxisScale(0.9996, 1.0004), AxisScale(100_001, 100_009)):
        names = tick_names(scale.ticks())
        assert len(set(names)) == len(names) > 1
