"""A start imports what it needs: pyarrow's conversions import pandas, ours do not."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.io.values import as_numpy

CODE = """
import sys
import counterrank as cr
cr.evaluate(sys.argv[1], ["new"], estimators="ips")
print([name for name in ("pandas", "scipy.stats", "pyarrow.dataset") if name in sys.modules])
"""


def test_an_evaluation_of_parquet_imports_no_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    rng, shape = np.random.default_rng(0), (200, 3)

    def lists(values: np.ndarray) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 3)

    table = {
        "action": lists(rng.integers(0, 4, shape)),
        "reward": lists((rng.random(shape) < 0.3).astype(float)),
        "propensity": lists(rng.uniform(0.2, 1, shape)),
        "new": lists(rng.uniform(0.2, 1, shape)),
    }
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(table), path)
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2, 3]),
        pa.array([1.5, np.nan, -np.inf])[1:],
        pa.array([], type=pa.float32()),
        pa.array([3, None, 1]),
        pa.array([True, False]),
        pa.array([2, 255], type=pa.uint8()),
    ],
)
def test_numbers_are_those_of_pyarrow(array: pa.Array) -> None:
    expected = array.to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(as_numpy(array), expected)
    assert as_numpy(array).dtype == expected.dtype
