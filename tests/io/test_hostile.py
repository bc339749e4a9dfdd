"""Files that would crash, exhaust or mislead a reader: one clear message, or the numbers that were
meant.
"""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.checks import audit_file
from counterrank.common.errors import ConfigError, LogError, PropensityError
from counterrank.data.columns import by_label, column_of, segmentation
from counterrank.io import from_frame, read_log, scan_log, tables

GOOD = {
    "action": [[0, 1], [1, 0]],
    "reward": [[1.0, 0.0], [0.0, 1.0]],
    "propensity": [[0.5, 0.5], [0.5, 0.5]],
}


def both(path, **options):
    """The log read whole, after a check that the stream holds the same."""
    whole = read_log(path, **options)
    streamed = [batch.reward.sum() for batch in scan_log(path, **options).batches()]
    assert sum(streamed) == pytest.approx(whole.reward.sum())
    return whole


@pytest.mark.parametrize("opening, closing", [(b"[", b"]"), (b'{"a":', b"}")])
def test_deeply_nested_json_is_refused_and_does_not_crash(tmp_path, opening, closing):
    path = tmp_path / "deep.jsonl"
    good = b'{"action": [0], "reward": [1], "propensity": [0.5]}\n'
    path.write_bytes(good + b'{"action": ' + opening * 100_000 + b"1" + closing * 100_000 + b"}\n")
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match=r"deep.jsonl is not valid JSON Lines: .*depth"):
            read(path)


def test_brackets_inside_text_are_no_nesting(tmp_path):
    path = tmp_path / "text.jsonl"
    line = '{"action": [0], "reward": [1], "propensity": [0.5], "note": "%s"}\n' % (
        "[" * 500 + r"\"{"
    )
    path.write_text(line * 3)
    assert both(path).n == 3


def test_packed_text_is_held_only_while_it_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK", 1 << 16)
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"action_1,reward_1,propensity_1\n" + b"1,1,0.5\n" * 200_000))
    monkeypatch.setenv("COUNTERRANK_MEMORY_LIMIT", "3000000")
    with pytest.raises(
        LogError, match=r"takes .* or more in memory, and 3 MB can be used; read it in parts"
    ):
        read_log(path)
    assert sum(batch.n for batch in scan_log(path).batches()) == 200_000
    plain = tmp_path / "log.csv"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    with pytest.raises(LogError, match="more in memory"):
        read_log(plain)
    monkeypatch.setenv("COUNTERRANK_MEMORY_LIMIT", "30000000")
    assert read_log(path).n == 200_000


def test_packed_text_that_does_not_fit_is_streamed(tmp_path, monkeypatch):
    """A small file may unpack to more than memory: an evaluation and a check then read it in parts."""
    monkeypatch.setattr(tables, "BLOCK", 1 << 16)
    path = tmp_path / "log.csv.gz"
    rows = b"1,1,0.5,0.25\n2,0,0.5,0.75\n" * 50_000
    path.write_bytes(gzip.compress(b"action_1,reward_1,propensity_1,new_1\n" + rows))
    wanted = {"estimators": ["ips"], "audit": False}
    whole = cr.evaluate(path, ["new"], **wanted).estimate()
    monkeypatch.setenv("COUNTERRANK_MEMORY_LIMIT", "2000000")
    with pytest.raises(LogError, match="more in memory"):
        read_log(path)
    found = cr.evaluate(path, ["new"], **wanted).estimate()
    assert (found.n, found.value) == (100_000, pytest.approx(whole.value))
    assert audit_file(path)[0]["status"] == "passed"


def test_part_files_without_rows_are_passed_over(tmp_path):
    table = pa.table(GOOD)
    for name, piece in (
        ("part-0", table.slice(0, 0)),
        ("part-1", table),
        ("part-2", table.slice(0, 0)),
    ):
        pq.write_table(piece, tmp_path / f"{name}.parquet")
    assert both(tmp_path).n == 2
    (tmp_path / "part-1.parquet").unlink()
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match="part-0.parquet is empty: it has columns but no rows"):
            read(tmp_path)


