"""Tables in any order, of any format and in many files become one row per ranking."""

import tempfile

import numpy as np
import pyarrow as pa
import pytest

import counterrank as cr
from counterrank.common.errors import LogError
from counterrank.io import concat, read_log, scan_log


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for temporary files, which must be empty at the end."""
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    yield own
    import gc

    gc.collect()
    assert not list(own.iterdir())


def days(kit, columns, path, extension, rng):
    """A folder of three files, the rows of every ranking spread over all of them."""
    table = pa.table(kit.lay_out(columns, "long"))
    rows = rng.permutation(table.num_rows)
    path.mkdir()
    for day, part in enumerate(np.array_split(rows, 3)):
        piece = table.take(pa.array(part)).to_pydict()
        kit.write(piece, path / f"day{day}.{extension}")
    return path


@pytest.mark.parametrize("extension", ["parquet", "csv", "jsonl", "csv.gz", "arrow"])
def test_a_folder_of_days_in_any_order(kit, tmp_path, folder, extension):
    columns = kit.make(n=70, ragged=True)
    expected = kit.log(columns)
    path = days(kit, columns, tmp_path / "days", extension, np.random.default_rng(5))
    order = np.argsort([f"r{i}" for i in range(70)])
    source = scan_log(path, targets="new", segments="country")
    for log in (read_log(path), concat(list(source.batches(rows=13)))):
        np.testing.assert_array_equal(log.action, expected.action[order])
        np.testing.assert_array_equal(log.reward, expected.reward[order])
        np.testing.assert_array_equal(
            log.target("new").values, expected.target("new").values[order]
        )
        assert log.unit.tolist() == expected.unit[order].tolist()
        assert log.columns["country"].tolist() == expected.columns["country"][order].tolist()
    values = [
        cr.evaluate(log, "new", estimators="ips,rips", audit=False).to_frame()["value"].tolist()
        for log in (path, expected)
    ]
    np.testing.assert_allclose(*values, rtol=1e-12)
    assert len(list(folder.iterdir())) == 1
    source.close()
    with pytest.raises(LogError):
        list(source.batches())


def test_rankings_that_stand_together_keep_their_order(kit, tmp_path, folder):
    columns = kit.make(n=40)
    table = kit.lay_out(columns, "long")
    path = kit.write(table, tmp_path / "log.csv")
    kit.same(
        concat(list(scan_log(path, targets="new", segments="country").batches())), kit.log(columns)
    )


def test_more_rows_than_a_batch(tmp_path, folder):
    n, K = 40_000, 3
    rng = np.random.default_rng(0)
    order = rng.permutation(n * K)
    reward = rng.random(n * K)
    table = pa.table(
        {
            "ranking": np.repeat(np.arange(n), K)[order],
            "position": np.tile(np.arange(K), n)[order],
            "action": np.tile(np.arange(K), n)[order],
            "reward": reward[order],
            "propensity": np.full(n * K, 0.5),
            "x_a": np.repeat(np.arange(n, dtype=float), K)[order],
        }
    )
    import pyarrow.parquet as pq

    path = tmp_path / "log.parquet"
    pq.write_table(table, path, row_group_size=10_000)
    source = scan_log(path)
    found = concat(list(source.batches()))
    np.testing.assert_array_equal(found.reward, reward.reshape(n, K))
    np.testing.assert_array_equal(found.context[:, 0], np.arange(n))
    assert source.n == n and len(source.parts) == 1


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("position", 4, 1, r"ranking 'r1' has position 1 twice \(.*b.csv: rows 0 and 1\)"),
        ("position", 5, 7, r"ranking 'r1' has position 7 but not 3 \(.*b.csv: row 2\)"),
        ("position", 7, 1.5, r"b.csv: row 4: 'position' is 1.5; positions are the whole numbers"),
        ("ranking", 8, None, r"b.csv: row 5: 'ranking' is missing; every row needs the id"),
        ("x_age", 4, 99.0, r"b.csv: row 1: 'x_age' is 99.0, but .* elsewhere in the same ranking"),
        (
            "propensity",
            4,
            0.0,
            r"days: 'propensity' is 0.* at ranking 'r1', position 2|ranking 'r1'",
        ),
    ],
)
def test_messages_name_file_and_row(kit, tmp_path, folder, column, row, value, message):
    columns = kit.lay_out(kit.make(n=4), "long")
    columns[column][row] = value
    (tmp_path / "days").mkdir()
    for name, part in (("a", slice(0, 3)), ("b", slice(3, None))):
        piece = {key: values[part] for key, values in columns.items()}
        kit.write(piece, tmp_path / "days" / f"{name}.csv")
    with pytest.raises(cr.CounterrankError, match=message):
        list(scan_log(tmp_path / "days", targets="new").batches())


def test_columns_that_differ_by_case_are_not_mixed_up(kit, tmp_path, folder):
    columns = kit.lay_out(kit.make(n=5), "long")
    columns["Reward"] = [100.0] * len(columns["reward"])
    path = kit.write(columns, tmp_path / "log.parquet")
    found = concat(list(scan_log(path).batches()))
    np.testing.assert_array_equal(found.reward, kit.log(kit.make(n=5)).reward)


def test_fractions_that_only_later_blocks_have(kit, tmp_path, folder, monkeypatch):
    """Whole numbers in the first block of text are no reason to refuse what comes later."""
    from counterrank.io import tables

    monkeypatch.setattr(tables, "BLOCK", 2000)
    columns = kit.lay_out(kit.make(n=200), "long")
    columns["reward"] = [float(i % 2) if i < 300 else 0.5 for i in range(len(columns["reward"]))]
    for name in ("log.csv", "log.jsonl"):
        whole = {**columns, "reward": [int(r) if r != 0.5 else r for r in columns["reward"]]}
        path = tmp_path / name
        if name.endswith("csv"):
            lines = [
                ",".join(whole),
                *(",".join(map(str, row)) for row in zip(*whole.values(), strict=True)),
            ]
        else:
            import json

            lines = [
                json.dumps(dict(zip(whole, row, strict=True)))
                for row in zip(*whole.values(), strict=True)
            ]
        path.write_text("\n".join(lines) + "\n")
        found = concat(list(scan_log(path).batches()))
        assert found.reward.sum() == pytest.approx(sum(columns["reward"]))
