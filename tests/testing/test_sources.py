"""Sources hold every row once and sum alike; one that loses a row is caught."""

import numpy as np
import pytest

from counterrank.data.source import MemorySource
from counterrank.testing import check_source, random_log


def test_memory_keeps_the_contract():
    log = random_log(np.random.default_rng(5), n=700)
    check_source(MemorySource(log), log)
    check_source(MemorySource(log, threads=1), log)


def test_a_source_that_loses_rows_is_caught():
    log = random_log(np.random.default_rng(5), n=700)
    with pytest.raises(AssertionError, match="rows"):
        check_source(MemorySource(log.take(slice(0, 699))), log)


@pytest.mark.parametrize("layout", ["one file", "folder", "csv"])
def test_files_keep_the_contract(tmp_path, layout):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    from counterrank.io import scan_log

    log = random_log(np.random.default_rng(5), n=700)
    columns = {"action": log.action, "reward": log.reward, "propensity": log.propensity.values}
    columns["new"] = log.targets["new"].values
    if layout == "csv":
        flat = {
            f"{name}_{k + 1}": values[:, k]
            for name, values in columns.items()
            for k in range(log.K)
        }
        pyarrow.csv.write_csv(pa.table(flat), tmp_path / "log.csv")
    else:
        table = pa.table({name: values.tolist() for name, values in columns.items()})
        cuts = [0, 700] if layout == "one file" else [0, 1, 300, 700]
        for i, (first, stop) in enumerate(zip(cuts, cuts[1:], strict=False)):
            pq.write_table(
                table.slice(first, stop - first), tmp_path / f"{i}.parquet", row_group_size=123
            )
    check_source(scan_log(tmp_path, targets="new"), log)
