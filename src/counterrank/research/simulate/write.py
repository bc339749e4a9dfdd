"""Simulated logs on disk, of any length, with the truth in the file."""

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.atomic import replacing
from counterrank.data.log import LOGGING
from counterrank.errors import ConfigError
from counterrank.research.simulate.draw import SimulatedLog
from counterrank.research.simulate.environment import TARGET, Environment, whole
from counterrank.research.simulate.truth import Truth, true_value
from counterrank.research.simulate.worlds import DrawnWorld, World

if TYPE_CHECKING:
    import pyarrow as pa

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
    if suffix not in _WRITERS:
        raise ConfigError(
            f"cannot write {path}: unknown ending {suffix!r}; use one of {', '.join(_WRITERS)}"
        )
    batch = batch or (
        BATCH if isinstance(env, Environment) else max(1024, min(BATCH, CELLS // env.C))
    )
    truth = true_value(env)
    tables = (
        _table(part, _metadata(env, truth, seed)) for part in batches(env, n, seed, batch=batch)
    )
    with replacing(path) as temporary:
        _WRITERS[suffix](tables, temporary)
    return truth


def reading_options(env: Environment | World) -> list[str]:
    """Return the options of `counterrank evaluate` with which a written log is read.

    >>> reading_options(World())[:3]
    ['--target=new', '--logger=plackett-luce', '--policy=new=plackett-luce']
    """
    known = env.specs if isinstance(env, World) else {}
    told = [f"--target={TARGET}"]
    if {LOGGING, TARGET} <= set(known):
        told += [f"--logger={known[LOGGING]}", f"--policy={TARGET}={known[TARGET]}"]
    elif env.propensity_kind != "factored":
        told.append(f"--propensity-kind={env.propensity_kind}")
    # Each row is a visitor of its own, and the target knows nothing of the log.
    return [*told, "--independent-rows", "--target-is-fresh"]


def _metadata(env: Environment | World, truth: Truth, seed: int) -> dict[str, str]:
    known = env.specs if isinstance(env, World) else {}
    policies = {
        f"counterrank.policy.{name}": spec for name, spec in known.items() if name != LOGGING
    }
    return {
        **({"counterrank.logger": known[LOGGING]} if LOGGING in known else {}),
        **policies,
        "counterrank.true_value": repr(truth.value),
        "counterrank.true_value_stderr": repr(truth.stderr),
        "counterrank.true_value_by_position": json.dumps(truth.by_position.tolist()),
        "counterrank.true_value_method": truth.method,
        "counterrank.propensity_kind": env.propensity_kind,
        **(
            {"counterrank.behavior_masks": json.dumps(env.mask_rows)}
            if isinstance(env, Environment)
            else {}
        ),
        "counterrank.environment": f"{env.name} {env.fingerprint}",
        "counterrank.seed": str(seed),
    }


def _table(part: SimulatedLog | DrawnWorld, metadata: dict[str, str]) -> "pa.Table":
    """Return the columns of a log on disk: one row per ranking, lists over positions or candidates."""
    import pyarrow as pa

    columns: dict[str, object] = {
        "action": _lists(part.action),
        "reward": _lists(part.reward),
        "propensity": _lists(part.propensity),
        TARGET: _lists(part.target),
    }
    columns |= _of_world(part) if isinstance(part, DrawnWorld) else _of_environment(part)
    columns |= {f"x_{j}": np.ascontiguousarray(values) for j, values in enumerate(part.context.T)}
    return pa.table(columns, metadata=metadata)


def _of_environment(part: SimulatedLog) -> dict[str, object]:
    """Return whole distributions, where positions are independent, and the rows' behaviours."""
    import pyarrow as pa

    env = part.env
    names = pa.DictionaryArray.from_arrays(
        part.behavior.astype(np.int32), pa.array(env.behavior_names)
    )
    columns = (
        {"propensity_dist": _lists(part.p0), f"{TARGET}_dist": _lists(part.p1)}
        if env.factored
        else {}
    )
    return columns | {"behavior": names.cast(pa.string())}


def _of_world(part: DrawnWorld) -> dict[str, object]:
    """Return candidates, scores of those policies that scores alone decide, and features of the candidates."""
    scores = {LOGGING: part.old_scores, TARGET: part.new_scores}
    columns = {"candidates": _lists(part.candidates)}
    columns |= {f"{name}_scores": _lists(scores[name]) for name in part.world.specs}
    return columns | {
        f"z_{j}": _lists(values[part.candidates]) for j, values in enumerate(part.feature.T)
    }


def _lists(values: Floats | Ints) -> Any:
    """Return an Arrow list column of an (n, K) array."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    offsets = np.arange(len(values) + 1, dtype=np.int32) * np.int32(values.shape[1])
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


def _write_parquet(tables: Iterator["pa.Table"], path: Path) -> None:
    import pyarrow.parquet as pq

    first = next(tables)
    with pq.ParquetWriter(path, first.schema, compression="zstd", compression_level=1) as writer:
        writer.write_table(first, row_group_size=max(first.num_rows, 1))
        for table in tables:
            # Row groups are what readers stream by.
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


_WRITERS: dict[str, Callable[[Iterator["pa.Table"], Path], None]] = {
    ".parquet": _write_parquet,
    ".feather": _write_arrow,
    ".arrow": _write_arrow,
    ".csv": partial(_write_text, csv=True),
    ".jsonl": partial(_write_text, csv=False),
}