def test_huge_ids_are_encoded(tmp_path):
    big = 2**63 - 1
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({**GOOD, "action": [[big, 7], [7, big - 1]]}), path)
    log = both(path)
    assert log.action.tolist() == [[2, 0], [0, 1]] and log.action_names == (
        "7",
        str(big - 1),
        str(big),
    )
    unsigned = from_frame(
        {**GOOD, "action": pa.array([[2**64 - 1, 7], [7, 8]], pa.list_(pa.uint64()))}
    )
    assert unsigned.action.tolist() == [[2, 0], [0, 1]]
    with pytest.raises(LogError, match="ids above 100,000,000; .* --config encode_actions=true"):
        read_log(path, encode_actions=False)
    with pytest.raises(LogError, match="ids number the items from 0"):
        cr.RankingLog(action=[[big]], reward=[[1.0]], propensity=[[0.5]])


def test_a_propensity_that_cannot_be(tmp_path):
    with pytest.raises(
        PropensityError, match="is 1e-300 at row 1, position 2; nothing of that probability"
    ):
        from_frame({**GOOD, "propensity": [[0.5, 0.5], [0.5, 1e-300]]})
    assert from_frame({**GOOD, "propensity": [[0.5, 0.5], [0.5, 1e-60]]}).n == 2


def test_bytes_that_are_not_utf8_are_named_as_such(tmp_path):
    head = b"action_1,reward_1,propensity_1,x_city,comment\n"
    path = tmp_path / "latin.csv"
    path.write_bytes(head + "1,1,0.5,Köln,x\n".encode("latin-1"))
    for read in (read_log, lambda path: list(scan_log(path).batches())):
        with pytest.raises(
            LogError, match="'x_city' holds text that is not UTF-8; write it again in UTF-8"
        ):
            read(path)
    path.write_bytes(head + "1,1,0.5,Koeln,hübsch\n".encode("latin-1"))
    assert read_log(path).n == 1, "a column that nobody reads does not matter"
    path.write_bytes(
        "stra\xdfe,action_1,reward_1,propensity_1\n".encode("latin-1") + b"a,1,1,0.5\n"
    )
    with pytest.raises(LogError, match="not UTF-8"):
        read_log(path)
    lines = tmp_path / "latin.jsonl"
    lines.write_bytes(b'{"action": ["K\xf6ln"], "reward": [1], "propensity": [0.5]}\n')
    with pytest.raises(LogError, match="not UTF-8"):
        read_log(lines)


def test_rankings_without_positions_are_told_in_words(tmp_path):
    empty = {"action": [[], []], "reward": [[], []], "propensity": [[], []]}
    table = pa.table(
        {name: pa.array(value, pa.list_(pa.float64())) for name, value in empty.items()}
    )
    pq.write_table(table, tmp_path / "log.parquet")
    for read in (read_log, scan_log):
        with pytest.raises(
            LogError, match="no ranking shows an item: 'action' is empty in every row"
        ):
            read(tmp_path / "log.parquet")
    with pytest.raises(LogError, match="no ranking has a position"):
        cr.RankingLog(
            action=np.empty((3, 0), dtype=int), reward=np.empty((3, 0)), propensity=np.empty((3, 0))
        )


@pytest.mark.parametrize("when", ["before", "during", "between"])
def test_a_file_that_is_replaced_while_it_is_read(tmp_path, when):
    folder = tmp_path / "log"
    folder.mkdir()
    for part in range(3):
        pq.write_table(
            pa.table({name: value * 100 for name, value in GOOD.items()}),
            folder / f"{part}.parquet",
        )
    source = scan_log(folder)

    def replace():
        other = {**GOOD, "reward": [[5.0, 5.0], [5.0, 5.0]]}
        pq.write_table(
            pa.table({name: value * 100 for name, value in other.items()}), tmp_path / "new.parquet"
        )
        os.replace(tmp_path / "new.parquet", folder / "1.parquet")

    batches = source.batches(rows=50)
    if when == "before":
        replace()
    elif when == "during":
        for _ in range(6):
            next(batches)
        replace()
    else:
        assert sum(batch.n for batch in batches) == 600
        replace()
        batches = source.batches(rows=50)
    with pytest.raises(LogError, match=r"1.parquet.* was changed while it was being read"):
        list(batches)


def test_a_role_with_two_columns():
    with pytest.raises(ConfigError, match="'action' is said to be 'a' and 'b'"):
        from_frame(GOOD, columns="action=a,action=b")


