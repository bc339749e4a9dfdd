"""The bench: frozen worlds, any estimator, the same logs for all, and what its page tells to type."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, EstimatorError
from counterrank.estimators import IPS
from counterrank.research import bench
from counterrank.research.simulate import random, true_value

SOURCE = Path(__file__).resolve().parents[1] / "docs" / "conftest.py"
spec = importlib.util.spec_from_file_location("doc_blocks", SOURCE)
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)


def test_the_page_runs():
    names = {}
    for line, code in tools.blocks("docs/howto/extend.md", "python"):
        tools.run_python("docs/howto/extend.md", code, line, names)
    study, mine = names["study"], "pairs, ratio"
    table = study.table
    assert set(table["estimator"]) == {"ips", "iips", "rips", "aips", mine}
    assert len(table) == 3 * 5 and set(table["seeds"]) == {4}
    pairs = study.paired(mine)
    assert len(pairs) == 3 * 4 and (pairs["ratio_low"] < pairs["ratio_high"]).all()


def test_numbers_are_those_of_the_formulas():
    study = bench.run("text:1", ["ips"], seeds=[3, 9])
    (row,) = study.table.to_dict("records")
    world = bench.worlds("text:1")[0]
    trials = [world.draw(seed) for seed in (3, 9)]
    errors = np.array([cr.IPS().estimate(t.log, "new").value - t.truth for t in trials])
    assert row["mse"] == pytest.approx((errors**2).mean(), rel=1e-9)
    assert row["squared_bias"] == pytest.approx(errors.mean() ** 2, rel=1e-9)
    assert row["variance"] == pytest.approx(errors.var(), rel=1e-9)
    assert row["mse"] == pytest.approx(row["squared_bias"] + row["variance"], rel=1e-9)


FROZEN = {
    "published n=2000 K=8 delta=0.6": (2000, 8, 49735.51),
    "text 1": (8000, 8, 191778.681),
    "random 1: pairwise, n=16000, 4 of 3": (16000, 4, 67010.621),
    "groups 1: pairwise, n=8000, 12 of 3": (8000, 12, 342460.578),
    "clicks 1: feed, mixed": (4000, 5, 4000.0),
    "triples 1: triple, n=8000, 8 of 10": (8000, 8, 5234.73),
    "non-factored 1: mixture, cascade": (4000, 4, 2926.0),
}


def test_worlds_are_frozen():
    """Sums of the first logs of each population: another number is another benchmark."""
    logs = {}
    for name in bench.POPULATIONS:
        world = bench.worlds(f"{name}:2")[-1]
        trial, again = world.draw(1), world.draw(1)
        assert trial.log.reward.sum() == again.log.reward.sum()
        logs[world.name] = (trial.log.n, trial.log.K, round(float(trial.log.reward.sum()), 3))
    assert logs == FROZEN


def test_processes_and_seeds_do_not_change_a_log():
    serial = bench.run(["random:2"], ["iips"], seeds=2, jobs=1)
    parallel = bench.run(["random:2"], ["iips"], seeds=2, jobs=2)
    np.testing.assert_array_equal(serial.rows["value"], parallel.rows["value"])
    later = bench.run(["random:2"], ["iips"], seeds=[1])
    assert set(later.rows["value"]) <= set(serial.rows["value"])


@dataclass(frozen=True)
class Even(IPS):
    """Refuses logs whose first item is odd."""

    name: str = "even"

    def fit(self, workspace):
        if workspace.first.action[0, 0] % 2:
            raise EstimatorError("the first item is odd")
        return super().fit(workspace)


def test_an_estimator_that_refuses_has_no_value_and_a_reason():
    study = bench.run("clicks:1", ["ips", "order-2"], seeds=1)
    values = dict(zip(study.rows["estimator"], study.rows["value"], strict=True))
    assert np.isfinite(values["ips"]) and np.isnan(values["order-2"])
    row = study.table.set_index("estimator").loc["order-2"]
    assert np.isnan(row["mse"]) and np.isnan(row["coverage"])
    assert (row["seeds"], row["refused"]) == (0, 1) and "independent positions" in row["reason"]
    assert "order-2 refused 1 of 1 logs" in str(study) and "refused" in study.to_latex()


def test_errors_are_those_of_the_seeds_with_a_value():
    study = bench.run("text:1", [Even(), "ips"], seeds=8)
    even, ips = (study.table.set_index("estimator").loc[name] for name in ("even", "ips"))
    values = study.rows["value"].reshape(8, 2)
    answered = np.isfinite(values[:, 0])
    assert 0 < answered.sum() < 8 and even["refused"] == 8 - answered.sum()
    assert even["seeds"] == answered.sum() and even["reason"] == "the first item is odd"
    errors = values[answered, 1] - study.rows["truth"][0]
    assert even["mse"] == pytest.approx((errors**2).mean()) != ips["mse"]
    (pair,) = study.paired("even").to_dict("records")
    assert pair["seeds"] == answered.sum() and pair["ratio"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nowhere", "is no population"),
        ("groups:many", "is no population"),
        ("gone:World", "'gone:World' cannot be loaded"),
        ("json:dumps", "'json:dumps' is a function, not a bench.World"),
        ("arms:arm", "arms:COLUMN:PATH"),
        (["text:1", "text:2"], "world 'text 0' is there 2 times"),
        ([3], "3 is no world"),
        ([], "at least"),
    ],
)
def test_what_is_no_world_is_refused(where, message):
    with pytest.raises(ConfigError, match=message):
        bench.run(where, ["ips"], seeds=1)


@pytest.mark.parametrize(
    ("estimators", "seeds", "message"),
    [
        (["ips", cr.IPS()], 1, "2 estimators are called 'ips'"),
        ({"a": 3}, 1, "'a' is a int, not an estimator"),
        ([None], 1, "NoneType, not an estimator"),
        (["ips"], [1, 1], "a seed is there twice"),
        (["ips"], [-1], "whole numbers from 0 on, not -1"),
        (["ips"], 0, "at least"),
    ],
)
def test_what_is_no_estimator_or_seed_is_refused(estimators, seeds, message):
    with pytest.raises(ConfigError, match=message):
        bench.run("text:1", estimators, seeds=seeds)


def test_what_cannot_be_sent_to_a_process_is_named():
    world = bench.World("small", lambda seed: bench.worlds("text:1")[0].draw(seed))
    with pytest.raises(ConfigError, match="world 'small' cannot be sent to another process"):
        bench.run(world, ["ips"], seeds=2, jobs=2)
    # Nobody asked for several processes: one does it.
    assert len(bench.run(world, {"a": "ips"}, seeds=2).rows["value"]) == 2


def test_a_world_that_draws_something_else_is_named():
    with pytest.raises(ConfigError, match="world 'number' draws a int, not a bench.Trial"):
        bench.run(bench.World("number", lambda seed: seed), ["ips"], seeds=1)


def test_methods_by_name_path_and_object():
    mine = cr.IPS(name="own")
    listed = ["aips (pasif)", "aips (truth)", "aips-pairs", "order-3", mine, "counterrank:IIPS"]
    names = [*listed[:4], "own", "iips"]
    with pytest.raises(ConfigError, match="2 estimators are called 'aips'"):
        bench.methods(["aips", cr.AIPS(behavior=["S"])])
    assert [method.name for method in bench.methods(listed)] == names
    (renamed,) = bench.methods({"mine": mine})
    assert (renamed.name, renamed.estimator) == ("mine", mine)
    (renamed,) = bench.methods({"mine": "aips (oracle)"})
    assert (renamed.name, renamed.source) == ("mine", "aips (oracle)")


def test_a_study_resumes_and_a_protocol_repeats_it(tmp_path):
    folder = tmp_path / "study"
    first = bench.run(["text:1"], ["ips"], seeds=2, resume=folder, jobs=1)
    files = sorted(folder.glob("*/seed-*.parquet"))
    assert len(files) == 2
    stamp = files[0].stat().st_mtime_ns
    # What is there is not run again; what is new is added.
    again = bench.run(["text:1"], ["ips"], seeds=2, resume=folder, jobs=1)
    assert files[0].stat().st_mtime_ns == stamp
    np.testing.assert_array_equal(first.rows["seconds"], again.rows["seconds"])
    files[1].write_bytes(files[1].read_bytes()[:40])
    more = bench.run(["text:1"], ["iips", "ips"], seeds=3, resume=folder, jobs=1)
    assert more.rows["estimator"].tolist() == ["iips", "ips"] * 3
    np.testing.assert_array_equal(more.rows["value"][1:4:2], first.rows["value"])
    # The protocol has all that is there, and repeats it elsewhere.
    protocol = bench.Protocol.read(folder / "protocol.toml")
    assert dict(protocol.estimators) == {"ips": "ips", "iips": "iips"}
    assert (protocol.worlds, protocol.seeds, protocol.objects) == (("text:1",), (0, 1, 2), ())
    repeated = bench.repeat(folder / "protocol.toml", tmp_path / "again")
    values = dict(
        zip(
            zip(repeated.rows["estimator"], repeated.rows["seed"], strict=True),
            repeated.rows["value"],
            strict=True,
        )
    )
    assert values["ips", 2] == more.rows["value"][5] and values["iips", 0] == more.rows["value"][0]


def test_results_that_cannot_be_told_apart_are_refused(tmp_path):
    bench.run("text:1", {"a": cr.IPS()}, seeds=1, resume=tmp_path)
    with pytest.raises(ConfigError, match="results of another estimator 'a'"):
        bench.run("text:1", {"a": cr.IIPS()}, seeds=1, resume=tmp_path)
    protocol = tmp_path / "protocol.toml"
    text = protocol.read_text()
    assert '"a" = "counterrank.estimators.masked:IPS"' in text
    protocol.write_text(text.replace(cr.__version__, "0.0.1"))
    with pytest.raises(ConfigError, match=r"results of counterrank 0\.0\.1"):
        bench.run("text:1", {"a": cr.IPS()}, seeds=1, resume=tmp_path)


def test_objects_are_described_and_not_repeated(tmp_path):
    mine = cr.IPS(aggregate="ratio", name="mine")
    bench.run("text:1", [mine], seeds=1, resume=tmp_path)
    protocol = bench.Protocol.read(tmp_path / "protocol.toml")
    assert protocol.objects == ("mine",) and "aggregate='ratio'" in protocol.estimators["mine"]
    with pytest.raises(ConfigError, match="had objects, which no file can make again: mine"):
        bench.repeat(tmp_path / "protocol.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worlds", "cannot be read as the protocol"),
        ("seeds = 2", "worlds is a list of texts"),
        ('worlds = "text"', "estimators is a list of names"),
        (
            'worlds = "text"\nestimators = ["ips"]\nseeds = "a"',
            "seeds is a number of seeds or a list",
        ),
    ],
)
def test_what_is_no_protocol_is_refused(tmp_path, text, message):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        bench.repeat(tmp_path / "p.toml")


def test_the_protocol_of_the_documentation_names_what_is_there():
    protocol = bench.Protocol.read(
        SOURCE.parents[2] / "docs" / "evidence" / "where-aips-helps.toml"
    )
    assert sum(len(bench.worlds(text)) for text in protocol.worlds) == 25
    names = [method.name for method in bench.methods(protocol.estimators)]
    assert len(names) == 15 and protocol.seeds


def test_arms_of_a_log_predict_each_other(tmp_path):
    """Worlds for both directions; the truth is what the other arm earned, on rows of its own."""
    rng = np.random.default_rng(5)
    arm = np.repeat(["a", "b"], 400)
    shares = {"a": np.array([0.7, 0.3]), "b": np.array([0.4, 0.6])}
    action = np.concatenate([rng.choice(2, size=(400, 2), p=shares[name]) for name in "ab"])
    served = np.where(arm[:, None] == "a", shares["a"][action], shares["b"][action])
    reward = (rng.random((800, 2)) < 0.3 + 0.2 * action).astype(float)
    columns = {"action": action, "reward": reward, "propensity": served}
    columns |= {name: share[action] for name, share in shares.items()}
    table = {name: values.tolist() for name, values in columns.items()}
    path = tmp_path / "ab.parquet"
    pq.write_table(pa.table({**table, "arm": arm}), path)
    study = bench.run(f"arms:arm:{path}", ["ips"], seeds=3, jobs=1)
    assert [name.rpartition(": ")[2] for name in study.table["world"]] == ["a to b", "b to a"]
    earned = reward[400:].sum(axis=1)
    assert study.rows["truth"][0] == pytest.approx(earned.mean())
    assert study.rows["truth_stderr"][0] == pytest.approx(earned.std(ddof=1) / 20)
    assert len(set(study.rows["value"][:3])) == 3  # bootstraps differ
    # Both are unbiased: 2 x 3 standard errors of the ~0.05 each.
    assert np.abs(study.rows["value"] - study.rows["truth"]).max() < 0.4


def test_pictures_and_latex_have_every_world_and_estimator():
    study = bench.run(["text:1"], {"a_b": "ips", "c": "iips"}, seeds=2)
    figure = study.plot()
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["text 0"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a_b", "c"]
    latex = study.to_latex()
    assert "world & a\\_b & c" in latex and latex.count(" to ") == 2


def test_groups_of_users_are_equal_parts_of_the_first_column():
    env = random(5, K=4, actions=3, groups=True)
    drawn = env.draw(3000, np.random.default_rng(0))
    order = np.argsort(drawn.context[:, 0])
    assert (np.diff(drawn.behavior[order]) >= 0).all()
    assert np.bincount(drawn.behavior).min() > 400  # 500 expected: -5 standard deviations
    # What is told to be true is what the target earns on rows of its own: 4 standard errors.
    shown = env.draw(20_000, np.random.default_rng(1), policy="target").reward.sum(axis=1)
    assert abs(shown.mean() - true_value(env).value) < 4 * shown.std() / np.sqrt(len(shown))
