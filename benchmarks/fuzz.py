"""Damaged files of every kind we read: only our own errors may come out.

Run: python -m benchmarks.fuzz [seconds] [seed]      (make fuzz; a bounded run is part of the tests)

A failure prints the reader, the seed of the round and the bytes' place, so that it can be repeated.
"""

import io
import json
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import counterrank as cr
from counterrank.cli.calls import Call
from counterrank.common.errors import CounterrankError
from counterrank.common.options import READING
from counterrank.io import scan_log
from counterrank.io.file_source import opened

#: Pieces that parsers trip over.
TOKENS = [
    b"", b"null", b"NaN", b"-1", b"1e999", b"-0.0", b"9" * 30, b"true", b"[]", b"{}", b"[" * 2000, b'{"a":' * 500,
    b"\x00", b"\xff\xfe", b'"', b"'", b",", b"\n", b"\r\n", b"\xc3\x28", b"1_000", b"0x10", b"__class__", b"=1+1",
    b"1 ", b"inf", b"2147483648", b"-9223372036854775809",
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A good file and what reads it."""

    name: str
    good: bytes
    read: Callable[[Path], object]


def table_targets(folder: Path) -> list[Target]:
    """Return logs in every table format, read whole and streamed."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    lists = {
        "action": rng.integers(0, 4, (9, 3)).tolist(),
        "reward": rng.random((9, 3)).round(2).tolist(),
        "propensity": rng.uniform(0.1, 1, (9, 3)).round(3).tolist(),
        "new": rng.uniform(0.1, 1, (9, 3)).round(3).tolist(),
        "x_age": rng.normal(size=9).round(2).tolist(),
        "unit": [f"u{i}" for i in range(9)],
    }
    table = pa.table(lists)
    flat = {k: v for k, v in lists.items() if not isinstance(v[0], list)}
    for name in ("action", "reward", "propensity", "new"):
        flat |= {f"{name}_{k + 1}": [row[k] for row in lists[name]] for k in range(3)}
    pq.write_table(table, folder / "log.parquet")
    pq.write_table(table, folder / "plain.parquet", compression="none", use_dictionary=False)
    pyarrow.feather.write_feather(table, str(folder / "log.feather"))
    pyarrow.csv.write_csv(pa.table(flat), folder / "log.csv")
    rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def whole(path: Path) -> object:
        return cr.read_log(path)

    def streamed(path: Path) -> object:
        return list(scan_log(path, targets="new").batches(rows=4))

    names = ("log.parquet", "plain.parquet", "log.feather", "log.csv", "log.jsonl")
    return [
        Target(name, (folder / name).read_bytes(), read)
        for name in names
        for read in (whole, streamed)
    ]


def setting_targets(folder: Path) -> list[Target]:
    """Return configuration files, trees and policies."""
    config = b"""position_weights = [1.0, 0.5, 0.25]
context = ["x_age"]
unit = "unit"
propensity_kind = "factored"
missing_reward = "zero"
[columns]
action = "action"
reward = "reward"
"""
    log = folder / "log.parquet"

    def from_command(path: Path) -> None:
        call = Call.of_line("check", str(log), {"config": (str(path),)})
        options = {name: value for name, value in call.settings.items() if name in READING}
        with opened(log, ["new"], **options) as (source, _):
            source.first  # noqa: B018

    rng = np.random.default_rng(1)
    half = np.full((200, 2), 0.5)
    x = rng.normal(size=(200, 2))
    action = rng.integers(0, 2, (200, 2))
    clicks = (action == (x[:, :1] > 0)) + 0.1 * rng.normal(size=(200, 2))
    ranked = cr.RankingLog(action=action, reward=clicks, propensity=half, context=x)
    cr.BehaviorTree(candidates=cr.candidates(2)).fit(ranked, rng.uniform(0.2, 0.8, (200, 2))).save(
        folder / "tree.json"
    )
    cr.save_policy(cr.PlackettLuce(rng.normal(size=(2, 4))), folder / "luce.npz")
    mixture = cr.Mixture([cr.Softmax(rng.normal(size=(2, 3))), cr.Uniform(3)], [0.5, 0.5])
    cr.save_policy(mixture, folder / "mixture.npz")

    def tree(path: Path) -> object:
        return cr.BehaviorTree.load(path).assign(x)

    def policy(path: Path) -> object:
        return cr.load_policy(path).prefix_log_prob(np.array([[0, 1], [1, 0]]))

    return [
        Target("command.toml", config, from_command),
        Target("tree.json", (folder / "tree.json").read_bytes(), tree),
        *(
            Target(name, (folder / name).read_bytes(), policy)
            for name in ("luce.npz", "mixture.npz")
        ),
    ]