@pytest.mark.parametrize("folder", ["reward=1", "propensity=0.5", "new=1"])
def test_a_folder_cannot_say_what_rows_say(tmp_path, folder):
    (tmp_path / folder).mkdir()
    role = folder.partition("=")[0]
    pq.write_table(
        pa.table({n: v for n, v in GOOD.items() if n != role}), tmp_path / folder / "a.parquet"
    )
    for read in (read_log, scan_log):
        with pytest.raises(
            LogError, match=f"the folder '{folder.partition('=')[0]}=.* the same '{role}'"
        ):
            read(tmp_path, targets="new" if role == "new" else ())


def test_thousands_of_unused_columns_are_not_read(tmp_path, monkeypatch):
    width = 3000
    more = {f"f{j}_1": pa.array([0.1, 0.2]) for j in range(width)}
    pq.write_table(pa.table({**GOOD, **more, "device": ["a", "b"]}), tmp_path / "log.parquet")
    seen, original = [], tables.read_table
    monkeypatch.setattr(
        tables, "read_table", lambda file, columns: seen.append(columns) or original(file, columns)
    )
    log = read_log(tmp_path / "log.parquet", targets=(), keep="device")
    assert len(seen[0]) == 3 + 100 + 1 and log.columns["device"].tolist() == ["a", "b"]
    assert scan_log(tmp_path / "log.parquet").spec.columns == ("action", "reward", "propensity")


def test_rankings_of_a_thousand_positions(tmp_path):
    width = 1000
    rng = np.random.default_rng(0)
    names = {"action": rng.integers(5, size=(20, width)), "reward": rng.random((20, width)),
             "propensity": np.full((20, width), 0.2)}  # fmt: skip
    table = {
        f"{name}_{k + 1}": values[:, k] for name, values in names.items() for k in range(width)
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    log = both(tmp_path / "log.parquet")
    assert log.K == width and np.array_equal(log.action, names["action"])


_REFUSED = """
import sys
import counterrank as cr
from counterrank.io import files

files.HARMLESS, files.MOST_RATIO = 100 << 20, 1
try:
    cr.read_log(sys.argv[1])
except cr.CounterrankError as problem:
    print(problem)
"""


def test_a_refused_bomb_lets_the_process_end(tmp_path):
    """It was refused below the threads of Arrow's parser, which then waited for ever: not so with the
    first 32 MB, which are read before the threads are many.
    """
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"action_1,reward_1,propensity_1\n")
        for _ in range(150):
            file.write(b"0,0,0.5\n" * 131_072)
    command = [sys.executable, "-c", _REFUSED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "unpacks to more than 100 MB" in done.stdout


def test_lines_may_end_with_a_carriage_return_alone(tmp_path):
    path = tmp_path / "old.csv"
    path.write_bytes(b"action_1,reward_1,propensity_1\r" + b"1,1,0.5\r0,0,0.5\r" * 20)
    assert both(path).n == 40


@pytest.mark.parametrize("columns, message", [(25_000, "25,000 columns"), (400_000, "first line")])
def test_a_table_of_a_million_columns_is_refused_by_its_first_line(tmp_path, columns, message):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{j}" for j in range(columns)) + "\n" + "1," * columns + "1\n")
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match=message):
            read(path)


@pytest.mark.slow
def test_an_object_of_many_keys_is_refused_before_it_is_parsed(tmp_path):
    """300,000 keys took minutes; a list of many objects with the same few keys is no such thing."""
    row = {"action": [0], "reward": [1.0], "propensity": [0.5]}
    path = tmp_path / "wide.jsonl"
    path.write_text(json.dumps(row | {f"k{j}": j for j in range(300_000)}) + "\n")
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match="its objects have more than 20,000 different keys"):
            read(path)
    path.write_text(json.dumps(row | {"seen": [{"a": 1, "b": 2}] * 12_000}) + "\n")
    assert both(path).n == 1


