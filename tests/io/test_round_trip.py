"""Whatever the layout and format, the log that comes out is the one that was written down."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterrank.common.messages import has
from counterrank.data.log import concat
from counterrank.io import from_frame, read_log, scan_log

FORMATS = (
    "log.parquet",
    "log.feather",
    "log.csv",
    "log.csv.gz",
    "log.csv.zst",
    "log.jsonl",
    "log.jsonl.gz",
)
LAYOUTS = ("list", "numbered", "long")
SHAPES = ({}, {"ragged": True}, {"names": True, "ragged": True})


@pytest.mark.parametrize("shape", SHAPES, ids=["full", "ragged", "ragged names"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FORMATS)
def test_files(kit, tmp_path, name, layout, shape):
    columns = kit.make(**shape)
    path = kit.write(kit.lay_out(columns, layout), tmp_path / name)
    kit.same(read_log(path), kit.log(columns))
    streamed = scan_log(path, targets="new", segments="country")
    kit.same(concat(list(streamed.batches(rows=7))), kit.log(columns))


@pytest.mark.parametrize("shape", SHAPES, ids=["full", "ragged", "ragged names"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("library", ["pandas", "polars", "lazy", "table", "batch", "dict"])
def test_frames(kit, library, layout, shape):
    columns = kit.make(**shape)
    laid_out = kit.lay_out(columns, layout)
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = {
        "pandas": pandas.DataFrame,
        "polars": polars.DataFrame,
        "lazy": polars.LazyFrame,
        "table": pa.table,
        "batch": pa.RecordBatch.from_pydict,
        "dict": dict,
    }[library](laid_out)
    kit.same(from_frame(frame), kit.log(columns))


def test_arrays_of_two_and_three_dimensions(kit):
    rng = np.random.default_rng(1)
    dist = rng.dirichlet(np.ones(4), (5, 2))
    log = from_frame(
        {
            "action": rng.integers(0, 4, (5, 2)),
            "reward": rng.random((5, 2)),
            "propensity": dist[:, :, 0],
            "propensity_dist": dist,
        }
    )
    np.testing.assert_array_equal(log.dists["propensity"], dist)
    assert log.n_actions == 4


@pytest.mark.parametrize(
    "kind", ["list", "large_list", "fixed", "dictionary", "float32", "sliced", "chunked"]
)
def test_arrow_encodings(kit, kind):
    columns = kit.make(names=kind == "dictionary")
    table = pa.table(columns)
    if kind == "large_list":
        table = table.set_column(0, "action", table["action"].cast(pa.large_list(pa.int32())))
    elif kind == "fixed":
        table = table.set_column(0, "action", table["action"].cast(pa.list_(pa.int64(), 3)))
    elif kind == "dictionary":
        inner = pa.ListArray.from_arrays(
            [*range(0, 181, 3)], table["action"].combine_chunks().flatten().dictionary_encode()
        )
        table = table.set_column(0, "action", inner)
        table = table.set_column(5, "x_device", table["x_device"].dictionary_encode())
        table = table.set_column(6, "unit", table["unit"].dictionary_encode())
    elif kind == "float32":
        columns["reward"] = [[float(np.float32(r)) for r in row] for row in columns["reward"]]
        table = table.set_column(1, "reward", pa.array(columns["reward"], pa.list_(pa.float32())))
    elif kind == "sliced":
        table = pa.concat_tables([table.slice(0, 10), table]).slice(10)
    elif kind == "chunked":
        table = pa.concat_tables([table.slice(0, 10), table.slice(10, 1), table.slice(11)])
    kit.same(from_frame(table), kit.log(columns))


def test_null_padding_is_the_same_as_shorter_lists(kit):
    columns = kit.make(ragged=True)
    padded = dict(columns)
    for name in ("action", "reward", "propensity", "new"):
        padded[name] = [[*row, *[None] * (3 - len(row))] for row in columns[name]]
    kit.same(from_frame(padded), kit.log(columns))
    only_action = dict(columns, action=padded["action"])
    kit.same(from_frame(only_action), kit.log(columns))


def test_long_format_in_any_order_in_memory(kit):
    columns = kit.make(ragged=True)
    table = pa.table(kit.lay_out(columns, "long"))
    shuffled = table.take(np.random.default_rng(3).permutation(table.num_rows))
    found, expected = from_frame(shuffled), kit.log(columns)
    order = [int(name[1:]) for name in sorted(set(shuffled["ranking"].to_pylist()))]
    np.testing.assert_array_equal(found.action, expected.action[order])
    np.testing.assert_array_equal(found.reward, expected.reward[order])
    assert found.unit.tolist() == expected.unit[order].tolist()


def test_positions_may_start_at_zero(kit):
    columns = kit.lay_out(kit.make(), "long")
    columns["position"] = [k - 1 for k in columns["position"]]
    kit.same(from_frame(columns), kit.log(kit.make()))


@pytest.mark.parametrize(
    "written", ["[1, 2, 3]", "1 2 3", "1;2;3", "(1, 2, 3)", "1|2|3", " [1,2,3] ", "[1. 2. 3.]"]
)
def test_lists_as_text(tmp_path, written):
    path = tmp_path / "log.csv"
    path.write_text(
        f'action,reward,propensity\n"{written}","[0,1,0]","[0.5,0.5,0.25]"\n"3 2 1",0 0 1,1 1 1\n'
    )
    log = read_log(path)
    assert log.action.tolist() == [[1, 2, 3], [3, 2, 1]]
    assert log.reward.tolist() == [[0, 1, 0], [0, 0, 1]]


def test_one_action_a_row_is_a_ranking_of_one_position():
    log = from_frame({"action": ["red shoes", "hat"], "reward": [0, 1], "propensity": [0.5, 0.25]})
    assert (
        log.K == 1
        and log.action_names == ("hat", "red shoes")
        and log.action.tolist() == [[1], [0]]
    )


def test_one_reward_a_ranking_stands_at_the_last_item():
    log = from_frame(
        {"action": [[0, 1], [2]], "reward": [3.0, 4.0], "propensity": [[0.5, 0.5], [0.5]]}
    )
    assert log.reward.tolist() == [[0, 3], [4, 0]]
    assert has(log.notes, "reward-per-ranking")


def test_joint_propensities_scalar_or_repeated():
    columns = {"action": [[0, 1], [2, 0]], "reward": [[0, 1], [1, 0]], "new": [0.5, 0.25]}
    one = from_frame({**columns, "propensity": [0.1, 0.2]}, propensity_kind="joint", targets="new")
    repeated = from_frame(
        {**columns, "propensity": [[0.1, 0.1], [0.2, 0.2]]}, propensity_kind="joint", targets="new"
    )
    assert one.propensity.values.tolist() == repeated.propensity.values.tolist() == [0.1, 0.2]
    assert one.targets["new"].kind == "joint"


def test_joint_in_long_format():
    log = from_frame(
        {
            "ranking": [7, 7, 8, 8],
            "position": [1, 2, 1, 2],
            "action": [0, 1, 2, 0],
            "reward": [0, 1, 1, 0],
            "propensity": [0.1, 0.1, 0.2, 0.2],
        },
        propensity_kind="joint",
    )
    assert log.propensity.values.tolist() == [0.1, 0.2]


@pytest.mark.parametrize("kind", ["factored", "prefix", "position"])
def test_kinds(kit, kind):
    log = from_frame(kit.make(), propensity_kind=kind)
    assert log.propensity.kind == kind and log.targets["new"].kind == kind


def test_distributions_per_ranking_and_per_position(tmp_path, kit):
    rng = np.random.default_rng(2)
    columns = kit.make(n=8, ragged=True)
    per_ranking, per_position = rng.dirichlet(np.ones(5), 8), rng.dirichlet(np.ones(5), (8, 3))
    columns["propensity_dist"] = per_ranking.tolist()
    columns["new_dist"] = [
        row[: len(a)] for row, a in zip(per_position.tolist(), columns["action"], strict=True)
    ]
    for name in ("log.parquet", "log.jsonl", "log.csv"):
        log = read_log(kit.write(columns, tmp_path / name))
        np.testing.assert_array_equal(log.dists["propensity"], per_ranking)
        for i, row in enumerate(columns["action"]):
            np.testing.assert_array_equal(
                log.dists["new"][i, : len(row)], per_position[i, : len(row)]
            )
    wide = {name: values for name, values in columns.items() if not name.endswith("_dist")}
    wide |= {f"propensity_dist_{a + 1}": per_ranking[:, a].tolist() for a in range(5)}
    np.testing.assert_array_equal(from_frame(wide).dists["propensity"], per_ranking)
    assert not read_log(tmp_path / "log.parquet", dists=False).dists


def test_other_columns_are_carried_and_other_lists_left(kit):
    columns = kit.make()
    columns["price"] = [[10.0, 20.0, 30.0]] * 60
    columns["day"] = list(range(60))
    log = from_frame(columns)
    assert set(log.targets) == {"new"}
    assert log.columns["day"].tolist() == list(range(60)) and "price" not in log.columns


def test_context_missing_values_booleans_and_times():
    stamp = np.datetime64("1970-01-02T00:00:00", "us")
    log = from_frame(
        {
            "action": [[0], [1]],
            "reward": [[0], [1]],
            "propensity": [[0.5], [0.5]],
            "x_a": [None, 2.5],
            "x_b": [True, False],
            "x_c": ["u", None],
            "x_t": np.array([stamp, stamp]),
        }
    )
    np.testing.assert_array_equal(log.context, [[np.nan, 1, 0, 86400], [2.5, 0, np.nan, 86400]])


def test_missing_rewards_as_zero():
    columns = {
        "action": [[0, 1], [1]],
        "reward": [[None, 1], [None]],
        "propensity": [[0.5, 0.5], [0.5]],
    }
    log = from_frame(columns, missing_reward="zero")
    assert log.reward.tolist() == [[0, 1], [0, 0]] and has(log.notes, "missing-reward-zero")


def test_without_propensities(kit):
    columns = {name: values for name, values in kit.make().items() if name != "propensity"}
    log = from_frame(columns, require_propensity=False)
    assert has(log.notes, "propensity-missing") and (log.propensity.values == 1).all()


def test_large_and_negative_ids_are_encoded_on_request():
    columns = {
        "action": [[10**12, -5], [7, 10**12]],
        "reward": [[0, 1]] * 2,
        "propensity": [[0.5, 0.5]] * 2,
    }
    log = from_frame(columns, encode_actions=True)
    assert log.action_names == ("-5", "7", "1000000000000") and log.action.tolist() == [
        [2, 0],
        [1, 2],
    ]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n=st.integers(1, 12),
    length=st.integers(1, 5),
    seed=st.integers(0, 10**6),
    ragged=st.booleans(),
    names=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    name=st.sampled_from(["log.parquet", "log.feather", "log.csv", "log.jsonl"]),
    rows=st.integers(1, 9),
)
def test_any_small_log(kit, tmp_path, n, length, seed, ragged, names, layout, name, rows):
    columns = kit.make(n, length, seed=seed, ragged=ragged, names=names)
    path = kit.write(kit.lay_out(columns, layout), tmp_path / name, row_group_size=4)
    expected = kit.log(columns)
    kit.same(read_log(path), expected)
    kit.same(
        concat(list(scan_log(path, targets="new", segments="country").batches(rows=rows))), expected
    )


@settings(max_examples=60, deadline=None)
@given(
    rewards=st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=6),
    labels=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=6
    ),
)
def test_any_number_and_any_text_survive(rewards, labels):
    n = min(len(rewards), len(labels))
    columns = {"action": [[0]] * n, "reward": [[r] for r in rewards[:n]], "propensity": [[0.5]] * n}
    log = from_frame({**columns, "unit": labels[:n], "x_c": labels[:n], "seg": labels[:n]})
    assert log.reward[:, 0].tolist() == [r + 0.0 for r in rewards[:n]]
    assert log.columns["seg"].tolist() == log.unit.tolist() == labels[:n]
    assert [log.categories["x_c"][int(code)] for code in log.context[:, 0]] == labels[:n]


def test_categories_of_pandas_and_polars():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    base = {"action": [[0, 1], [1, 2]], "reward": [[0, 1], [1, 1]], "propensity": [[0.5, 0.5]] * 2}
    labels = ["b", "a"]
    frames = [
        pandas.DataFrame(
            {
                **base,
                "x_c": pandas.Categorical(labels),
                "unit": pandas.array(labels, dtype="string"),
            }
        ),
        polars.DataFrame(
            {**base, "x_c": polars.Series(labels, dtype=polars.Categorical), "unit": labels}
        ),
        polars.DataFrame(
            {**base, "x_c": polars.Series(labels, dtype=polars.Enum(["b", "a"])), "unit": labels}
        ),
    ]
    for frame in frames:
        log = from_frame(frame)
        assert log.categories["x_c"] == ("a", "b") and log.context.tolist() == [[1], [0]]
        assert (
            log.unit.tolist() == labels
            and log.bucket.tolist() == from_frame({**base, "unit": labels}).bucket.tolist()
        )


def test_more_than_nine_numbered_columns_keep_their_order():
    wide = {
        f"{name}_{k}": [value * k]
        for name, value in (("action", 1), ("reward", 0.5))
        for k in range(1, 13)
    }
    log = from_frame({**wide, **{f"propensity_{k}": [0.5] for k in range(1, 13)}})
    assert log.action.tolist() == [list(range(1, 13))]


def test_packed_files_of_several_members(tmp_path):
    import gzip

    path = tmp_path / "log.csv.gz"
    path.write_bytes(
        gzip.compress(b"action_1,reward_1,propensity_1\n1,0,1\n") + gzip.compress(b"2,0,1\n")
    )
    assert read_log(path).action.tolist() == [[1], [2]]
