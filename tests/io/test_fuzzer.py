"""A bounded turn of the fuzzer: every reader, damaged files, only our own errors. `make fuzz` runs
for longer.
"""

import importlib.util
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import PolicyError

ROUNDS = 40


def _load():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz.py"
    spec = importlib.util.spec_from_file_location("benchmark_fuzz", path)
    module = sys.modules["benchmark_fuzz"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fuzz = _load()
NAMES = ["log.parquet", "plain.parquet", "log.feather", "log.csv", "log.jsonl",
         "command.toml", "tree.json", "luce.npz", "mixture.npz"]  # fmt: skip


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return fuzz.targets(tmp_path_factory.mktemp("fuzz"))


def test_every_reader_is_here(targets):
    assert {target.name for target in targets} == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_good_files_are_read_and_damaged_ones_refused_in_our_words(targets, tmp_path, name):
    chosen = [target for target in targets if target.name == name]
    for i, target in enumerate(chosen):
        good = tmp_path / f"good.{name}"
        good.write_bytes(target.good)
        target.read(good)
        outcomes = [fuzz.one_round(target, tmp_path, [7, turn, i]) for turn in range(ROUNDS)]
        assert outcomes.count("refused") > ROUNDS // 5


def test_an_archive_that_claims_more_than_memory_is_refused(tmp_path):
    path = tmp_path / "huge.npz"
    cr.save_policy(cr.Uniform(3), path)
    arrays = dict(np.load(path))
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }"
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in arrays.items():
            out = io.BytesIO()
            np.save(out, value)
            data = out.getvalue() if name == "header" else header.ljust(10 + 117) + b"\n"
            archive.writestr(f"{name}.npy", data)
    with pytest.raises(PolicyError, match="not a stored policy"):
        cr.load_policy(path)


@pytest.mark.slow
def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("header.npy", "w") as part,
    ):
        block = bytes(1 << 20)
        for _ in range(1100):
            part.write(block)
    assert path.stat().st_size < 2 << 20
    with pytest.raises(PolicyError, match="unpacks to 1100 MB"):
        cr.load_policy(path)