@pytest.mark.slow
def test_lines_of_many_different_keys_end(tmp_path):
    """A parser may take lines x keys of time: 60,000 of each took more than ten minutes."""
    row = {"action": [0], "reward": [1.0], "propensity": [0.5]}
    path = tmp_path / "sparse.jsonl"

    def write(count, more):
        path.write_text("".join(json.dumps(row | more(i)) + "\n" for i in range(count)))

    write(20_500, lambda i: {f"k{i}": 1})
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match="its objects have more than 20,000 different keys"):
            read(path)
    # Fewer are read; keys inside an object are a map, and what only looks like keys in a text is none.
    write(20_500, lambda i: {"by_id": {f"k{i}": 1}})
    assert both(path).n == 20_500
    write(4_000, lambda i: {f"k{i}": 1})
    assert read_log(path, segments=["k7"]).n == 4_000
    write(21_000, lambda i: {"text": json.dumps({f"k{i}": 1})})
    assert both(path).n == 21_000


def test_a_long_text_costs_a_segment_nothing(tmp_path):
    """NumPy gives every row the room of the longest text: 100 kB a row were 400 MB at 1,000 rows."""
    long = "x" * 100_000
    for kind in ("context", "column"):
        name = "x_seg" if kind == "context" else "seg"
        values = [long, long + "y", *["a", None] * 500]
        n = len(values)
        frame = {name: values, "action": [[0]] * n, "reward": [[1.0]] * n}
        log = from_frame({**frame, "propensity": [[0.5]] * n}, segments=[name])
        labels = segmentation(log, name).labels(log)
        assert labels.nbytes < 1_000_000 and column_of(log, name).nbytes < 1_000_000
        found = {label: len(rows) for label, rows in by_label(labels)}
        assert (found.pop("a"), found.pop("missing")) == (500, 500)
        assert sorted(found.values()) == [1, 1]


def test_an_encrypted_parquet_file_is_called_so(tmp_path):
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PARE" + bytes(200) + b"PARE")
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match="an encrypted Parquet file; decrypt it"):
            read(path)


@pytest.mark.parametrize("unit", [[[1], [2]], [{"a": 1}, {"a": 2}]])
def test_a_list_or_an_object_is_no_unit(tmp_path, unit):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({**GOOD, "unit": unit}), path)
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match="'unit' holds .*, which cannot be a unit"):
            read(path)


def test_a_unit_that_is_a_number_in_one_file_and_text_in_another(tmp_path):
    for name, unit in (("a", [1, 2]), ("b", ["u1", "u2"])):
        pq.write_table(pa.table({**GOOD, "unit": unit}), tmp_path / f"{name}.parquet")
    for read in (read_log, scan_log):
        with pytest.raises(LogError, match="b.parquet: 'unit' holds string, but int64 in .*a.parq"):
            read(tmp_path)


@pytest.mark.parametrize("address", ["reference://log.parquet", "dask://host/log.parquet"])
def test_stores_that_need_more_than_an_address(address):
    with pytest.raises(ConfigError, match="cannot be opened by its address alone"):
        read_log(address)


def test_features_beyond_all_numbers_are_refused(tmp_path):
    with pytest.raises(LogError, match=r"context 'x_a' is 1e\+308 at row 1; use null"):
        from_frame({**GOOD, "x_a": [1.0, 1e308]})
    items = tmp_path / "items.csv"
    items.write_text("item,price\n0,3\n1,1e308\n")
    with pytest.raises(LogError, match=r"'price' is 1e\+308 at row 1 of .*items.csv"):
        from_frame(GOOD, items=str(items))


@pytest.mark.filterwarnings("error")
def test_infinite_numbers_can_be_a_segment():
    edge = [-np.inf, *np.arange(12.0), np.inf, np.inf, np.nan]
    log = from_frame({name: value * 8 for name, value in GOOD.items()} | {"edge": edge})
    found = segmentation(log, "edge")
    assert found.edges == (2.75, 5.5, 8.25)


@pytest.mark.filterwarnings("error")
def test_shuffling_more_places_than_there_are_takes_no_memory():
    policy = cr.RandTopN(np.tile(np.arange(4), (50, 1)), 1_000_000)
    drawn = policy.sample(3, np.random.default_rng(0), size=2000)
    assert drawn.shape == (50, 2000, 3)
    first = np.bincount(drawn[:, :, 0].ravel(), minlength=4) / drawn[:, :, 0].size
    # 100,000 draws: 0.007 is five standard errors.
    np.testing.assert_allclose(first, 0.25, atol=0.007)