def targets(folder: Path) -> list[Target]:
    """Return everything that reads a file."""
    return [*table_targets(folder), *setting_targets(folder)]


def damaged(good: bytes, name: str, rng: np.random.Generator) -> bytes:
    """Return the bytes with one to four things done to them."""
    if name.endswith(".npz") and rng.random() < 0.7:
        return _odd_archive(good, rng)
    data = bytearray(good)
    for _ in range(1 + int(rng.random() < 0.4) * int(rng.integers(1, 4))):
        at, span = int(rng.integers(len(data) + 1)), int(rng.integers(1, 12))
        how = rng.integers(6)
        if how == 0 and data:
            data[min(at, len(data) - 1)] = int(rng.integers(256))
        elif how == 1:
            del data[at:]
        elif how == 2:
            del data[at : at + span]
        elif how == 3:
            data[at:at] = rng.bytes(span)
        elif how == 4:
            data[at:at] = data[max(0, at - span) : at] * int(rng.integers(1, 4))
        else:
            data[at : at + int(rng.integers(0, 8))] = TOKENS[rng.integers(len(TOKENS))]
    return bytes(data)


def _odd_archive(good: bytes, rng: np.random.Generator) -> bytes:
    """Return a well-formed archive with an odd header, or arrays of other shapes, kinds and values."""
    arrays = dict(np.load(io.BytesIO(good)))
    name = list(arrays)[rng.integers(len(arrays))]
    if name == "header" or rng.random() < 0.3:
        arrays["header"] = np.frombuffer(
            damaged(arrays["header"].tobytes(), "", rng), dtype=np.uint8
        )
    else:
        value = arrays[name]
        odd = [value.ravel(), value[None], value * np.nan, value.astype(str), value.astype(complex),
               np.atleast_1d(value)[..., :0], -np.abs(value) - 1, np.array("x"), np.array(2**70 * 1.0),
               value.astype(np.int64)]  # fmt: skip
        arrays[name] = odd[rng.integers(len(odd))]
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def one_round(target: Target, folder: Path, seed: list[int]) -> str:
    """Return "read" or "refused"; anything else that comes out is raised as it is."""
    path = folder / f"case.{target.name}"
    path.write_bytes(damaged(target.good, target.name, np.random.default_rng(seed)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(path)
    except CounterrankError as problem:
        if not str(problem).strip():
            raise AssertionError("an error without a message") from problem
        return "refused"
    return "read"


def main(seconds: float = 600.0, seed: int = 0) -> int:
    """Go round all readers until the time is up; return the number of failures."""
    failures, counts, stop = 0, {"read": 0, "refused": 0}, time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        everything = targets(folder)
        for turn in range(10**9):
            for i, target in enumerate(everything):
                try:
                    counts[one_round(target, folder, [seed, turn, i])] += 1
                except Exception:
                    failures += 1
                    print(
                        f"{target.name}, seed [{seed}, {turn}, "
                        f"{i}]:\n{traceback.format_exc(limit=-4)}"
                    )
            if time.monotonic() > stop:
                break
    print(f"{turn + 1} rounds of {len(everything)} readers: {counts}, {failures} failures")
    return failures


if __name__ == "__main__":
    sys.exit(
        min(main(*(float(argument) for argument in sys.argv[1:2]), *map(int, sys.argv[2:3])), 1)
    )
