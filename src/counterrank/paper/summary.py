"""From per-seed results to MSE, squared bias and variance with bands."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]

METRICS = ("mse", "squared_bias", "variance")
_RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors of one estimator at one value of the figure, relative to V^2, with 95 % bands over
    seeds.
    """

    x: float
    estimator: str
    seeds: int
    metrics: dict[str, float]
    bands: dict[str, tuple[float, float]]
    coverage: float
    width: float
    seconds: float


def seed_file(folder: Path, preset: str, seed: int) -> Path:
    """Return where the results of one seed are kept."""
    return folder / preset / f"seed-{seed:06d}.parquet"


def seeds_in(folder: Path, preset: str) -> list[int]:
    """Return the seeds whose results a figure's folder holds."""
    return sorted(
        int(path.stem.removeprefix("seed-")) for path in (folder / preset).glob("seed-*.parquet")
    )


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


def read_rows(folder: Path, preset: str, seeds: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of all seed files, in the order of seeds."""
    import pyarrow as pa

    tables = []
    for seed in seeds:
        path = seed_file(folder, preset, seed)
        found = read_seed(path)
        if found is None:
            raise ConfigError(
                f"{path} cannot be read as results; run the figure again, which does that seed anew"
            )
        tables.append(found)
    table = pa.concat_tables(tables, promote_options="default")
    return {name: table[name].to_numpy() for name in table.column_names}


def summarise(rows: dict[str, NDArray[Any]], *, common_truth: bool) -> list[Summary]:
    """Return a summary for each (value, estimator).

    `common_truth`: one world, so V is the mean of the seeds' true values, as in the paper;
    otherwise every seed is a world of its own and errors are relative to its own V.
    """
    found = []
    for x in np.unique(rows["x"]):
        common = _mean_over_seeds(rows, rows["x"] == x) if common_truth else None
        for name in dict.fromkeys(rows["estimator"].tolist()):
            here = (rows["x"] == x) & (rows["estimator"] == name)
            if here.any():
                found.append(
                    _summary(float(x), name, {k: v[here] for k, v in rows.items()}, common)
                )
    return found


def _mean_over_seeds(rows: dict[str, NDArray[Any]], here: NDArray[np.bool_]) -> float:
    """Return the mean of the seeds' true values: a seed counts once, however many estimators ran on
    it.
    """
    _, first = np.unique(rows["seed"][here], return_index=True)
    return float(rows["truth"][here][first].mean())


def _summary(x: float, name: str, rows: dict[str, NDArray[Any]], common: float | None) -> Summary:
    truth = rows["truth"] if common is None else np.full_like(rows["truth"], common)
    errors = (rows["value"] - truth) / np.abs(truth)
    rng = np.random.default_rng([len(errors), 13])
    picks = rng.integers(0, len(errors), size=(_RESAMPLES, len(errors)))
    resampled = _metrics(errors[picks])
    bands = {m: tuple(float(q) for q in np.quantile(resampled[m], [0.025, 0.975])) for m in METRICS}
    return Summary(
        x=x,
        estimator=name,
        seeds=len(errors),
        metrics={m: float(v[0]) for m, v in _metrics(errors[None]).items()},
        bands=bands,  # type: ignore[arg-type]
        coverage=float(((rows["low"] <= truth) & (truth <= rows["high"])).mean()),
        width=float(np.mean((rows["high"] - rows["low"]) / np.abs(truth))),
        seconds=float(np.median(rows["seconds"])),
    )


def _metrics(errors: Floats) -> dict[str, Floats]:
    """Errors (B, seeds) to each metric (B,): mse = squared bias + variance."""
    bias = errors.mean(axis=1)
    return {
        "mse": (errors**2).mean(axis=1),
        "squared_bias": bias**2,
        "variance": errors.var(axis=1),
    }
