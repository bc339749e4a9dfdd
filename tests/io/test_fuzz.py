"""Damaged bytes end in a log or in one of our errors, never in anything else."""

import numpy as np
import pytest

from counterrank.common.errors import CounterrankError
from counterrank.io import read_log, scan_log

ROUNDS = 60


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    data = bytearray(content)
    how = rng.integers(4)
    if how == 0:
        for at in rng.integers(0, len(data), rng.integers(1, 12)):
            data[at] = rng.integers(256)
    elif how == 1:
        del data[rng.integers(1, len(data)) :]
    elif how == 2:
        first = int(rng.integers(len(data)))
        del data[first : first + int(rng.integers(1, 40))]
    else:
        at = int(rng.integers(len(data)))
        data[at:at] = rng.bytes(int(rng.integers(1, 30)))
    return bytes(data)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["list", "long"])
@pytest.mark.parametrize(
    "name", ["log.parquet", "log.feather", "log.csv", "log.jsonl", "log.csv.gz", "log.jsonl.zst"]
)
def test_damaged_bytes(kit, tmp_path, name, layout):
    columns = kit.lay_out(kit.make(n=12, names=True, ragged=True), layout)
    content = kit.write(columns, tmp_path / name).read_bytes()
    rng = np.random.default_rng([len(name), len(layout)])
    outcomes = {"read": 0, "refused": 0}
    for i in range(ROUNDS):
        path = tmp_path / f"{i}.{name}"
        path.write_bytes(damaged(content, rng))
        for read in (read_log, lambda path: list(scan_log(path, targets="new").batches(rows=5))):
            try:
                read(path)
                outcomes["read"] += 1
            except CounterrankError as problem:
                assert str(problem).strip()
                outcomes["refused"] += 1
    assert outcomes["refused"] > 0


CELLS = [
    "",
    "0",
    "-1",
    "1e999",
    "nan",
    "[",
    "]",
    "[]",
    "[1,",
    "null",
    "None",
    "1 2",
    "é",
    "'",
    "x" * 50,
    "[[1],[2]]",
    "(1)",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_odd_cells_in_csv(tmp_path):
    rng = np.random.default_rng(5)
    for i in range(150):
        path = tmp_path / f"{i}.csv"
        rows = [";".join(rng.choice(CELLS, 4)) for _ in range(rng.integers(1, 5))]
        path.write_text("action;reward;propensity;x_c\n" + "\n".join(rows) + "\n")
        for read in (read_log, lambda path: list(scan_log(path).batches())):
            try:
                read(path)
            except CounterrankError as problem:
                assert str(problem).strip()
