"""Results by seed, a Parquet file each: whole or not at all, so that a run can resume."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterrank.common import atomic

if TYPE_CHECKING:
    import pyarrow as pa

    from counterrank.research.bench.methods import Method


def seed_file(folder: Path, seed: int) -> Path:
    """Return where the results of one seed are kept."""
    return folder / f"seed-{seed:06d}.parquet"


def read_seed(path: Path) -> "pa.Table | None":
    """Return the results of one seed; None where there are none, or only part of a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        return None
    try:
        return pq.read_table(path)
    except (pa.ArrowInvalid, OSError):
        return None


def missing_methods(methods: Sequence["Method"], path: Path) -> list["Method"] | None:
    """Return the methods of which a seed's file has no results, None where nothing is missing.

    A file is whole for those it has; one that cannot be read has none.
    """
    table = read_seed(path)
    if table is None:
        return list(methods)
    present = set(table["estimator"].to_pylist())
    return [method for method in methods if method.name not in present] or None


def complete(
    path: Path,
    methods: Sequence["Method"],
    run: Callable[[list["Method"]], list[dict[str, Any]]],
) -> None:
    """Run what is missing of a seed and write its file anew."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    missing = missing_methods(methods, path)
    if missing is None:
        return
    table = pa.Table.from_pylist(run(missing))
    # Read again at the end: what other estimators left there stays.
    before = read_seed(path)
    if before is not None:
        table = pa.concat_tables([before, table], promote_options="default")
    with atomic.replacing(path) as temporary:
        pq.write_table(table, temporary)
