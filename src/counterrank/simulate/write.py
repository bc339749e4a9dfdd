"""Simulated logs on disk, of any length, with the truth in the file."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.atomic import replacing
from counterrank.errors import ConfigError
from counterrank.policies import Floats, Ints
from counterrank.simulate.bounds import whole
from counterrank.simulate.draw import SimulatedLog, draw
from counterrank.simulate.environment import Environment
from counterrank.simulate.truth import Truth, true_value

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of one batch and one Parquet row group.
BATCH = 65_536


def batches(env: Environment, n: int, seed: int, *, batch: int = BATCH) -> Iterator[SimulatedLog]:
    """Yield n rankings in parts; part b depends on `seed`, b and its length alone.

    >>> from counterrank.simulate import published
    >>> [len(part.action) for part in batches(published(), 10, 0, batch=4)]
    [4, 4, 2]
    """
    for option, value, least in (("n", n, 1), ("batch", batch, 1), ("seed", seed, 0)):
        whole(option, value, least)
    for b, first in enumerate(range(0, n, batch)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(b,)))
        yield draw(env, min(batch, n - first), rng)


def write_log(env: Environment, n: int, path: str | os.PathLike[str], *, seed: int, batch: int = BATCH) -> Truth:
    """Write a simulated log and return the target's true value, which is also in the file's metadata.

    Parquet (.parquet) and Arrow (.feather, .arrow) hold one batch in memory at a time, as do .csv and .jsonl.
    The file appears whole or not at all. Plackett-Luce logs carry prefix propensities and no distributions.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise ConfigError(f"cannot write {path}: unknown ending {suffix!r}; use one of {', '.join(_WRITERS)}")
    truth = true_value(env)
    tables = (_table(part, _metadata(env, truth, seed)) for part in batches(env, n, seed, batch=batch))
    with replacing(path) as temporary:
        _WRITERS[suffix](tables, temporary)
    return truth


def _metadata(env: Environment, truth: Truth, seed: int) -> dict[str, str]:
    return {
        "counterrank.true_value": repr(truth.value),
        "counterrank.true_value_stderr": repr(truth.stderr),
        "counterrank.true_value_by_position": json.dumps(truth.by_position.tolist()),
        "counterrank.true_value_method": truth.method,
        "counterrank.propensity_kind": "factored" if env.factored else "prefix",
        "counterrank.environment": f"{env.name} {env.fingerprint}",
        "counterrank.seed": str(seed),
    }


def _table(part: SimulatedLog, metadata: dict[str, str]) -> "pa.Table":
    """Return the columns of a log on disk: one row a ranking, lists over positions."""
    import pyarrow as pa

    env = part.env
    columns: dict[str, Any] = {
        "action": _lists(part.action),
        "reward": _lists(part.reward),
        "propensity": _lists(part.propensity),
        "new": _lists(part.target),
    }
    if env.factored:
        columns["propensity_dist"] = _lists(part.p0)
        columns["new_dist"] = _lists(part.p1)
    names = pa.array(env.behavior_names)
    columns["behavior"] = pa.DictionaryArray.from_arrays(part.behavior.astype(np.int32), names).cast(pa.string())
    columns |= {f"x_{j}": np.ascontiguousarray(part.context[:, j]) for j in range(env.d)}
    return pa.table(columns, metadata=metadata)


def _lists(values: Floats | Ints) -> Any:
    """Return an Arrow list column of an (n, ...) array; (n, K, A) gives lists of lists."""
    import pyarrow as pa

    flat: Any = pa.array(np.ascontiguousarray(values).reshape(-1))
    for axis in range(values.ndim - 1, 0, -1):
        rows = int(np.prod(values.shape[:axis]))
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(values.shape[axis])
        flat = pa.ListArray.from_arrays(pa.array(offsets), flat)
    return flat


def _write_parquet(tables: Iterator["pa.Table"], path: Path) -> None:
    import pyarrow.parquet as pq

    first = next(tables)
    with pq.ParquetWriter(path, first.schema, compression="zstd", compression_level=1) as writer:
        writer.write_table(first, row_group_size=max(first.num_rows, 1))
        for table in tables:
            writer.write_table(table, row_group_size=max(first.num_rows, 1))


def _write_arrow(tables: Iterator["pa.Table"], path: Path) -> None:
    import pyarrow as pa

    first = next(tables)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _write_text(tables: Iterator["pa.Table"], path: Path, *, csv: bool) -> None:
    """Write rows as text; CSV has no lists: they become numbered columns, and distributions JSON."""
    import csv as comma

    with path.open("w", encoding="utf-8", newline="") as sink:
        writer = comma.writer(sink, lineterminator="\n")
        for b, table in enumerate(tables):
            rows = table.to_pylist()
            if not csv:
                sink.writelines(json.dumps(row) + "\n" for row in rows)
                continue
            flat = [_numbered(row) for row in rows]
            if b == 0:
                writer.writerow(flat[0])
            writer.writerows(row.values() for row in flat)


def _numbered(row: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in row.items():
        if name.endswith("_dist"):
            out[name] = json.dumps(value)
        elif isinstance(value, list):
            out |= {f"{name}_{k}": item for k, item in enumerate(value, start=1)}
        else:
            out[name] = value
    return out


_WRITERS: dict[str, Callable[[Iterator["pa.Table"], Path], None]] = {
    ".parquet": _write_parquet,
    ".feather": _write_arrow,
    ".arrow": _write_arrow,
    ".csv": partial(_write_text, csv=True),
    ".jsonl": partial(_write_text, csv=False),
}
