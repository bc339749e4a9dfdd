"""Simulated logs on disk, of any length, with the truth in the file."""

import json
import os
from collections.abc import Iterator
from csv import DictWriter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.atomic import replacing
from counterrank.common.errors import ConfigError
from counterrank.data.log import LOGGING
from counterrank.research.simulate.environment import TARGET, Environment, SimulatedLog, whole
from counterrank.research.simulate.truth import Truth, true_value
from counterrank.research.simulate.worlds import DrawnWorld, World

if TYPE_CHECKING:
    import pyarrow as pa

#: Endings of the files that can be written.
FORMATS = (".parquet", ".feather", ".arrow", ".csv", ".jsonl")
#: Rows of one batch and one Parquet row group.
BATCH = 65_536
#: Candidates of a batch: four list columns of them are held at a time.
CELLS = 4_194_304


def batches(
    env: Environment | World, n: int, seed: int, *, batch: int = BATCH
) -> Iterator[SimulatedLog | DrawnWorld]:
    """Yield n rankings in parts; part b depends on `seed`, b and its length alone.

    >>> from counterrank.research.simulate import published
    >>> [len(part.action) for part in batches(published(), 10, 0, batch=4)]
    [4, 4, 2]
    """
    for option, value, least in (("n", n, 1), ("batch", batch, 1), ("seed", seed, 0)):
        whole(option, value, least)
    for b, first in enumerate(range(0, n, batch)):
        # A stream by number, not one for all: a part is the same however many stand before it.
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(b,)))
        yield env.draw(min(batch, n - first), rng)


def write_log(
    env: Environment | World,
    n: int,
    path: str | os.PathLike[str],
    *,
    seed: int,
    batch: int | None = None,
) -> Truth:
    """Write a simulated log and return the target's true value, which is also in the file's metadata.

    Parquet (.parquet) and Arrow (.feather, .arrow) hold one batch in memory at a time, as do .csv
    and .jsonl. The file appears whole or not at all. Where positions depend on each other,
    propensities are given the items above (the metadata says so) and there are no distributions;
    worlds add candidates, their scores and features.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError(
            f"cannot write {path}: unknown ending {suffix!r}; use one of {', '.join(FORMATS)}"
        )
    batch = batch or (
        BATCH if isinstance(env, Environment) else max(1024, min(BATCH, CELLS // env.C))
    )
    truth = true_value(env)
    metadata = _metadata(env, truth, seed)
    tables = (_table(block, metadata) for block in batches(env, n, seed, batch=batch))
    with replacing(path) as temporary:
        if suffix in (".csv", ".jsonl"):
            _write_text(tables, temporary, csv=suffix == ".csv")
        else:
            _write_arrow(tables, temporary, parquet=suffix == ".parquet")
    return truth


def reading_options(env: Environment | World) -> list[str]:
    """Return the options of `counterrank evaluate` with which a written log is read.

    >>> reading_options(World())[:3]
    ['--target=new', '--logger=plackett-luce', '--policy=new=plackett-luce']
    """
    options = [f"--target={TARGET}"]
    if isinstance(env, World):
        options += [f"--logger={env.specs[LOGGING]}", f"--policy={TARGET}={env.specs[TARGET]}"]
    # Each row is a visitor of its own, and the target knows nothing of the log.
    return [*options, "--independent-rows", "--target-is-fresh"]


def _metadata(env: Environment | World, truth: Truth, seed: int) -> dict[str, str]:
    if isinstance(env, Environment):
        specific = {
            "counterrank.propensity_kind": "factored",
            "counterrank.behavior_masks": json.dumps(env.mask_rows),
        }
    else:
        specific = {
            "counterrank.propensity_kind": "prefix",
            "counterrank.logger": env.specs[LOGGING],
            f"counterrank.policy.{TARGET}": env.specs[TARGET],
        }
    return {
        **specific,
        "counterrank.true_value": repr(truth.value),
        "counterrank.true_value_stderr": repr(truth.stderr),
        "counterrank.true_value_by_position": json.dumps(truth.by_position.tolist()),
        "counterrank.true_value_method": truth.method,
        "counterrank.environment": f"{env.name} {env.fingerprint}",
        "counterrank.seed": str(seed),
    }


def _table(block: SimulatedLog | DrawnWorld, metadata: dict[str, str]) -> "pa.Table":
    """Return the columns of a log on disk: one row per ranking, lists over positions or candidates."""
    import pyarrow as pa

    columns: dict[str, object] = {
        "action": _lists(block.action),
        "reward": _lists(block.reward),
        "propensity": _lists(block.propensity),
        TARGET: _lists(block.target),
    }
    if isinstance(block, DrawnWorld):
        columns |= {
            "candidates": _lists(block.candidates),
            f"{LOGGING}_scores": _lists(block.old_scores),
            f"{TARGET}_scores": _lists(block.new_scores),
        }
        columns |= {
            f"z_{j}": _lists(values[block.candidates]) for j, values in enumerate(block.feature.T)
        }
    else:
        names = pa.DictionaryArray.from_arrays(
            block.behavior.astype(np.int32), pa.array(block.env.behavior_names)
        )
        columns |= {"propensity_dist": _lists(block.p0), f"{TARGET}_dist": _lists(block.p1)}
        columns["behavior"] = names.cast(pa.string())
    columns |= {f"x_{j}": np.ascontiguousarray(values) for j, values in enumerate(block.context.T)}
    return pa.table(columns, metadata=metadata)


def _lists(values: Floats | Ints) -> Any:
    """Return an Arrow list column of an (n, K) array."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    offsets = np.arange(len(values) + 1, dtype=np.int32) * np.int32(values.shape[1])
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


def _write_arrow(tables: Iterator["pa.Table"], path: Path, *, parquet: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = next(tables)
    with (
        pq.ParquetWriter(path, first.schema, compression="zstd", compression_level=1)
        if parquet
        else pa.ipc.new_file(path, first.schema)
    ) as writer:
        for table in chain([first], tables):
            # Row groups, or record batches, are what readers stream by.
            writer.write_table(table, max(first.num_rows, 1))


def _write_text(tables: Iterator["pa.Table"], path: Path, *, csv: bool) -> None:
    """Write rows as text; CSV has no lists: they become numbered columns, and distributions JSON."""
    with path.open("w", encoding="utf-8", newline="") as sink:
        writer = None
        for row in chain.from_iterable(table.to_pylist() for table in tables):
            if not csv:
                sink.write(json.dumps(row) + "\n")
                continue
            flat = _numbered(row)
            if writer is None:
                writer = DictWriter(sink, list(flat), lineterminator="\n")
                writer.writeheader()
            writer.writerow(flat)


def _numbered(row: dict[str, object]) -> dict[str, object]:
    out: dict[str, object] = {}
    for name, value in row.items():
        if name.endswith("_dist"):
            out[name] = json.dumps(value)
        elif isinstance(value, list):
            out |= {f"{name}_{k}": item for k, item in enumerate(value, start=1)}
        else:
            out[name] = value
    return out
