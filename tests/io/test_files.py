"""Files that are not what they seem, and paths that mean many files."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.common.errors import CounterrankError, LogError
from counterrank.data.log import concat
from counterrank.io import read_log, scan_log


@pytest.fixture
def parquet(kit, tmp_path):
    return kit.write(kit.make(), tmp_path / "log.parquet")


BAD_FILES = {
    "empty.parquet": (b"", "empty"),
    "empty.csv": (b"", "empty"),
    "text.parquet": (b"action,reward\n1,2\n", "not a Parquet file"),
    "text.arrow": (b"action,reward\n1,2\n", "not an Arrow file"),
    "short.parquet": (b"PAR1", "cannot be read"),
    "cut.arrow": (b"ARROW1\0\0", "cannot be read"),
    "sheet.csv": (b"PK\x03\x04rest", "zip archive"),
    "model.jsonl": (b"\x80\x04\x95rest", "pickle"),
    "header.csv": (b"action,reward,propensity\n", "empty"),
    "zeros.csv": (b"a\0b,c\n1,2\n", "zero bytes"),
    "latin.csv": ("action,reward,propensity,x_c\n0,1,0.5,\xe9\n".encode("latin-1"), "latin.csv"),
    "rows.csv": (b"action,reward,propensity\n0,1,0.5\n0,1\n", "Expected 3 columns, got 2"),
    "array.json": (b'[{"action": [1]}]', "one object a line"),
    "broken.jsonl": (
        b'{"action": [1], "reward": [1], "propensity": [1]}\n{"action": [',
        "broken.jsonl",
    ),
    "changed.jsonl": (b'{"action": [1]}\n{"action": "x"}\n', "changed"),
    "what.xyz": (b"abc", "format of 'what.xyz' is not known"),
    "cut.csv.gz": (
        gzip.compress(b"action,reward,propensity\n" + b"0,1,0.5\n" * 5000)[:-20],
        "cut.csv.gz",
    ),
    "noise.csv.gz": (b"\x1f\x8b" + bytes(range(200)), "noise.csv.gz"),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize(
    "read", [read_log, lambda path: list(scan_log(path).batches())], ids=["read", "scan"]
)
def test_bad_files(tmp_path, name, read):
    content, words = BAD_FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(LogError) as caught:
        read(path)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_absent_file_and_folder(tmp_path):
    with pytest.raises(LogError, match="there is no file"):
        read_log(tmp_path / "nothing.parquet")
    with pytest.raises(LogError, match="that matches"):
        read_log(tmp_path / "*.parquet")
    with pytest.raises(LogError, match="holds no data files"):
        read_log(tmp_path)


def test_truncated_everywhere(parquet, tmp_path):
    content = parquet.read_bytes()
    for size in range(8, len(content), len(content) // 12):
        cut = tmp_path / "cut.parquet"
        cut.write_bytes(content[:size])
        with pytest.raises(LogError, match="cut.parquet"):
            read_log(cut)


def test_wrong_extension_is_forgiven_when_the_content_tells(parquet, kit):
    kit.same(read_log(parquet.rename(parquet.with_suffix(".data"))), kit.log(kit.make()))


def test_format_by_name(kit, tmp_path):
    path = kit.write(kit.lay_out(kit.make(), "numbered"), tmp_path / "log.csv").rename(
        tmp_path / "log.dump"
    )
    kit.same(read_log(path, format="csv"), kit.log(kit.make()))
    with pytest.raises(CounterrankError, match="did you mean 'parquet'"):
        read_log(path, format="parqet")


def test_tabs_and_semicolons(tmp_path):
    for name, sign in (("log.tsv", "\t"), ("log.csv", ";")):
        path = tmp_path / name
        path.write_text(
            sign.join(["action_1", "reward_1", "propensity_1"])
            + "\n"
            + sign.join(["3", "1", "0.5"])
            + "\n"
        )
        assert read_log(path).action.tolist() == [[3]]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfaction_1,reward_1,propensity_1\n3,1,0.5\n")
    assert read_log(path).n == 1
    assert scan_log(path).first.n == 1


def split(kit, folder, names):
    columns = kit.make()
    for i, name in enumerate(names):
        part = {key: values[20 * i : 20 * (i + 1)] for key, values in columns.items()}
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        kit.write(part, folder / name)
    return columns


def test_folders_and_patterns(kit, tmp_path):
    columns = split(kit, tmp_path, ["a.parquet", "b.parquet", "c.parquet"])
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".a.parquet.crc").write_bytes(b"x")
    for path in (tmp_path, tmp_path / "*.parquet", tmp_path / "?.parquet"):
        kit.same(read_log(path), kit.log(columns))
        source = scan_log(path, targets="new", segments="country")
        assert source.n == 60 and [part.start for part in source.parts] == [0, 20, 40]
        kit.same(concat(list(source.batches())), kit.log(columns))


@pytest.mark.parametrize("extension", ["csv", "jsonl", "feather"])
def test_folders_of_other_formats(kit, tmp_path, extension):
    columns = split(kit, tmp_path, [f"{letter}.{extension}" for letter in "abc"])
    kit.same(read_log(tmp_path), kit.log(columns))
    source = scan_log(tmp_path, targets="new", segments="country")
    assert source.n == 60
    kit.same(concat(list(source.batches(rows=7))), kit.log(columns))


def test_partitioned_folders(kit, tmp_path):
    columns = split(kit, tmp_path, [f"day={d}/x_shop=s%20{d}/part.parquet" for d in (1, 2, 3)])
    log = read_log(tmp_path)
    assert log.columns["day"].tolist() == [1] * 20 + [2] * 20 + [3] * 20
    assert log.categories["x_shop"] == ("s 1", "s 2", "s 3")
    np.testing.assert_array_equal(log.action, kit.log(columns).action)
    source = scan_log(tmp_path, where="day in (1, 3)", segments="day")
    assert len(source.parts) == 2
    found = concat(list(source.batches()))
    assert found.n == 40 and set(found.columns["day"]) == {1, 3}
    np.testing.assert_array_equal(found.bucket, log.where(log.columns["day"] != 2).bucket)


def test_files_that_disagree(kit, tmp_path):
    kit.write({"action": [[1]], "reward": [[1.0]], "propensity": [[1.0]]}, tmp_path / "a.parquet")
    kit.write({"action": [["x"]], "reward": [[1.0]], "propensity": [[1.0]]}, tmp_path / "b.parquet")
    with pytest.raises(LogError, match="disagree about the types"):
        read_log(tmp_path)
    kit.write({"action": [[1]], "reward": [[1.0]]}, tmp_path / "b.parquet")
    with pytest.raises(LogError, match=r"b\.parquet has no column 'propensity'"):
        read_log(tmp_path)


@pytest.mark.parametrize("extension", ["parquet", "csv", "feather"])
@pytest.mark.parametrize("late", [True, False])
def test_a_column_that_some_files_do_not_have(kit, tmp_path, extension, late):
    """Which file comes first makes no difference: what was asked for is named, with the file."""
    columns = kit.make(n=40)
    columns["x_more"] = columns["x_age"]
    without = {
        name: values for name, values in columns.items() if name not in ("x_more", "country")
    }
    names = ("a", "b") if late else ("b", "a")
    for name, part in zip(names, (without, columns), strict=True):
        kit.write(part, tmp_path / f"{name}.{extension}")
    file = rf"{names[0]}\.{extension}"
    known = {"context": ("x_age", "x_device")}
    for read in (read_log, lambda *args, **kept: concat(list(scan_log(*args, **kept).batches()))):
        for asked, column in (
            ({}, "x_more"),
            ({**known, "segments": "country"}, "country"),
            ({**known, "where": "country = 'AT'"}, "country"),
        ):
            with pytest.raises(CounterrankError, match=f"{file}.* no column '{column}'"):
                read(tmp_path, targets="new", **asked)
        assert read(tmp_path, targets="new", **known).n == 80
    # Nobody asked for it: null, as where a cell is empty.
    countries = read_log(tmp_path, targets="new", **known).columns["country"].tolist()
    both = [[None] * 40, columns["country"]]
    assert countries == sum(both if late else both[::-1], [])


def test_integers_and_fractions_in_different_files(kit, tmp_path):
    kit.write({"action": [[1]], "reward": [[1]], "propensity": [[1]]}, tmp_path / "a.jsonl")
    kit.write({"action": [[2]], "reward": [[0.5]], "propensity": [[0.5]]}, tmp_path / "b.jsonl")
    assert read_log(tmp_path).reward.tolist() == [[1], [0.5]]


def test_json_lines(kit, tmp_path):
    columns = kit.make(ragged=True)
    path = kit.write(columns, tmp_path / "log.jsonl")
    kit.same(read_log(path), kit.log(columns))
    kit.same(
        concat(list(scan_log(path, targets="new", segments="country").batches())), kit.log(columns)
    )


@pytest.mark.parametrize("read", [read_log, scan_log])
def test_a_context_key_that_only_later_lines_have(kit, tmp_path, read):
    columns = kit.make(n=40)
    path = kit.write(columns, tmp_path / "log.jsonl")
    lines = path.read_text().splitlines()
    lines[-1] = lines[-1].replace('{"', '{"x_late": 1, "', 1)
    path.write_text("\n".join(lines) + "\n")

    def rows(**options):
        found = read(path, targets="new", **options)
        return found if read is read_log else concat(list(found.batches()))

    found = rows()
    late = found.context[:, found.context_names.index("x_late")]
    assert np.isnan(late[:-1]).all() and late[-1] == 1
    assert rows(context=("x_age", "x_device")).n == 40


def test_csv_types_hold_beyond_the_first_block(tmp_path, monkeypatch):
    monkeypatch.setattr("counterrank.io.tables.BLOCK", 200)
    rows = ["1,0,1,7"] * 50 + ["2,0.5,0.25,x"] * 50
    path = tmp_path / "log.csv"
    path.write_text("action_1,reward_1,propensity_1,x_c\n" + "\n".join(rows) + "\n")
    log = read_log(path)
    assert log.reward[:, 0].tolist() == [0.0] * 50 + [0.5] * 50
    assert log.categories["x_c"] == ("7", "x")


def test_packed_files_do_not_unpack_without_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("counterrank.io.files.HARMLESS", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"action_1,reward_1,propensity_1\n" + b"0,0,1\n" * 2_000_000))
    for read in (read_log, lambda path: list(scan_log(path).batches())):
        with pytest.raises(LogError, match="unpacks to more than"):
            read(path)


def test_parquet_that_claims_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("counterrank.io.files.MOST_EXPANSION", 10)
    monkeypatch.setattr("counterrank.io.files.HARMLESS_VALUES", 1000)
    path = tmp_path / "log.parquet"
    n = 100_000
    pq.write_table(
        pa.table({"action": np.zeros(n, int), "reward": np.zeros(n), "propensity": np.ones(n)}),
        path,
    )
    with pytest.raises(LogError, match="claims 300,000 values"):
        read_log(path)


def test_one_item_a_ranking_written_as_a_text_list(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('action,reward,propensity\n[3],[1],[0.5]\n"[2, 1]","[0, 1]","[0.5, 0.5]"\n')
    assert read_log(path).action.tolist() == [[3, -1], [2, 1]]


def test_a_log_larger_than_memory_is_refused_before_it_is_read(parquet, monkeypatch):
    monkeypatch.setenv("COUNTERRANK_MEMORY_LIMIT", "1000")
    monkeypatch.setattr(pq.ParquetFile, "read", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(
        LogError, match="in memory, and 1 kB can be used; read it in parts with scan_log"
    ):
        read_log(parquet)
    assert sum(batch.n for batch in scan_log(parquet).batches()) > 0


def test_long_texts_in_a_dictionary_are_stopped_while_they_are_read(tmp_path, monkeypatch):
    """20,000 times the same 100 kB: small in the file, small in its metadata, 2 GB when written
    out.
    """
    n = 20_000
    path = tmp_path / "log.parquet"
    city = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), pa.array(["x" * 100_000]))
    columns = {
        "action": np.zeros(n, int),
        "reward": np.zeros(n),
        "propensity": np.ones(n),
        "city": city,
    }
    pq.write_table(pa.table(columns), path, store_schema=False)
    assert path.stat().st_size < 200_000
    monkeypatch.setattr("counterrank.io.tables.TEXT_BATCH", 100)
    monkeypatch.setenv("COUNTERRANK_MEMORY_LIMIT", "50000000")
    with pytest.raises(LogError, match="or more in memory, and 50 MB can be used"):
        read_log(path)


@pytest.mark.parametrize("given", ["lots", "0", "-5"])
def test_a_limit_that_is_no_number_of_bytes(parquet, monkeypatch, given):
    monkeypatch.setenv("COUNTERRANK_MEMORY_LIMIT", given)
    with pytest.raises(CounterrankError, match="give a number of bytes"):
        read_log(parquet)


def test_links_in_a_circle_are_called_that(tmp_path):
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    first.symlink_to(second)
    second.symlink_to(first)
    with pytest.raises(LogError, match="leads back to itself"):
        read_log(first)


def test_a_few_bytes_that_claim_gigabytes_are_refused_with_their_size(tmp_path):
    path = tmp_path / "log.parquet"
    once = pa.DictionaryArray.from_arrays(np.zeros(4000, np.int32), pa.array(["a" * 1_000_000]))
    log = {
        "action_1": np.zeros(4000, int),
        "reward_1": np.arange(4000),
        "propensity_1": np.ones(4000),
    }
    pq.write_table(pa.table({**log, "x_c": once}), path, compression="zstd")
    assert path.stat().st_size < 20_000
    for read in (read_log, lambda path: list(scan_log(path).batches())):
        with pytest.raises(LogError, match="may unpack to [34].* GB of text"):
            read(path)
